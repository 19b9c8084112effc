"""Examples: rules `examples(y, places)`, which follow the examples of a batch through ops.

A value that depends on a batch has a place of the batch: `outer`, the number of elements in front
of the batch index in row-major order, which a reshape does not change, and the number of examples.
A rule gets the place in each input, or None if the input does not depend on the batch, and returns
the place in the result. It raises DependenceError if the op combines different examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

from gradtape.ir import Join, Node, Rule, Shape
from gradtape.ops.families.shapes import Ints
from gradtape.records import dataclass

MIXES = "{op} mixes examples"
UNPROVED = "cannot prove that {op} keeps examples apart"


class DependenceError(Exception):
    """Examples could not be shown to be independent: `why` says the reason, `op` names the op."""

    def __init__(self, why: str, node: Node, op: str | None = None) -> None:
        self.why = why
        self.node = node
        self.op = node.op.name if op is None else op
        super().__init__(why.format(op=self.op))


class LostError(Exception):
    """No axis of a value counts examples."""


@dataclass(frozen=True)
class Batch:
    """The place of a batch in a value: `outer` elements in front, and `count` examples."""

    outer: int
    count: int

    def axis(self, node: Node) -> int:
        """The axis that counts examples."""
        return self.axis_in(shape_of(node))

    def axis_in(self, shape: Shape) -> int:
        """The axis of a shape that counts examples."""
        before = 1
        for axis, length in enumerate(shape):
            if before == self.outer and length == self.count:
                return axis
            before *= length
        raise LostError


Places = Sequence[Batch | None]


def shape_of(node: Node) -> Shape:
    """The shape of a node, or of its first output if it has several."""
    shape: Shape = node.spec[0].shape if type(node.spec) is tuple else node.shape
    return shape


def mixes(node: Node) -> NoReturn:
    """Raise the error that an op combines different examples."""
    raise DependenceError(MIXES, node)


def placed(node: Node, axis: int, count: int) -> Batch:
    """The place of a batch that is along an axis of a node."""
    return Batch(math.prod(shape_of(node)[:axis]), count)


def same(node: Node, found: Collection[Batch]) -> Batch:
    """The place that all operands agree on."""
    first, *others = found
    if any(other != first for other in others):
        mixes(node)
    return first


def _followed(node: Node, places: Places, axis_in_result: Callable[[Node, int], int]) -> Batch:
    """The place in the result; `axis_in_result` maps the batch axis of an operand to it."""
    return same(
        node,
        [
            placed(node, axis_in_result(parent, place.axis(parent)), place.count)
            for parent, place in zip(node.inputs, places, strict=True)
            if place is not None
        ],
    )


def elementwise(node: Node, places: Places) -> Batch:
    """Operands broadcast, so an axis keeps its distance from the last axis."""
    found = []
    for parent, place in zip(node.inputs, places, strict=True):
        if place is None:
            continue
        if parent.shape == node.shape:
            found.append(place)
            continue
        axis = place.axis(parent) + node.ndim - parent.ndim
        found.append(placed(node, axis, place.count))
    return same(node, found)


def in_place(node: Node, places: Places) -> Batch:
    """Elements stay where they are in row-major order."""
    assert places[0] is not None
    return places[0]


def along_axes(node: Node, places: Places) -> Batch:
    """All elements along the axes of the param `axis`, or `axes`, are mixed; the result keeps these
    axes or drops them."""
    params = node.keywords
    axes: int | Ints = params["axes"] if "axes" in params else params["axis"]
    mixed = (axes,) if isinstance(axes, int) else axes
    keeps = len(shape_of(node)) == node.inputs[0].ndim

    def axis_in_result(parent: Node, axis: int) -> int:
        if axis in mixed:
            mixes(node)
        return axis if keeps else axis - sum(gone < axis for gone in mixed)

    return _followed(node, places, axis_in_result)


def permuted(node: Node, places: Places) -> Batch:
    """The batch axis moves as `axes` permutes it."""
    axes: tuple[int, ...] = node.params[0]
    return _followed(node, places, lambda parent, axis: axes.index(axis))


def joined(node: Node, places: Places) -> Batch:
    """Operands are joined along an axis; a concatenation must not join along the batch axis."""
    along: int = node.params[0]
    stacks = node.op.join is Join.STACK

    def axis_in_result(parent: Node, axis: int) -> int:
        if stacks:
            return axis + (axis >= along)
        if axis == along:
            mixes(node)
        return axis

    return _followed(node, places, axis_in_result)


def part(*operands: bool, result: bool) -> Rule:
    """The rule of ops on a part of a tensor: which operands are the part, and if the result is.

    Along the batch axis the part must be the whole tensor, in order.
    """

    def rule(node: Node, places: Places) -> Batch:
        starts, lengths, steps, _ = node.params
        whole = node.inputs[operands.index(False)] if False in operands else node
        found = []
        for parent, place, is_part in zip(node.inputs, places, operands, strict=False):
            if place is None:
                continue
            if is_part and parent.size != math.prod(lengths):
                raise LostError
            # A part may lack axes of length 1, which `lengths` has.
            axis = place.axis_in(lengths) if is_part else place.axis(parent)
            if (starts[axis], lengths[axis], steps[axis]) != (0, whole.shape[axis], 1):
                mixes(node)
            shape = lengths if result else node.shape
            found.append(Batch(math.prod(shape[:axis]), place.count))
        return same(node, found)

    return rule


def gathered(node: Node, places: Places) -> Batch:
    """Rows are read at positions, whose axes replace the axis that is read."""
    x, indices = node.inputs[0], node.inputs[1]
    place = places[0]
    assert place is not None
    axis, (along,) = place.axis(x), node.params
    if axis == along:
        mixes(node)
    moved = axis + indices.ndim - 1 if axis > along else axis
    return placed(node, moved, place.count)


def scattered(node: Node, places: Places) -> Batch:
    """Values are written or added at positions along an axis, which must not be the batch axis."""
    x, indices, values = node.inputs
    (along,) = node.params
    found = []
    for position, parent in ((0, x), (2, values)):
        place = places[position]
        if place is None:
            continue
        axis = place.axis(parent)
        if position and axis >= along + indices.ndim:
            axis -= indices.ndim - 1
        elif axis >= along and (position or axis == along):
            mixes(node)
        found.append(placed(node, axis, place.count))
    return same(node, found)


def crossed(node: Node, places: Places) -> Batch:
    """Operands broadcast, and the axis of the components is counted from the end."""

    def axis_in_result(parent: Node, axis: int) -> int:
        if axis - parent.ndim == node.params[0]:
            mixes(node)
        return axis - parent.ndim + node.ndim

    return _followed(node, places, axis_in_result)


def labelled(node: Node, places: Places) -> Batch:
    """Contractions: all batch axes must have one label, and the result must keep that label."""
    assert node.op.labels is not None
    terms, output = node.op.labels(node)
    found = []
    for parent, place, labels in zip(node.inputs, places, terms, strict=True):
        if place is None:
            continue
        label = labels[place.axis(parent)]
        if label not in output:
            mixes(node)
        found.append((label, place.count))
    if len({label for label, _ in found}) > 1:
        mixes(node)
    label, count = found[0]
    return placed(node, output.index(label), count)


def matrices(node: Node, places: Places) -> Batch:
    """A stack of matrices in the last two axes: the batch axis must be in front of them."""
    stacks = [parent.shape[:-2] for parent in node.inputs if parent.ndim > 1]
    stack = max(stacks, key=len, default=())
    found = []
    for position, (parent, place) in enumerate(zip(node.inputs, places, strict=True)):
        if place is None:
            continue
        axis = place.axis(parent)
        vector = position == 1 and parent.ndim == 1
        if vector or axis >= parent.ndim - 2:
            mixes(node)
        lead = len(stack) - (parent.ndim - 2)
        found.append(Batch(math.prod(stack[: axis + lead]), place.count))
    return same(node, found)
