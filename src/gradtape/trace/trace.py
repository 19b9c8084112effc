"""Traces: recordings of functions whose arguments have a shape and a dtype but no value.

A function of one example is recorded apart: in a recording of its own, with a table of interned
nodes of its own. A tensor from outside enters as a leaf that remembers the node outside. The graph
of the trace is then transformed and recorded where the function was called: batched by vmap
(`control.batched_trace`), or as the body of a loop or branch (`control.traced_bodies`).
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.dtypes import Array
from gradtape.errors import NoValueError
from gradtape.ir.hooks import hooks
from gradtape.ir.node import (
    LEAF,
    PICK,
    Node,
    Params,
    Table,
    apart_from_recorded,
    exchange,
    new_table,
    numbered_placeholder,
    table,
)
from gradtape.ir.op import Op
from gradtape.ir.origin import provenance, user_line
from gradtape.ir.row_cotangents import Rows
from gradtape.ir.spec import Spec
from gradtape.ir.walk import dependents, substitute, topological
from gradtape.trace.copy_between_recordings import graft
from gradtape.trace.followed_number import Followed, read_all
from gradtape.trace.recording import Recording, state
from gradtape.trace.value import Handle, Value, host_value

if TYPE_CHECKING:
    from gradtape.tensor.generator import Generator

# A number larger than all before: traces and captures are compared by age.
next_number: Callable[[], int] = partial(next, itertools.count(1))


def note_line(handle: Handle) -> None:
    """Note the user's current line as the origin of a handle's node, if lines are noted."""
    noted = provenance()
    if noted is not None and handle.node in noted.carried:
        noted.carried.discard(handle.node)
    elif noted is not None and handle.node is not None:
        line = noted.lines[handle.node] = user_line()
        if handle.node.op is PICK:
            noted.lines[handle.node.inputs[0]] = line


class _Tables(threading.local):
    """Tables of interned nodes for traces, by depth of nesting."""

    def __init__(self) -> None:
        self.by_depth: dict[int, Table] = {}

    def at(self, depth: int) -> Table:
        """The table of traces at a nesting depth."""
        found = self.by_depth.get(depth)
        if found is None or found.is_full():
            found = self.by_depth[depth] = new_table(found)
        return found


_tables = _Tables()


def leave_full_tables() -> None:
    """Forget the tables of this thread's traces that are full."""
    for depth, each in list(_tables.by_depth.items()):
        if each.is_full():
            del _tables.by_depth[depth]


class NotedHandles(list[Handle]):
    """The handles of a trace whose lines are noted, for debugging."""

    def append(self, handle: Handle) -> None:
        super().append(handle)
        note_line(handle)


