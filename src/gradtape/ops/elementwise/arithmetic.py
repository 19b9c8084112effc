"""Element-wise functions of two operands, comparison, logic, bits, and `where`."""

from __future__ import annotations

from typing import Any, Never, overload

import numpy as np

from gradtape.dtypes import Array, promote
from gradtape.ir import Linear, Node, Op, Spec, spec
from gradtape.ops.elementwise.compositions import FLOOR_DIVIDE, LOGADDEXP, NEXTAFTER, REMAINDER
from gradtape.ops.elementwise.unary import (
    isfinite,
    isinf,
    log,
    one_like,
    ones_where,
    sigmoid,
    signbit,
    square,
)
from gradtape.ops.families import Sample, cast, identities, lowering
from gradtape.ops.families.define import define, linear_jvp
from gradtape.ops.families.elementwise import Binary, Example, elementwise, zero, zeros_like
from gradtape.ops.families.math_functions import COPYSIGN
from gradtape.ops.families.native_code import NativeCall
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to, reduce_to
from gradtape.ops.families.signatures import (
    Operand,
    OperandLike,
    Tensor,
    TensorLike,
    kind_of_operand,
    kind_of_operands,
)
from gradtape.ops.families.sparsity import elements, nothing
from gradtape.ops.families.vector_code import LlvmRule
from gradtape.suggestions import no_output, unexpected_arguments
from gradtape.trace import Handle, record

add = elementwise(
    "add",
    "Sum of two operands.",
    ("1.0, 2.0", 3.0),
    [lambda y, a, b: 1, lambda y, a, b: 1],
    arity=2,
    accepts="any",
    linear=Linear((0, 1), together=True),
    llvm=lowering.arithmetic("fadd", "add", "or"),
)
subtract = elementwise(
    "subtract",
    "Difference of two operands.",
    ("1.0, 2.0", -1.0),
    [lambda y, a, b: 1, lambda y, a, b: -1],
    arity=2,
    accepts="numeric",
    llvm=lowering.arithmetic("fsub", "sub"),
    linear=Linear((0, 1), together=True),
    simpler=identities.subtract,
)
# A sum that no tier contracts with a product before it, so that all tiers give the same numbers.
shift = elementwise(
    "shift",
    "Sum of two operands, rounded on its own.",
    (),
    [lambda y, a, b: 1, lambda y, a, b: 1],
    numpy=np.add,
    arity=2,
    llvm=lambda b, x, y: b.arithmetic("fadd", "add", x, y, contract=False),
)
multiply = elementwise(
    "multiply",
    "Product of two operands.",
    ("3.0, 2.0", 6.0),
    [lambda y, a, b: b, lambda y, a, b: a],
    arity=2,
    accepts="any",
    llvm=lowering.arithmetic("fmul", "mul", "and"),
    linear=Linear((0, 1)),
    simpler=identities.multiply,
)
divide = elementwise(
    "divide",
    "Quotient of two operands.",
    ("3.0, 2.0", 1.5),
    # Both partial derivatives use the node 1.0 / b, so they cost one division.
    [lambda y, a, b: 1.0 / b, lambda y, a, b: -(y * (1.0 / b))],
    arity=2,
    domains=[(-2.0, 2.0), (0.5, 2.0)],
    llvm=lowering.arithmetic("fdiv", "sdiv"),
    linear=Linear((0,)),
    simpler=identities.divide,
)
floor_divide = elementwise(
    "floor_divide",
    "Quotient rounded down; derivative 0.",
    ("7.0, 2.0", 3.0),
    [zero, zero],
    numpy=lambda x, y: _floor_divide(x, y),
    arity=2,
    accepts="real number",
    domains=[(3.2, 3.4), (2.9, 3.1)],
    function=FLOOR_DIVIDE,
    llvm=lowering.for_integers(lowering.integer_floor_divide, lowering.call(FLOOR_DIVIDE)),
)
remainder = elementwise(
    "remainder",
    "Remainder with the sign of the divisor.",
    ("-1.0, 3.0", 2.0),
    [lambda y, a, b: 1, lambda y, a, b: -floor_divide(a, b)],
    arity=2,
    accepts="real number",
    domains=[(4.0, 5.0), (2.9, 3.1)],
    function=REMAINDER,
    llvm=lowering.for_integers(lowering.integer_remainder, lowering.call(REMAINDER)),
)


def _floor_divide(x: Array, y: Array) -> Array:
    found = np.floor_divide(x, y)
    if found.dtype.kind == "f":
        # NumPy gives NaN for inf // 2 and -1 for 1 // -inf; the array API standard says x / y.
        infinite = np.isinf(x) | np.isinf(y)
        if infinite.any():
            found = np.where(infinite, x / y, found)
    return found


