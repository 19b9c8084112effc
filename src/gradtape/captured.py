"""Captured: one kind of call of a function, run in Python at first and in compiled steps later."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from gradtape.graph.deferred import Deferred
from gradtape.graph.lines import warn
from gradtape.graph.node import Node
from gradtape.graph.recording import Recording, Value, state
from gradtape.pytree import flatten, unflatten
from gradtape.recording.capture import Capture
from gradtape.recording.flush import flush, retire
from gradtape.recording.steps import Call, Constant, Number, Result, Step, replay
from gradtape.signature import Arguments
from gradtape.straight import Wrapped, straight_call
from gradtape.tensor import RowSparse, Tensor
from gradtape.tracing_report import warn_of_paths

# Past so many paths through one function, it runs in Python.
PATHS = 64
# So many runs that leave variables, generators or tapes behind are taken for a beginning.
BEGINNINGS = 3


class Captured:
    """What is known of one kind of call: its steps, and what they cost and gave."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        fastmath: bool,
        why: tuple[str, str, str] | None,
    ) -> None:
        self.name = name
        self.function = function
        self.fastmath = fastmath
        # The argument that made it another kind, what it was before and what it is.
        self.why = why
        self.calls = 0
        self.root, self.paths = Step(), 0
        # The whole call, where it is one run.
        self.straight: Any = None
        # Why it runs in Python, if it does.
        self.refused: str | None = None
        # How often it left something behind that the next call goes on with.
        self.beginnings = 0
        # Variables that it reads, and those that it assigns, in the order in which they are locked.
        self.read: tuple[str, ...] = ()
        self.assigned: tuple[Any, ...] = ()
        self.draws = False
        # What the runs in Python took: all of them, and the latest each.
        self.seconds = 0.0
        self.latest: deque[float] = deque(maxlen=8)

    def run(self, arguments: Arguments, leaves: list[Any]) -> Any:
        """Run the steps that are known, and Python where they are not or where one fails."""
        if not self.assigned:
            return self._run(arguments, leaves)
        # Reading variables, computing and assigning them is one step to other threads.
        with contextlib.ExitStack() as locks:
            for variable in self.assigned:
                locks.enter_context(variable.lock)
            return self._run(arguments, leaves)

    def _run(self, arguments: Arguments, leaves: list[Any]) -> Any:
        call = Call(leaves)
        try:
            result = replay(self.root, call)
            if result is not None:
                return _returned(result, call, arguments)
        except Exception as error:
            call.give_back()
            return self.run_in_python(arguments, error)
        return self.capture(arguments, leaves, call.values if call.give_back() else {})

    def run_in_python(self, arguments: Arguments, error: Exception) -> Any:
        """Run the function as it is: then what fails does so on its line, and is told there."""
        try:
            return self.function(*arguments.args, **arguments.kwargs)
        except type(error) as again:
            if not getattr(again, "__notes__", None):
                for note in getattr(error, "__notes__", ()):
                    again.add_note(note)
            raise again from None

    # Capturing.

    def capture(self, arguments: Arguments, leaves: list[Any], fed: dict[Node, Value]) -> Any:
        """Run the function in Python, and keep what it did."""
        start = time.perf_counter()
        capture = Capture(self.root, fed, self.fastmath)
        try:
            with captured_run(capture, self.function, arguments, leaves) as found:
                return self._finish(capture, found, arguments)
        except Exception as error:
            if not capture.failed:
                raise
            failure = error
        finally:
            self._took(start)
        capture.undo()
        return self.run_in_python(arguments, failure)

    def prepare(self, arguments: Arguments, leaves: list[Any]) -> None:
        """Capture a run for arguments like these, and leave all state as it is."""
        start = time.perf_counter()
        capture = Capture(self.root, {}, self.fastmath)
        try:
            with captured_run(capture, self.function, arguments, leaves) as found:
                self._finish(capture, found, None)
        finally:
            self._took(start)
            capture.undo()

    def _took(self, start: float) -> None:
        spent = time.perf_counter() - start
        self.seconds += spent
        self.latest.append(spent)

    def _finish(self, capture: Capture, box: list[Any], arguments: Arguments | None) -> Any:
        """Compute what is returned and assigned, and note where later calls find it."""
        leaves, structure = flatten(box.pop())
        capture.finish_step()
        nodes = [leaf.node if is_inside(leaf, capture) else None for leaf in leaves]
        capture.tapes.pop(id(capture), None)
        capture.active = 0
        outlived = bool(capture.tapes)
        result = Result(
            structure,
            tuple(_source(capture, *each) for each in zip(leaves, nodes, strict=True)),
            tuple((v, capture.source(v._handle.node)) for v in capture.assigned),
            tuple((ref, capture.source(node)) for ref, node in capture.rebound()),
            tuple((at, capture.source(handle.node)) for at, handle in capture.moved.items()),
        )
        flush(capture)
        if capture.failed:
            raise _EarlierError
        if arguments is not None and capture.moved:
            given = arguments.inputs()
            for at, handle in capture.moved.items():
                _rebind(given[at][1], handle.computed)
        self._keep(capture, result, outlived)
        if not capture.closed and not capture.tapes:
            retire(capture)
        return unflatten(structure, [x.value if type(x) is Deferred else x for x in leaves])

    def _keep(self, capture: Capture, result: Result, outlived: bool) -> None:
        """Enter a path in the tree, if later calls can take it."""
        lasting = capture.lasting()
        if outlived or lasting:
            # Such as a layer that makes its variables when it is first called.
            self.root, self.paths = Step(), 0
            self.beginnings += 1
            if self.beginnings > BEGINNINGS:
                what = "a tape" if outlived else f"a {type(lasting[0]).__name__}"
                self._refuse(f"every call makes {what} that outlives it")
        elif capture.escaped is not None:
            what, line = capture.escaped
            self._refuse(f"{what} at {line}")
        elif capture.inconsistent:
            # What it does changed between two runs on the same values.
            self.root, self.paths = Step(), 0
        else:
            capture.step.result = result
            self.paths += 1
            assigned = {*self.assigned, *capture.assigned}
            self.assigned = tuple(sorted(assigned, key=lambda variable: variable.number))
            names = [*self.read, *[variable.name for variable in capture.variables]]
            self.read = tuple(dict.fromkeys(names))
            self.draws = self.draws or capture.draws
            if self.paths == 1 and capture.step is self.root:
                straight = straight_call(self.root)
                self.straight = _locked(straight, self.assigned) if straight else None
            if self.paths > PATHS:
                self._refuse(f"it takes more than {PATHS} paths, by values it looks at")
            elif capture.missed is not None:
                warn_of_paths(self.name, self.latest, capture.missed)

    def _refuse(self, why: str) -> None:
        self.refused = why
        self.root, self.straight = Step(), None
        warn(
            f"gt.function: {self.name} runs in Python, uncompiled, for arguments of this kind: "
            f"{why}. Keep the value a tensor, or leave the decorator out."
        )