class Trace(Recording):
    """The recording of one call of a function on arguments without values."""

    # Whether its graph becomes that of many examples.
    is_batched = False
    outer: Recording

    def __init__(self, outer: Recording, name: str, size: int | None = None) -> None:
        # The number of examples of vmap, or None.
        self.size = size
        self.depth = getattr(outer, "depth", 0) + 1
        # If lines are noted, nodes that were made without lines must not be found.
        self._own_table = _tables.at(self.depth) if provenance() is None else Table()
        before = exchange(self._own_table)
        try:
            super().__init__()
        finally:
            self._own_table = exchange(before)
        self.outer = outer
        self.name = name
        self.number = next_number()
        self.ended = False
        self.handles = [] if provenance() is None else NotedHandles()
        # As if a tape were recording: the trace is never cut, and a flush keeps the graph.
        self.active = 1
        self.tapes[id(self)] = False
        self._own_tapes: list[Any] = []
        self._outer_tapes: list[Any] = []
        self._outer_table = before
        # The leaves by the outer node they stand for, and the outer nodes by number of the leaf.
        self._captured: dict[Node, Node] = {}
        self.sources: dict[int, Node] = {}
        # For each node seen by `lacks_value`, whether it depends on a leaf without a value.
        self._lacking: dict[Node, bool] = {}
        # Leaves that are positions of random draws, with their generator; the position of each
        # generator before and after the trace.
        self.draws: dict[Node, Generator] = {}
        self.starts: dict[Generator, int] = {}
        self.stops: dict[Generator, int] = {}
        # Nodes inside functions with a custom batching rule.
        self.replaced: set[Node] = set()
        # Placeholders in derivations of outer recordings, with the nodes of this trace they stand
        # for.
        self.stand_ins: dict[Node, Node] = {}

    def sizes(self) -> tuple[int, ...]:
        """The numbers of examples of this function and of those around it, innermost first."""
        found: dict[int, None] = {}
        outer: Recording | None = self
        while isinstance(outer, Trace):
            if outer.size is not None:
                found[outer.size] = None
            outer = outer.outer
        return tuple(found)

    # Entering and leaving.

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Record into this trace."""
        recording, tapes, outside = state.recording, state.tapes, table()
        self._outer_table, self._outer_tapes = outside, tapes
        # In whichever line an interrupt comes, what was before is there again. If it comes in the
        # first line of `finally`, the `except` below does that.
        try:
            try:
                # The trace refers to nodes outside: a flush must not close their recording.
                self.outer.tapes[id(self)] = False
                exchange(self._own_table)
                state.recording, state.tapes = self, self._own_tapes
                yield
            finally:
                state.recording, state.tapes = recording, tapes
                if table() is not self._outer_table:
                    self._own_table = exchange(self._outer_table)
                    if provenance() is None:
                        _tables.by_depth[self.depth] = self._own_table
                self.outer.tapes.pop(id(self), None)
        except BaseException:
            state.recording, state.tapes = recording, tapes
            exchange(self._outer_table)
            self.outer.tapes.pop(id(self), None)
            raise

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Record in this context where the traced function was called."""
        recording, tapes, own = state.recording, state.tapes, table()
        try:
            try:
                exchange(self._outer_table)
                state.recording, state.tapes = self.outer, self._outer_tapes
                yield
            finally:
                state.recording, state.tapes = recording, tapes
                if table() is not own:
                    self._outer_table = exchange(own)
        except BaseException:
            state.recording, state.tapes = recording, tapes
            exchange(own)
            raise

    def end(self) -> None:
        """End the trace when its function has returned: its tensors must not be used any more."""
        self.ended = True
        if not self.rules:
            self.close()

    # A trace is never cut: there may be no values to compute it from.

    def should_be_cut(self, *_: object) -> bool:
        return False

    def is_full(self) -> bool:
        return False

    # Leaves.

    def add_unknown(self, of: Spec) -> Node:
        """A leaf without a value."""
        found = self.add_leaf(None, of)
        self._lacking[found] = True
        return found

    def know_nothing_of(self, node: Node) -> None:
        """Note that a node of the batched graph has no value."""
        self._lacking[node] = True

    def capture(self, operand: Any) -> Node:
        """The leaf that stands for a tensor or variable from outside."""
        return self._captured_by(operand.enter)

    def capture_unnoticed(self, variable: Any) -> Node:
        """The leaf that stands for a variable from outside; no tape notes the read."""
        return self._captured_by(variable.enter_unnoticed)

    def _captured_by(self, enter: Callable[[Recording], Node]) -> Node:
        with self.outside():
            node = enter(self.outer)
        return self._stand_in(node, None)

    def enter_other(self, handle: Handle) -> Node:
        """The leaf of a handle outside; a pending one stays pending."""
        return super().enter_other(handle) if handle.recording is None else self.capture(handle)

    def enter_value(self, value: Value) -> Node:
        """The leaf of a computed value, which is also a leaf of the recording outside."""
        return self._imported(value, lambda: self.outer.enter_value(value))

    def enter_handle(self, handle: Handle) -> Node:
        """The leaf of a computed tensor, which a capture outside must find by its handle."""
        assert handle.computed is not None
        return self._imported(handle.computed, lambda: self.outer.enter_handle(handle))

    def _imported(self, value: Value, enter: Callable[[], Node]) -> Node:
        stamp, node = value.entry
        if stamp == self.stamp:
            return node  # type: ignore[return-value]
        found = self.imported.get(id(value))
        if found is None:
            with self.outside():
                source = enter()
            found = self.imported[id(value)] = self._stand_in(source, value)
        value.entry = (self.stamp, found)
        return found

    def application(self, op: Op, inputs: tuple[Node, ...], params: Params) -> Node:
        """A node; numbers in its params are structure, so a capture guards their values."""
        return super().application(op, inputs, read_all(params) if params else params)

    def add_number(self, number: Followed, of: Spec) -> Node:
        """The leaf of a followed number, which differs between calls of a captured function."""
        with self.outside():
            source = self.outer.add_number(number, of)
        return self._stand_in(source, None)

    def _stand_in(self, source: Node, value: Value | None) -> Node:
        found = self._captured.get(source)
        if found is None:
            self.sources[len(self.leaves)] = source
            found = self._captured[source] = self.add_leaf(value, source.spec)
            self._lacking[found] = self.outer.lacks_value(source)
        return found

    def stand_in_for(self, node: Node) -> Node:
        """A placeholder for a node of this trace in a derivation of an outer recording."""
        found = numbered_placeholder(len(self.stand_ins), node.spec)
        self.stand_ins[found] = node
        return found

    def is_inside(self, recording: Recording) -> bool:
        """Whether this function was called in `recording`, directly or in a trace inside it."""
        outer: Recording | None = self.outer
        while outer is not None and outer is not recording:
            outer = outer.outer
        return outer is recording

    def draw(
        self, generator: Generator, counter: int, position: Array, stop: int | None = None
    ) -> Handle:
        """The leaf of a random position, which differs from example to example."""
        self.starts.setdefault(generator, counter)
        self.stops[generator] = generator.place if stop is None else stop
        value = host_value(position)
        found = self.add_leaf(value, value.spec)
        self.draws[found] = generator
        self._lacking[found] = True
        return self.hold(found, hooks.handle_class)

    def repeated_draws(self, size: int) -> dict[Node, Array]:
        """The position of each draw in all examples, drawn one example after the other."""
        widths = {
            generator: generator._repeat(start, size) for generator, start in self.starts.items()
        }
        found = {}
        for leaf, generator in self.draws.items():
            base = self.leaves[leaf.params[0]].array
            shift = np.arange(size, dtype=np.uint64) * np.uint64(widths[generator])
            shift = shift.reshape((size,) + (1,) * (base.ndim - 1))
            positions = np.repeat(base[None], size, axis=0)
            positions[..., 2] += shift
            positions[..., 3] += positions[..., 2] < shift
            found[leaf] = positions
        return found

    # Values.

    def lacks_value(self, node: Node) -> bool:
        """Whether a node depends on a leaf without a value, or the trace has ended."""
        if self.ended:
            return True
        known = self._lacking
        for found in topological([node], stop=known):
            if found not in known:
                known[found] = any(known[parent] for parent in found.inputs)
        return known[node]

    def refusal(self, node: Node) -> NoValueError:
        """The error for reading the value of a node that has none."""
        if self.ended:
            return NoValueError(
                f"a tensor from inside {self.name} was used after it returned: it had no value of "
                "its own, only a shape and a dtype. Return it from the function instead."
            )
        return NoValueError(
            f"a tensor inside {self.name} has no value: it stands for all examples at once, here "
            f"as {node.spec}. if, while, float(), .numpy() and print need a value. Choose with "
            "gt.where instead, or call the function in a Python loop over the examples."
            + about_indices(node)
        )

    def contents(self, leaf: Node) -> Array | None:
        """The value of a leaf that is the same for all examples and steps, and known by now."""
        source = self.sources.get(leaf.params[0])
        if self.lacks_value(leaf) or (source is not None and source.op is not LEAF):
            return None
        return super().contents(leaf) if source is None else self.outer.contents(source)

    def with_values(self, handles: list[Handle]) -> list[Handle]:
        """The handles that can be computed; the others stay pending."""
        found: list[Handle] = []
        for handle in handles:
            lacks = self.lacks_value(handle.node)
            (self.handles if lacks else found).append(handle)
        return found

    def compute_leaves(self, bindings: Sequence[int | Node]) -> None:
        """Give values to the leaves among `bindings` that stand for pending nodes outside."""
        for ordinal in bindings:
            if isinstance(ordinal, int) and self.leaves[ordinal] is None:
                handle = self.outer.hold(self.sources[ordinal], Handle)
                with self.outside():
                    hooks.evaluator.compute(handle)
                self.leaves[ordinal] = handle.computed

    def rewind(self) -> None:
        """Give back the random numbers drawn, because the function will be traced once more."""
        for generator, start in self.starts.items():
            generator.rewind(start, self.stops[generator])

    def bound(self, variable: object) -> Handle | None:
        """The current value of a variable that was assigned inside; see control.traced_bodies."""
        return None

    def is_bound(self, variable: object) -> bool:
        """Whether a variable was assigned here or in a traced function around this one."""
        outer: Recording | None = self
        while isinstance(outer, Trace):
            if outer.bound(variable) is not None:
                return True
            outer = outer.outer
        return False

    def bind(self, variable: object, new: Handle) -> bool:
        """Assign a variable; False if it was assigned outside, where all examples share it."""
        raise NotImplementedError

    def make(self, variable: object) -> None:
        """Note that a variable was made inside."""

    def is_read_as(self, handle: Handle, new: Handle) -> None:
        """Let an outer handle that was given the value of `new` be `new` in derivatives inside."""
        with self.outside():
            node = handle.enter(self.outer)
        self._captured.setdefault(node, new.enter(self))


def adopt(trace: Trace, recording: Recording, result: Node | Rows) -> Node:
    """A derivative of another recording, as a node of the trace in which it was taken.

    It may depend on tensors of the trace, such as a cotangent that differs between examples. The
    parts that do not are computed outside, once for all examples.
    """
    node = result.dense() if isinstance(result, Rows) else result
    if not trace.is_inside(recording):
        return graft(trace, recording, [node], trace.stand_ins)[0]
    order = topological([node])
    mixed = dependents(order, trace.stand_ins)
    replacement: dict[Node, Node] = {
        found: trace.stand_ins[found] for found in order if found in trace.stand_ins
    }
    needed = {parent for found in mixed for parent in found.inputs} | {node}
    for found in order:
        if found in needed and found not in mixed and not found.op.constant:
            replacement[found] = trace.capture(recording.hold(found, Handle))
    with apart_from_recorded():
        return substitute([node], replacement)[0]


def about_indices(node: Node) -> str:
    """The remedy to add for integers, which NumPy may have wanted as an index."""
    if type(node.spec) is tuple or node.dtype.kind not in "iu":
        return ""
    return " To index a NumPy array with it, make that a tensor first: gt.asarray(array)[i]."
