"""Captured: one kind of call of a function, run in Python at first and in compiled steps later."""

from __future__ import annotations

import contextlib
import gc
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from gradtape.codegen.cpython import native_recorder as native
from gradtape.evaluate.flush import flush, retire
from gradtape.functions.argument_keys import Identity, static_key
from gradtape.functions.capture import MEANWHILE, Capture, is_view
from gradtape.functions.explain import warn_of_paths
from gradtape.functions.guards import Surroundings
from gradtape.functions.joined_path import Habit, Path, joined_path
from gradtape.functions.returned_values import Returned, is_inside, returned, sources_of, strange
from gradtape.functions.signature import Arguments
from gradtape.functions.stand_ins import Given
from gradtape.functions.steps import Call, Result, Step, replay
from gradtape.functions.written_out_call import straight_call
from gradtape.graph.lines import warn
from gradtape.graph.node import Node
from gradtape.ops.custom.callback import journal
from gradtape.pytree import flatten, unflatten
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.recording.value import Value
from gradtape.tensor.row_sparse import RowSparse

# Past so many paths through one function, it runs in Python.
PATHS = 64
# So many runs that leave variables, generators or tapes behind are taken for a beginning.
BEGINNINGS = 3
# A call that was made so often may be worth native code.
FIRST_LOOK = 1 if native.MODE == "native" else 32
# Tensors from outside that stay for so many calls may be replaced then.
STAY = 32

# So often other meanings of names are captured apart.
SURROUNDINGS = 8

