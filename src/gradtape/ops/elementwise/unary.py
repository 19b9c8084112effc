"""Element-wise functions of one operand, each with its derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.ir import REGISTRY, Linear, MathFunction, Node, apply, constant
from gradtape.ops.elementwise import complex_formulas
from gradtape.ops.elementwise.compositions import SIGMOID, SIGMOID_SLOPE, SOFTPLUS, TANH_SLOPE
from gradtape.ops.families import cast, identities, lowering, math_functions as mathlib
from gradtape.ops.families.elementwise import Example, Unary, elementwise, zero
from gradtape.ops.families.vector_code import LlvmRule

_LN2 = math.log(2.0)
_LN10 = math.log(10.0)


def ones_where(condition: Node, like: Node) -> Node:
    """1 where the condition holds, 0 elsewhere, in the dtype of `like`."""
    return cast(condition, like.dtype)


sin = elementwise("sin", "Sine, in radians.", ("0.0", 0.0), [lambda y, x: cos(x)])
cos: Unary = elementwise("cos", "Cosine, in radians.", ("0.0", 1.0), [lambda y, x: -sin(x)])
tan = elementwise(
    "tan", "Tangent, in radians.", ("0.0", 0.0), [lambda y, x: 1.0 + y * y], domains=[(-1.0, 1.0)]
)
asin = elementwise(
    "asin", "Inverse sine.", ("0.0", 0.0), [lambda y, x: rsqrt(1.0 - x * x)], domains=[(-0.8, 0.8)]
)
acos = elementwise(
    "acos",
    "Inverse cosine.",
    ("1.0", 0.0),
    [lambda y, x: -rsqrt(1.0 - x * x)],
    domains=[(-0.8, 0.8)],
)
atan = elementwise("atan", "Inverse tangent.", ("0.0", 0.0), [lambda y, x: reciprocal(1.0 + x * x)])
sinh = elementwise("sinh", "Hyperbolic sine.", ("0.0", 0.0), [lambda y, x: cosh(x)])
cosh: Unary = elementwise("cosh", "Hyperbolic cosine.", ("0.0", 1.0), [lambda y, x: sinh(x)])
tanh = elementwise(
    "tanh",
    "Hyperbolic tangent.",
    ("0.0", 0.0),
    [lambda y, x: 1.0 - y * y if x.dtype.kind == "c" else tanh_slope(x)],
    numpy=lambda x: _tanh(x),
)
# 1 - y y has no digits left where |y| is close to 1. One op, not one of sigmoid_slope: programs
# have a slope for each tanh, and every stage takes time for every node.
tanh_slope: Unary = elementwise(
    "tanh_slope",
    "Derivative of tanh, exact in its tails.",
    (),
    [lambda y, x: -2.0 * y * tanh(x)],
    numpy=lambda x: _tanh_slope(x),
    accepts="float",
    function=TANH_SLOPE,
)
asinh = elementwise(
    "asinh",
    "Inverse hyperbolic sine.",
    ("0.0", 0.0),
    [lambda y, x: _asinh_slope(x)],
    domains=[(-0.9, 0.9)],
)
acosh = elementwise(
    "acosh",
    "Inverse hyperbolic cosine.",
    ("1.0", 0.0),
    # Two roots, not the root of the product, which has other branch cuts.
    [lambda y, x: rsqrt(x - 1.0) * rsqrt(x + 1.0)],
    domains=[(1.2, 3.0)],
)
atanh = elementwise(
    "atanh",
    "Inverse hyperbolic tangent.",
    ("0.0", 0.0),
    [lambda y, x: reciprocal(1.0 - x * x)],
    domains=[(-0.8, 0.8)],
)

exp = elementwise("exp", "Exponential.", ("0.0", 1.0), [lambda y, x: y])
exp2 = elementwise(
    "exp2",
    "Two to the power of each element.",
    ("3.0", 8.0),
    [lambda y, x: y * _LN2],
    of_complex=complex_formulas.exp2,
)
expm1 = elementwise(
    "expm1",
    "exp(x) - 1, exact near zero.",
    ("0.0", 0.0),
    [lambda y, x: exp(x)],
    numpy=lambda x: _expm1(x),
    of_complex=complex_formulas.expm1,
)
log = elementwise(
    "log", "Natural logarithm.", ("1.0", 0.0), [lambda y, x: reciprocal(x)], domains=[(0.2, 3.0)]
)
log1p = elementwise(
    "log1p",
    "log(1 + x), exact near zero.",
    ("0.0", 0.0),
    [lambda y, x: reciprocal(1.0 + x)],
    domains=[(-0.6, 3.0)],
    of_complex=complex_formulas.log1p,
)
log2 = elementwise(
    "log2",
    "Logarithm to base 2.",
    ("8.0", 3.0),
    [lambda y, x: (1.0 / _LN2) / x],
    domains=[(0.2, 3.0)],
    of_complex=complex_formulas.logarithm(2.0),
)
log10 = elementwise(
    "log10",
    "Logarithm to base 10.",
    ("100.0", 2.0),
    [lambda y, x: (1.0 / _LN10) / x],
    domains=[(0.2, 3.0)],
    of_complex=complex_formulas.logarithm(10.0),
)

sqrt = elementwise(
    "sqrt",
    "Square root; its derivative at 0 is infinite.",
    ("4.0", 2.0),
    [lambda y, x: 0.5 / y],
    domains=[(0.2, 3.0)],
)
rsqrt: Unary = elementwise(
    "rsqrt",
    "Reciprocal square root.",
    ("4.0", 0.5),
    [lambda y, x: -0.5 * y / x],
    numpy=lambda x: 1 / np.sqrt(x),
    domains=[(0.2, 3.0)],
    function=mathlib.SQRT,
    llvm=lowering.reciprocal_root,
)
cbrt = elementwise(
    "cbrt",
    "Cube root.",
    ("8.0", 2.0),
    [lambda y, x: 1.0 / (3.0 * y * y)],
    accepts="float",
    domains=[(0.2, 3.0)],
)
square = elementwise(
    "square",
    "Square.",
    ("3.0", 9.0),
    [lambda y, x: 2.0 * x],
    accepts="numeric",
    llvm=lowering.square,
)
reciprocal: Unary = elementwise(
    "reciprocal",
    "One over each element.",
    ("4.0", 0.25),
    [lambda y, x: -y * y],
    numpy=lambda x: 1 / x,
    domains=[(0.3, 2.0)],
    llvm=lowering.reciprocal,
)
negative = elementwise(
    "negative",
    "Minus each element.",
    ("1.0", -1.0),
    [lambda y, x: -1],
    accepts="numeric",
    llvm=lambda b, x: b.negative(x),
    linear=Linear((0,)),
    simpler=identities.negative,
)
positive = elementwise(
    "positive",
    "Each element as it is.",
    ("1.0", 1.0),
    [lambda y, x: 1],
    numpy=lambda x: x,
    accepts="numeric",
    llvm=lambda b, x: x,
    linear=Linear((0,)),
    transparent=True,
)


def _step(
    name: str, doc: str, example: Example, function: MathFunction, accepts: str = "real"
) -> Unary:
    rule = lowering.rounding(function, complex_formulas.rounded)
    more: Any = {"accepts": accepts, "domains": [(0.1, 0.4)], "function": function, "llvm": rule}
    return elementwise(name, doc, example, [zero], **more)


floor = _step("floor", "Largest integer not above; derivative 0.", ("1.5", 1.0), mathlib.FLOOR)
ceil = _step("ceil", "Smallest integer not below; derivative 0.", ("1.5", 2.0), mathlib.CEIL)
trunc = _step("trunc", "Integer part; derivative 0.", ("-1.5", -1.0), mathlib.TRUNC)
round = _step(
    "round",
    "Nearest integer, ties to even; derivative 0.",
    ("2.5", 2.0),
    mathlib.RINT,
    "numeric",
)

sigmoid = elementwise(
    "sigmoid",
    "Logistic function 1 / (1 + exp(-x)).",
    ("0.0", 0.5),
    [lambda y, x: sigmoid_slope(x)],
    numpy=lambda x: _sigmoid(x),
    accepts="float",
    function=SIGMOID,
)
# y (1 - y) has no digits left where y is close to 1.
sigmoid_slope: Unary = elementwise(
    "sigmoid_slope",
    "Derivative of sigmoid, exact in its tails.",
    (),
    [lambda y, x: -y * tanh(0.5 * x)],
    numpy=lambda x: _sigmoid_slope(x),
    accepts="float",
    function=SIGMOID_SLOPE,
)
softplus = elementwise(
    "softplus",
    "log(1 + exp(x)), without overflow.",
    ("0.0", 0.693147),
    [lambda y, x: sigmoid(x)],
    numpy=lambda x: np.logaddexp(x, x.dtype.type(0)),
    accepts="float",
    function=SOFTPLUS,
)
relu = elementwise(
    "relu",
    "max(x, 0); derivative 0 at 0.",
    ("-1.0", 0.0),
    [lambda y, x: ones_where(x > 0.0, x)],
    numpy=lambda x: np.maximum(x, x.dtype.type(0)),
    accepts="real",
    domains=[(0.2, 2.0)],
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


def _predicate(name: str, doc: str, example: Example, llvm: LlvmRule) -> Unary:
    return elementwise(name, doc, example, accepts="any", result="bool", llvm=llvm)


isnan = _predicate("isnan", "Whether each element is NaN.", ("1.0", False), lowering.isnan)
isinf = _predicate("isinf", "Whether each element is infinite.", ("1.0", False), lowering.isinf)
isfinite = _predicate(
    "isfinite", "Whether each element is finite.", ("1.0", True), lowering.isfinite
)
signbit = elementwise(
    "signbit",
    "Whether the sign bit is set.",
    ("-0.0", True),
    numpy=lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
    accepts="real",
    result="bool",
    llvm=lowering.signbit,
)
logical_not = elementwise(
    "logical_not",
    "Logical negation.",
    ("True", False),
    accepts="bool",
    result="bool",
    llvm=lambda b, x: b.invert(x),
)
bitwise_invert = elementwise(
    "bitwise_invert", "Bits inverted.", ("5", -6), accepts="integer", llvm=lambda b, x: b.invert(x)
)


def one_like(node: Node) -> Node:
    return constant(1, node.spec)
