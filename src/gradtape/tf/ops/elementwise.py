"""Functions computed element by element, each a row: `sin = unary(gradtape's function, ...)`.

A row gives the gradtape function, the kinds of dtype that it accepts (`np.dtype.kind`), the first
sentence of the documentation, an example call and its result. The example also names the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gradtape as gt
from gradtape.errors import DtypeError
from gradtape.libraries import check_exports
from gradtape.ops.elementwise import arithmetic, bessel, complexes, special, unary as core
from gradtape.tf.base import operators
from gradtape.tf.base.conversion import common, convert
from gradtape.tf.base.dispatch import PLAIN, documented, graphs, operation
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Name, TensorLike

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "angle",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bessel_i0",
    "bessel_i1",
    "ceil",
    "conj",
    "cos",
    "cosh",
    "digamma",
    "divide",
    "divide_no_nan",
    "equal",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "floordiv",
    "floormod",
    "greater",
    "greater_equal",
    "imag",
    "is_finite",
    "is_inf",
    "is_nan",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log_sigmoid",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "multiply_no_nan",
    "ndtri",
    "negative",
    "nextafter",
    "not_equal",
    "polyval",
    "pow",
    "real",
    "reciprocal",
    "reciprocal_no_nan",
    "rint",
    "round",
    "rsqrt",
    "scalar_mul",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "squared_difference",
    "subtract",
    "tan",
    "tanh",
    "truediv",
    "truncatediv",
    "truncatemod",
    "xdivy",
    "xlog1py",
    "xlogy",
]

_WANTED = {"fc": "float32 or complex64", "f": "float32", "b": "bool", "c": "complex64"}


class Unary(Protocol):
    """A public function of one operand."""

    def __call__(self, x: TensorLike, name: Name = None) -> Tensor: ...


class Binary(Protocol):
    """A public function of two operands."""

    def __call__(self, x: TensorLike, y: TensorLike, name: Name = None) -> Tensor: ...


# TensorFlow calls most operands x and y, and some otherwise; callers may pass them by name.


def _x(function: Unary) -> Unary:
    return function


def _input(function: Unary) -> Callable[..., Tensor]:
    def call(input: TensorLike, name: Name = None) -> Tensor:
        return function(input)

    return call


def _features(function: Unary) -> Callable[..., Tensor]:
    def call(features: TensorLike, name: Name = None) -> Tensor:
        return function(features)

    return call


def _x_y(function: operators.Binary) -> Binary:
    def call(x: TensorLike, y: TensorLike, name: Name = None) -> Tensor:
        return function(x, y)

    return call


def _y_x(function: operators.Binary) -> Callable[..., Tensor]:
    def call(y: TensorLike, x: TensorLike, name: Name = None) -> Tensor:
        return function(y, x)

    return call


def _x1_x2(function: operators.Binary) -> Callable[..., Tensor]:
    def call(x1: TensorLike, x2: TensorLike, name: Name = None) -> Tensor:
        return function(x1, x2)

    return call


def unary(
    function: Callable[[Any], Any],
    accepts: str,
    sentence: str,
    example: str,
    result: str,
    called: Callable[[Unary], Any] = _x,
    namespace: str = "tf.math",
    digits: int = 10,
) -> Unary:
    """A row for a function of one operand."""
    own = example.partition("(")[0]

    def call(x: TensorLike, name: Name = None) -> Tensor:
        if graphs.in_use:
            return graphs.take(checked, (x,), {}, PLAIN)
        if type(x) is Tensor:
            known: Any = x.node or x.computed
            if known.spec.dtype.kind in accepts:
                return function(x)
        return checked(x)

    def checked(operand: TensorLike) -> Tensor:
        x = convert(operand)
        if x.spec.dtype.kind not in accepts:
            raise DtypeError(
                f"{own}: a tensor of dtype {x.dtype.name} is not accepted. Use tf.cast to "
                f"{_WANTED.get(accepts, 'float32')} first."
            )
        return function(x)

    shown = f"{namespace}.{example}.numpy().item()"
    if "f" in accepts and accepts != "iufc" and result not in ("True", "False"):
        shown = f"round({shown}, {digits})"
    checked.__name__ = checked.__qualname__ = own
    return documented(called(call), "gradtape.tf", sentence, shown, result)


def activation(
    function: Callable[[Any], Any], accepts: str, sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for an activation of tf.nn, whose operand is called `features`."""
    return unary(function, accepts, sentence, example, result, _features, "tf.nn")


