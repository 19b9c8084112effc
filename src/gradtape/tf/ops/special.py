"""Special functions that gradtape itself does not have: `tf.math.special`.

SciPy computes the values; each derivative is one of the same family.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from gradtape import extend
from gradtape.libraries import check_exports
from gradtape.ops.elementwise import arithmetic, bessel, unary as core
from gradtape.tf.ops.elementwise import Unary, bessel_i0, bessel_i1, unary

__all__ = [
    "bessel_i0",
    "bessel_i0e",
    "bessel_i1",
    "bessel_i1e",
    "bessel_j0",
    "bessel_j1",
    "bessel_k0",
    "bessel_k0e",
    "bessel_k1",
    "bessel_k1e",
    "bessel_y0",
    "bessel_y1",
    "dawsn",
    "expint",
    "fresnel_cos",
    "fresnel_sin",
    "spence",
]

_POSITIVE = [(0.5, 4.0)]


def scipy_special() -> ModuleType:
    """SciPy's special functions."""
    # A late import, because it takes longer than importing gradtape.
    import scipy.special

    return scipy.special


def _declare(
    name: str, kernel: Callable[..., Any], *partials: Callable[..., Any], **more: Any
) -> Callable[..., Any]:
    return extend.elementwise(
        name,
        lambda *x, **p: np.asarray(kernel(*x, **p)).astype(x[0].dtype),
        partials,
        accepts="float",
        **more,
    )


def _derivatives(
    name: str, kernel: Callable[[Any, int], Any], domains: Any, function: str
) -> Callable[..., Any]:
    """A function whose derivatives, of any order `times`, are ops: their formulas cancel."""
    found: Callable[..., Any] = _declare(
        name,
        lambda x, times: kernel(x, times) if times else getattr(scipy_special(), function)(x),
        lambda y, x, times: found(x, times=times + 1),
        params=("times",),
        sample_params=({"times": 0}, {"times": 1}, {"times": 3}),
        domains=domains,
    )
    return found


def _dawsn_kernel(x: Any, times: int) -> Any:
    wide = np.asarray(x, np.float64)
    far = np.abs(wide) > 7.0
    near, large = np.where(far, 0.0, wide), np.where(far, wide, 8.0)
    before = scipy_special().dawsn(near)
    found = 1.0 - 2.0 * near * before
    for n in range(1, times):
        before, found = found, -2.0 * near * found - 2.0 * n * before
    # Σ (2k-1)!! / (2ᵏ⁺¹ x²ᵏ⁺¹), differentiated term by term.
    factors, factor = [], 0.5
    for k in range(25):
        factors.append(factor * math.prod(-(2 * k + 1 + j) for j in range(times)))
        factor *= (2 * k + 1) / 2.0
    series = np.zeros_like(large)
    for one in reversed(factors):
        series = series / (large * large) + one
    return np.where(far, series / large / large**times, found)


def _spence_kernel(x: Any, times: int) -> Any:
    """Derivatives of -log(1+u)/u, u = x - 1: a series near 1, a recurrence elsewhere."""
    u = np.asarray(x, np.float64) - 1.0
    near, order = np.abs(u) < 0.5, times - 1
    small, large = np.where(near, u, 0.0), np.where(near, 1.0, u)
    series = np.zeros_like(u)
    for k in reversed(range(order, 70 + 12 * order)):
        series = series * small - (-1.0) ** k / (k + 1) * math.perm(k, order)
    found = -np.log1p(np.minimum(large, 1e300)) / large
    for n in range(1, order + 1):
        slope = (-1.0) ** (n - 1) * math.factorial(n - 1) / (1.0 + large) ** n
        found = -(slope + n * found) / large
    return np.where(near, series, found)


_QUARTER_TURN = np.pi / 2.0
_DAWSN = _derivatives("dawsn", _dawsn_kernel, [(-2.0, 2.0)], "dawsn")
# NaN below 0, which TensorFlow leaves out of the domain.
_EXPINT = _declare(
    "exponential_integral",
    lambda x: np.where(x < 0, np.nan, scipy_special().expi(x)),
    # At infinity the slope is infinite, not inf / inf.
    lambda y, x: core.exp(x) / arithmetic.minimum(x, 1e30),
    domains=_POSITIVE,
)
_SPENCE = _derivatives("spence", _spence_kernel, _POSITIVE, "spence")
_FRESNEL_COS = _declare(
    "fresnel_cos",
    lambda x: scipy_special().fresnel(x)[1],
    lambda y, x: core.cos(_QUARTER_TURN * core.square(x)),
)
_FRESNEL_SIN = _declare(
    "fresnel_sin",
    lambda x: scipy_special().fresnel(x)[0],
    lambda y, x: core.sin(_QUARTER_TURN * core.square(x)),
)


def _row(function: Callable[[Any], Any], sentence: str, example: str, result: str) -> Unary:
    return unary(function, "f", sentence, example, result, namespace="tf.math.special", digits=4)


bessel_i0e = _row(
    lambda x: bessel.ive(0, x), "bessel_i0 times exp(-|x|).", "bessel_i0e(0.0)", "1.0"
)
bessel_i1e = _row(
    lambda x: bessel.ive(1, x), "bessel_i1 times exp(-|x|).", "bessel_i1e(0.0)", "0.0"
)
bessel_j0 = _row(
    lambda x: bessel.jv(0, x), "The Bessel function of order 0.", "bessel_j0(0.0)", "1.0"
)
bessel_j1 = _row(
    lambda x: bessel.jv(1, x), "The Bessel function of order 1.", "bessel_j1(0.0)", "0.0"
)
bessel_k0 = _row(
    lambda x: bessel.kv(0, x),
    "The modified Bessel function of the second kind, of order 0.",
    "bessel_k0(1.0)",
    "0.421",
)
bessel_k0e = _row(
    lambda x: bessel.kve(0, x), "bessel_k0 times exp(x).", "bessel_k0e(1.0)", "1.1445"
)
bessel_k1 = _row(
    lambda x: bessel.kv(1, x),
    "The modified Bessel function of the second kind, of order 1.",
    "bessel_k1(1.0)",
    "0.6019",
)
bessel_k1e = _row(
    lambda x: bessel.kve(1, x), "bessel_k1 times exp(x).", "bessel_k1e(1.0)", "1.6362"
)
bessel_y0 = _row(
    lambda x: bessel.yv(0, x),
    "The Bessel function of the second kind, of order 0.",
    "bessel_y0(1.0)",
    "0.0883",
)
bessel_y1 = _row(
    lambda x: bessel.yv(1, x),
    "The Bessel function of the second kind, of order 1.",
    "bessel_y1(1.0)",
    "-0.7812",
)
dawsn = _row(lambda x: _DAWSN(x, times=0), "Dawson's integral.", "dawsn(1.0)", "0.5381")
expint = _row(_EXPINT, "The exponential integral Ei; NaN below 0.", "expint(1.0)", "1.8951")
fresnel_cos = _row(_FRESNEL_COS, "Fresnel's cosine integral.", "fresnel_cos(1.0)", "0.7799")
fresnel_sin = _row(_FRESNEL_SIN, "Fresnel's sine integral.", "fresnel_sin(1.0)", "0.4383")
spence = _row(
    lambda x: _SPENCE(x, times=0),
    "Spence's integral, the dilogarithm of 1 - x.",
    "spence(1.0)",
    "0.0",
)


check_exports(globals(), __all__)
