"""Direct: calls of captured functions that go from the arguments to the results in native code.

A kind of call that is one run of one compiled plan gets a context (codegen.caller says what that
is), and the class of functions a slot that knows contexts. It is a shortcut through
`Function.__call__` and `straight_call` and nothing else, used where the native recorder is.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from gradtape.codegen.cpython import call_context
from gradtape.dtypes import World
from gradtape.functions.argument_keys import Identity, is_input
from gradtape.functions.call_slot import install
from gradtape.functions.signature import Arguments
from gradtape.functions.steps import (
    Argument,
    Computed,
    Constant,
    Held,
    Number,
    Outside,
    Result,
    Run,
)
from gradtape.functions.written_out_call import Back, Wrapped
from gradtape.pytree import unflatten
from gradtape.recording.handle import Handle
from gradtape.runtime import buffer_pool as buffers
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# Kinds of calls of one function that have contexts.
MOST = 8


class Unusual(Exception):  # noqa: N818 - a question answered, not a fault
    """A call that is left to Python."""


class Direct:
    """The context of one kind of call, in words, with everything that its words point to."""

    def __init__(
        self,
        arguments: Arguments,
        run: Run,
        result: Result,
        assigned: Sequence[Variable],
        differs: Callable[[], bool] | None,
    ) -> None:
        layout = _layout(run)
        # There from the start: what is watched may go before all is known.
        self._words = (ctypes.c_int64 * len(call_context.CONTEXT))()
        self._kept: list[Any] = [run, result, tuple(assigned), differs]
        given = Given(arguments, self.end)
        self._kept.append(given)
        inputs = [each.settled() if isinstance(each, Outside) else each for each in run.inputs]
        fixed = {
            position: each.content
            for position, each in enumerate(inputs)
            if isinstance(each, Constant)
        }
        sources = _Sources(given.inputs, inputs)
        words, numbers, presets = [], [], {1: 0}
        for slot, position in enumerate(layout.arrays, start=2):
            if position in fixed:
                presets[slot] = fixed[position].address
            else:
                words.append((slot, sources.value(position)))
        for number, (position, dtype) in enumerate(layout.scalars):
            if position not in fixed:
                numbers.append(sources.number(position, dtype, layout.offsets[number]))
        first = 2 + len(layout.arrays)
        rows = [(first + number, size) for number, size in enumerate(layout.written)]
        presets |= dict(enumerate(layout.unset, start=first + len(rows)))
        if layout.arena > buffers.SMALL:
            rows.append((0, layout.arena))
        elif layout.arena:
            arena = self._keep(buffers.allocate(layout.arena))
            presets[0] = arena.address
        self._memory, base = layout.new_memory()
        constants = [fixed.get(position, 0) for position, _ in layout.scalars]
        presets[1] = base + 8 * layout.slots
        slots = [presets.get(slot, 0) for slot in range(layout.slots)]
        layout.pack(self._memory, 0, *slots, *layout.converted(constants))
        taken = [self._buffer_row(*row) for row in rows]
        place = {node: layout.order[number] for number, node in enumerate(run.outputs)}
        updates = [_update(variable, source, place) for variable, source in result.updates]
        locks = [self._keep((each.lock.acquire, each.lock.release)) for each in assigned]
        locks = [(id(acquire), id(release)) for acquire, release in locks]
        structure = result.structure
        fields: dict[str, Any] = {
            "owner": id(self), "thread": _thread(), "world": World.number[0], "live": 1,
            "differs": 0 if differs is None else id(differs),
            "argument_rows": self._table(given.rows),
            "inputs": len(given.inputs), "given": self._table([(0,)] * len(given.inputs)),
            "sources": len(sources.rows),
            "source_rows": self._table(sources.rows),
            "values": self._table([(0,)] * len(sources.rows)),
            "words": len(words), "word_rows": self._table(words),
            "numbers": len(numbers), "number_rows": self._table(numbers),
            "buffers": len(taken), "buffer_rows": self._table(taken),
            "taken": self._table([(0,)] * len(taken)),
            "leaves": len(result.leaves),
            "leaf_rows": self._table([*self._leaf_rows(result.leaves, place, given)]),
            "shape": _shape(structure), "unflatten": id(unflatten), "structure": id(structure),
            "updates": len(updates), "update_rows": self._table(updates),
            "locks": len(locks), "lock_rows": self._table(locks),
            "slots": base, "instructions": layout.stretch.instructions.address,
            "count": layout.stretch.instructions.count, "parallel": int(layout.stretch.parallel),
            "keep_gil": int(layout.stretch.quick), "ops": layout.ops,
        }  # fmt: skip
        self._kept += [layout, sources]
        self._words[:] = [fields.get(name, 0) for name in call_context.CONTEXT]
        self.address = ctypes.addressof(self._words)

    def _keep(self, thing: Any) -> Any:
        self._kept.append(thing)
        return thing

    def _table(self, rows: Sequence[Sequence[int]]) -> int:
        """The address of rows of words."""
        flat = [number for row in rows for number in row]
        return ctypes.addressof(self._keep((ctypes.c_int64 * max(len(flat), 1))(*flat)))

    def _buffer_row(self, slot: int, nbytes: int) -> tuple[int, ...]:
        capacity = buffers.capacity_for(nbytes)
        idle = id(buffers.idle(capacity)) if nbytes <= buffers.SMALL else 0
        return slot, idle, capacity, id(self._keep(capacity)), id(self._keep(nbytes))

    def _leaf_rows(
        self, leaves: Sequence[Any], place: dict[Any, int], given: Given
    ) -> Iterator[tuple[int, int, int]]:
        for number, leaf in enumerate(leaves):
            first = leaves.index(leaf)
            if first < number:
                yield first, 0, call_context.A_LEAF
            else:
                yield self._leaf_row(leaf, place, given)

    def _leaf_row(self, leaf: Any, place: dict[Any, int], given: Given) -> tuple[int, int, int]:
        if isinstance(leaf, Constant):
            return id(leaf.content), 0, call_context.THE_OBJECT
        if isinstance(leaf, Back) and given.inputs[leaf.position] == call_context.TENSOR:
            return leaf.position, 0, call_context.AN_INPUT
        if not isinstance(leaf, Wrapped) or not isinstance(leaf.source, Computed):
            raise Unusual
        if leaf.kind.__basicsize__ != Handle.__basicsize__ or leaf.kind.__dictoffset__:
            raise Unusual
        node = leaf.source.node
        return place[node], id(node.spec), id(leaf.kind)

    # What changes.

    def _field(self, name: str) -> int:
        return self._words[call_context.CONTEXT.index(name)]

    @property
    def calls(self) -> int:
        """How often it was run."""
        return self._field("calls")

    @property
    def is_of_now(self) -> bool:
        """Whether calls may still find it."""
        return bool(self._field("live")) and self._field("world") == World.number[0]

    def end(self) -> None:
        """No call takes it any more."""
        self._words[call_context.CONTEXT.index("live")] = 0
        if not self._field("busy"):
            # What it knows of may be much; of a context that is not live nobody reads more.
            self._kept.clear()


def made(function: type, arguments: Arguments, captured: Any) -> Direct | None:
    """The context of calls like this one of a captured function; None if they are for Python."""
    (run,) = captured.root.runs
    if run.plan.layout is None or not install(function):
        return None
    try:
        return Direct(arguments, run, captured.root.result, captured.assigned, captured.differs)
    except Unusual:
        return None


class _Sources:
    """Where the values of a call come from, each of them once."""

    def __init__(self, given: Sequence[int], inputs: Sequence[Any]) -> None:
        # How each input of the call is given, and where each of the plan comes from.
        self._given = given
        self._inputs = inputs
        self.rows: list[tuple[int, int]] = []

    def value(self, position: int) -> int:
        """The number of a value among those of the call."""
        source = self._inputs[position]
        if isinstance(source, Argument):
            if self._given[source.position] != call_context.TENSOR:
                raise Unusual
            row = call_context.GIVEN, source.position
        elif isinstance(source, Held):
            row = call_context.VARIABLE, id(source.variable)
        elif isinstance(source, Outside) and type(source.handle) is weakref.ref:
            row = call_context.REFERENCE, id(source.handle)
        else:
            raise Unusual
        if row not in self.rows:
            self.rows.append(row)
        return self.rows.index(row)

    def number(self, position: int, dtype: Any, offset: int) -> tuple[int, ...]:
        """The row of a number that goes to an offset of the memory of a run."""
        source, size = self._inputs[position], dtype.itemsize
        if not isinstance(source, Number):
            return call_context.COPIED, self.value(position), offset, size
        if dtype.kind != "f":
            raise Unusual
        if type(source.compute) is itemgetter:
            place: Any = source.compute.__reduce__()[1][0]
            if self._given[place] == call_context.FLOAT:
                return (
                    call_context.DOUBLE if size == 8 else call_context.SINGLE,
                    place,
                    offset,
                    size,
                )
        how = call_context.COMPUTED_DOUBLE if size == 8 else call_context.COMPUTED_SINGLE
        return how, id(source.compute), offset, size


def _layout(run: Run) -> Any:
    layout = run.plan.layout
    if layout is None or run.lines is not None:
        raise Unusual
    return layout


class Given:
    """How the arguments of a call are told, in rows, and how each input among them is given."""

    def __init__(self, arguments: Arguments, gone: Callable[[], None]) -> None:
        self.rows: list[tuple[int, int, int]] = []
        self.inputs: list[int] = []
        self._kept: list[Any] = []
        self._gone = gone
        # What dies takes the context with it, for another object may be in its place then.
        self.watched: list[weakref.ref[Any]] = []
        if arguments.kwargs:
            raise Unusual
        self._tell(call_context.ROW, tuple, len(arguments.args))
        for argument, structure, parts in arguments.described():
            self._enter(argument, structure, iter(parts))

    def _tell(self, how: int, thing: Any, more: int = 0) -> None:
        self._kept.append(thing)
        self.rows.append((how, id(thing), more))

    def _enter(self, thing: Any, structure: Any, parts: Iterator[Any]) -> None:
        kind = type(thing)
        if structure.kind is None:
            self._enter_leaf(thing, next(parts))
        elif thing is None:
            self._tell(call_context.OBJECT, None)
        elif structure.kind is kind and kind in (tuple, list):
            how = call_context.ROW if kind is tuple else call_context.SERIES
            self._tell(how, kind, len(thing))
            for child, below in zip(thing, structure.children, strict=True):
                self._enter(child, below, parts)
        elif structure.kind is kind is dict:
            self._tell(call_context.MAPPING, dict, len(thing))
            for (key, child), below in zip(thing.items(), structure.children, strict=True):
                self._tell(call_context.OBJECT, key)
                self._enter(child, below, parts)
        else:
            raise Unusual

    def _enter_leaf(self, leaf: Any, part: Any) -> None:
        kind = type(leaf)
        if is_input(part):
            if issubclass(kind, Tensor) and leaf.computed is not None:
                self._kept.append(leaf.computed.spec)
                self._tell(call_context.TENSOR, kind, id(leaf.computed.spec))
            elif kind is float:
                self._tell(call_context.FLOAT, float)
            else:
                raise Unusual
            self.inputs.append(self.rows[-1][0])
            return
        if isinstance(part, Identity):
            gone = weakref.WeakMethod(self._gone)

            def end(_: Any) -> None:
                method = gone()
                if method is not None:
                    method()

            try:
                self.watched.append(weakref.ref(leaf, end))
            except TypeError:
                raise Unusual from None
            self.rows.append((call_context.OBJECT, id(leaf), 0))
        elif kind in (bool, int, str, bytes, type(None)):
            self._tell(call_context.OBJECT, leaf)
        else:
            raise Unusual


def _update(variable: Variable, source: Any, place: dict[Any, int]) -> tuple[int, int, int]:
    if not isinstance(source, Computed):
        raise Unusual
    return id(variable), place[source.node], id(source.node.spec)


def _shape(structure: Any) -> int:
    if structure.kind is None:
        return call_context.ONLY
    if structure.kind in (tuple, list) and all(each.kind is None for each in structure.children):
        return call_context.TUPLE if structure.kind is tuple else call_context.LIST
    return call_context.OTHER


def _thread() -> int:
    """The number of the running thread, which no other one ever gets."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
    number = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
    return number(("PyThreadState_GetID", ctypes.pythonapi))(get())