def _power_base(y: Node, x: Node, p: Node) -> Node:
    # p * x**(p-1) is 0 * inf at x = 0, p = 0, where the derivative of x**0 is 0, and inf * 0 where
    # an infinite power is 0.
    slope = power(x, p - 1)
    return where(equal(p, 0) | (isinf(p) & equal(slope, 0)), 0.0, p * slope)


def _power_exponent(y: Node, x: Node, p: Node) -> Node:
    flat = equal(x, 0) | (isinf(x) & equal(y, 0))
    return where(flat, 0.0, y * log(where(flat, 1.0, x)))


def _integer_power_base(y: Node, x: Node, exponent: int) -> Node | int:
    return 0 if exponent == 0 else exponent * pow(x, exponent - 1)


def _power_composition(x: Node, exponent: Node) -> Node | None:
    """A routine computes powers of integers, of operands that have the shape of the result."""
    shape = broadcast_shapes("pow", [x.shape, exponent.shape])
    if x.dtype.kind not in "iu" or x.shape == exponent.shape:
        return None
    return power(broadcast_to(x, shape), broadcast_to(exponent, shape))


def _power_natively(y: Node) -> NativeCall | None:
    x, exponent = y.inputs
    if x.dtype.kind not in "iu" or x.shape != exponent.shape:
        return None
    return NativeCall("integer_powers", (x.dtype.str[1:],), (), y.size, 8 * y.size)


power = elementwise(
    "pow",
    "First operand to the power of the second.",
    ("2.0, 3.0", 8.0),
    [_power_base, _power_exponent],
    arity=2,
    accepts="numeric",
    domains=[(0.3, 2.0), (0.2, 2.0)],
    composition=_power_composition,
    native=_power_natively,
)
integer_power = elementwise(
    "integer_power",
    "Integer power that is part of the program, not a leaf.",
    (),
    [_integer_power_base],
    numpy=lambda x, exponent: np.power(x, exponent),
    accepts="numeric",
    params=("exponent",),
    sample_params=({"exponent": 3}, {"exponent": 0}, {"exponent": 1}),
    llvm=lowering.integer_power,
    simpler=identities.integer_power,
    sparsity=lambda y, operands, exponent: (elements if exponent else nothing)(y, operands),
)


def power_function(power: Binary) -> Binary:
    """The recorder of `power` by any exponent; small integer powers are products."""

    def function(x: Any, exponent: Any, /) -> Any:
        dtype = getattr(x, "dtype", None) if type(exponent) is int else None
        if dtype is not None and type(x) is not np.ndarray:
            if exponent == 2 and dtype.kind != "b":
                return square(x)
            if -8 <= exponent <= 8 and dtype.kind in "fc":
                return integer_power(exponent, x)
            if exponent < 0 and dtype.kind in "biu":
                raise ValueError(
                    f"pow: integers to the negative power {exponent} are not integers. "
                    "Cast the base to a float first."
                )
        return power(x, exponent)

    return function


_pow = power_function(power)


@kind_of_operands
def pow(x: TensorLike, exponent: TensorLike, /) -> Tensor:
    """First operand to the power of the second; small integer powers are products.

    >>> float(gt.pow(2.0, 3))
    8.0
    """
    return _pow(x, exponent)