_NOTHING = contextlib.nullcontext()


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
        # Calls that went through Python, and at which of them to look for a more direct way.
        self.python_calls, self.look_at = 0, FIRST_LOOK
        self.root, self.paths = Step(), 0
        # The whole call, where it is one run.
        self.straight: Any = None
        # The same in native code, once it has been called often enough.
        self.direct: Any = None
        # The way through the steps that it usually takes, as one plan.
        self.path: Path | None = None
        self.habit = Habit()
        # Why it runs in Python, if it does.
        self.refused: str | None = None
        # How often it left something behind that the next call goes on with.
        self.beginnings = 0
        # Variables that it reads, and those that it assigns, in the order in which they are locked.
        self.read: tuple[str, ...] = ()
        self.assigned: tuple[Any, ...] = ()
        self.draws = False
        # Arguments that are changed in place, and whether something in it may fail or calls Python.
        self.moves: frozenset[int] = frozenset()
        self.fallible = False
        # What tells when tensors that it reads from outside are gone, so that others may be there
        # in their place; how often that has happened since they last stayed for a while, and when.
        self.outside: list[weakref.ref[Any]] = []
        self.is_stale, self.replaced, self.since = False, 0, 0
        # What tells whether names that it uses mean something else by now, and what they meant;
        # names that its own runs change; what was captured with other meanings, this one included.
        self.differs: Callable[[], bool] | None = None
        self.surroundings: Surroundings | None = None
        self.effects: set[str] = set()
        self.siblings: list[Captured] = [self]
        # What the runs in Python took: all of them, and the latest each.
        self.seconds = 0.0
        self.latest: deque[float] = deque(maxlen=8)

    def run(self, arguments: Arguments, leaves: list[Any]) -> Any:
        """Run the steps that are known, and Python where they are not or where one fails."""
        if self.is_stale:
            self._renew()
            if self.refused is not None:
                return self.function(*arguments.args, **arguments.kwargs)
        if self.moves and self._are_unlike(arguments):
            return self.function(*arguments.args, **arguments.kwargs)
        call, failure = Call(leaves, arguments.given), None
        careful = self._guarded(call) if self.assigned or self.fallible else _NOTHING
        try:
            with careful:
                result = self._replayed(call)
                if result is not None:
                    return returned(result, call, arguments)
        except Exception as error:
            failure = error.with_traceback(None)
        # Python runs without the locks: it may take those of other variables, in its own order.
        unchanged = call.give_back()
        if failure is not None:
            return self.run_in_python(arguments, failure, call.outcomes)
        # What callbacks have done is not computed again, but told. What variables hold may differ.
        known = unchanged and not (call.outcomes or self.read or self.assigned)
        return self.capture(arguments, leaves, call.values if known else {}, call.outcomes)

    @contextlib.contextmanager
    def _guarded(self, call: Call) -> Iterator[None]:
        """Reading variables, computing and assigning them is one step to other threads.

        What callbacks give is remembered for a run in Python that may follow.
        """
        with contextlib.ExitStack() as stack:
            for variable in self.assigned:
                stack.enter_context(variable.lock)
            stack.enter_context(journal.use(call.outcomes, None))
            yield

    def _replayed(self, call: Call) -> Result | None:
        """Run the path that is usually taken, or the steps that the values choose."""
        result = None if self.path is None else self._run_path(call)
        if result is None:
            result = replay(self.root, call)
            if result is not None and self.habit.formed(result):
                self.path = joined_path(self.root, result, self.fastmath)
        return result

    def _run_path(self, call: Call) -> Result | None:
        path: Any = self.path
        result = path.run(call)
        if result is None and not path.pays:
            self.path = None
        return result

    def _are_unlike(self, arguments: Arguments) -> bool:
        """Whether something that is changed in place is given once more, or refuses to be."""
        given = arguments.given()
        numbers = [id(original) for original in given]
        return any(
            numbers.count(numbers[position]) > 1 or is_view(given[position])
            for position in self.moves
        )

    def run_in_python(
        self, arguments: Arguments, error: Exception, outcomes: list[Any] | None = None
    ) -> Any:
        """Run the function as it is: then what fails does so on its line, and is told there."""
        try:
            with journal.use(None, outcomes):
                return self.function(*arguments.args, **arguments.kwargs)
        except type(error) as again:
            if not getattr(again, "__notes__", None):
                for note in getattr(error, "__notes__", ()):
                    again.add_note(note)
            raise again from None

    # Capturing.

    def capture(
        self,
        arguments: Arguments,
        leaves: list[Any],
        fed: dict[Node, Value],
        outcomes: list[Any] | None = None,
    ) -> Any:
        """Run the function in Python, and keep what it did."""
        start = time.perf_counter()
        around = Surroundings(self.function, _objects(arguments))
        capture = Capture(self.root, fed, self.fastmath)
        given = Given(capture, arguments, leaves)
        try:
            with journal.use(None, outcomes), captured_run(capture, self.function, given) as found:
                return self._finish(capture, found, given, around)
        except Exception as error:
            if not capture.broken:
                given.carry_out()
                raise
            failure = error
        finally:
            self._took(start)
        capture.undo()
        return self.run_in_python(arguments, failure)

    def prepare(self, arguments: Arguments, leaves: list[Any]) -> None:
        """Capture a run for arguments like these, and leave all state as it is."""
        start = time.perf_counter()
        around = Surroundings(self.function, _objects(arguments))
        capture = Capture(self.root, {}, self.fastmath)
        given = Given(capture, arguments, leaves)
        try:
            with captured_run(capture, self.function, given) as found:
                self._finish(capture, found, given, around, lasts=False)
        finally:
            self._took(start)
            capture.undo()

    def _took(self, start: float) -> None:
        spent = time.perf_counter() - start
        self.seconds += spent
        self.latest.append(spent)

    def _finish(
        self,
        capture: Capture,
        box: list[Any],
        given: Given,
        around: Surroundings,
        lasts: bool = True,
    ) -> Any:
        """Compute what is returned and assigned, and note where later calls find it.

        What was done to the arguments is done to those of the caller, if it is to last.
        """
        leaves, structure = flatten(box.pop())
        capture.finish_step()
        nodes = [leaf.node if is_inside(leaf, capture) else None for leaf in leaves]
        capture.tapes.pop(id(capture), None)
        capture.active = 0
        outlived = bool(capture.tapes)
        result = Result(
            structure,
            sources_of(capture, leaves, nodes),
            tuple((variable, capture.source(node)) for variable, node in capture.last_assigned()),
            tuple((ref, capture.source(node)) for ref, node in capture.rebound()),
            tuple((at, capture.source(handle.node)) for at, handle in capture.moved.items()),
        )
        flush(capture)
        if capture.broken:
            raise _EarlierError
        if lasts:
            given.carry_out()
        if not capture.closed and not capture.tapes:
            retire(capture)
        odd = strange(leaves, given.returnable())
        changed = bool(given.changes)
        fresh = Returned(leaves, nodes, given.originals)
        if odd is not None:
            kind = type(odd).__name__
            self.refuse(f"it returns an object of class {kind}, which may differ between calls")
        elif changed:
            self.refuse("it changes a list, dict or dataclass that it is given")
        elif around.has_drawn():
            self.refuse(
                "it draws random numbers of Python or NumPy, which are new in every call",
                remedy="Use gt.random",
            )
        elif not capture.failed:
            left = _left_behind(capture, given, leaves, outlived)
            if left is not None:
                # Whoever assigned since has held on to what was assigned here.
                capture.compare_variables()
            self._keep(capture, result, outlived, left)
            if self.paths:
                self.surroundings, self.differs = around, around.settle(self.effects)
        return unflatten(structure, fresh.own(leaves))

    def _keep(self, capture: Capture, result: Result, outlived: bool, left: str | None) -> None:
        """Enter a path in the tree, if later calls can take it."""
        if capture.escaped is not None and not (outlived or left):
            what, line = capture.escaped
            self.refuse(f"{what} at {line}", silently=capture.meant)
        elif left is not None or capture.unlike is not None:
            # Such as a layer that makes its variables when it is first called.
            self._begin_anew()
            # That others came in between says nothing of the next call.
            self.beginnings += capture.unlike != MEANWHILE
            if self.beginnings > BEGINNINGS:
                self.refuse(left or str(capture.unlike))
        elif capture.inconsistent:
            # What it does changed between two runs on the same values.
            self._begin_anew()
        else:
            capture.step.result = result
            self.paths += 1
            assigned = {*self.assigned, *capture.assigned}
            self.assigned = tuple(sorted(assigned, key=lambda variable: variable.number))
            names = [*self.read, *[variable.name for variable in capture.variables]]
            self.read = tuple(dict.fromkeys(names))
            self.draws = self.draws or capture.draws
            self.moves |= {position for position, _ in result.moved}
            self.fallible = self.fallible or capture.fallible
            self._watch(capture.outside())
            if self.paths == 1 and capture.step is self.root:
                straight = straight_call(self.root)
                self.straight = _locked(straight, self.assigned) if straight else None
            if self.paths > PATHS:
                self.refuse(f"it takes more than {PATHS} paths, by values it looks at")
            elif capture.missed is not None:
                warn_of_paths(self.name, self.latest, capture.missed)

    def _begin_anew(self) -> None:
        self._leave_straight()
        self.root, self.path, self.paths = Step(), None, 0
        self.outside, self.surroundings, self.differs = [], None, None

    def _leave_straight(self) -> None:
        self.straight, direct, self.direct = None, self.direct, None
        if direct is not None:
            self.python_calls += direct.calls
            self.look_at = self.python_calls + FIRST_LOOK
            direct.end()

    @property
    def calls(self) -> int:
        """How often it was called."""
        return self.python_calls + (0 if self.direct is None else self.direct.calls)

    # What names around the function mean.

    def with_surroundings(self) -> Captured:
        """What was captured, or is to be, for what names around the function mean now."""
        changed = self.surroundings and self.surroundings.difference()
        if not changed:
            return self
        for each in self.siblings:
            if each.surroundings is not None and each.surroundings.difference() is None:
                return each
        if len(self.siblings) > SURROUNDINGS:
            self.refuse(
                "{} was {} and is {}, and changes again and again".format(*changed),
                remedy="Pass it as an argument",
            )
            return self
        found = Captured(self.name, self.function, self.fastmath, changed)
        found.siblings, found.effects = self.siblings, self.effects
        self.siblings.append(found)
        return found

    # Tensors from outside.

    def _watch(self, handles: list[Any]) -> None:
        """Notice when tensors from outside are gone: others may be there in their place."""
        reference = weakref.ref(self)

        def gone(handle: weakref.ref[Any]) -> None:
            captured = reference()
            if captured is not None and any(handle is each for each in captured.outside):
                captured.is_stale = True
                captured._leave_straight()

        self.outside += [weakref.ref(handle, gone) for handle in handles]

    def _renew(self) -> None:
        """A tensor from outside is gone: what is read now is to be found by a run in Python."""
        self.is_stale = False
        self._begin_anew()
        self.replaced = self.replaced + 1 if self.calls - self.since <= STAY else 1
        self.since = self.calls
        if self.replaced > BEGINNINGS:
            self.refuse("tensors that it reads from outside are replaced between calls")

    def refuse(
        self, why: str, silently: bool = False, remedy: str = "Keep the value a tensor"
    ) -> None:
        """Run in Python from now on, and say so."""
        self.refused, self.differs = why, None
        self._begin_anew()
        if silently:
            return
        warn(
            f"gt.function: {self.name} runs in Python, uncompiled, for arguments of this kind: "
            f"{why}. {remedy}, or leave the decorator out."
        )