def binary(
    function: operators.Binary,
    accepts: str,
    sentence: str,
    example: str,
    result: str,
    called: Callable[[operators.Binary], Any] = _x_y,
    namespace: str = "tf.math",
) -> Binary:
    """A row for a function of two operands of one dtype."""
    operate = operators.binary(example.partition("(")[0], function, accepts)
    return _operator(operate, sentence, example, result, called, namespace)


def _operator(
    operate: operators.Binary,
    sentence: str,
    example: str,
    result: str,
    called: Callable[[operators.Binary], Any] = _x_y,
    namespace: str = "tf.math",
) -> Binary:
    """A row for the function behind one of Python's operators."""
    shown = f"{namespace}.{example}.numpy().item()"
    return documented(called(operate), "gradtape.tf", sentence, shown, result)


def _sigmoid(x: Tensor) -> Tensor:
    return core.sigmoid(x) if x.spec.dtype.kind == "f" else 1.0 / (1.0 + core.exp(-x))


def _angle(x: Tensor) -> Tensor:
    """The angle of a real number is 0 or pi, also for signed zeros and NaN."""
    if x.spec.dtype.kind == "c":
        return complexes.angle(x)
    return arithmetic.where(x < 0, math.pi, complexes.imag(x))


def _both(x: object, y: object) -> tuple[Tensor, Tensor]:
    """Operands of one dtype, both as tensors."""
    return convert(x, hint=getattr(y, "dtype", None)), convert(y, hint=getattr(x, "dtype", None))


def _over_nonzero(x: object, y: object) -> Tensor:
    a, b = (operators.widened(each) for each in _both(x, y))
    zero = arithmetic.equal(b, 0)
    return arithmetic.where(zero, 0.0, a / arithmetic.where(zero, 1.0, b))


def _nonzero_over(x: object, y: object) -> Tensor:
    a, b = _both(x, y)
    zero = arithmetic.equal(a, 0)
    return arithmetic.where(zero, 0.0, a / arithmetic.where(zero, 1.0, b))


def _nonzero_times(function: Callable[[Tensor], Tensor]) -> operators.Binary:
    """x times a function of y, with derivative 0 where x is 0, as in TensorFlow."""

    def product(x: object, y: object) -> Tensor:
        a, b = _both(x, y)
        zero = arithmetic.equal(a, 0)
        return arithmetic.where(zero, 0.0, a * function(arithmetic.where(zero, 1.0, b)))

    return product


def _times_nonzero(x: object, y: object) -> Tensor:
    a, b = _both(x, y)
    if a.spec.dtype.kind == "f":
        return special.multiply_no_nan(a, b)
    zero = arithmetic.equal(b, 0)
    return arithmetic.where(zero, 0.0, arithmetic.where(zero, 0.0, a) * b)


def _truncated(x: Tensor, y: Tensor) -> Tensor:
    """The quotient, rounded towards zero."""
    tensor = x if isinstance(x, Tensor) else y
    if tensor.dtype.kind == "f":
        return core.trunc(arithmetic.divide(x, y))
    quotient = arithmetic.floor_divide(x, y)
    inexact = arithmetic.not_equal(arithmetic.remainder(x, y), 0)
    return quotient + gt.cast(arithmetic.logical_and(inexact, quotient < 0), quotient.spec.dtype)


