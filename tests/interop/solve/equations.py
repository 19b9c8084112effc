"""Equations with known solutions, and ways to solve them."""

import numpy as np

import gradtape as gt

WAYS = {
    "dense": {},
    "newton": {"method": "newton"},
    "lm": {"method": "lm"},
    "sparse": {"sparse": True},
    "gmres": {"solver": "gmres"},
    "bicgstab": {"solver": "bicgstab"},
}


def square_root(a):
    return gt.root(lambda x, a: x**2 - a, 1.0, a)


def ring(x, p):
    """Neighbours on a ring, each coupled to the next."""
    return x**3 + 2.0 * x + 0.3 * gt.sin(gt.roll(x, 1)) * p["b"] - p["a"] * gt.exp(p["a"] * 0.1)


A = np.linspace(1.0, 2.0, 5)


def ring_solution(**ways):
    return lambda a, b: gt.root(ring, np.zeros(5), {"a": a, "b": b}, **ways)


def differences(f, x, step=1e-5):
    """The Jacobian by central differences."""
    columns = []
    for i in range(x.size):
        e = np.zeros_like(x)
        e.flat[i] = step
        columns.append((np.asarray(f(x + e)) - np.asarray(f(x - e))) / (2 * step))
    return np.stack(columns, -1)
