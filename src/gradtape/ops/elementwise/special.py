"""Special functions: SciPy computes the values, and each derivative is one of the same family."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from gradtape.errors import shown
from gradtape.ir.node import Node
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.ops.elementwise.compositions import (
    ERFCINV,
    ERFCINV_SLOPE,
    LOG_SIGMOID,
    MULTIPLY_NO_NAN,
    XLOGY,
    sinc_derivative,
)
from gradtape.ops.elementwise.unary import exp, log, sigmoid, square
from gradtape.ops.families.elementwise import Binary, Unary, elementwise
from gradtape.ops.families.native_code import NativeCall
from gradtape.ops.families.numpy_body import scipy_special
from gradtape.ops.families.reductions import inexact_operand
from gradtape.ops.families.signatures import Operand, Tensor, TensorLike, kind_of_operand

_POSITIVE = [(0.3, 4.0)]
_SLOPE = 2.0 / math.sqrt(math.pi)


erf: Unary = elementwise(
    "erf", "Error function.", ("0.0", 0.0), [lambda y, x: _SLOPE * exp(-square(x))], accepts="float"
)
erfc: Unary = elementwise(
    "erfc",
    "1 - erf(x), exact where erf is close to 1.",
    ("0.0", 1.0),
    [lambda y, x: -_SLOPE * exp(-square(x))],
    accepts="float",
)
erfinv: Unary = elementwise(
    "erfinv",
    "Inverse of the error function.",
    ("0.0", 0.0),
    [lambda y, x: (1.0 / _SLOPE) * exp(square(y))],
    accepts="float",
    domains=[(-0.8, 0.8)],
)
erfcinv: Unary = elementwise(
    "erfcinv",
    "Inverse of erfc, exact for tiny arguments.",
    ("1.0", 0.0),
    [lambda y, x: _erfcinv_slope(x)],
    # SciPy gives -0.0 at 1; adding 0 gives 0.0.
    numpy=lambda x: scipy_special()["erfcinv"](x) + x.dtype.type(0),
    accepts="float",
    domains=[(0.3, 1.7)],
    function=ERFCINV,
)
_erfcinv_slope: Unary = elementwise(
    "erfcinv_slope",
    "Derivative of erfcinv.",
    ("1.0", 0.0),
    [lambda y, x: 2.0 * erfcinv(x) * square(y)],
    accepts="float",
    domains=[(0.3, 1.7)],
    function_of=lambda: ERFCINV_SLOPE,
)
ndtr: Unary = elementwise(
    "ndtr",
    "Distribution function of the standard normal.",
    ("0.0", 0.5),
    [lambda y, x: (1.0 / math.sqrt(2.0 * math.pi)) * exp(-0.5 * square(x))],
    numpy=lambda x: _ndtr_kernel(x),
    accepts="float",
)
log_sigmoid: Unary = elementwise(
    "log_sigmoid",
    "Logarithm of the logistic function, without overflow.",
    ("0.0", -0.693147),
    [lambda y, x: sigmoid(-x)],
    numpy=lambda x: -np.logaddexp(-x, x.dtype.type(0)),
    accepts="float",
    function=LOG_SIGMOID,
)


@kind_of_operand
def ndtri(x: TensorLike, /) -> Tensor:
    """Inverse of ndtr: the quantile function of the standard normal.

    >>> float(gt.ndtri(0.5))
    0.0
    """
    return 0.0 - math.sqrt(2.0) * erfcinv(2.0 * inexact_operand(x))  # 0.0, not -0.0, at 0.5


def _ndtr_kernel(x: np.ndarray) -> np.ndarray:
    special = scipy_special()
    found: np.ndarray = special["ndtr"](x)
    if x.dtype != np.float64 or not np.any(x < -1.0):
        return found
    # SciPy rounds x / √2, and the square of that: hundreds of ulp in the tail. The square of
    # `top` is exact, and erfcx hardly depends on the last bits of its argument.
    tail = np.clip(x, -40.0, -1.0)
    top = tail.astype(np.float32).astype(np.float64)
    squares = np.exp(-0.5 * top * top) * np.exp(-0.5 * (tail - top) * (tail + top))
    return np.where(x < -1.0, 0.5 * special["erfcx"](tail * -math.sqrt(0.5)) * squares, found)


lgamma: Unary = elementwise(
    "lgamma",
    "Logarithm of |Γ(x)|.",
    ("1.0", 0.0),
    [lambda y, x: digamma(x)],
    numpy=lambda x: scipy_special()["gammaln"](x),
    accepts="float",
    domains=_POSITIVE,
)
digamma: Unary = elementwise(
    "digamma",
    "Derivative of lgamma.",
    ("1.0", -0.577216),
    [lambda y, x: polygamma(1, x)],
    accepts="float",
    domains=_POSITIVE,
)


def _polygamma(x: np.ndarray, n: int) -> np.ndarray:
    # ψⁿ(x) = (-1)^(n+1) n! ζ(n+1, x), the Hurwitz zeta function.
    # Infinity beyond 170!, as in SciPy.
    special = scipy_special()
    factor = special["gamma"](n + 1.0) * (1.0 if n % 2 else -1.0)
    return np.asarray(factor * special["zeta"](n + 1, x)).astype(x.dtype)


def _polygamma_natively(y: Node) -> NativeCall:
    (n,) = y.params
    factor = float(math.factorial(n)) if n <= 170 else math.inf
    (bits,) = struct.unpack("<q", struct.pack("<d", factor if n % 2 else -factor))
    code = f"f{y.dtype.itemsize}"
    return NativeCall("polygammas", (code,), (n + 1, bits), y.size, 64 * y.size)


_record_polygamma = elementwise(
    "polygamma",
    "Derivative of digamma, of any order from 1.",
    ("1, 1.0", 1.644934),
    [lambda y, x, n: polygamma(n + 1, x)],
    numpy=_polygamma,
    accepts="float",
    domains=_POSITIVE,
    params=("n",),
    sample_params=({"n": 1}, {"n": 2}),
    native=_polygamma_natively,
)


@overload
def polygamma(n: int, x: Operand, /) -> Operand: ...  # type: ignore[overload-overlap]
@overload
def polygamma(n: int, x: TensorLike, /) -> Tensor: ...
def polygamma(n: int, x: Any, /) -> Any:
    """The n-th derivative of digamma; n is an integer, not a tensor.

    >>> round(float(gt.polygamma(1, 1.0)), 6)
    1.644934
    """
    order = _order("polygamma", n)
    return _record_polygamma(order, x) if order else digamma(x)


def _order(name: str, n: Any) -> int:
    try:
        found = operator.index(n)
        if isinstance(n, (bool, np.bool_)):
            raise TypeError
    except TypeError:
        raise TypeError(f"{name}: order {shown(n)} is not an integer. Pass an int.") from None
    if found < 0:
        raise ValueError(f"{name}: order {found} is negative. Choose 0 or more.")
    return found


def _xlogy_partial(y: Node, a: Node, b: Node) -> Node:
    # Only 0 / 0 is guarded: for a = 0 and any other b, a / b and its derivative are right.
    both = equal(a, 0) & equal(b, 0)
    return where(both, 0.0, a / where(both, 1.0, b))


xlogy = elementwise(
    "xlogy",
    "x log(y), 0 where x is 0.",
    ("0.0, 0.0", 0.0),
    [lambda y, a, b: log(b), _xlogy_partial],
    arity=2,
    domains=[(-2.0, 2.0), (0.3, 3.0)],
    function=XLOGY,
)

# A `where` would also work, but reverse mode would carry its mask back through all inputs of x.
multiply_no_nan: Binary = elementwise(
    "multiply_no_nan",
    "x y, 0 where y is 0 even if x is infinite or NaN.",
    ("-np.inf, 0.0", 0.0),
    [lambda z, x, y: y, lambda z, x, y: x],
    numpy=lambda x, y: np.where(y == 0, y.dtype.type(0), x * y),
    arity=2,
    accepts="float",
    function=MULTIPLY_NO_NAN,
)


_record_sinc: Callable[..., Any] = elementwise(
    "sinc",
    "Derivative of sinc, of any order from 0.",
    ("0.0", 1.0),
    [lambda y, x, order: _record_sinc(order + 1, x)],
    params=("order",),
    sample_params=({"order": 0}, {"order": 1}, {"order": 4}),
    function_of=sinc_derivative,
)


@kind_of_operand
def sinc(x: TensorLike, /) -> Tensor:
    """sin(πx) / (πx), and 1 at 0; derivatives of every order are exact there too.

    >>> float(gt.sinc(0.0))
    1.0
    """
    return _record_sinc(0, x)
