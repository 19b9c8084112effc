"""Reads: which elements of its operands each element of a result depends on.

The `sparsity` rule of an op returns this. It does not depend on floating-point values, so it holds
at all points. A rule is called as `sparsity(y, operands, **params)`, with the node
and one `RuleInput` for each input, and returns

- a tuple with `Reads`, `Running`, `Listed` or None (no dependence) for each operand,
- or `Joined`, for ops that only move the elements of all their operands,
- or a list with one of these for each output, if the op has several.

Elements are numbered in row-major order. A rule may claim too many dependences, never too few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradtape.dtypes import Array
from gradtape.ir import Node, Shape, Spec
from gradtape.records import dataclass

if TYPE_CHECKING:
    from scipy.sparse import csr_array

AxisPairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class RuleInput:
    """An input of a sparsity rule; `value` is the array of an integer input if known, else None."""

    spec: Spec
    # If false, the dependence on this operand is not needed, and a rule may return None for it.
    active: bool
    look_up: Callable[[], Any] = lambda: None

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def ndim(self) -> int:
        return self.spec.ndim

    @property
    def size(self) -> int:
        return self.spec.size

    @property
    def inexact(self) -> bool:
        return self.spec.inexact

    @property
    def value(self) -> Any:
        return self.look_up()


@dataclass(frozen=True, eq=False)
class Reads:
    """Elements of an operand fall into groups; each element of the result reads all of one group.

    `groups[i]` is the group of the operand's element i, one of `count`; `groups` is None if each
    element is its own group. `positions[k]` is the group that element k of the result reads;
    `positions` is None if element k reads group k. -1 stands for no group.
    """

    positions: Array | None = None
    groups: Array | None = None
    count: int = 0
    # Why a rule that gave up says that everything is read.
    note: str = ""


@dataclass(frozen=True, eq=False)
class Running:
    """Each element of a scan reads along `axis` up to its own place; from there on if `reverse`."""

    axis: int
    reverse: bool


@dataclass(frozen=True, eq=False)
class Listed:
    """A SciPy CSR matrix with an entry where the result's element (row) reads one (column)."""

    matrix: csr_array


@dataclass(frozen=True, eq=False)
class Joined:
    """Element k of the result is element `positions[k]` of the joined operands, or a fill if -1."""

    positions: Array


# The result of a rule for one operand, for one output, and for all outputs of an op.
PartRead: TypeAlias = Reads | Running | Listed | None
ResultReads: TypeAlias = tuple[PartRead, ...] | Joined
OpReads: TypeAlias = ResultReads | Sequence[ResultReads]

# Each element of the result reads the element with its own number.
SAME = Reads()


def numbered(shape: Shape) -> Array:
    """An array of a shape that holds the number of each element."""
    return np.arange(math.prod(shape)).reshape(shape)


def stretched(shape: Shape, result: Shape) -> Reads:
    """The elements that the result of broadcasting reads."""
    if shape == result:
        return SAME
    return Reads(np.broadcast_to(numbered(shape), result).reshape(-1))


def agreeing(shape: Shape, result: Shape, pairs: AxisPairs) -> Reads:
    """An element reads the elements with equal positions along pairs of axes (operand's, result's).

    Along other axes of the operand it reads everything. Length 1 matches any position.
    """
    lengths = [shape[own] for own, _ in pairs]
    axes = [other for _, other in pairs]
    # Element k of the result reads group k if the result has all groups in their order.
    in_order = axes == sorted(axes) and [n for n in lengths if n != 1] == [
        n for n in result if n != 1
    ]
    return Reads(
        positions=None if in_order else _mixed(axes, lengths, result),
        groups=_mixed([own for own, _ in pairs], lengths, shape),
        count=math.prod(lengths),
    )


def _mixed(axes: list[int], lengths: list[int], shape: Shape) -> Array:
    """The position of each element of `shape` along some axes, as one number."""
    total = np.zeros((1,) * len(shape), np.int64)
    for axis, length in zip(axes, lengths, strict=True):
        place = np.arange(shape[axis]) if length != 1 else np.zeros(shape[axis], np.int64)
        total = total * length + place.reshape(
            tuple(-1 if at == axis else 1 for at in range(len(shape)))
        )
    return np.broadcast_to(total, shape).reshape(-1)


def everything(shape: Shape, result: Shape) -> Reads:
    """Each element reads all of the operand."""
    return agreeing(shape, result, ())


def each(rule: Callable[..., PartRead]) -> Callable[..., Any]:
    """A sparsity rule from `rule(operand, result, **params)`, which is a rule for one operand.

    `result` is the spec of an output.
    """

    def sparsity(y: Node, operands: tuple[RuleInput, ...], **params: Any) -> OpReads:
        def of_output(result: Spec) -> tuple[PartRead, ...]:
            return tuple(
                rule(one, result, **params) if one.active and result.inexact else None
                for one in operands
            )

        if type(y.spec) is tuple:
            return [of_output(result) for result in y.spec]
        return of_output(y.spec)

    return sparsity


def nothing(y: Node, operands: tuple[RuleInput, ...], **params: Any) -> OpReads:
    """The rule of ops whose derivative is zero: the result depends on no operand."""
    nowhere = (None,) * len(operands)
    return [nowhere] * len(y.spec) if type(y.spec) is tuple else nowhere


elements = each(lambda operand, result, **_: stretched(operand.shape, result.shape))
dense = each(lambda operand, result, **_: everything(operand.shape, result.shape))


def _along(operand: RuleInput, result: Spec, **params: Any) -> Reads:
    axes = params["axes"] if "axes" in params else params["axis"]
    mixed = axes if isinstance(axes, tuple) else (axes,)
    kept = [at for at in range(operand.ndim) if at not in mixed]
    own = kept if result.ndim == operand.ndim else range(len(kept))
    return agreeing(operand.shape, result.shape, list(zip(kept, own, strict=True)))


# Each element of the result depends on all elements along the axes that the param `axis`, or
# `axes`, names; the result keeps these axes or drops them.
lanes = each(_along)
running = each(lambda operand, result, axis, reverse: Running(axis, reverse))


def _items(operand: RuleInput, result: Spec, **_: Any) -> Reads:
    return agreeing(operand.shape, result.shape, [(at, at) for at in range(operand.ndim - 2)])


# Each matrix of a result depends on the whole matrix at the same place in a stack.
matrices = each(_items)


def moved(y: Node, operands: tuple[RuleInput, ...], **params: Any) -> Any:
    """The rule of ops that move elements: the op's NumPy kernel is run on element numbers.

    Numbers start at 1, because kernels fill with 0, which then means no element. Integer operands
    are positions; if their values are not known, everything may depend on everything.
    """
    arrays: list[Any] = []
    offset = 1
    for operand in operands:
        if operand.inexact:
            arrays.append(numbered(operand.shape) + offset)
        else:
            value = operand.value
            if value is None:
                return dense(y, operands, **params)
            arrays.append(value)
        offset += operand.size
    found = y.op.numpy(*arrays, **params)
    if isinstance(found, tuple):
        return [Joined(np.reshape(one, -1) - 1) for one in found]
    return Joined(np.reshape(found, -1) - 1)
