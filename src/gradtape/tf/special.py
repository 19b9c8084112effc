"""Special functions that only this face has: `tf.math.special`, and relatives of gamma.

SciPy computes the values; each derivative is one of the same family.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from gradtape import extend
from gradtape.errors import DtypeError
from gradtape.ops.arrays.movement import broadcast_to
from gradtape.ops.elementwise import arithmetic, complexes
from gradtape.ops.elementwise import special as known
from gradtape.ops.elementwise import unary as core
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tf.conversion import common, convert
from gradtape.tf.custom import custom_gradient, numpy_function
from gradtape.tf.dispatch import operation
from gradtape.tf.elementwise import FUNCTIONS, unary
from gradtape.tf.shapes import TensorSpec
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tensor import Tensor

_POSITIVE = [(0.5, 4.0)]


def _scipy() -> ModuleType:
    # Imported at first use: it takes longer than importing gradtape.
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
        f"bessel_{kind}", lambda x, order: getattr(_scipy(), kind)(order, x), partial,
        params=("order",), sample_params=({"order": 0}, {"order": 1}), **more,
    )  # fmt: skip


def _neighbours(
    function: Callable[[], Callable[..., Any]], below: float, above: float, zeroth: float
) -> Callable[[Any, int], Any]:
    """Half of two neighbours with signs, or that many times order 1 for order 0."""

    def combine(x: Any, order: int) -> Any:
        found = function()
        if not order:
            return zeroth * found(x, order=1)
        return 0.5 * (below * found(x, order=order - 1) + above * found(x, order=order + 1))

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


def _spence_slope(y: Any, x: Any) -> Any:
    one = arithmetic.equal(x, 1.0)
    return arithmetic.where(one, -1.0, core.log(x) / (1.0 - arithmetic.where(one, 2.0, x)))


_QUARTER_TURN = np.pi / 2.0
_DAWSN = _declare("dawsn", lambda x: _scipy().dawsn(x), lambda y, x: 1.0 - 2.0 * x * y)
_EXPINT = _declare(
    "exponential_integral", lambda x: _scipy().expi(x), lambda y, x: core.exp(x) / x,
    domains=_POSITIVE,
)  # fmt: skip
_SPENCE = _declare("spence", lambda x: _scipy().spence(x), _spence_slope, domains=_POSITIVE)
_FRESNEL_COS = _declare(
    "fresnel_cos", lambda x: _scipy().fresnel(x)[1],
    lambda y, x: core.cos(_QUARTER_TURN * core.square(x)),
)  # fmt: skip
_FRESNEL_SIN = _declare(
    "fresnel_sin", lambda x: _scipy().fresnel(x)[0],
    lambda y, x: core.sin(_QUARTER_TURN * core.square(x)),
)  # fmt: skip

# Name, function, sentence, argument of the example, its result rounded.
_ROWS: list[tuple[str, Any, str, str, str]] = [
    ("bessel_i0e", lambda x: _IVE(x, order=0), "bessel_i0 times exp(-|x|).", "0.0", "1.0"),
    ("bessel_i1e", lambda x: _IVE(x, order=1), "bessel_i1 times exp(-|x|).", "0.0", "0.0"),
    ("bessel_j0", lambda x: _JV(x, order=0), "The Bessel function of order 0.", "0.0", "1.0"),
    ("bessel_j1", lambda x: _JV(x, order=1), "The Bessel function of order 1.", "0.0", "0.0"),
    ("bessel_k0", lambda x: _KV(x, order=0),
     "The modified Bessel function of the second kind, of order 0.", "1.0", "0.421"),
    ("bessel_k0e", lambda x: _KVE(x, order=0), "bessel_k0 times exp(x).", "1.0", "1.1445"),
    ("bessel_k1", lambda x: _KV(x, order=1),
     "The modified Bessel function of the second kind, of order 1.", "1.0", "0.6019"),
    ("bessel_k1e", lambda x: _KVE(x, order=1), "bessel_k1 times exp(x).", "1.0", "1.6362"),
    ("bessel_y0", lambda x: _YV(x, order=0),
     "The Bessel function of the second kind, of order 0.", "1.0", "0.0883"),
    ("bessel_y1", lambda x: _YV(x, order=1),
     "The Bessel function of the second kind, of order 1.", "1.0", "-0.7812"),
    ("dawsn", _DAWSN, "Dawson's integral.", "1.0", "0.5381"),
    ("expint", _EXPINT, "The exponential integral Ei.", "1.0", "1.8951"),
    ("fresnel_cos", _FRESNEL_COS, "Fresnel's cosine integral.", "1.0", "0.7799"),
    ("fresnel_sin", _FRESNEL_SIN, "Fresnel's sine integral.", "1.0", "0.4383"),
    ("spence", _SPENCE, "Spence's integral, the dilogarithm of 1 - x.", "1.0", "0.0"),
]  # fmt: skip

__all__ = ["bessel_i0", "bessel_i1", *[row[0] for row in _ROWS]]

bessel_i0, bessel_i1 = FUNCTIONS["bessel_i0"], FUNCTIONS["bessel_i1"]
for _name, _function, _doc, _argument, _result in _ROWS:
    _example = f"round(tf.math.special.{_name}({_argument}).numpy().item(), 4)"
    globals()[_name] = unary(_name, _function, _doc, _example, _result, "f")


# Relatives of the gamma function, which belong to tf.math.


def _called(kernel: Callable[..., Any], operands: Any, *slopes: Callable[..., Any] | None) -> Any:
    """A function of SciPy's on operands of one shape, with derivatives by some of them."""
    shape = np.broadcast_shapes(*(x.spec.shape for x in operands))
    spec = TensorSpec(shape, operands[0].dtype)

    @custom_gradient
    def recorded(*operands: Any) -> Any:
        y = numpy_function(
            lambda *arrays: np.asarray(kernel(*arrays)).astype(arrays[0].dtype), operands, spec
        )

        def pulled(dy: Any) -> Any:
            found = [None if slope is None else dy * slope(*operands) for slope in slopes]
            return found if len(found) > 1 else found[0]

        return y, pulled

    return recorded(*(broadcast_to(x, shape) for x in operands))


