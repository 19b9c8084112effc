"""Copies: the kernels of a movement, each a loop that fills one part of its result."""

from __future__ import annotations

from gradtape.compiler.lower import arguments
from gradtape.compiler.lower.kernel import (
    SAME,
    SCALAR,
    STRIDED,
    Kernel,
    KernelArray,
    KernelLayout,
    KernelStep,
    Store,
    lane_count,
)
from gradtape.compiler.passes.scalar_steps import code_of
from gradtape.ir.node import Node
from gradtape.ops.families.memory_copies import Index, Piece
from gradtape.ops.families.strides import Access

# Bytes of a position.
INDEX_SIZE = 8


def lower_copies(
    node: Node, pieces: list[Piece], access: dict[Node, Access], bits: int
) -> list[arguments.Lowered]:
    """The kernels that fill a node's memory, in the order of its pieces."""
    return [_lower(node, piece, access, bits) for piece in pieces]


def _lower(node: Node, piece: Piece, access: dict[Node, Access], bits: int) -> arguments.Lowered:
    indices = (*piece.reads, *piece.writes)
    strides = [index.strides for index in indices]
    if piece.strides is not None:
        strides.append(piece.strides)
    strides.append(piece.target)
    axes: list[arguments.SpaceAxis] = [
        (n, False, [each[axis] for each in strides]) for axis, n in enumerate(piece.shape) if n != 1
    ]
    axes = arguments.merge_axes(axes) or [(1, False, [1] * len(strides))]
    layout = KernelLayout.SCATTER if piece.writes else KernelLayout.MAP
    short = piece.writes and axes[-1][0] < bits // (8 * node.dtype.itemsize)
    if short or any(axes[-1][2][number] for number in _writing(piece)):
        # Two lanes must not write to one element. A row that is shorter than a vector would need a
        # mask, and a processor waits to read what it has written with a mask.
        layout = KernelLayout.SCATTER_ELEMENTS
        moving = [0] * len(indices)
        axes.append((1, False, moving + [1] * (len(strides) - len(indices))))
    walks = arguments.walks_of(axes, len(strides))
    kernel = _kernel(node, piece, walks, layout)
    outermost = len(axes) > 1 and not piece.writes
    total, grain = (axes[0][0], 1) if outermost else (axes[-1][0], 8 * lane_count(kernel, bits))
    return arguments.lowered(kernel, axes, _entries(node, piece, access, walks), total, grain)


def _writing(piece: Piece) -> range:
    """The numbers of the operands that hold positions to write to."""
    return range(len(piece.reads), len(piece.reads) + len(piece.writes))


def _kernel(node: Node, piece: Piece, walks: list[list[int]], layout: KernelLayout) -> Kernel:
    indices = len(piece.reads) + len(piece.writes)
    operands = [KernelArray("i8", arguments.access_of(walks[number])) for number in range(indices)]
    body: tuple[KernelStep, ...] = ()
    code = code_of(node.dtype)
    if piece.strides is None:
        _, value, dtype = piece.source.params
        body = (KernelStep(piece.source.op, ((), value, dtype), (), code),)
    else:
        reads = tuple(range(len(piece.reads)))
        operands.append(KernelArray(code, _moved_access(walks[indices], operands, reads), reads))
    target = KernelArray(code, arguments.target_access(walks[-1]), tuple(_writing(piece)))
    stores = (Store(indices, target, adds=piece.adds),)
    return Kernel(layout, len(walks[0]), tuple(operands), body, stores, ())


def _moved_access(walk: list[int], operands: list[KernelArray], reads: tuple[int, ...]) -> str:
    if any(operands[number].access not in (SAME, SCALAR) for number in reads):
        return STRIDED
    found = arguments.access_of(walk)
    # An array that positions move is not one number for the whole loop.
    return SAME if reads and found == SCALAR else found


def _entries(
    node: Node, piece: Piece, access: dict[Node, Access], walks: list[list[int]]
) -> list[arguments.Entry]:
    size = node.dtype.itemsize
    entries: list[arguments.Entry] = []
    for index, walk in zip((*piece.reads, *piece.writes), walks, strict=False):
        found = access[index.positions]
        steps = tuple(INDEX_SIZE * step for step in walk)
        entries.append((found.base, INDEX_SIZE * found.offset, steps))
    if piece.strides is not None:
        base = access[piece.source].base
        walk = walks[len(entries)]
        steps = (*(size * step for step in walk), *_moves(piece.reads, size))
        entries.append((base, size * piece.offset, steps))
    steps = (*(size * step for step in walks[-1]), *_moves(piece.writes, size))
    entries.append((node, size * piece.start, steps))
    return entries


def _moves(indices: tuple[Index, ...], size: int) -> list[int]:
    return [number for index in indices for number in (size * index.step, index.last)]
