"""Special functions that gradtape itself does not have: `tf.math.special`.

SciPy computes the values; each derivative is one of the same family.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from gradtape import extend
from gradtape.ops.elementwise import arithmetic, complexes
from gradtape.ops.elementwise import unary as core
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.ops.elementwise import Unary, bessel_i0, bessel_i1, unary

__all__ = [
    "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0",
    "bessel_k0e", "bessel_k1", "bessel_k1e", "bessel_y0", "bessel_y1", "dawsn", "expint",
    "fresnel_cos", "fresnel_sin", "spence",
]  # fmt: skip

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
        name, lambda *x, **p: np.asarray(kernel(*x, **p)).astype(x[0].dtype), partials,
        accepts="float", **more,
    )  # fmt: skip


def _bessel(kind: str, partial: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """One kind of Bessel function, of any whole order; its derivative is made of neighbours."""
    return _declare(
        f"bessel_{kind}", lambda x, order: getattr(scipy_special(), kind)(order, x), partial,
        params=("order",), sample_params=({"order": 0}, {"order": 1}), **more,
    )  # fmt: skip


def _neighbours(
    function: Callable[[], Callable[..., Any]], below: float, above: float, zeroth: float
) -> Callable[[Any, int], Any]:
    """Half of two neighbours with signs, or that many times order 1 for order 0."""

    def combine(x: Tensor, order: int) -> Any:
        result = function()
        if not order:
            return zeroth * result(x, order=1)
        return 0.5 * (below * result(x, order=order - 1) + above * result(x, order=order + 1))

    return combine


_J_SLOPE = _neighbours(lambda: _JV, 1.0, -1.0, -1.0)
_Y_SLOPE = _neighbours(lambda: _YV, 1.0, -1.0, -1.0)
_K_SLOPE = _neighbours(lambda: _KV, -1.0, -1.0, -1.0)
_IE_SLOPE = _neighbours(lambda: _IVE, 1.0, 1.0, 1.0)
_KE_SLOPE = _neighbours(lambda: _KVE, -1.0, -1.0, -1.0)

_JV: Any = _bessel("jv", lambda y, x, order: _J_SLOPE(x, order))
_YV: Any = _bessel("yv", lambda y, x, order: _Y_SLOPE(x, order), domains=_POSITIVE)
_KV: Any = _bessel("kv", lambda y, x, order: _K_SLOPE(x, order), domains=_POSITIVE)
# Scaled by exp(-|x|), and by exp(x).
_IVE: Any = _bessel("ive", lambda y, x, order: _IE_SLOPE(x, order) - complexes.sign(x) * y)
_KVE: Any = _bessel("kve", lambda y, x, order: _KE_SLOPE(x, order) + y, domains=_POSITIVE)


def _spence_slope(y: Tensor, x: Tensor) -> Any:
    one = arithmetic.equal(x, 1.0)
    return arithmetic.where(one, -1.0, core.log(x) / (1.0 - arithmetic.where(one, 2.0, x)))


_QUARTER_TURN = np.pi / 2.0
_DAWSN = _declare("dawsn", lambda x: scipy_special().dawsn(x), lambda y, x: 1.0 - 2.0 * x * y)
_EXPINT = _declare(
    "exponential_integral", lambda x: scipy_special().expi(x), lambda y, x: core.exp(x) / x,
    domains=_POSITIVE,
)  # fmt: skip
_SPENCE = _declare("spence", lambda x: scipy_special().spence(x), _spence_slope, domains=_POSITIVE)
_FRESNEL_COS = _declare(
    "fresnel_cos", lambda x: scipy_special().fresnel(x)[1],
    lambda y, x: core.cos(_QUARTER_TURN * core.square(x)),
)  # fmt: skip
_FRESNEL_SIN = _declare(
    "fresnel_sin", lambda x: scipy_special().fresnel(x)[0],
    lambda y, x: core.sin(_QUARTER_TURN * core.square(x)),
)  # fmt: skip


def _row(function: Callable[[Any], Any], sentence: str, example: str, result: str) -> Unary:
    return unary(function, "f", sentence, example, result, namespace="tf.math.special", digits=4)


# fmt: off
bessel_i0e = _row(lambda x: _IVE(x, order=0), "bessel_i0 times exp(-|x|).", "bessel_i0e(0.0)",
    "1.0")
bessel_i1e = _row(lambda x: _IVE(x, order=1), "bessel_i1 times exp(-|x|).", "bessel_i1e(0.0)",
    "0.0")
bessel_j0 = _row(lambda x: _JV(x, order=0), "The Bessel function of order 0.", "bessel_j0(0.0)",
    "1.0")
bessel_j1 = _row(lambda x: _JV(x, order=1), "The Bessel function of order 1.", "bessel_j1(0.0)",
    "0.0")
bessel_k0 = _row(lambda x: _KV(x, order=0),
    "The modified Bessel function of the second kind, of order 0.", "bessel_k0(1.0)", "0.421")
bessel_k0e = _row(lambda x: _KVE(x, order=0), "bessel_k0 times exp(x).", "bessel_k0e(1.0)",
    "1.1445")
bessel_k1 = _row(lambda x: _KV(x, order=1),
    "The modified Bessel function of the second kind, of order 1.", "bessel_k1(1.0)", "0.6019")
bessel_k1e = _row(lambda x: _KVE(x, order=1), "bessel_k1 times exp(x).", "bessel_k1e(1.0)",
    "1.6362")
bessel_y0 = _row(lambda x: _YV(x, order=0), "The Bessel function of the second kind, of order 0.",
    "bessel_y0(1.0)", "0.0883")
bessel_y1 = _row(lambda x: _YV(x, order=1), "The Bessel function of the second kind, of order 1.",
    "bessel_y1(1.0)", "-0.7812")
dawsn = _row(_DAWSN, "Dawson's integral.", "dawsn(1.0)", "0.5381")
expint = _row(_EXPINT, "The exponential integral Ei.", "expint(1.0)", "1.8951")
fresnel_cos = _row(_FRESNEL_COS, "Fresnel's cosine integral.", "fresnel_cos(1.0)", "0.7799")
fresnel_sin = _row(_FRESNEL_SIN, "Fresnel's sine integral.", "fresnel_sin(1.0)", "0.4383")
spence = _row(_SPENCE, "Spence's integral, the dilogarithm of 1 - x.", "spence(1.0)", "0.0")
# fmt: on
