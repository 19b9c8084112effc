"""Functions computed element by element: one table, and what follows from its rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradtape.errors import DtypeError
from gradtape.nn import activations
from gradtape.ops.elementwise import arithmetic, complexes, special
from gradtape.ops.elementwise import unary as core
from gradtape.tf import operators
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import PLAIN, graphs
from gradtape.tf.tensor import Tensor

_WANTED = {"fc": "float32 or complex64", "f": "float32", "b": "bool", "c": "complex64"}


def unary(
    name: str, function: Callable[[Any], Any], doc: str, example: str, result: str, accepts: str
) -> Any:
    """A function of one operand that accepts some kinds of dtype."""

    def call(x: Any, name: str | None = None) -> Any:
        if graphs.in_use:
            return graphs.take(checked, (x,), {}, PLAIN)
        if type(x) is Tensor:
            known: Any = x.node or x.computed
            if known.spec.dtype.kind in accepts:
                return function(x)
        return checked(x)

    def checked(x: Any) -> Any:
        x = convert(x)
        if x.spec.dtype.kind not in accepts:
            raise DtypeError(
                f"{name}: a tensor of dtype {x.dtype.name} is not accepted. Use tf.cast to "
                f"{_WANTED.get(accepts, 'float32')} first."
            )
        return function(x)

    call = _OPERAND_NAMES.get(name, lambda found: found)(call)
    return _documented(call, checked, name, doc, example, result)


def _called_input(function: Any) -> Any:
    def call(input: Any, name: str | None = None) -> Any:
        return function(input)

    return call


def _called_features(function: Any) -> Any:
    def call(features: Any, name: str | None = None) -> Any:
        return function(features)

    return call


def _called_y_x(function: Any) -> Any:
    def call(y: Any, x: Any, name: str | None = None) -> Any:
        return function(y, x)

    return call


def _called_x1_x2(function: Any) -> Any:
    def call(x1: Any, x2: Any, name: str | None = None) -> Any:
        return function(x1, x2)

    return call


# Where TensorFlow's operands are not called x and y.
_OPERAND_NAMES = {
    "angle": _called_input, "imag": _called_input, "real": _called_input,
    "softplus": _called_features, "softsign": _called_features, "relu": _called_features,
    "elu": _called_features, "selu": _called_features, "atan2": _called_y_x,
    "nextafter": _called_x1_x2,
}  # fmt: skip


def binary(
    name: str, function: Callable[..., Any], doc: str, example: str, result: str, accepts: str
) -> Any:
    """A function of two operands of one dtype."""
    operate = operators.binary(name, function, accepts)

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        return operate(x, y)

    call = _OPERAND_NAMES.get(name, lambda found: found)(call)
    return _documented(call, call, name, doc, example, result)


def _documented(call: Any, checked: Any, name: str, doc: str, example: str, result: str) -> Any:
    call.__name__ = call.__qualname__ = checked.__name__ = checked.__qualname__ = name
    call.__module__ = "gradtape.tf"
    call.__doc__ = f"{doc}\n\n    >>> {example}\n    {result}\n    "
    return call


def _named(operate: Any, name: str, doc: str, example: str, result: str) -> Any:
    """An operator by its name."""

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        return operate(x, y)

    return _documented(call, call, name, doc, example, result)


def _item(name: str, value: str) -> str:
    return f"tf.math.{name}({value}).numpy().item()"


def _sigmoid(x: Any) -> Any:
    return core.sigmoid(x) if x.spec.dtype.kind == "f" else 1.0 / (1.0 + core.exp(-x))


def _angle(x: Any) -> Any:
    """That of a real number is 0 or pi, also for zeros with a sign and for NaN."""
    if x.spec.dtype.kind == "c":
        return complexes.angle(x)
    return arithmetic.where(x < 0, math.pi, complexes.imag(x))


# Name, function, sentence, argument of the example, its result rounded, kinds of dtype accepted.
_UNARY: list[tuple[str, Any, str, str, str, str]] = [
    ("abs", complexes.abs, "Absolute value.", "-2.0", "2.0", "iufc"),
    ("negative", core.negative, "The value with the other sign.", "2.0", "-2.0", "iufc"),
    ("sign", complexes.sign, "-1, 0 or 1.", "-2.0", "-1.0", "iufc"),
    ("square", core.square, "The square.", "3.0", "9.0", "iufc"),
    ("sqrt", core.sqrt, "The square root.", "9.0", "3.0", "fc"),
    ("rsqrt", core.rsqrt, "One over the square root.", "4.0", "0.5", "fc"),
    ("reciprocal", core.reciprocal, "One over the value.", "4.0", "0.25", "fc"),
    ("exp", core.exp, "The exponential function.", "0.0", "1.0", "fc"),
    ("expm1", core.expm1, "exp(x) - 1, exact for small x.", "0.0", "0.0", "fc"),
    ("log", core.log, "The natural logarithm.", "1.0", "0.0", "fc"),
    ("log1p", core.log1p, "log(1 + x), exact for small x.", "0.0", "0.0", "fc"),
    ("sin", core.sin, "Sine.", "0.0", "0.0", "fc"),
    ("cos", core.cos, "Cosine.", "0.0", "1.0", "fc"),
    ("tan", core.tan, "Tangent.", "0.0", "0.0", "fc"),
    ("asin", core.asin, "Inverse sine.", "0.0", "0.0", "fc"),
    ("acos", core.acos, "Inverse cosine.", "1.0", "0.0", "fc"),
    ("atan", core.atan, "Inverse tangent.", "0.0", "0.0", "fc"),
    ("sinh", core.sinh, "Hyperbolic sine.", "0.0", "0.0", "fc"),
    ("cosh", core.cosh, "Hyperbolic cosine.", "0.0", "1.0", "fc"),
    ("tanh", core.tanh, "Hyperbolic tangent.", "0.0", "0.0", "fc"),
    ("asinh", core.asinh, "Inverse hyperbolic sine.", "0.0", "0.0", "fc"),
    ("acosh", core.acosh, "Inverse hyperbolic cosine.", "1.0", "0.0", "fc"),
    ("atanh", core.atanh, "Inverse hyperbolic tangent.", "0.0", "0.0", "fc"),
    ("sigmoid", _sigmoid, "1 / (1 + exp(-x)).", "0.0", "0.5", "fc"),
    ("log_sigmoid", special.log_sigmoid, "The logarithm of sigmoid.", "-1e4", "-10000.0", "f"),
    ("softplus", core.softplus, "log(1 + exp(x)).", "-1e4", "0.0", "f"),
    ("softsign", lambda x: x / (1.0 + complexes.abs(x)), "x / (1 + |x|).", "1.0", "0.5", "f"),
    ("erf", special.erf, "The error function.", "0.0", "0.0", "f"),
    ("erfc", special.erfc, "One minus the error function.", "0.0", "1.0", "f"),
    ("erfinv", special.erfinv, "The inverse of the error function.", "0.0", "0.0", "f"),
    ("erfcinv", lambda x: special.erfinv(1.0 - x), "The inverse of erfc.", "1.0", "0.0", "f"),
    ("ndtri", lambda x: special.erfinv(2.0 * x - 1.0) * 2.0**0.5,
     "The quantile function of the standard normal.", "0.5", "0.0", "f"),
    ("lgamma", special.lgamma, "The logarithm of |gamma(x)|.", "1.0", "0.0", "f"),
    ("digamma", special.digamma, "The derivative of lgamma.", "1e30", "69.0775527954", "f"),
    ("floor", core.floor, "The largest integer that is not larger.", "-1.5", "-2.0", "f"),
    ("ceil", core.ceil, "The smallest integer that is not smaller.", "-1.5", "-1.0", "f"),
    ("round", core.round, "The nearest integer, the even one of two.", "2.5", "2.0", "iufc"),
    ("rint", core.round, "The nearest integer, the even one of two.", "3.5", "4.0", "f"),
    ("is_nan", core.isnan, "Whether it is not a number.", "1.0", "False", "f"),
    ("is_inf", core.isinf, "Whether it is infinite.", "1.0", "False", "f"),
    ("is_finite", core.isfinite, "Whether it is finite.", "1.0", "True", "f"),
    ("logical_not", core.logical_not, "The opposite truth value.", "True", "False", "b"),
    ("conj", complexes.conj, "The complex conjugate.", "2j", "-2j", "iufc"),
    ("real", complexes.real, "The real part.", "1 + 2j", "1.0", "iufc"),
    ("imag", complexes.imag, "The imaginary part.", "1 + 2j", "2.0", "iufc"),
    ("angle", _angle, "The angle in the complex plane.", "1 + 0j", "0.0", "fc"),
    ("bessel_i0", special.i0, "The modified Bessel function of order 0.", "0.0", "1.0", "f"),
    ("bessel_i1", special.i1, "The modified Bessel function of order 1.", "0.0", "0.0", "f"),
    ("relu", core.relu, "The value where it is positive, else 0.", "-1.0", "0.0", "iuf"),
    ("elu", activations.elu, "x where positive, exp(x) - 1 elsewhere.", "2.0", "2.0", "f"),
    ("selu", activations.selu, "Scaled elu, which keeps mean and variance.", "0.0", "0.0", "f"),
]  # fmt: skip


def _both(x: Any, y: Any) -> tuple[Any, Any]:
    """Operands of one dtype, both as tensors."""
    return convert(x, hint=getattr(y, "dtype", None)), convert(y, hint=getattr(x, "dtype", None))


def _over_nonzero(x: Any, y: Any) -> Any:
    x, y = (operators.widened(each) for each in _both(x, y))
    zero = arithmetic.equal(y, 0)
    return arithmetic.where(zero, 0.0, x / arithmetic.where(zero, 1.0, y))


def _nonzero_over(x: Any, y: Any) -> Any:
    x, y = _both(x, y)
    zero = arithmetic.equal(x, 0)
    return arithmetic.where(zero, 0.0, x / arithmetic.where(zero, 1.0, y))


def _nonzero_times(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """x times a function of y, with no derivative where x is 0: as TensorFlow has it."""

    def product(x: Any, y: Any) -> Any:
        x, y = _both(x, y)
        zero = arithmetic.equal(x, 0)
        return arithmetic.where(zero, 0.0, x * function(arithmetic.where(zero, 1.0, y)))

    return product


def _times_nonzero(x: Any, y: Any) -> Any:
    x, y = _both(x, y)
    if x.spec.dtype.kind == "f":
        return special.multiply_no_nan(x, y)
    zero = arithmetic.equal(y, 0)
    return arithmetic.where(zero, 0.0, arithmetic.where(zero, 0.0, x) * y)


def _truncated(x: Any, y: Any) -> Any:
    """The quotient towards zero."""
    from gradtape.ops.families.casting import cast

    tensor = x if isinstance(x, Tensor) else y
    if tensor.dtype.kind == "f":
        return core.trunc(arithmetic.divide(x, y))
    quotient = arithmetic.floor_divide(x, y)
    inexact = arithmetic.not_equal(arithmetic.remainder(x, y), 0)
    return quotient + cast(arithmetic.logical_and(inexact, quotient < 0), quotient.dtype)


def _truncated_remainder(x: Any, y: Any) -> Any:
    return x - _truncated(x, y) * y


def _difference(x: Any, y: Any) -> Any:
    """(x - y)², or |x - y|² as a complex number."""
    difference = arithmetic.subtract(x, y)
    if difference.spec.dtype.kind == "c":
        return difference * complexes.conj(difference)
    return core.square(difference)


_BINARY: list[tuple[str, Any, str, str, str, str]] = [
    ("maximum", arithmetic.maximum, "The larger of two.", "1.0, 2.0", "2.0", "iuf"),
    ("minimum", arithmetic.minimum, "The smaller of two.", "1.0, 2.0", "1.0", "iuf"),
    ("atan2", arithmetic.atan2, "The angle of the point (y, x).", "0.0, 1.0", "0.0", "f"),
    ("logical_and", arithmetic.logical_and, "Whether both hold.", "True, False", "False", "b"),
    ("logical_or", arithmetic.logical_or, "Whether one holds.", "True, False", "True", "b"),
    ("logical_xor", arithmetic.logical_xor, "Whether just one holds.", "True, True", "False", "b"),
    ("squared_difference", _difference, "(x - y)².", "5.0, 2.0", "9.0", "iufc"),
    ("divide_no_nan", _over_nonzero, "x / y, and 0 where y is 0.", "5.0, 0.0", "0.0", "iufc"),
    ("multiply_no_nan", _times_nonzero,
     "x * y, and 0 where y is 0 whatever x is.", "np.inf, 0.0", "0.0", "fc"),
    ("xlogy", _nonzero_times(core.log), "x log(y), and 0 where x is.", "0.0, 0.0", "0.0", "fc"),
    ("xlog1py", _nonzero_times(core.log1p), "x log(1 + y), and 0 where x is.",
     "0.0, -1.0", "0.0", "fc"),
    ("xdivy", _nonzero_over, "x / y, and 0 where x is.", "0.0, 0.0", "0.0", "fc"),
    ("nextafter", arithmetic.nextafter, "The next number from x towards y.", "0.0, 0.0", "0.0",
     "f"),
    ("truncatediv", _truncated, "The quotient, rounded towards zero.", "-3, 2", "-1", "iuf"),
    ("truncatemod", _truncated_remainder, "What truncatediv leaves.", "-3, 2", "-1", "iuf"),
]  # fmt: skip


_OPERATORS: list[tuple[str, Any, str, str, str]] = [
    ("add", operators.add, "The sum.", "1.0, 2.0", "3.0"),
    ("subtract", operators.subtract, "The difference.", "1.0, 2.0", "-1.0"),
    ("multiply", operators.multiply, "The product.", "3.0, 2.0", "6.0"),
    ("divide", operators.truediv, "The quotient; that of integers is a float.", "3, 2", "1.5"),
    ("truediv", operators.truediv, "The quotient; that of integers is a float.", "3, 2", "1.5"),
    ("floordiv", operators.floordiv, "The quotient, rounded down.", "-3, 2", "-2"),
    ("floormod", operators.floormod, "What floordiv leaves.", "-3, 2", "1"),
    ("mod", operators.floormod, "What floordiv leaves.", "-3, 2", "1"),
    ("pow", operators.power, "x to the power of y.", "2.0, 3.0", "8.0"),
    ("equal", operators.equal, "Whether operands are equal.", "1, 1", "True"),
    ("not_equal", operators.not_equal, "Whether operands differ.", "1, 1", "False"),
    ("less", operators.less, "Whether x < y.", "1, 2", "True"),
    ("less_equal", operators.less_equal, "Whether x <= y.", "1, 2", "True"),
    ("greater", operators.greater, "Whether x > y.", "1, 2", "False"),
    ("greater_equal", operators.greater_equal, "Whether x >= y.", "1, 2", "False"),
]


def _module(name: str) -> str:
    return "tf.nn" if name in ("relu", "elu", "selu") else "tf.math"


FUNCTIONS: dict[str, Any] = {}
for _name, _function, _doc, _example, _result, _accepts in _UNARY:
    _call = f"round({_module(_name)}.{_name}({_example}).numpy().item(), 10)"
    if _accepts in ("b", "iufc") or _result in ("True", "False"):
        _call = f"{_module(_name)}.{_name}({_example}).numpy().item()"
    FUNCTIONS[_name] = unary(_name, _function, _doc, _call, _result, _accepts)
for _name, _function, _doc, _example, _result, _accepts in _BINARY:
    FUNCTIONS[_name] = binary(_name, _function, _doc, _item(_name, _example), _result, _accepts)
for _name, _function, _doc, _example, _result in _OPERATORS:
    FUNCTIONS[_name] = _named(_function, _name, _doc, _item(_name, _example), _result)


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
