"""Element-wise functions of one operand, each with its derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.ir import REGISTRY, Linear, Node, apply, constant
from gradtape.ops.elementwise import complex_formulas
from gradtape.ops.elementwise.compositions import SIGMOID, SIGMOID_SLOPE, SOFTPLUS, TANH_SLOPE
from gradtape.ops.families import cast, identities, lowering, math_functions as mathlib
from gradtape.ops.families.elementwise import Unary, elementwise, zero

_REAL = ("float64", "float32")
_COMPLEX = ("float64", "float32", "complex128")
_LN2 = math.log(2.0)
_LN10 = math.log(10.0)


def ones_where(condition: Node, like: Node) -> Node:
    """1 where the condition holds, 0 elsewhere, in the dtype of `like`."""
    return cast(condition, like.dtype)


sin = elementwise(
    "sin",
    np.sin,
    "Sine, in radians.",
    ("float(gt.sin(0.0))", "0.0"),
    partials=[lambda y, x: cos(x)],
    dtypes=_COMPLEX,
    function=mathlib.SIN,
)
cos: Unary = elementwise(
    "cos",
    np.cos,
    "Cosine, in radians.",
    ("float(gt.cos(0.0))", "1.0"),
    partials=[lambda y, x: -sin(x)],
    dtypes=_COMPLEX,
    function=mathlib.COS,
)
tan = elementwise(
    "tan",
    np.tan,
    "Tangent, in radians.",
    ("float(gt.tan(0.0))", "0.0"),
    partials=[lambda y, x: 1.0 + y * y],
    domains=[(-1.0, 1.0)],
    dtypes=_COMPLEX,
    function=mathlib.TAN,
)
asin = elementwise(
    "asin",
    np.arcsin,
    "Inverse sine.",
    ("float(gt.asin(0.0))", "0.0"),
    partials=[lambda y, x: rsqrt(1.0 - x * x)],
    domains=[(-0.8, 0.8)],
    dtypes=_COMPLEX,
    function=mathlib.ASIN,
)
acos = elementwise(
    "acos",
    np.arccos,
    "Inverse cosine.",
    ("float(gt.acos(1.0))", "0.0"),
    partials=[lambda y, x: -rsqrt(1.0 - x * x)],
    domains=[(-0.8, 0.8)],
    dtypes=_COMPLEX,
    function=mathlib.ACOS,
)
atan = elementwise(
    "atan",
    np.arctan,
    "Inverse tangent.",
    ("float(gt.atan(0.0))", "0.0"),
    partials=[lambda y, x: reciprocal(1.0 + x * x)],
    dtypes=_COMPLEX,
    function=mathlib.ATAN,
)
sinh = elementwise(
    "sinh",
    np.sinh,
    "Hyperbolic sine.",
    ("float(gt.sinh(0.0))", "0.0"),
    partials=[lambda y, x: cosh(x)],
    dtypes=_COMPLEX,
    function=mathlib.SINH,
)
cosh: Unary = elementwise(
    "cosh",
    np.cosh,
    "Hyperbolic cosine.",
    ("float(gt.cosh(0.0))", "1.0"),
    partials=[lambda y, x: sinh(x)],
    dtypes=_COMPLEX,
    function=mathlib.COSH,
)
tanh = elementwise(
    "tanh",
    lambda x: _tanh(x),
    "Hyperbolic tangent.",
    ("float(gt.tanh(0.0))", "0.0"),
    partials=[lambda y, x: 1.0 - y * y if x.dtype.kind == "c" else tanh_slope(x)],
    dtypes=_COMPLEX,
    function=mathlib.TANH,
)
# 1 - y y has no digits left where |y| is close to 1. One op, not one of sigmoid_slope: programs
# have a slope for each tanh, and every stage takes time for every node.
tanh_slope: Unary = elementwise(
    "tanh_slope",
    lambda x: _tanh_slope(x),
    "Derivative of tanh, exact in its tails.",
    ("float(tanh_slope(gt.asarray(0.0)))", "1.0"),
    partials=[lambda y, x: -2.0 * y * tanh(x)],
    accepts="float",
    dtypes=_REAL,
    function=TANH_SLOPE,
)
asinh = elementwise(
    "asinh",
    np.arcsinh,
    "Inverse hyperbolic sine.",
    ("float(gt.asinh(0.0))", "0.0"),
    partials=[lambda y, x: _asinh_slope(x)],
    domains=[(-0.9, 0.9)],
    dtypes=_COMPLEX,
    function=mathlib.ASINH,
)
acosh = elementwise(
    "acosh",
    np.arccosh,
    "Inverse hyperbolic cosine.",
    ("float(gt.acosh(1.0))", "0.0"),
    # Two roots, not the root of the product, which has other branch cuts.
    partials=[lambda y, x: rsqrt(x - 1.0) * rsqrt(x + 1.0)],
    domains=[(1.2, 3.0)],
    dtypes=_COMPLEX,
    function=mathlib.ACOSH,
)
atanh = elementwise(
    "atanh",
    np.arctanh,
    "Inverse hyperbolic tangent.",
    ("float(gt.atanh(0.0))", "0.0"),
    partials=[lambda y, x: reciprocal(1.0 - x * x)],
    domains=[(-0.8, 0.8)],
    dtypes=_COMPLEX,
    function=mathlib.ATANH,
)

exp = elementwise(
    "exp",
    np.exp,
    "Exponential.",
    ("float(gt.exp(0.0))", "1.0"),
    partials=[lambda y, x: y],
    dtypes=_COMPLEX,
    function=mathlib.EXP,
)
exp2 = elementwise(
    "exp2",
    np.exp2,
    "Two to the power of each element.",
    ("float(gt.exp2(3.0))", "8.0"),
    partials=[lambda y, x: y * _LN2],
    dtypes=_COMPLEX,
    function=mathlib.EXP2,
    of_complex=complex_formulas.exp2,
)
expm1 = elementwise(
    "expm1",
    lambda x: _expm1(x),
    "exp(x) - 1, exact near zero.",
    ("float(gt.expm1(0.0))", "0.0"),
    partials=[lambda y, x: exp(x)],
    dtypes=_COMPLEX,
    function=mathlib.EXPM1,
    of_complex=complex_formulas.expm1,
)
log = elementwise(
    "log",
    np.log,
    "Natural logarithm.",
    ("float(gt.log(1.0))", "0.0"),
    partials=[lambda y, x: reciprocal(x)],
    domains=[(0.2, 3.0)],
    dtypes=_COMPLEX,
    function=mathlib.LOG,
)
log1p = elementwise(
    "log1p",
    np.log1p,
    "log(1 + x), exact near zero.",
    ("float(gt.log1p(0.0))", "0.0"),
    partials=[lambda y, x: reciprocal(1.0 + x)],
    domains=[(-0.6, 3.0)],
    dtypes=_COMPLEX,
    function=mathlib.LOG1P,
    of_complex=complex_formulas.log1p,
)
log2 = elementwise(
    "log2",
    np.log2,
    "Logarithm to base 2.",
    ("float(gt.log2(8.0))", "3.0"),
    partials=[lambda y, x: (1.0 / _LN2) / x],
    domains=[(0.2, 3.0)],
    dtypes=_COMPLEX,
    function=mathlib.LOG2,
    of_complex=complex_formulas.logarithm(2.0),
)
log10 = elementwise(
    "log10",
    np.log10,
    "Logarithm to base 10.",
    ("float(gt.log10(100.0))", "2.0"),
    partials=[lambda y, x: (1.0 / _LN10) / x],
    domains=[(0.2, 3.0)],
    dtypes=_COMPLEX,
    function=mathlib.LOG10,
    of_complex=complex_formulas.logarithm(10.0),
)

sqrt = elementwise(
    "sqrt",
    np.sqrt,
    "Square root; its derivative at 0 is infinite.",
    ("float(gt.sqrt(4.0))", "2.0"),
    partials=[lambda y, x: 0.5 / y],
    domains=[(0.2, 3.0)],
    dtypes=_COMPLEX,
    function=mathlib.SQRT,
)
rsqrt: Unary = elementwise(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    "Reciprocal square root.",
    ("float(gt.rsqrt(4.0))", "0.5"),
    partials=[lambda y, x: -0.5 * y / x],
    domains=[(0.2, 3.0)],
    dtypes=_COMPLEX,
    function=mathlib.SQRT,
    llvm=lowering.reciprocal_root,
)
cbrt = elementwise(
    "cbrt",
    np.cbrt,
    "Cube root.",
    ("float(gt.cbrt(8.0))", "2.0"),
    partials=[lambda y, x: 1.0 / (3.0 * y * y)],
    domains=[(0.2, 3.0)],
    accepts="float",
    dtypes=_REAL,
    function=mathlib.CBRT,
)
square = elementwise(
    "square",
    np.square,
    "Square.",
    ("float(gt.square(3.0))", "9.0"),
    partials=[lambda y, x: 2.0 * x],
    promote="same",
    accepts="numeric",
    dtypes=(*_COMPLEX, "int32"),
    llvm=lowering.square,
)
reciprocal: Unary = elementwise(
    "reciprocal",
    lambda x: 1 / x,
    "One over each element.",
    ("float(gt.reciprocal(4.0))", "0.25"),
    partials=[lambda y, x: -y * y],
    domains=[(0.3, 2.0)],
    dtypes=_COMPLEX,
    llvm=lowering.reciprocal,
)
negative = elementwise(
    "negative",
    np.negative,
    "Minus each element.",
    ("float(gt.negative(1.0))", "-1.0"),
    partials=[lambda y, x: -1],
    promote="same",
    accepts="numeric",
    dtypes=(*_COMPLEX, "int32"),
    llvm=lowering.negative,
    linear=Linear((0,)),
    simpler=identities.negative,
)
positive = elementwise(
    "positive",
    lambda x: x,
    "Each element as it is.",
    ("float(gt.positive(1.0))", "1.0"),
    partials=[lambda y, x: 1],
    promote="same",
    accepts="numeric",
    dtypes=(*_COMPLEX, "int32"),
    llvm=lowering.same,
    linear=Linear((0,)),
    transparent=True,
)

_STEP: dict[str, Any] = {
    "partials": [zero],
    "promote": "same",
    "accepts": "real",
    "dtypes": (*_REAL, "int32"),
    "domains": [(0.1, 0.4)],
}
floor: Unary = elementwise(
    "floor",
    np.floor,
    "Largest integer not above; derivative 0.",
    ("float(gt.floor(1.5))", "1.0"),
    **_STEP,
    function=mathlib.FLOOR,
    llvm=lowering.rounding(mathlib.FLOOR),
)
ceil: Unary = elementwise(
    "ceil",
    np.ceil,
    "Smallest integer not below; derivative 0.",
    ("float(gt.ceil(1.5))", "2.0"),
    **_STEP,
    function=mathlib.CEIL,
    llvm=lowering.rounding(mathlib.CEIL),
)
trunc: Unary = elementwise(
    "trunc",
    np.trunc,
    "Integer part; derivative 0.",
    ("float(gt.trunc(-1.5))", "-1.0"),
    **_STEP,
    function=mathlib.TRUNC,
    llvm=lowering.rounding(mathlib.TRUNC),
)
round: Unary = elementwise(
    "round",
    np.round,
    "Nearest integer, ties to even; derivative 0.",
    ("float(gt.round(2.5))", "2.0"),
    **{**_STEP, "accepts": "numeric"},
    function=mathlib.RINT,
    llvm=lowering.rounding(mathlib.RINT, complex_formulas.rounded),
)

sigmoid = elementwise(
    "sigmoid",
    lambda x: _sigmoid(x),
    "Logistic function 1 / (1 + exp(-x)).",
    ("float(gt.sigmoid(0.0))", "0.5"),
    partials=[lambda y, x: sigmoid_slope(x)],
    accepts="float",
    dtypes=_REAL,
    function=SIGMOID,
)
# y (1 - y) has no digits left where y is close to 1.
sigmoid_slope: Unary = elementwise(
    "sigmoid_slope",
    lambda x: _sigmoid_slope(x),
    "Derivative of sigmoid, exact in its tails.",
    ("float(sigmoid_slope(gt.asarray(0.0)))", "0.25"),
    partials=[lambda y, x: -y * tanh(0.5 * x)],
    accepts="float",
    dtypes=_REAL,
    function=SIGMOID_SLOPE,
)
softplus = elementwise(
    "softplus",
    lambda x: np.logaddexp(x, x.dtype.type(0)),
    "log(1 + exp(x)), without overflow.",
    ("round(float(gt.softplus(0.0)), 6)", "0.693147"),
    partials=[lambda y, x: sigmoid(x)],
    accepts="float",
    dtypes=_REAL,
    function=SOFTPLUS,
)
relu = elementwise(
    "relu",
    lambda x: np.maximum(x, x.dtype.type(0)),
    "max(x, 0); derivative 0 at 0.",
    ("float(gt.relu(-1.0))", "0.0"),
    partials=[lambda y, x: ones_where(x > 0.0, x)],
    promote="same",
    accepts="real",
    domains=[(0.2, 2.0)],
    dtypes=(*_REAL, "int32"),
    llvm=lowering.relu,
)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # exp(-|x|) never overflows, and both branches use it.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _sigmoid_slope(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return small / np.square(1 + small)


def _tanh_slope(x: np.ndarray) -> np.ndarray:
    small = np.exp(-2 * np.abs(x))
    return 4 * (small / np.square(1 + small))


def _asinh_slope(x: Node) -> Node:
    # The square of a huge number overflows.
    if x.dtype.kind == "c":
        return rsqrt(x * x + 1.0)
    return reciprocal(apply(REGISTRY["hypot"], (x, one_like(x))))


def _tanh(x: np.ndarray) -> np.ndarray:
    found = np.tanh(x)
    if x.dtype.kind == "c" and np.isinf(x.real).any():
        # C gives the imaginary part the sign of sin(2 Im x), the array API standard that of Im x.
        found, limit = np.asarray(found), np.isinf(x.real) & np.isfinite(x.imag)
        found.real = np.where(limit, np.copysign(1, x.real), found.real)
        found.imag = np.where(limit, np.copysign(0, x.imag), found.imag)
    return found


def _expm1(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "c":
        return np.expm1(x)
    # Re exp(x) - 1 cancels near 0; the same sum in terms that are small there does not. Far from 0
    # nothing cancels, and exp(x) - 1 handles infinities and NaNs.
    a, b = x.real, x.imag
    found = np.asarray(np.exp(x))
    far = found.real - 1
    near = np.expm1(a) * np.cos(b) - 2 * np.square(np.sin(b / 2))
    # Adding 0 turns a real part of -0.0 into 0.0.
    found.real = np.where(np.isfinite(x) & (np.abs(a) < 40), near + 0, far)
    return found


def _predicate(
    name: str, kernel: Any, doc: str, example: tuple[str, str], llvm: Any, accepts: str = "any"
) -> Unary:
    dtypes = ("float64", "int32") + (("complex128",) if accepts == "any" else ())
    return elementwise(
        name,
        kernel,
        doc,
        example,
        promote="same",
        accepts=accepts,
        result="bool",
        dtypes=dtypes,
        llvm=llvm,
    )


isnan = _predicate(
    "isnan",
    np.isnan,
    "Whether each element is NaN.",
    ("bool(gt.isnan(1.0))", "False"),
    lowering.isnan,
)
isinf = _predicate(
    "isinf",
    np.isinf,
    "Whether each element is infinite.",
    ("bool(gt.isinf(1.0))", "False"),
    lowering.isinf,
)
isfinite = _predicate(
    "isfinite",
    np.isfinite,
    "Whether each element is finite.",
    ("bool(gt.isfinite(1.0))", "True"),
    lowering.isfinite,
)
signbit = _predicate(
    "signbit",
    lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
    "Whether the sign bit is set.",
    ("bool(gt.signbit(-0.0))", "True"),
    lowering.signbit,
    accepts="real",
)
logical_not = elementwise(
    "logical_not",
    np.logical_not,
    "Logical negation.",
    ("bool(gt.logical_not(True))", "False"),
    promote="bool",
    result="bool",
    dtypes=("bool",),
    llvm=lowering.invert,
)
bitwise_invert = elementwise(
    "bitwise_invert",
    np.invert,
    "Bits inverted.",
    ("int(gt.bitwise_invert(5))", "-6"),
    promote="same",
    accepts="integer",
    dtypes=("int32", "bool", "uint8"),
    llvm=lowering.invert,
)


def one_like(node: Node) -> Node:
    return constant(1, node.spec)
