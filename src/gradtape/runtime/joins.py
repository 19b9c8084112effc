"""Joins: parts of a result are computed where they belong in it, not copied there afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection

from gradtape.graph.node import Node
from gradtape.optimize.fuse import Fused, Loop
from gradtape.optimize.pieces import Piece
from gradtape.optimize.views import Strides, row_major

JOINED = ("concat", "stack")

# A part, the result that it is a part of, and how many bytes into it.
Parts = dict[Node, tuple[Node, int]]


def place_parts(
    fused: Fused, results: Collection[Node], makes: Callable[[Node], bool], kept: Collection[Node]
) -> Parts:
    """The nodes that may be written straight into a joined result; their copies are dropped.

    `results` have memory of their own. `makes` says of a node whether a unit writes it wherever it
    is told to; `kept` nodes need memory of their own as well.
    """
    parts: Parts = {}
    for unit in reversed(fused.units):
        if not isinstance(unit, Loop) or unit.pieces is None:
            continue
        joined = unit.nodes[0]
        if joined.op.name not in JOINED or not (joined in results or joined in parts):
            continue
        copies = []
        for piece in unit.pieces:
            base = _base(piece, fused)
            if base is None or base in parts or base in kept or not makes(base):
                copies.append(piece)
            else:
                parts[base] = (joined, piece.start * joined.dtype.itemsize)
        unit.pieces = copies
    fused.units = [u for u in fused.units if not (isinstance(u, Loop) and u.pieces == [])]
    return parts


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