@contextlib.contextmanager
def captured_run(
    capture: Capture, function: Callable[..., Any], given: Given
) -> Iterator[list[Any]]:
    """Run a function on what it is given of a capture; gives what it returned, in a box."""
    outer = state.recording
    state.recording = capture
    try:
        found = [function(*given.args, **given.kwargs)]
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


def _objects(arguments: Arguments) -> list[Any]:
    """Positional arguments that are told by being themselves; None in the place of others."""
    return [
        each if hasattr(each, "__dict__") and type(static_key(each)) is Identity else None
        for each in arguments.args
    ]


class _EarlierError(Exception):
    """Something failed, and the function has gone on: it is run again as it is."""


def _left_behind(capture: Capture, given: Given, leaves: list[Any], outlived: bool) -> str | None:
    """What a run that is over has left outside, so that its repetition would have to, as well."""
    inputs = given.release()
    if outlived:
        return "every call makes a tape that outlives it"
    parts = [part for leaf in leaves if isinstance(leaf, RowSparse) for part in leaf.rows]

    def found() -> str | None:
        for thing in capture.lasting():
            return f"every call makes a {type(thing).__name__} that outlives it"
        known = [*leaves, *parts, *capture.known()]
        leaked = capture.leaked(inputs, known)
        return "a tensor that it computes or is given is kept outside" if leaked else None

    if found() is None:
        return None
    # Functions that call themselves hold on to what they know a little longer.
    gc.collect()
    return found()


def _locked(call: Callable[[list[Any], Any], Any], variables: tuple[Any, ...]) -> Any:
    """The call as one step to other threads that read or assign the same variables."""
    if not variables:
        return call
    locks = [variable.lock for variable in variables]

    def locked(leaves: list[Any], given: Any) -> Any:
        for lock in locks:
            lock.acquire()
        try:
            return call(leaves, given)
        finally:
            for lock in locks:
                lock.release()

    return locked
