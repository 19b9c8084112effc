"""Output places: where the outputs of a program lie, and which nodes are computed into them.

The parts of a concatenation or stack that is an output are computed where they belong in it, not
copied there afterwards. So is a tensor that only a scatter reads, which then changes it in place.
An output that was only reshaped is the memory of its operand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from gradtape.compiler.passes.units import Call, Fused, FusedLoop, nodes_of
from gradtape.config import SHORTEST_WRITTEN_RUN
from gradtape.ir import Node, Program
from gradtape.ops.families.memory_copies import Piece
from gradtape.ops.families.strides import Strides, row_major
from gradtape.records import dataclass

# A part, the result that it is a part of, and how many bytes into it.
PartPlaces = dict[Node, tuple[Node, int]]
# The steps, in elements, of parts that do not lie in one run of their result.
PartSteps = dict[Node, Strides]


@dataclass(frozen=True)
class OutputPlaces:
    """The memory of each output of a program."""

    # Nodes that have memory of their own, which units write.
    written: list[Node]
    # For an output that is all the memory of a written node, in order: that node.
    same: dict[Node, Node]
    parts: PartPlaces
    steps: PartSteps

    def place(self, part: Node) -> tuple[Node, int]:
        """The written node that a part lies in, and how many bytes into it."""
        joined, offset = self.parts[part]
        while joined in self.parts:
            joined, more = self.parts[joined]
            offset += more
        return joined, offset


def place_outputs(
    program: Program, fused: Fused, has_place: Callable[[Node], bool]
) -> OutputPlaces:
    """Place each output; copies that are not needed are dropped from the units.

    `has_place` says of a node outside loops whether an instruction writes it to any place. Outputs
    that no unit writes, such as views, are left out.
    """
    produced = {n for unit in fused.units if not isinstance(unit, Call) for n in unit.outputs}
    called = [unit.node for unit in fused.units if isinstance(unit, Call)]
    produced.update(node for node in called if has_place(node))
    same: dict[Node, Node] = {}
    for node in dict.fromkeys(program.outputs):
        contents = node if node in produced else _contents(node, fused)
        if contents is not None and contents in produced:
            same[node] = contents
    results = list(dict.fromkeys(same.values()))
    kept = {*program.outputs, *results}
    parts, steps = place_parts(fused, results, produced.__contains__, kept)
    return OutputPlaces(results, same, parts, steps)


def _contents(node: Node, fused: Fused) -> Node | None:
    """The node whose whole memory, in order, is this one's."""
    found = fused.access.get(node)
    if found is None or node in fused.constants or type(found.base.spec) is tuple:
        return None
    in_order = found.base.size == node.size and not found.offset and found.is_contiguous()
    return found.base if in_order else None


def read_again(program: Program, fused: Fused, parts: PartPlaces) -> set[Node]:
    """Nodes whose memory is read after it was written; a part in its place is not read to join."""
    found: set[Node] = set()
    for node in program.nodes:
        for parent in node.inputs:
            access = fused.access.get(parent)
            base = parent if access is None else access.base
            if base not in parts or parts[base][0] is not node:
                found.update((parent, base))
    return found


def place_parts(
    fused: Fused, results: Collection[Node], makes: Callable[[Node], bool], kept: Collection[Node]
) -> tuple[PartPlaces, PartSteps]:
    """The nodes that may be written straight into a joined result; their copies are dropped.

    `results` have memory of their own. `makes` says of a node whether a unit can write it to any
    place; `kept` nodes need memory of their own as well.
    """
    movements = [
        u for u in reversed(fused.units) if isinstance(u, FusedLoop) and u.pieces is not None
    ]
    if not movements:
        return {}, {}
    parts: PartPlaces = {}
    steps: PartSteps = {}
    readers = _readers(fused, kept)
    rows_of = _row_by_row(fused, readers)

    def is_placed(base: Node | None, joined: Node, offset: int) -> bool:
        if base is None or base in parts or base in kept or not makes(base):
            return False
        parts[base] = (joined, offset)
        return True

    for unit in movements:
        joined = unit.nodes[0]
        if not (joined in results or joined in parts):
            continue
        assert unit.pieces is not None
        if joined.op.join is None:
            if is_placed(_overwritten(unit, fused, readers), joined, 0):
                unit.pieces = unit.pieces[1:]
            continue
        copies = []
        for piece in unit.pieces:
            start = piece.start * joined.dtype.itemsize
            if is_placed(_base(piece, fused), joined, start):
                continue
            in_rows = rows_of(piece) if joined in results else None
            if in_rows is not None and is_placed(in_rows, joined, start):
                steps[in_rows] = piece.target
            else:
                copies.append(piece)
        unit.pieces = copies
    fused.units = [u for u in fused.units if not (isinstance(u, FusedLoop) and u.pieces == [])]
    return parts, steps


def _readers(fused: Fused, kept: Collection[Node]) -> Counter[Node]:
    """The number of readers of each node's memory: loops, calls, and kept values."""
    read = list(kept)
    for unit in fused.units:
        inputs = [parent for node in nodes_of(unit) for parent in node.inputs]
        if isinstance(unit, FusedLoop):
            inputs = [parent for parent in inputs if parent not in unit.pointwise]
        read += inputs
    access = fused.access
    return Counter(access[node].base if node in access else node for node in read)


def _overwritten(unit: FusedLoop, fused: Fused, readers: Counter[Node]) -> Node | None:
    """The operand that a loop may update in place: it has no other reader."""
    assert unit.pieces
    first, *others = unit.pieces
    base = _base(first, fused)
    if base is None or readers[base] != 1 or first.shape != unit.nodes[0].shape:
        return None
    return None if any(piece.source is first.source for piece in others) else base


def _row_by_row(fused: Fused, readers: Counter[Node]) -> Callable[[Piece], Node | None]:
    """A function of pieces: the node that a loop may write to the rows of a result instead.

    Nothing else may read that node from memory: its elements are where no reader expects them.
    """
    writers: dict[Node, FusedLoop] = {}
    for unit in fused.units:
        if isinstance(unit, FusedLoop) and unit.axes is None and not unit.alone and not unit.copies:
            writers |= dict.fromkeys(unit.outputs, unit)

    def rows_of(piece: Piece) -> Node | None:
        if piece.strides is None or piece.reads or piece.writes or piece.adds or piece.offset:
            return None
        base = fused.access[piece.source].base
        loop = writers.get(base)
        fits = loop is not None and loop.space == base.shape == piece.shape and len(piece.shape) > 1
        if not fits or readers[base] != 1:
            return None
        lies_whole = _same_steps(piece.shape, piece.strides, row_major(piece.shape))
        in_runs = (
            piece.target[-1] == 1 and piece.shape[-1] * base.dtype.itemsize >= SHORTEST_WRITTEN_RUN
        )
        return base if lies_whole and in_runs else None

    return rows_of


def _base(piece: Piece, fused: Fused) -> Node | None:
    """The node whose memory a piece copies as a whole, into one run of the result."""
    if piece.strides is None or piece.reads or piece.writes or piece.adds or piece.offset:
        return None
    base = fused.access[piece.source].base
    lying = row_major(piece.shape)
    as_one = all(
        _same_steps(piece.shape, strides, lying) for strides in (piece.strides, piece.target)
    )
    return base if as_one and base.size == piece.source.size else None


def _same_steps(shape: tuple[int, ...], strides: Strides, others: Strides) -> bool:
    return all(n == 1 or a == b for n, a, b in zip(shape, strides, others, strict=True))