def _truncated_remainder(x: Any, y: Any) -> Tensor:
    """The remainder of a quotient rounded towards zero, which has the sign of x."""
    tensor = x if isinstance(x, Tensor) else y
    if tensor.dtype.kind != "f":
        return x - _truncated(x, y) * y
    a, b = _both(x, y)
    return arithmetic.copysign(arithmetic.remainder(complexes.abs(a), complexes.abs(b)), a)


def _squared_difference(x: Any, y: Any) -> Tensor:
    """(x - y)², or |x - y|² as a complex number."""
    difference = arithmetic.subtract(x, y)
    if difference.spec.dtype.kind == "c":
        return difference * complexes.conj(difference)
    return core.square(difference)


abs = unary(complexes.abs, "iufc", "Absolute value.", "abs(-2.0)", "2.0")
negative = unary(core.negative, "iufc", "The value with the other sign.", "negative(2.0)", "-2.0")
sign = unary(complexes.sign, "iufc", "-1, 0 or 1.", "sign(-2.0)", "-1.0")
square = unary(core.square, "iufc", "The square.", "square(3.0)", "9.0")
sqrt = unary(core.sqrt, "fc", "The square root.", "sqrt(9.0)", "3.0")
rsqrt = unary(core.rsqrt, "fc", "One over the square root.", "rsqrt(4.0)", "0.5")
reciprocal = unary(core.reciprocal, "fc", "One over the value.", "reciprocal(4.0)", "0.25")
exp = unary(core.exp, "fc", "The exponential function.", "exp(0.0)", "1.0")
expm1 = unary(core.expm1, "fc", "exp(x) - 1, exact for small x.", "expm1(0.0)", "0.0")
log = unary(core.log, "fc", "The natural logarithm.", "log(1.0)", "0.0")
log1p = unary(core.log1p, "fc", "log(1 + x), exact for small x.", "log1p(0.0)", "0.0")
sin = unary(core.sin, "fc", "Sine.", "sin(0.0)", "0.0")
cos = unary(core.cos, "fc", "Cosine.", "cos(0.0)", "1.0")
tan = unary(core.tan, "fc", "Tangent.", "tan(0.0)", "0.0")
asin = unary(core.asin, "fc", "Inverse sine.", "asin(0.0)", "0.0")
acos = unary(core.acos, "fc", "Inverse cosine.", "acos(1.0)", "0.0")
atan = unary(core.atan, "fc", "Inverse tangent.", "atan(0.0)", "0.0")
sinh = unary(core.sinh, "fc", "Hyperbolic sine.", "sinh(0.0)", "0.0")
cosh = unary(core.cosh, "fc", "Hyperbolic cosine.", "cosh(0.0)", "1.0")
tanh = unary(core.tanh, "fc", "Hyperbolic tangent.", "tanh(0.0)", "0.0")
asinh = unary(core.asinh, "fc", "Inverse hyperbolic sine.", "asinh(0.0)", "0.0")
acosh = unary(core.acosh, "fc", "Inverse hyperbolic cosine.", "acosh(1.0)", "0.0")
atanh = unary(core.atanh, "fc", "Inverse hyperbolic tangent.", "atanh(0.0)", "0.0")
sigmoid = unary(_sigmoid, "fc", "1 / (1 + exp(-x)).", "sigmoid(0.0)", "0.5")
log_sigmoid = unary(
    special.log_sigmoid, "f", "The logarithm of sigmoid.", "log_sigmoid(-1e4)", "-10000.0"
)
softplus: Callable[..., Tensor] = unary(
    core.softplus, "f", "log(1 + exp(x)).", "softplus(-1e4)", "0.0", _features
)
softsign: Callable[..., Tensor] = unary(
    lambda x: x / (1.0 + complexes.abs(x)), "f", "x / (1 + |x|).", "softsign(1.0)", "0.5", _features
)
erf = unary(special.erf, "f", "The error function.", "erf(0.0)", "0.0")
erfc = unary(special.erfc, "f", "One minus the error function.", "erfc(0.0)", "1.0")
erfinv = unary(special.erfinv, "f", "The inverse of the error function.", "erfinv(0.0)", "0.0")
erfcinv = unary(special.erfcinv, "f", "The inverse of erfc.", "erfcinv(1.0)", "0.0")
ndtri = unary(
    special.ndtri, "f", "The quantile function of the standard normal.", "ndtri(0.5)", "0.0"
)
lgamma = unary(special.lgamma, "f", "The logarithm of |gamma(x)|.", "lgamma(1.0)", "0.0")
digamma = unary(special.digamma, "f", "The derivative of lgamma.", "digamma(1e30)", "69.0775527954")
floor = unary(core.floor, "f", "The largest integer that is not larger.", "floor(-1.5)", "-2.0")
ceil = unary(core.ceil, "f", "The smallest integer that is not smaller.", "ceil(-1.5)", "-1.0")
round = unary(
    core.round, "iuf", "The nearest integer; halves go to the even one.", "round(2.5)", "2.0"
)
rint = unary(core.round, "f", "The nearest integer; halves go to the even one.", "rint(3.5)", "4.0")
is_nan = unary(core.isnan, "f", "Whether the value is not a number.", "is_nan(1.0)", "False")
is_inf = unary(core.isinf, "f", "Whether the value is infinite.", "is_inf(1.0)", "False")
is_finite = unary(core.isfinite, "f", "Whether the value is finite.", "is_finite(1.0)", "True")
logical_not = unary(
    core.logical_not, "b", "The opposite truth value.", "logical_not(True)", "False"
)
conj = unary(complexes.conj, "iufc", "The complex conjugate.", "conj(2j)", "-2j")
real: Callable[..., Tensor] = unary(
    complexes.real, "iufc", "The real part.", "real(1 + 2j)", "1.0", _input
)
imag: Callable[..., Tensor] = unary(
    complexes.imag, "iufc", "The imaginary part.", "imag(1 + 2j)", "2.0", _input
)
angle: Callable[..., Tensor] = unary(
    _angle, "fc", "The angle in the complex plane.", "angle(1 + 0j)", "0.0", _input
)
bessel_i0 = unary(
    bessel.i0, "f", "The modified Bessel function of order 0.", "bessel_i0(0.0)", "1.0"
)
bessel_i1 = unary(
    bessel.i1, "f", "The modified Bessel function of order 1.", "bessel_i1(0.0)", "0.0"
)