def _density(a: Any, x: Any) -> Any:
    """The derivative of igamma by x."""
    return core.exp((a - 1.0) * core.log(x) - x - known.lgamma(a))


def _by_shape(a: Any, x: Any) -> Any:
    """The derivative of igamma by a: a difference of fourth order, good to ten digits."""

    def difference(a: Any, x: Any) -> Any:
        wide = np.asarray(a, np.float64)
        step = 1e-3 * np.minimum(wide, 1.0)
        near, far = (
            _scipy().gammainc(wide + k * step, x) - _scipy().gammainc(wide - k * step, x)
            for k in (1, 2)
        )
        return (8.0 * near - far) / (12.0 * step)

    by_x = lambda a, x: _density(a, x) * (core.log(x) - known.digamma(a))  # noqa: E731
    return _called(difference, [a, x], None, by_x)


@operation
def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The lower incomplete gamma function, as a share of the whole.

    >>> round(tf.math.igamma(2.0, 2.0).numpy().item(), 4)
    0.594
    """
    operands = _floats("igamma", a, x)
    return _called(lambda a, x: _scipy().gammainc(a, x), operands, _by_shape, _density)


@operation
def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The upper incomplete gamma function, as a share of the whole.

    >>> round(tf.math.igammac(2.0, 2.0).numpy().item(), 4)
    0.406
    """
    return _called(
        lambda a, x: _scipy().gammaincc(a, x), _floats("igammac", a, x),
        lambda a, x: -_by_shape(a, x), lambda a, x: -_density(a, x),
    )  # fmt: skip


@operation
def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """The Hurwitz zeta function; its derivative is that by q.

    >>> round(tf.math.zeta(2.0, 1.0).numpy().item(), 4)
    1.6449
    """
    return _called(
        lambda x, q: _scipy().zeta(x, q), _floats("zeta", x, q), None,
        lambda x, q: -x * zeta(x + 1.0, q),
    )  # fmt: skip


@operation
def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """The incomplete beta function, as a share of the whole; its derivative is that by x.

    >>> round(tf.math.betainc(2.0, 3.0, 0.5).numpy().item(), 4)
    0.6875
    """

    def density(a: Any, b: Any, x: Any) -> Any:
        whole = known.lgamma(a) + known.lgamma(b) - known.lgamma(a + b)
        return core.exp((a - 1.0) * core.log(x) + (b - 1.0) * core.log1p(-x) - whole)

    operands = _floats("betainc", a, b, x)
    return _called(lambda a, b, x: _scipy().betainc(a, b, x), operands, None, None, density)


def _floats(name: str, *values: Any) -> list[Tensor]:
    found = common(values, name)
    if found[0].spec.dtype.kind != "f":
        raise DtypeError(
            f"{name}: tensors of dtype {found[0].dtype.name} are not accepted. Use tf.cast to "
            "float32 first."
        )
    return found


@operation
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """The logarithm of the beta function along the last axis.

    >>> round(tf.math.lbeta([1.0, 2.0]).numpy().item(), 4)
    -0.6931
    """
    x = convert(x)
    return total(known.lgamma(x), axis=-1) - known.lgamma(total(x, axis=-1))


@operation
def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The derivative number `a`, a whole number, of digamma.

    >>> round(tf.math.polygamma(1.0, 1.0).numpy().item(), 4)
    1.6449
    """
    order, x = common([a, x], "polygamma")
    orders = np.unique(np.asarray(order.read()))
    if orders.size == 1 and not order.spec.shape:
        return known.polygamma(int(orders[0]), x)
    found: Any = None
    for each in orders.tolist():
        one = known.polygamma(int(each), x)
        found = one if found is None else arithmetic.where(order == each, one, found)
    return found


__getattr__ = attribute_finder(__name__, globals())
