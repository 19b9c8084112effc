"""Join parts: a sum of parts, each put into zeros where no other is, becomes their concatenation.

The derivative by a tensor that was read slice by slice is such a sum: without this pass each part
is a tensor of the whole size, filled with zeros, and all of them are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from gradtape.compiler.passes.rewrite import Rewriting, readers_of, rewrite
from gradtape.config import LEAST_JOINED_ZEROS
from gradtape.ir import OPERATORS, Node, Program, Spec, spec
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.arrays.movement import RESHAPE
from gradtape.ops.arrays.slicing import UNSLICE
from gradtape.ops.elementwise.arithmetic import add
from gradtape.records import dataclass
from gradtape.trace.record import op_of


def join_parts(program: Program) -> Program:
    """Before: `add(unslice(a), unslice(b))` at disjoint places. After: `concat(a, b)`."""
    if sum(node.op is UNSLICE for node in program.nodes) < 2:
        return program
    readers = readers_of(program)
    inner = inner_sums(program, readers)

    def joined(node: Node, now: Rewriting) -> Node | None:
        if node.op is not ADD or node in inner:
            return None
        terms = terms_of(node, inner)
        joins = _joins(terms, node, readers)
        if not joins:
            return None
        gone = {part.node for join in joins for part in join}
        # A concatenation comes first: other terms may be broadcast.
        found = [_joined(join, node, now.new) for join in joins]
        found += [now.new[term] for term in terms if term not in gone]
        return summed(found, node.spec)

    return rewrite(program, joined)


ADD = op_of(add)


def summed(terms: Iterable[Node], of: Spec) -> Node:
    """The sum of some terms, in order."""
    return reduce(lambda total, term: Node(ADD, (total, term), (), of), terms)


def inner_sums(program: Program, readers: Mapping[Node, int]) -> set[Node]:
    """Sums that only another sum of the same shape reads."""
    return {
        parent
        for node in program.nodes
        if node.op is ADD
        for parent in node.inputs
        if parent.op is ADD and readers[parent] == 1 and parent.shape == node.shape
    }


@dataclass(frozen=True)
class _PlacedPart:
    """A part in zeros: its place along one axis, whole along all others."""

    node: Node
    axis: int
    start: int
    length: int


def terms_of(root: Node, inner: set[Node]) -> list[Node]:
    """The summands of a tree of sums, in order."""
    found: list[Node] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is root or node in inner:
            waiting.extend(reversed(node.inputs))
        else:
            found.append(node)
    return found


def _part(node: Node, whole: Node) -> _PlacedPart | None:
    """The part of a term, if it is one along a single axis."""
    if node.op is not UNSLICE or len(node.inputs) > 1 or node.shape != whole.shape:
        return None
    starts, lengths, steps, shape = node.params
    axes = [
        axis for axis, (n, length) in enumerate(zip(shape, lengths, strict=True)) if n != length
    ]
    if len(axes) != 1 or any(step != 1 for step in steps) or 0 in lengths:
        return None
    (axis,) = axes
    return _PlacedPart(node, axis, starts[axis], lengths[axis])


def _joins(
    terms: Sequence[Node], whole: Node, readers: Mapping[Node, int]
) -> list[list[_PlacedPart]]:
    """Parts along one axis that do not overlap, in order; two of them at least."""
    by_axis: dict[int, list[_PlacedPart]] = {}
    for term in terms:
        part = _part(term, whole) if readers[term] == 1 else None
        if part is not None:
            by_axis.setdefault(part.axis, []).append(part)
    found = []
    for parts in by_axis.values():
        apart: list[_PlacedPart] = []
        for part in sorted(parts, key=lambda one: one.start):
            if not apart or part.start >= apart[-1].start + apart[-1].length:
                apart.append(part)
        if len(apart) > 1 and len(apart) * whole.size >= LEAST_JOINED_ZEROS:
            found.append(apart)
    return found


def _joined(parts: list[_PlacedPart], whole: Node, new: Mapping[Node, Node]) -> Node:
    """The concatenation of parts, with zeros in the gaps."""
    axis, shape = parts[0].axis, whole.shape
    pieces: list[Node] = []
    end = 0

    def wide(length: int) -> Spec:
        return spec((*shape[:axis], length, *shape[axis + 1 :]), whole.dtype)

    def fill(length: int) -> None:
        if length:
            of = wide(length)
            pieces.append(Node(OPERATORS.full, (), (of.shape, 0, of.dtype), of))

    for part in parts:
        fill(part.start - end)
        source, of = new[part.node.inputs[0]], wide(part.length)
        if source.shape != of.shape:
            source = Node(RESHAPE, (source,), (of.shape,), of)
        pieces.append(source)
        end = part.start + part.length
    fill(shape[axis] - end)
    return Node(CONCAT, tuple(pieces), (axis,), whole.spec)