maximum = binary(
    arithmetic.maximum, "iuf", "The larger operand, element by element.", "maximum(1.0, 2.0)", "2.0"
)
minimum = binary(
    arithmetic.minimum,
    "iuf",
    "The smaller operand, element by element.",
    "minimum(1.0, 2.0)",
    "1.0",
)
atan2: Callable[..., Tensor] = binary(
    arithmetic.atan2, "f", "The angle of the point (y, x).", "atan2(0.0, 1.0)", "0.0", _y_x
)
logical_and = binary(
    arithmetic.logical_and, "b", "Whether both hold.", "logical_and(True, False)", "False"
)
logical_or = binary(
    arithmetic.logical_or, "b", "Whether at least one holds.", "logical_or(True, False)", "True"
)
logical_xor = binary(
    arithmetic.logical_xor, "b", "Whether exactly one holds.", "logical_xor(True, True)", "False"
)
squared_difference = binary(
    _squared_difference, "iufc", "(x - y)².", "squared_difference(5.0, 2.0)", "9.0"
)
divide_no_nan = binary(
    _over_nonzero, "iufc", "x / y, and 0 where y is 0.", "divide_no_nan(5.0, 0.0)", "0.0"
)
multiply_no_nan = binary(
    _times_nonzero,
    "fc",
    "x * y, and 0 where y is 0, even if x is not finite.",
    "multiply_no_nan(np.inf, 0.0)",
    "0.0",
)
xlogy = binary(
    _nonzero_times(core.log), "fc", "x log(y), and 0 where x is 0.", "xlogy(0.0, 0.0)", "0.0"
)
xlog1py = binary(
    _nonzero_times(core.log1p),
    "fc",
    "x log(1 + y), and 0 where x is 0.",
    "xlog1py(0.0, -1.0)",
    "0.0",
)
xdivy = binary(_nonzero_over, "fc", "x / y, and 0 where x is 0.", "xdivy(0.0, 0.0)", "0.0")
nextafter: Callable[..., Tensor] = binary(
    arithmetic.nextafter,
    "f",
    "The next number from x towards y.",
    "nextafter(0.0, 0.0)",
    "0.0",
    _x1_x2,
)
truncatediv = binary(
    operators.by_nonzero(_truncated),
    "iuf",
    "The quotient, rounded towards zero.",
    "truncatediv(-3, 2)",
    "-1",
)
truncatemod = binary(
    operators.by_nonzero(_truncated_remainder),
    "iuf",
    "The remainder of truncatediv.",
    "truncatemod(-3, 2)",
    "-1",
)

