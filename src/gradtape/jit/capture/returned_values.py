"""Returned values: the leaves that a captured run returns, and their sources in later calls."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from gradtape.autodiff.sparse.programs import is_pending
from gradtape.ir.node import Node
from gradtape.jit.capture.capture import Capture
from gradtape.jit.capture.containers import content, fill
from gradtape.jit.replay.sources import (
    CallersTensor,
    ComputedNumber,
    Constant,
    NewSparseMatrix,
    NewTensor,
    OutsideTensorItself,
    RowSparseTensor,
    Source,
)
from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.followed_number import Followed, plain

# Classes of objects besides tensors that are taken to be the same in every call.
PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    type,
    type(...),
    np.generic,
    np.dtype,
    enum.Enum,
    Variable,
)


def is_inside(leaf: object, capture: Capture) -> bool:
    """Whether something is a tensor of a capture."""
    return isinstance(leaf, Tensor) and leaf.recording is capture


def leaf_sources(
    capture: Capture, leaves: list[object], nodes: list[Node | None]
) -> tuple[Source, ...]:
    """The sources of all leaves that the function returned; one source for one tensor."""
    found: dict[int, Source] = {}
    for leaf, node in zip(leaves, nodes, strict=True):
        if id(leaf) not in found:
            found[id(leaf)] = _leaf_source(capture, leaf, node)
    return tuple(found[id(leaf)] for leaf in leaves)


def _leaf_source(capture: Capture, leaf: Any, node: Node | None) -> Source:
    """The source of one leaf that the function returned."""
    if isinstance(leaf, RowSparse):
        parts = [
            _leaf_source(capture, part, part.node if is_inside(part, capture) else None)
            for part in leaf.rows
        ]
        return RowSparseTensor(type(leaf), tuple(parts), leaf.spec)
    if is_pending(leaf):
        return NewSparseMatrix(capture.source(leaf.entries.node), leaf.pattern.with_data)
    if node is not None:
        fresh = NewTensor(capture.source(node), type(leaf).result_class)
        position = capture.tensors.position(leaf)
        if position is not None:
            return CallersTensor(position, fresh)
        return (
            OutsideTensorItself(weakref.ref(leaf), fresh)
            if capture.tensors.is_rebound(leaf)
            else fresh
        )
    if isinstance(leaf, Tensor):
        if capture.tensors.is_made_here(leaf):
            return NewTensor(Constant(leaf.computed), type(leaf).result_class)
        leaf.enter(capture)  # so that changes of it in place are noticed
        return OutsideTensorItself(weakref.ref(leaf), NewTensor(Constant(leaf.computed), Tensor))
    return ComputedNumber(leaf.formula) if isinstance(leaf, Followed) else Constant(leaf)


def unsupported_leaf(leaves: Iterable[object], static: Iterable[object]) -> object:
    """The first returned leaf that may be another object in later calls, or None."""
    known = {id(each) for each in static}
    for leaf in leaves:
        is_supported = isinstance(leaf, (Tensor, *PLAIN)) or id(leaf) in known
        if not is_supported and not is_pending(leaf):
            return leaf
    return None


class ReturnedLeaves:
    """Replaces the tensors of a run in the list of returned leaves.

    The caller gets its own tensors back for stand-ins, and new tensors for others. So whoever
    still holds a tensor of the run afterwards has got it in another way than as a result.
    """

    def __init__(
        self, leaves: list[Any], nodes: list[Node | None], originals: dict[int, Tensor]
    ) -> None:
        self._new: dict[int, tuple[Tensor, weakref.ref[Tensor]]] = {}
        for place, (leaf, node) in enumerate(zip(leaves, nodes, strict=True)):
            if isinstance(leaf, Followed):
                leaves[place] = plain(leaf)
            elif is_pending(leaf):
                leaves[place] = leaf.pattern.with_data(np.array(leaf.entries.computed.array))
            elif id(leaf) in originals or (node is not None and leaf.node is None):
                new = originals.get(id(leaf))
                if new is None:
                    new = type(leaf)(None, None, leaf.computed)
                new, _ = self._new.setdefault(id(leaf), (new, weakref.ref(leaf)))
                leaves[place] = new

    def known_outside(self, leaves: list[object]) -> list[object]:
        """The leaves to return: tensors of the run if they are known outside, else the new."""
        known = {id(new): first() for new, first in self._new.values()}
        return [leaf if known.get(id(leaf)) is None else known[id(leaf)] for leaf in leaves]


class SharedContainers:
    """A result with containers that have to be themselves: the caller's, others', or one twice."""

    def __init__(self, returned: Any, outside: Set[int], theirs: Mapping[int, object]) -> None:
        self._returned = returned
        self._outside = outside
        # The caller's containers by the ids of their stand-ins.
        self._theirs = theirs

    def __bool__(self) -> bool:
        seen: set[int] = set()
        pending = [self._returned]
        while pending:
            each = pending.pop()
            parts = content(each)
            if parts is not None and not isinstance(each, tuple):
                if id(each) in seen or id(each) in self._outside or id(each) in self._theirs:
                    return True
                seen.add(id(each))
            pending += (parts or {}).values()
        return False

    def with_leaves(self, replaced: Mapping[int, object]) -> Any:
        """The result itself, with other leaves: they are given by the ids of those they replace."""
        known: dict[int, Any] = {**self._theirs, **replaced}

        def visit(each: Any) -> Any:
            if id(each) in known:
                return known[id(each)]
            parts = content(each)
            if parts is None or id(each) in self._outside:
                return each
            if isinstance(each, tuple):
                found = [*map(visit, each)]
                return each._make(found) if hasattr(each, "_make") else tuple(found)
            known[id(each)] = each
            fill(each, {key: visit(part) for key, part in parts.items()})
            return each

        return visit(self._returned)
