"""Results that are joined or reshaped: the same numbers, whatever lies where."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import optimize
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.tensor.tensor import program_of

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 6)), RNG.normal(size=(4, 6))
SQUARE = RNG.normal(size=(6, 6))
LONG, DEEP = RNG.normal(size=(5, 67)), RNG.normal(size=(3, 4, 40))
WIDE = RNG.normal(size=(700, 600))


@pytest.fixture(autouse=True)
def compiled_tier(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")


def nested(n, a, b):
    inner = n.stack([n.sin(a), n.cos(b)])
    return n.concat([n.reshape(n.exp(a), (1, 4, 6)), inner, n.reshape(a * b, (1, 4, 6))])


CASES = {
    "concat": lambda n, a, b: n.concat([n.sin(a), n.cos(b)]),
    "stack": lambda n, a, b: n.stack([n.sin(a), n.cos(b), a * b]),
    "along another axis": lambda n, a, b: n.concat([n.sin(a), n.cos(b)], axis=1),
    "nested": nested,
    "a part twice": lambda n, a, b: (lambda p: n.concat([p, p, b]))(n.sin(a)),
    "inputs as parts": lambda n, a, b: n.concat([a, n.sin(b), a]),
    "constants as parts": lambda n, a, b: n.concat([n.zeros((1, 6)), n.sin(b), n.ones((2, 6))]),
    "products as parts": lambda n, a, b: n.concat([a @ SQUARE, n.sin(b) @ SQUARE]),
    "transposed parts": lambda n, a, b: n.concat([n.sin(a).T, n.cos(b).T]),
    "reshaped parts": lambda n, a, b: n.concat([n.reshape(n.sin(a), (-1,)), n.reshape(b, (-1,))]),
    "sliced parts": lambda n, a, b: n.concat([n.sin(a)[1:], n.cos(b)[:2]]),
    "reductions as parts": lambda n, a, b: n.stack([n.sum(a, axis=0), n.max(b, axis=0)]),
    "a part that is read": lambda n, a, b: (lambda p: n.concat([p, n.cos(p) + p]))(n.sin(a)),
    "reshaped result": lambda n, a, b: n.reshape(n.concat([n.sin(a), n.cos(b)]), (2, 24)),
    "reshaped product": lambda n, a, b: n.reshape(a @ SQUARE, (2, 2, 6)),
    "library calls": lambda n, a, b: n.stack([
        n.linalg.inv(a[:, :4]), n.sin(b[:, :4]), n.linalg.inv(n.sin(b[:, :4]) + 3 * n.eye(4))
    ]),
    "whole of a sort": lambda n, a, b: n.concat([n.sort(n.sin(a), axis=1), n.sort(b, axis=0)]),
    "columns side by side": lambda n, a, b: n.concat(
        [n.sin(LONG + a[0, 0]), n.cos(LONG) * b[0, 0], LONG], axis=1
    ),
    "columns of unequal width": lambda n, a, b: n.concat(
        [n.sin(LONG + a[0, 0]), n.cos(LONG[:, 3:]) * b[0, 0], n.exp(LONG[:, :40])], axis=1
    ),
    "columns that others read": lambda n, a, b: (
        lambda p: n.concat([p, n.sort(p, axis=1), n.cos(p)], axis=1)
    )(n.sin(LONG + a[0, 0])),
    "columns in three axes": lambda n, a, b: n.concat(
        [n.sin(DEEP + a[0, 0]), n.cos(DEEP) * b[0, 0]], axis=1
    ),
    "large": lambda n, a, b: n.concat([n.sin(WIDE + a[0, 0]), n.exp(WIDE * 0.1 + b[0, 0])]),
    "large and not aligned": lambda n, a, b: n.concat([
        n.sin(WIDE[:1, :599] + a[0, 0]), n.exp(WIDE[:, :599] * 0.1 + b[0, 0])
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    found = CASES[name](gt, gt.asarray(A), gt.asarray(B)).numpy()
    np.testing.assert_allclose(found, CASES[name](np, A, B), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_values_beside_their_parts(name):
    """With other outputs, one of which is a part of the result."""
    a, b = gt.asarray(A), gt.asarray(B)
    part = gt.sin(a)
    whole = gt.concat([part, gt.cos(b)])
    again = gt.reshape(whole, (4, 12))
    other = CASES[name](gt, a, b)
    gt.evaluate([part, whole, again, other])
    np.testing.assert_allclose(part.numpy(), np.sin(A))
    np.testing.assert_allclose(whole.numpy(), np.concatenate([np.sin(A), np.cos(B)]))
    np.testing.assert_allclose(again.numpy(), np.concatenate([np.sin(A), np.cos(B)]).reshape(4, 12))
    np.testing.assert_allclose(other.numpy(), CASES[name](np, A, B), rtol=1e-12, atol=1e-13)


def test_parts_are_computed_in_place():
    a, b = gt.asarray(A), gt.asarray(B)
    plan = CompiledPlan(program_of(gt.stack([gt.sin(a), gt.cos(b)])))
    assert len(plan.lowered.outputs.parts) == 2
    assert plan.arena_size == 0


def test_columns_are_computed_in_place():
    x = gt.asarray(LONG)
    plan = CompiledPlan(program_of(gt.concat([gt.sin(x), gt.cos(x)], axis=1)))
    assert set(plan.lowered.outputs.steps.values()) == {(134, 1)}
    assert plan.arena_size == 0


def test_columns_that_are_read_again_are_copied():
    x = gt.asarray(LONG)
    part = gt.sin(x)
    plan = CompiledPlan(program_of(gt.concat([part, gt.cos(x)], axis=1), part @ LONG.T))
    assert len(plan.lowered.outputs.steps) == 1


def test_a_reshaped_result_is_not_copied():
    plan = CompiledPlan(program_of(gt.reshape(gt.asarray(A) @ SQUARE, (2, 12))))
    assert len(plan.lowered.outputs.written) == 1


# Tensors that are changed in place, and the same tensors read elsewhere.

ROWS = np.array([2, 0, 2, 3])
VALUES = RNG.normal(size=(4, 6))


def added(x, values=VALUES):
    return gt.scatter_add(x, ROWS, values)


def in_numpy(x, values=VALUES):
    result = x.copy()
    np.add.at(result, ROWS, values)
    return result


CHANGED = {
    "a loop": (lambda a, b: [added(gt.sin(a))], lambda a, b: [in_numpy(np.sin(a))], 1),
    "a product": (lambda a, b: [added(a @ SQUARE)], lambda a, b: [in_numpy(a @ SQUARE)], 1),
    "twice": (
        lambda a, b: [added(added(gt.sin(a)))], lambda a, b: [in_numpy(in_numpy(np.sin(a)))], 2,
    ),
    "an input": (lambda a, b: [added(a)], lambda a, b: [in_numpy(a)], 0),
    "an output": (
        lambda a, b: (lambda p: [added(p), p])(gt.sin(a)),
        lambda a, b: [in_numpy(np.sin(a)), np.sin(a)], 0,
    ),
    "an output as another view": (
        lambda a, b: (lambda p: [added(p), p.T])(gt.sin(a)),
        lambda a, b: [in_numpy(np.sin(a)), np.sin(a).T], 0,
    ),
    "a part of it as an output": (
        lambda a, b: (lambda p: [added(p), p[1:3, ::2]])(gt.sin(a)),
        lambda a, b: [in_numpy(np.sin(a)), np.sin(a)[1:3, ::2]], 0,
    ),
    "read by a product": (
        lambda a, b: (lambda p: [added(p), p @ SQUARE])(gt.sin(a)),
        lambda a, b: [in_numpy(np.sin(a)), np.sin(a) @ SQUARE], 0,
    ),
    "read by another scatter": (
        lambda a, b: (lambda p: [added(p), added(p, b)])(gt.sin(a)),
        lambda a, b: [in_numpy(np.sin(a)), in_numpy(np.sin(a), b)], 0,
    ),
    "its own values": (
        lambda a, b: (lambda p: [added(p, p)])(gt.sin(a)),
        lambda a, b: [in_numpy(np.sin(a), np.sin(a))], 0,
    ),
    "part of a concatenation": (
        lambda a, b: [gt.concat([added(gt.sin(a)), gt.cos(b)])],
        lambda a, b: [np.concatenate([in_numpy(np.sin(a)), np.cos(b)])], 3,
    ),
    "transposed": (lambda a, b: [added(gt.sin(a).T[:4, :4], VALUES[:, :4])],
                   lambda a, b: [in_numpy(np.sin(a).T[:4, :4], VALUES[:, :4])], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_tensors_that_are_changed_in_place(name):
    ours, expected, parts = CHANGED[name]
    found = ours(gt.asarray(A), gt.asarray(B))
    plan = CompiledPlan(program_of(*found))
    assert len(plan.lowered.outputs.parts) == parts
    gt.evaluate(found)
    for one, other in zip(found, expected(A, B), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-12, atol=1e-13)


def test_rows_are_set_in_place():
    y = gt.scatter_set(gt.sin(gt.asarray(WIDE)), [3, 5], WIDE[:2])
    assert CompiledPlan(optimize(program_of(y))).arena_size == 0
    expected = np.sin(WIDE)
    expected[[3, 5]] = WIDE[:2]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
