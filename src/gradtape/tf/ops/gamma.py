"""Relatives of the gamma and beta functions.

SciPy computes the values; each derivative is one of the same family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError
from gradtape.libraries import check_exports
from gradtape.ops.elementwise import arithmetic, special as known, unary as core
from gradtape.tf.base.conversion import common
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import Array, Name, TensorLike
from gradtape.tf.ops.custom import custom_gradient, numpy_function
from gradtape.tf.ops.special import scipy_special

__all__ = ["betainc", "igamma", "igammac", "lbeta", "polygamma", "zeta"]


def _called(
    kernel: Callable[..., Array],
    operands: Sequence[Tensor],
    *slopes: Callable[..., Tensor] | None,
) -> Tensor:
    """A function of SciPy's, with its derivatives by operands; None for those without one."""
    shape = np.broadcast_shapes(*(x.spec.shape for x in operands))
    spec = TensorSpec(shape, operands[0].dtype)

    @custom_gradient
    def recorded(*operands: Tensor) -> object:
        y = numpy_function(
            lambda *arrays: np.asarray(kernel(*arrays)).astype(arrays[0].dtype), operands, spec
        )

        def pulled(dy: Tensor) -> object:
            result = [None if slope is None else dy * slope(*operands) for slope in slopes]
            return result if len(result) > 1 else result[0]

        return y, pulled

    return recorded(*(gt.broadcast_to(x, shape) for x in operands))


def _density(a: Tensor, x: Tensor) -> Tensor:
    """The derivative of igamma by x."""
    return core.exp((a - 1.0) * core.log(x) - x - known.lgamma(a))


def _by_shape(a: Tensor, x: Tensor) -> Tensor:
    """The derivative of igamma by a: a difference of fourth order, good to ten digits."""

    def difference(a: Array, x: Array) -> Array:
        wide = np.asarray(a, np.float64)
        step = 1e-3 * np.minimum(wide, 1.0)
        near, far = (
            scipy_special().gammainc(wide + k * step, x)
            - scipy_special().gammainc(wide - k * step, x)
            for k in (1, 2)
        )
        return (8.0 * near - far) / (12.0 * step)

    by_x = lambda a, x: _density(a, x) * (core.log(x) - known.digamma(a))  # noqa: E731
    return _called(difference, [a, x], None, by_x)


@operation
def igamma(a: TensorLike, x: TensorLike, name: Name = None) -> Tensor:
    """The regularized lower incomplete gamma function.

    >>> round(tf.math.igamma(2.0, 2.0).numpy().item(), 4)
    0.594
    """
    operands = _floats("igamma", a, x)
    return _called(lambda a, x: scipy_special().gammainc(a, x), operands, _by_shape, _density)


@operation
def igammac(a: TensorLike, x: TensorLike, name: Name = None) -> Tensor:
    """The regularized upper incomplete gamma function.

    >>> round(tf.math.igammac(2.0, 2.0).numpy().item(), 4)
    0.406
    """
    return _called(
        lambda a, x: scipy_special().gammaincc(a, x),
        _floats("igammac", a, x),
        lambda a, x: -_by_shape(a, x),
        lambda a, x: -_density(a, x),
    )


@operation
def zeta(x: TensorLike, q: TensorLike, name: Name = None) -> Tensor:
    """The Hurwitz zeta function; only the derivative by q is defined.

    >>> round(tf.math.zeta(2.0, 1.0).numpy().item(), 4)
    1.6449
    """
    return _called(
        lambda x, q: scipy_special().zeta(x, q),
        _floats("zeta", x, q),
        None,
        lambda x, q: -x * zeta(x + 1.0, q),
    )


@operation
def betainc(a: TensorLike, b: TensorLike, x: TensorLike, name: Name = None) -> Tensor:
    """The regularized incomplete beta function; only the derivative by x is defined.

    >>> round(tf.math.betainc(2.0, 3.0, 0.5).numpy().item(), 4)
    0.6875
    """

    def density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
        whole = known.lgamma(a) + known.lgamma(b) - known.lgamma(a + b)
        return core.exp((a - 1.0) * core.log(x) + (b - 1.0) * core.log1p(-x) - whole)

    operands = _floats("betainc", a, b, x)
    return _called(lambda a, b, x: scipy_special().betainc(a, b, x), operands, None, None, density)


def _floats(name: str, *values: TensorLike) -> list[Tensor]:
    result = common(values, name)
    if result[0].spec.dtype.kind != "f":
        raise DtypeError(
            f"{name}: tensors of dtype {result[0].dtype.name} are not accepted. Use tf.cast to "
            "float32 first."
        )
    return result


@operation
def lbeta(x: TensorLike, name: Name = None) -> Tensor:
    """The logarithm of the beta function along the last axis.

    >>> round(tf.math.lbeta([1.0, 2.0]).numpy().item(), 4)
    -0.6931
    """
    (x,) = _floats("lbeta", x)
    return gt.sum(known.lgamma(x), axis=-1) - known.lgamma(gt.sum(x, axis=-1))


@operation
def polygamma(a: TensorLike, x: TensorLike, name: Name = None) -> Tensor:
    """The derivative of digamma of order `a`, a whole number.

    >>> round(tf.math.polygamma(1.0, 1.0).numpy().item(), 4)
    1.6449
    """
    order, x = _floats("polygamma", a, x)
    orders = np.unique(np.asarray(order.read()))
    if not orders.size:
        return order + x
    if orders.size == 1 and not order.spec.shape:
        return adopt(known.polygamma(int(orders[0]), x))
    first, *rest = orders.tolist()
    result = known.polygamma(int(first), x)
    for each in rest:
        result = arithmetic.where(order == each, known.polygamma(int(each), x), result)
    return adopt(result)


check_exports(globals(), __all__)
