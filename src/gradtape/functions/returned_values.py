"""Returned: what a captured function gives back, in the run that is captured and in later calls."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.derive.pending_matrix import is_pending
from gradtape.functions.capture import Capture
from gradtape.functions.signature import Arguments
from gradtape.functions.stand_ins import rebind
from gradtape.functions.steps import Call, Constant, Number, Result
from gradtape.functions.written_out_call import Back, Listed, Wrapped
from gradtape.pytree import unflatten
from gradtape.recording.deferred_number import Deferred
from gradtape.recording.value import Value
from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# What a function may return besides tensors and be the same in every call.
PLAIN = (
    bool, int, float, complex, str, bytes, range, slice, type, type(...), np.generic, np.dtype,
    enum.Enum, Variable,
)  # fmt: skip


def is_inside(leaf: Any, capture: Capture) -> bool:
    """Whether something is a tensor of a capture."""
    return isinstance(leaf, Tensor) and leaf.recording is capture


def sources_of(capture: Capture, leaves: list[Any], nodes: list[Any]) -> tuple[Any, ...]:
    """Where a later call finds what the function returns; one source for one tensor."""
    found: dict[int, Any] = {}
    for leaf, node in zip(leaves, nodes, strict=True):
        if id(leaf) not in found:
            found[id(leaf)] = source_of(capture, leaf, node)
    return tuple(found[id(leaf)] for leaf in leaves)


def source_of(capture: Capture, leaf: Any, node: Any) -> Any:
    """Where a later call finds one leaf of what the function returns."""
    if isinstance(leaf, RowSparse):
        kind: Any = type(leaf)
        of = leaf.spec
        rows = [
            source_of(capture, part, part.node if is_inside(part, capture) else None)
            for part in leaf.rows
        ]
        return lambda call: kind(*[source(call) for source in rows], of)
    if is_pending(leaf):
        return Listed(capture.source(leaf.entries.node), leaf.pattern.with_data)
    if node is not None:
        fresh = Wrapped(capture.source(node), type(leaf).result_class)
        place = capture.place(leaf)
        if place is not None:
            return Back(place, fresh)
        return Itself(weakref.ref(leaf), fresh) if capture.is_rebound(leaf) else fresh
    if isinstance(leaf, Tensor):
        if capture.is_own(leaf):
            return Wrapped(Constant(leaf.computed), type(leaf).result_class)
        leaf.enter(capture)  # which is how a change of it is noticed
        return Itself(weakref.ref(leaf), Wrapped(Constant(leaf.computed), Tensor))
    return Number(leaf.compute) if type(leaf) is Deferred else Constant(leaf)


@dataclass(frozen=True, eq=False)
class Itself:
    """A tensor from outside, which a call returns as it is."""

    handle: Callable[[], Any]
    otherwise: Wrapped

    def __call__(self, call: Call) -> Any:
        handle = self.handle()
        return self.otherwise(call) if handle is None else handle


def strange(leaves: Iterable[Any], known: Iterable[Any]) -> Any:
    """The first leaf of a result that later calls may have another of, if there is one."""
    static = {id(each) for each in known}
    for leaf in leaves:
        plain = isinstance(leaf, (Tensor, Deferred, *PLAIN)) or id(leaf) in static
        if not plain and not is_pending(leaf):
            return leaf
    return None


class Returned:
    """The tensors that a run returns, as others in the list: who holds the first ones shows.

    Those that stand for the caller's are these; in the place of others there are fresh ones.
    """

    def __init__(self, leaves: list[Any], nodes: list[Any], originals: dict[int, Any]) -> None:
        self._fresh: dict[int, tuple[Any, weakref.ref[Any]]] = {}
        for place, (leaf, node) in enumerate(zip(leaves, nodes, strict=True)):
            if type(leaf) is Deferred:
                leaves[place] = leaf.value
            elif is_pending(leaf):
                leaves[place] = leaf.pattern.with_data(np.array(leaf.entries.computed.array))
            elif id(leaf) in originals or (node is not None and leaf.node is None):
                made = originals.get(id(leaf))
                if made is None:
                    made = type(leaf)(None, None, leaf.computed)
                fresh, _ = self._fresh.setdefault(id(leaf), (made, weakref.ref(leaf)))
                leaves[place] = fresh

    def own(self, leaves: list[Any]) -> list[Any]:
        """The leaves to return: those that are known outside, or the others."""
        known = {id(fresh): first() for fresh, first in self._fresh.values()}
        return [leaf if known.get(id(leaf)) is None else known[id(leaf)] for leaf in leaves]


def returned(result: Result, call: Call, arguments: Arguments) -> Any:
    """What a call returns; and what it leaves behind, which happens here."""
    made = {source: source(call) for source in dict.fromkeys(result.leaves)}
    found = [made[source] for source in result.leaves]
    values = [(variable, source(call)) for variable, source in result.updates]
    tensors = [(ref(), source(call)) for ref, source in result.rebound]
    if result.moved:
        given = arguments.inputs()
        tensors += [(given[at][1], source(call)) for at, source in result.moved]
    for variable, value in values:
        variable.replace(Value(value.content, value.spec))
    for handle, value in tensors:
        rebind(handle, value)
    return unflatten(result.structure, found)