atan2: Binary = elementwise(
    "atan2",
    "Angle of the point (second, first).",
    ("0.0, 1.0", 0.0),
    [lambda y, a, b: _over_square(b, hypot(a, b)), lambda y, a, b: _over_square(-a, hypot(a, b))],
    arity=2,
    accepts="float",
    domains=[(0.4, 2.0)],
)
hypot: Binary = elementwise(
    "hypot",
    "sqrt(x² + y²) without overflow; derivative 0 at the origin.",
    ("3.0, 4.0", 5.0),
    [lambda y, a, b: _ratio(a, b, y), lambda y, a, b: _ratio(b, a, y)],
    arity=2,
    accepts="float",
    domains=[(0.4, 2.0)],
)
logaddexp = elementwise(
    "logaddexp",
    "log(exp(x) + exp(y)) without overflow.",
    ("0.0, 0.0", 0.693147),
    [lambda y, a, b: _share(a, b), lambda y, a, b: _share(b, a)],
    arity=2,
    accepts="float",
    function=LOGADDEXP,
)
copysign: Binary = elementwise(
    "copysign",
    "First operand with the sign of the second.",
    ("1.0, -0.0", -1.0),
    [lambda y, a, b: where(equal(signbit(a), signbit(b)), one_like(a), -one_like(a)), zero],
    arity=2,
    accepts="float",
    domains=[(0.4, 2.0), (-2.0, -0.4)],
    llvm=lowering.call(COPYSIGN),
)
nextafter = elementwise(
    "nextafter",
    "Next number from the first operand towards the second.",
    ("1e11, 2e11", 100000000000.00002),
    [lambda y, a, b: 1, zero],
    arity=2,
    accepts="float",
    function=NEXTAFTER,
)
maximum = elementwise(
    "maximum",
    "Larger of two operands; a tie's derivative goes to the first.",
    ("1.0, 2.0", 2.0),
    [lambda y, a, b: ones_where(a >= b, y), lambda y, a, b: ones_where(~(a >= b), y)],
    arity=2,
    accepts="real",
    domains=[(0.2, 1.0), (1.1, 2.0)],
    llvm=lowering.larger,
)
minimum = elementwise(
    "minimum",
    "Smaller of two operands; a tie's derivative goes to the first.",
    ("1.0, 2.0", 1.0),
    [lambda y, a, b: ones_where(a <= b, y), lambda y, a, b: ones_where(~(a <= b), y)],
    arity=2,
    accepts="real",
    domains=[(0.2, 1.0), (1.1, 2.0)],
    llvm=lowering.smaller,
)


def _ratio(numerator: Node, other: Node, norm: Node) -> Node:
    """numerator / norm, 0 where the norm is 0, and its limit where only the numerator is inf."""
    alone = isinf(numerator) & isfinite(other)
    found = where(equal(norm, 0), 0.0, numerator / norm)
    return where(alone, copysign(one_like(found), numerator), found)


def _over_square(numerator: Node, norm: Node) -> Node:
    """numerator / norm², whose square may be out of range; 0 at infinity."""
    return where(isinf(numerator), 0.0, numerator / norm / norm)


def _share(a: Node, b: Node) -> Node:
    """exp(a) / (exp(a) + exp(b)); one half for equal infinities, as for all equal operands."""
    return sigmoid(where(isinf(a) & equal(a, b), 0.0, a - b))


def _comparison(
    name: str, doc: str, example: Example, predicate: str, accepts: str = "real"
) -> Binary:
    """`predicate` is LLVM's for floats, whose first letter says what is true of NaN."""
    rule = lowering.comparison(predicate, predicate[1:])
    return elementwise(name, doc, example, arity=2, accepts=accepts, result="bool", llvm=rule)


equal: Binary = _comparison("equal", "Whether operands are equal.", ("1, 1", True), "oeq", "any")
not_equal = _comparison("not_equal", "Whether operands differ.", ("1, 1", False), "une", "any")
less = _comparison("less", "Whether x < y.", ("1, 2", True), "olt")
less_equal = _comparison("less_equal", "Whether x <= y.", ("1, 2", True), "ole")
greater = _comparison("greater", "Whether x > y.", ("1, 2", False), "ogt")
greater_equal = _comparison("greater_equal", "Whether x >= y.", ("1, 2", False), "oge")


def _logic(name: str, doc: str, example: Example, word: str) -> Binary:
    rule = lowering.bits(word)
    return elementwise(name, doc, example, arity=2, accepts="bool", result="bool", llvm=rule)


logical_and = _logic("logical_and", "Logical and.", ("True, False", False), "and")
logical_or = _logic("logical_or", "Logical or.", ("True, False", True), "or")
logical_xor = _logic("logical_xor", "Logical exclusive or.", ("True, True", False), "xor")


def _bits(
    name: str, doc: str, example: Example, llvm: LlvmRule, accepts: str = "integer"
) -> Binary:
    return elementwise(name, doc, example, arity=2, accepts=accepts, domains=[(0, 5)], llvm=llvm)


bitwise_and = _bits("bitwise_and", "Bits set in both.", ("6, 3", 2), lowering.bits("and"))
bitwise_or = _bits("bitwise_or", "Bits set in either.", ("6, 3", 7), lowering.bits("or"))
bitwise_xor = _bits("bitwise_xor", "Bits set in one only.", ("6, 3", 5), lowering.bits("xor"))
bitwise_left_shift = _bits(
    "bitwise_left_shift", "Bits shifted left.", ("1, 3", 8), lowering.left_shift, "whole number"
)
bitwise_right_shift = _bits(
    "bitwise_right_shift", "Bits shifted right.", ("8, 3", 1), lowering.right_shift, "whole number"
)