add = _operator(operators.add, "The sum.", "add(1.0, 2.0)", "3.0")
subtract = _operator(operators.subtract, "The difference.", "subtract(1.0, 2.0)", "-1.0")
multiply = _operator(operators.multiply, "The product.", "multiply(3.0, 2.0)", "6.0")
divide = _operator(operators.truediv, "The quotient; integers give floats.", "divide(3, 2)", "1.5")
truediv = _operator(
    operators.truediv, "The quotient; integers give floats.", "truediv(3, 2)", "1.5"
)
floordiv = _operator(operators.floordiv, "The quotient, rounded down.", "floordiv(-3, 2)", "-2")
floormod = _operator(operators.floormod, "The remainder of floordiv.", "floormod(-3, 2)", "1")
mod = _operator(operators.floormod, "The remainder of floordiv.", "mod(-3, 2)", "1")
pow = _operator(operators.power, "x to the power of y.", "pow(2.0, 3.0)", "8.0")
equal = _operator(operators.equal, "Whether operands are equal.", "equal(1, 1)", "True")
not_equal = _operator(operators.not_equal, "Whether operands differ.", "not_equal(1, 1)", "False")
less = _operator(operators.less, "Whether x < y.", "less(1, 2)", "True")
less_equal = _operator(operators.less_equal, "Whether x <= y.", "less_equal(1, 2)", "True")
greater = _operator(operators.greater, "Whether x > y.", "greater(1, 2)", "False")
greater_equal = _operator(
    operators.greater_equal, "Whether x >= y.", "greater_equal(1, 2)", "False"
)


@operation
def scalar_mul(scalar: TensorLike, x: TensorLike, name: Name = None) -> Tensor:
    """A number times a tensor.

    >>> tf.math.scalar_mul(2.0, [1.0, 2.0]).numpy().tolist()
    [2.0, 4.0]
    """
    return multiply(scalar, x)


@operation
def reciprocal_no_nan(x: TensorLike, name: Name = None) -> Tensor:
    """One over the value, and 0 where it is 0.

    >>> tf.math.reciprocal_no_nan([2.0, 0.0]).numpy().tolist()
    [0.5, 0.0]
    """
    return divide_no_nan(1.0, x)


@operation
def polyval(coeffs: Sequence[TensorLike], x: TensorLike, name: Name = None) -> Tensor:
    """A polynomial, given its coefficients from the highest power down.

    >>> tf.math.polyval([1.0, 2.0, 3.0], 2.0).numpy().item()
    11.0
    """
    *parts, x = common([*coeffs, x], "polyval")
    if not parts:
        return x * 0
    total = parts[0] + x * 0
    for part in parts[1:]:
        total = total * x + part
    return total


check_exports(globals(), __all__)
