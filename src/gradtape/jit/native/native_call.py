"""Native call: a captured call that goes from the arguments to the results in machine code.

A signature whose calls are one run of one compiled plan gets a context: the words from which native
code reads how to recognise its arguments, fill the slots of the plan, run it, and make the results
(`compiler.cpython.call_context` lists them). A native call is a shortcut through
`Function.__call__` and the written-out replay, and nothing else; the docstring of
`compiler.cpython` states what both must have in common.

`compiler.cpython.caller` writes the code that is put in the place of `Function.__call__`, with the
offsets of slots and the addresses of objects from here. It is taken out again when the user chooses
Python.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from gradtape.compiler import thread_team as threads
from gradtape.compiler.counts import NATIVE
from gradtape.compiler.cpython import call_context, native_recorder as native, switch
from gradtape.compiler.cpython.objects import (
    add_functions,
    slot_offset,
    slot_offsets,
    slot_wrapper,
    supported,
    word,
)
from gradtape.compiler.emit.plans.instructions import FIRST, SCALARS, STATUS
from gradtape.compiler.lower.plan import SlotLayout
from gradtape.concurrency import is_interrupt, new_lock
from gradtape.config import CALLS_THAT_PAY_FOR_NATIVE, MOST_NATIVE_SIGNATURES, SMALL_BUFFER
from gradtape.dtypes import World
from gradtape.ir.node import Node
from gradtape.jit.guards.guards import Guards
from gradtape.jit.native.guard_table import GuardTable
from gradtape.jit.replay import steps as replay
from gradtape.jit.replay.captured_steps import CapturedSteps
from gradtape.jit.signature import CallArguments, Identity, is_input
from gradtape.pytree import Structure, unflatten
from gradtape.runtime import buffer_pool as buffers, tiers
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.recording import Recording
from gradtape.trace.value import Handle, Value


def offsets(function: type) -> dict[str, int] | None:
    """Offsets of the fields that the native code reads and writes; None if a check fails."""
    known = native.offsets()
    if known is None:
        return None
    buffer, variable = buffers.allocate(8), Variable(0.0)
    value, recording = Value(buffer, variable.current().spec), Recording()
    reads: list[tuple[object, type, str]] = [
        *[(value, Value, name) for name in ("_address", "content", "entry", "spec")],
        *[(variable, Variable, name) for name in ("_handle",)],
        *[(recording, Recording, name) for name in ("active",)],
    ]
    found = slot_offsets(reads)
    if found is None:
        return None
    found["Function_native_contexts"] = slot_offset(function, "native_contexts")
    some, number, content = [value, buffer], 1.5, b"12345678"
    (bits,) = struct.unpack("=q", struct.pack("=d", number))
    checks = [
        word(word(id(some) + 24) + 8) == id(buffer),
        word(id(number) + 16) == bits,
        word(id(content) + 16) == len(content),
        word(id((some, number)) + 16) == 2,
        Value(buffer, value.spec).entry is value.entry,
        recording.active == 0 and id(recording.active) == id(0),
    ]
    return {**known, **found, "list_items": 24, "float_content": 16} if all(checks) else None


class _Slot:
    """The compiled slot, and the method that it stands in for. Neither is ever freed."""

    def __init__(self, function: type, layout: dict[str, int]) -> None:
        # Late: the compiler, and the writer of what it compiles.
        from gradtape.compiler.cpython import caller
        from gradtape.compiler.objects import llvm

        self.in_python = function.__dict__["__call__"]
        value = Value(buffers.allocate(8), Variable(0.0).current().spec)
        objects = {
            "recording_name": sys.intern("recording"),
            "tapes_name": sys.intern("tapes"),
            "address_name": sys.intern("address"),
            "local_dictionary": native.local_dictionary,
            "zero": 0,
            "None": None,
            "False": False,
            "unentered": value.entry,
            "allocate": buffers.allocate,
            "team": threads.team,
            "in_python": self.in_python,
        }
        types = (Exception, Recording, Tensor, Value, float, list, tuple)
        facts = {
            **layout,
            **{name: id(thing) for name, thing in objects.items()},
            **{kind.__name__: id(kind) for kind in types},
            "world": World.number.buffer_info()[0],
            "pool_counts": buffers.counts().buffer_info()[0],
            "count_recycled": 8 * buffers.RECYCLED,
            "run_counts": NATIVE.buffer_info()[0],
            **dict(
                zip(("plan_with_gil", "plan_without_gil"), threads.call_addresses(), strict=True)
            ),
            "most_contexts": MOST_NATIVE_SIGNATURES,
        }
        text = caller.caller_ir(facts)
        add_functions(text)
        compiled = llvm.compile_ir(text, level=0, has_addresses=True)
        self.wrapper = slot_wrapper(function, "__call__", partial, compiled.address("call"))
        check = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        self.guards_hold = check(compiled.address("guards_hold"))
        # The code points to these, and may run when modules are gone at the end of the process.
        kept = (objects, types, self.wrapper, World.number, NATIVE, buffers.counts())
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


class _Slots:
    """The slot of this process, once it is compiled."""

    def __init__(self) -> None:
        self._lock = new_lock()
        # Calls in Python that the slot would have taken.
        self.calls = 0
        self.is_made = False
        self.slot: _Slot | None = None

    def get(self, function: type) -> _Slot | None:
        """The slot; None where it cannot be, or does not pay yet."""
        pays = self.calls >= CALLS_THAT_PAY_FOR_NATIVE or switch.MODE == "native"
        if self.is_made or not (pays or tiers.MODE != "auto"):
            return self.slot
        try:
            with self._lock:
                if not self.is_made:
                    layout = offsets(function) if supported() else None
                    self.slot = None if layout is None else _Slot(function, layout)
                    self.is_made = True
        except Exception as error:
            if is_interrupt(error):
                raise
            self.is_made = True
            # A shortcut that cannot be taken is no reason to stop.
            warnings.warn(
                f"native calls could not be compiled: {error!r}. Functions are called in Python; "
                "gt.set_recorder('python') does not try.",
                stacklevel=2,
            )
        return self.slot


_slots = _Slots()


def is_coming() -> bool:
    """Whether the slot does not pay yet, so that it is worth another try soon."""
    return not _slots.is_made


def note_calls(count: int) -> None:
    """Note calls of a function in Python whose plan is compiled."""
    _slots.calls += count


def compile_guards(guards: Guards) -> GuardTable | None:
    """The words of guards for native code; None where there is none."""
    if _slots.slot is None or switch.MODE == "python":
        return None
    if guards.table is None:
        guards.table = GuardTable(guards, _slots.slot.guards_hold)
    return guards.table


def install(function: type) -> bool:
    """Let calls of functions go through the slot; False where they cannot, or cannot yet."""
    slot = _slots.get(function)
    if slot is not None and function.__dict__["__call__"] is not slot.wrapper:
        function.__call__ = slot.wrapper  # type: ignore[method-assign]
    return slot is not None


def follow_switch(function: type) -> None:
    """Take the slot out of use if Python was chosen, or put it back if it was compiled."""
    slot = _slots.slot
    if slot is None:
        return
    wanted = slot.in_python if switch.MODE == "python" else slot.wrapper
    if function.__dict__["__call__"] is not wanted:
        function.__call__ = wanted  # type: ignore[method-assign]


T = TypeVar("T")


class LeftToPythonError(Exception):
    """This call has something that native code does not handle."""


class CallContext:
    """The context of one signature, with references to everything that its words point to."""

    def __init__(
        self,
        arguments: CallArguments,
        step: replay.PathStep,
        steps: CapturedSteps,
        until_check: int,
        pins: dict[int, object],
    ) -> None:
        (run,), result = step.runs, step.only_result
        assigned = steps.assigned
        table = None if steps.guards is None else compile_guards(steps.guards)
        differs = None
        if table is None:
            differs = steps.differs
        elif table.rest:
            differs = table.rest_differs
        layout = run.plan.layout
        if layout is None or result is None or arguments.key.aliases:
            raise LeftToPythonError
        # The buffer of each output.
        place = {node: layout.order[number] for number, node in enumerate(run.outputs)}
        # Made first: an argument that is watched may go, and end the call, before it is complete.
        self._words = (ctypes.c_int64 * len(call_context.CONTEXT))()
        self._kept: list[object] = [run, result, tuple(assigned), differs, table, unflatten]
        rows = self._keep(ArgumentRows(arguments, self.end, pins))
        fields = {
            "owner": id(self),
            "thread": _thread(),
            "world": World.number[0],
            "live": 1,
            "until_check": until_check,
            "guards": 0 if table is None else table.count,
            "guard_rows": 0 if table is None else table.address,
            "differs": 0 if differs is None else id(differs),
            "argument_rows": self._table(rows.rows),
            **self._space("inputs", "passed", rows.inputs),
            **self._plan_fields(run, layout, rows),
            **self._result_fields(result, place, rows),
        }
        if isinstance(step.guard, replay.Element):
            # The slot of the value that says whether the others are those of this call.
            slot = FIRST + len(layout.arrays) + place[step.guard.node]
            fields["decision"] = fields["slots"] + 8 * slot
        locks = [self._keep((each.lock.acquire, each.lock.release)) for each in assigned]
        # Tensors that the function reaches without being given them.
        fields |= self._rows("tensors", [(id(self._keep(each)),) for each in steps.tensors])
        fields |= self._rows("locks", [(id(acquire), id(release)) for acquire, release in locks])
        self._words[:] = [fields.get(name, 0) for name in call_context.CONTEXT]
        self.address = ctypes.addressof(self._words)

    def _plan_fields(
        self, run: replay.PlanRun, layout: SlotLayout, rows: ArgumentRows
    ) -> dict[str, int]:
        """Rows that fill the slots of the plan in each call, and run it."""
        fixed = run.constants()
        sources = _Sources(rows.inputs, run.inputs)
        # Slots that are the same in every call, by number: addresses of constants and memory.
        presets: dict[int, int] = {}
        words, numbers = [], []
        for slot, position in enumerate(layout.arrays, start=FIRST):
            if position in fixed:
                presets[slot] = fixed[position].address
            else:
                words.append((slot, sources.value(position)))
        for number, (position, dtype) in enumerate(layout.scalars):
            if position not in fixed:
                numbers.append(sources.number(position, dtype, layout.offsets[number]))
        first = FIRST + len(layout.arrays)
        taken = [(first + number, size) for number, size in enumerate(layout.written)]
        presets |= dict(enumerate(layout.unset, start=first + len(taken)))
        if layout.arena > SMALL_BUFFER:
            taken.append((0, layout.arena))
        elif layout.arena:
            presets[0] = self._keep(buffers.allocate(layout.arena)).address
        memory, base = layout.new_memory()
        constants = [fixed.get(position, 0) for position, _ in layout.scalars]
        presets[SCALARS], presets[STATUS] = base + 8 * layout.slots, base + layout.status
        slots = [presets.get(slot, 0) for slot in range(layout.slots)]
        layout.pack(memory, 0, *slots, *layout.converted(constants))
        self._kept += [layout, memory, sources]
        stretch = layout.stretch
        return {
            **self._rows("sources", [*sources.rows]),
            **self._space("sources", "values", [*sources.rows]),
            **self._rows("words", words),
            **self._rows("numbers", numbers),
            **self._rows("buffers", [self._buffer_row(*each) for each in taken]),
            **self._space("buffers", "taken", taken),
            "slots": base,
            "instructions": stretch.instructions.address,
            "count": stretch.instructions.count,
            "parallel": int(stretch.parallel),
            "keep_gil": int(stretch.quick),
            "ops": layout.ops,
        }

    def _result_fields(
        self, result: replay.PathResult, place: dict[Node, int], rows: ArgumentRows
    ) -> dict[str, int]:
        """Rows that make and assign results from the buffers that the plan has written."""
        structure = result.structure
        return {
            **self._rows("leaves", [*self._leaf_rows(result.leaves, place, rows)], "leaf_rows"),
            "shape": _shape(structure),
            "unflatten": id(unflatten),
            "structure": id(structure),
            **self._rows("updates", [_update_row(source, place) for _, source in result.updates]),
            **self._space("updates", "handles", result.updates),
            "assign": id(result.assignment),
        }

    # Tables of words.

    def _rows(
        self, name: str, rows: Sequence[Sequence[int]], table: str | None = None
    ) -> dict[str, int]:
        """The fields of a table: the number of its rows, and its address."""
        return {name: len(rows), table or f"{name[:-1]}_rows": self._table(rows)}

    def _space(self, name: str, space: str, things: Sequence[object]) -> dict[str, int]:
        """The fields of a table that a call fills with one word for each of these."""
        return {name: len(things), space: self._table([(0,)] * len(things))}

    def _keep(self, thing: T) -> T:
        self._kept.append(thing)
        return thing

    def _table(self, rows: Sequence[Sequence[int]]) -> int:
        """The address of rows of words."""
        flat = [number for row in rows for number in row]
        return ctypes.addressof(self._keep((ctypes.c_int64 * max(len(flat), 1))(*flat)))

    def _buffer_row(self, slot: int, nbytes: int) -> tuple[int, ...]:
        capacity = buffers.capacity_for(nbytes)
        # The pool notes requests for large capacities, so these are left to it.
        pop = id(self._keep(buffers.taker(capacity))) if nbytes <= SMALL_BUFFER else 0
        return slot, pop, capacity, id(self._keep(nbytes))

    def _leaf_rows(
        self, leaves: Sequence[replay.ValueSource], place: dict[Node, int], rows: ArgumentRows
    ) -> Iterator[tuple[int, int, int]]:
        for number, leaf in enumerate(leaves):
            first = leaves.index(leaf)
            if first < number:
                yield first, 0, call_context.A_LEAF
            else:
                yield self._leaf_row(leaf, place, rows)

    def _leaf_row(
        self, leaf: replay.ValueSource, place: dict[Node, int], rows: ArgumentRows
    ) -> tuple[int, int, int]:
        if isinstance(leaf, replay.Constant):
            return id(leaf.content), 0, call_context.THE_OBJECT
        if (
            isinstance(leaf, replay.CallersTensor)
            and rows.inputs[leaf.position] == call_context.TENSOR
        ):
            return leaf.position, 0, call_context.AN_INPUT
        if not isinstance(leaf, replay.NewTensor) or not isinstance(
            leaf.source, replay.ComputedNode
        ):
            raise LeftToPythonError
        if leaf.kind.__basicsize__ != Handle.__basicsize__ or leaf.kind.__dictoffset__:
            raise LeftToPythonError
        node = leaf.source.node
        return place[node], id(node.spec), id(leaf.kind)

    # What changes.

    def _field(self, name: str) -> int:
        return self._words[call_context.CONTEXT.index(name)]

    @property
    def calls(self) -> int:
        """The number of runs."""
        return self._field("calls")

    @property
    def until_check(self) -> int:
        """The number of native calls before the next check."""
        return self._field("until_check")

    @until_check.setter
    def until_check(self, calls: int) -> None:
        self._words[call_context.CONTEXT.index("until_check")] = calls

    @property
    def is_valid(self) -> bool:
        """Whether calls may still take it."""
        return bool(self._field("live")) and self._field("world") == World.number[0]

    def end(self) -> None:
        """No call takes it any more."""
        self._words[call_context.CONTEXT.index("live")] = 0
        if not self._field("busy"):
            # Constants may be large. Native code reads nothing else of a context that is not live.
            self._kept.clear()


def native_call(
    function: type, arguments: CallArguments, steps: CapturedSteps, until_check: int
) -> CallContext | None:
    """The native call for calls like this one; None if they are left to Python."""
    step, pins = (steps.root.unpinned()) if steps.joined is None else (steps.joined, {})
    if step.only_result is None or step.runs[0].plan.layout is None or not install(function):
        return None
    try:
        return CallContext(arguments, step, steps, until_check, pins)
    except LeftToPythonError:
        return None


class _Sources:
    """The rows of the sources of values, each of them once."""

    def __init__(self, passed: Sequence[int], inputs: Sequence[replay.ValueSource]) -> None:
        # The kind of each input of the call, and the source of each input of the plan.
        self._passed = passed
        self._inputs = inputs
        self.rows: dict[tuple[int, int], int] = {}

    def value(self, position: int) -> int:
        """The number of the row of a value."""
        source = self._inputs[position]
        if isinstance(source, replay.ArgumentValue):
            if self._passed[source.position] != call_context.TENSOR:
                raise LeftToPythonError
            row = call_context.PASSED, source.position
        elif isinstance(source, replay.VariableValue):
            row = call_context.VARIABLE, id(source.variable)
        elif isinstance(source, replay.OutsideTensor):
            row = call_context.REFERENCE, id(source.handle)
        else:
            raise LeftToPythonError
        return self.rows.setdefault(row, len(self.rows))

    def number(self, position: int, dtype: np.dtype[Any], offset: int) -> tuple[int, ...]:
        """The row of a number that goes to an offset of the memory of a run."""
        source, size = self._inputs[position], dtype.itemsize
        if not isinstance(source, replay.ComputedNumber):
            return call_context.COPIED, self.value(position), offset, size
        if dtype.kind != "f":
            raise LeftToPythonError
        if type(source.formula.compute) is itemgetter:
            place = int(source.formula.compute.__reduce__()[1][0])
            if self._passed[place] == call_context.FLOAT:
                how = call_context.DOUBLE if size == 8 else call_context.SINGLE
                return how, place, offset, size
        how = call_context.COMPUTED_DOUBLE if size == 8 else call_context.COMPUTED_SINGLE
        return how, id(source.formula.compute), offset, size


class ArgumentRows:
    """The rows by which native code recognises the arguments, and how each input is passed."""

    def __init__(
        self,
        arguments: CallArguments,
        gone: Callable[[], None],
        pins: dict[int, object] | None = None,
    ) -> None:
        # Numbers that must have these values, by position.
        self._pins = pins or {}
        self.rows: list[tuple[int, int, int]] = []
        self.inputs: list[int] = []
        self._kept: list[object] = []
        self._gone = gone
        # An object that dies ends the native call: another object may get its address.
        self.watched: list[weakref.ref[object]] = []
        if arguments.kwargs:
            raise LeftToPythonError
        self._add(call_context.ROW, tuple, len(arguments.args))
        for _, argument, structure, parts in arguments.described():
            self._enter(argument, structure, iter(parts))

    def _add(self, how: int, thing: object, more: int = 0) -> None:
        self._kept.append(thing)
        self.rows.append((how, id(thing), more))

    def _enter(self, thing: Any, structure: Structure, parts: Iterator[object]) -> None:
        kind = type(thing)
        if structure.kind is None:
            self._enter_leaf(thing, next(parts))
        elif thing is None:
            self._add(call_context.OBJECT, None)
        elif structure.kind is kind and kind in (tuple, list):
            how = call_context.ROW if kind is tuple else call_context.SERIES
            self._add(how, kind, len(thing))
            for child, below in zip(thing, structure.children, strict=True):
                self._enter(child, below, parts)
        elif structure.kind is kind is dict:
            self._add(call_context.MAPPING, dict, len(thing))
            for (key, child), below in zip(thing.items(), structure.children, strict=True):
                self._add(call_context.OBJECT, key)
                self._enter(child, below, parts)
        else:
            raise LeftToPythonError

    def _enter_leaf(self, leaf: Any, part: object) -> None:
        kind = type(leaf)
        if is_input(part):
            if issubclass(kind, Tensor) and leaf.computed is not None:
                self._kept.append(leaf.computed.spec)
                self._add(call_context.TENSOR, kind, id(leaf.computed.spec))
            elif kind is float:
                pin = self._pins.get(len(self.inputs))
                if pin is None:
                    self._add(call_context.FLOAT, float)
                else:
                    (bits,) = struct.unpack("=q", struct.pack("=d", pin))
                    self._add(call_context.THE_FLOAT, float, bits)
            else:
                raise LeftToPythonError
            how = self.rows[-1][0]
            self.inputs.append(call_context.FLOAT if how == call_context.THE_FLOAT else how)
            return
        if isinstance(part, Identity):
            gone = weakref.WeakMethod(self._gone)

            def end(_: object) -> None:
                method = gone()
                if method is not None:
                    method()

            try:
                self.watched.append(weakref.ref(leaf, end))
            except TypeError:
                raise LeftToPythonError from None
            self.rows.append((call_context.OBJECT, id(leaf), 0))
        elif kind in (bool, int, str, bytes, type(None)):
            self._add(call_context.OBJECT, leaf)
        else:
            raise LeftToPythonError


def _update_row(source: replay.ValueSource, place: dict[Node, int]) -> tuple[int, int]:
    if not isinstance(source, replay.ComputedNode):
        raise LeftToPythonError
    return place[source.node], id(source.node.spec)


def _shape(structure: Structure) -> int:
    if structure.kind is None:
        return call_context.ONLY
    if structure.kind in (tuple, list) and all(each.kind is None for each in structure.children):
        return call_context.TUPLE if structure.kind is tuple else call_context.LIST
    return call_context.OTHER


def _thread() -> int:
    """The number of the running thread. CPython never gives it to another one."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))
    number = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
    return number(("PyThreadState_GetID", ctypes.pythonapi))(get())