def _where_spec(condition: Spec, x: Spec, y: Spec) -> Spec:
    return spec(broadcast_shapes("where", [condition.shape, x.shape, y.shape]), x.dtype)


def _where_promote(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    condition, x, y = inputs
    dtype = promote(x.dtype, y.dtype)
    return cast(condition, np.dtype(bool)), cast(x, dtype), cast(y, dtype)


def _where_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...]) -> Node | None:
    if index == 0:
        return None
    nothing = zeros_like(g)
    return where(inputs[0], g, nothing) if index == 1 else where(inputs[0], nothing, g)


def branch_mask(index: int, node: Node) -> Node:
    """The elements of branch `index` that a `where` node takes, as a mask of the branch's shape."""
    condition = node.inputs[0] if index == 1 else ~node.inputs[0]
    return reduce_to(broadcast_to(condition, node.shape), node.inputs[index].shape, "any")


WHERE = define(
    "where",
    "elementwise",
    spec=_where_spec,
    numpy=np.where,
    promote=_where_promote,
    weak=(1, 2),
    jvp=linear_jvp,
    vjp=_where_vjp,
    linear=Linear((1, 2), together=True),
    llvm=lambda b, condition, x, y: b.select(condition, x, y),
    simpler=identities.where,
    samples=lambda: [
        Sample((np.array([True, False]), np.array([1.0, 2.0]), np.array([4.0, 5.0]))),
        Sample((np.array([[True], [False]]), np.array(1.0), np.array([4.0, 5.0, 6.0]))),
        Sample((np.array(True), np.array([1 + 2j, 2.0]), np.array([[3j, 5.0]]))),
        Sample((np.zeros((0, 2), bool), np.zeros(2), np.array(1.0))),
        Sample((np.array([True, False]), np.array([1, 2]), np.array([3, 4]))),
    ],
)


@overload
def where(condition: Operand, x: OperandLike, y: OperandLike, /) -> Operand: ...  # type: ignore[overload-overlap]
@overload
def where(condition: TensorLike, x: TensorLike, y: TensorLike, /) -> Tensor: ...
def where(condition: object, x: object = None, y: object = None, /, out: None = None) -> object:
    """x where the condition holds, y elsewhere; the branch not taken never sends back a NaN.

    >>> gt.where(gt.asarray([True, False]), [1.0, 2.0], [3.0, 4.0]).tolist()
    [1.0, 4.0]
    """
    if y is None:
        raise TypeError("where: x and y are missing. gt.nonzero(condition) gives the indices.")
    if out is not None:
        raise no_output("where", out)
    return record(WHERE, (condition, x, y))


@kind_of_operand
def clip(
    x: TensorLike,
    /,
    min: TensorLike | None = None,
    max: TensorLike | None = None,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """x limited to [min, max]; the derivative passes on the bounds.

    >>> gt.clip(gt.asarray([-1.0, 0.5, 2.0]), 0.0, 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = record_operand(x)
    if min is not None:
        x = maximum(x, min)
    if max is not None:
        x = minimum(x, max)
    return x


@kind_of_operand
def record_operand(x: Any) -> Any:
    """A node or tensor unchanged; anything else converted to a tensor."""
    if type(x) is Node or isinstance(x, Handle):
        return x
    return record(IDENTITY, (x,))


def _same(name: str, order: int, **rules: Any) -> Op:
    return define(
        name,
        "elementwise",
        spec=lambda x: x,
        numpy=lambda x: x,
        llvm=lambda b, x: x,
        linear=Linear((0,)),
        transparent=True,
        mask=lambda index, mask, y, inputs: mask,
        samples=lambda: [Sample((np.array(x),), order=order) for x in ([1.0, -2.0], 3, 1j)],
        **rules,
    )


IDENTITY = _same("identity", 2, push=lambda t, y, x: t, pull=lambda g, y, x: g)
STOP_GRADIENT = _same(
    "stop_gradient",
    0,
    push=lambda t, y, x: None,
    pull=lambda g, y, x: None,
    sparsity=nothing,
)


@kind_of_operand
def identity(x: TensorLike, /) -> Tensor:
    """The same value as a new tensor.

    >>> float(gt.identity(2.0))
    2.0
    """
    return record(IDENTITY, (x,))


@kind_of_operand
def stop_gradient(x: TensorLike, /) -> Tensor:
    """The same value, through which no derivative passes.

    >>> float(gt.grad(lambda x: x * gt.stop_gradient(x))(3.0))
    3.0
    """
    return record(STOP_GRADIENT, (x,))