@contextlib.contextmanager
def captured_run(
    capture: Capture, function: Callable[..., Any], arguments: Arguments, leaves: list[Any]
) -> Iterator[list[Any]]:
    """Run a function on inputs of a capture; gives what it returned, in a box."""
    outer = state.recording
    args, kwargs = arguments.rebuilt(_given(capture, arguments, leaves))
    state.recording = capture
    try:
        found = [function(*args, **kwargs)]
        del args, kwargs
        yield found
    finally:
        capture.tapes.pop(id(capture), None)
        capture.active = 0
        try:
            if not capture.closed and not capture.tapes:
                # Only after an error: what else was pending is computed, if it can be.
                with contextlib.suppress(Exception):
                    flush(capture)
        finally:
            state.recording = Recording() if outer.closed else outer


class _EarlierError(Exception):
    """Something failed, and the function has gone on: it is run again as it is."""


def _given(capture: Capture, arguments: Arguments, leaves: list[Any]) -> list[Any]:
    """Inputs of a capture in the place of those of a call."""
    found = []
    for position, (leaf, (label, original)) in enumerate(
        zip(leaves, arguments.inputs(), strict=True)
    ):
        if type(leaf) is Value:
            kind = getattr(original, "result_class", Tensor)
            found.append(capture.argument(position, leaf, kind))
        else:
            found.append(_deferred(position, leaf, label, capture))
    return found


def _deferred(position: int, leaf: Any, label: str, capture: Capture) -> Any:
    def guard(compute: Any, value: Any) -> None:
        capture.guard_number(compute, value, label)

    return Deferred(leaf, lambda numbers: numbers[position], guard)


def _locked(call: Callable[[list[Any]], Any], variables: tuple[Any, ...]) -> Any:
    """The call as one step to other threads that read or assign the same variables."""
    if not variables:
        return call
    locks = [variable.lock for variable in variables]

    def locked(leaves: list[Any]) -> Any:
        for lock in locks:
            lock.acquire()
        try:
            return call(leaves)
        finally:
            for lock in locks:
                lock.release()

    return locked


def is_inside(leaf: Any, capture: Capture) -> bool:
    """Whether something is a tensor of a capture."""
    return isinstance(leaf, Tensor) and leaf.recording is capture


def _source(capture: Capture, leaf: Any, node: Any) -> Any:
    """Where a later call finds one leaf of what the function returns."""
    if isinstance(leaf, RowSparse):
        kind, of = type(leaf), leaf.spec
        rows = [
            _source(capture, part, part.node if is_inside(part, capture) else None)
            for part in leaf.rows
        ]
        return lambda call: kind(*[source(call) for source in rows], of)
    if node is not None:
        return Wrapped(capture.source(node), type(leaf).result_class)
    return Number(leaf.compute) if type(leaf) is Deferred else Constant(leaf)


def _returned(result: Result, call: Call, arguments: Arguments) -> Any:
    """What a call returns; and what it leaves behind, which happens here."""
    found = [source(call) for source in result.leaves]
    values = [(variable, source(call)) for variable, source in result.updates]
    tensors = [(ref(), source(call)) for ref, source in result.rebound]
    if result.moved:
        given = arguments.inputs()
        tensors += [(given[at][1], source(call)) for at, source in result.moved]
    for variable, value in values:
        variable.replace(Value(value.content, value.spec))
    for handle, value in tensors:
        _rebind(handle, value)
    return unflatten(result.structure, found)


def _rebind(handle: Any, value: Value) -> None:
    """Let a tensor outside stand for what the function rebound it to."""
    if isinstance(handle, Tensor):
        handle.rebind(Tensor(None, None, value), "x op= v inside a function")
