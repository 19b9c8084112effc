"""Captured: the calls of one signature, and the choice of how to run each of them.

A call is replayed if the tree of steps has its path; else the function runs in Python as a capture,
which adds the path. Where a replay fails, the function runs in Python without a capture, so that
the error comes from the user's line. A signature whose calls cannot be replayed is refused: its
calls run in Python from then on.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

from gradtape.codegen.cpython import switch
from gradtape.evaluate.flush import leave_full_table, release
from gradtape.functions.arguments.signature import Arguments, Inputs
from gradtape.functions.capture.capture import MEANWHILE
from gradtape.functions.capture.capture_run import CaptureRun, Refusal, outside_refusal
from gradtape.functions.explain import History, warn_of_paths
from gradtape.functions.native.native_call import NativeCall
from gradtape.functions.outside.run_observer import Observation
from gradtape.functions.replay.captured_steps import CapturedSteps, JournaledError
from gradtape.functions.replay.replay_source import Replay, UnknownPath
from gradtape.graph.lines import warn
from gradtape.graph.node import Node
from gradtape.messages import Log
from gradtape.ops.custom.callback import Outcome, journal
from gradtape.process.interrupts import is_interrupt
from gradtape.recording.handle import Handle
from gradtape.recording.thread_state import state
from gradtape.recording.value import Value
from gradtape.runtime.probe import PROBE

_log = Log("functions")

# Past so many paths through one function, it runs in Python.
PATHS = 64
# So many runs that leave variables, generators or tapes outside are taken for a beginning, such as
# layers that make their variables when they are first called.
BEGINNINGS = 3
# Tensors from outside that stay for so many calls may be replaced then.
STAY = 32
# So many sets of values that are read outside are captured apart.
OUTSIDE_VALUES = 8
# Past so many pending applications, calls in Python look whether anybody holds their results.
PENDING = 256


def first_look() -> int:
    """The number of calls in Python after which a native call is considered."""
    return 1 if switch.MODE == "native" else 32


class Captured:
    """The calls of one signature of a function."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        fastmath: bool,
        frozen: bool,
        why: tuple[str, str, str] | None,
    ) -> None:
        self.name = name
        self.function = function
        self.fastmath = fastmath
        self.frozen = frozen
        self.history = History(why)
        self.steps = CapturedSteps(fastmath)
        # The written-out replay of the steps; None until it is written.
        self.replay: Replay | None = None
        # The same in native code, and the number of calls at which it is next considered.
        self.native_call: NativeCall | None = None
        self.look_at = first_look()
        # How often a run left something outside, or was unlike those to come.
        self._beginnings = 0
        # How often a run read something outside that no run had read before.
        self._grown = 0
        # References to tensors from outside, whether one of them is gone, how often that happened
        # since they last stayed for a while, and at which call it happened last.
        self._outside: list[weakref.ref[Handle]] = []
        self._is_stale, self._replaced, self._replaced_at = False, 0, 0
        # What earlier runs executed; and the captures of this signature for other values that are
        # read outside, this one included.
        self._learned: Observation | None = None
        self.siblings: list[Captured] = [self]
        self._drop_at = PENDING
        # How often it was called before captures were last dropped.
        self.calls_before = -1

    @property
    def refused(self) -> str | None:
        """Why calls run in Python, if they do."""
        return self.history.refused

    @property
    def calls(self) -> int:
        """How often it was called."""
        return self.history.calls + (0 if self.native_call is None else self.native_call.calls)

    # Running.

    def run(self, arguments: Arguments, leaves: Inputs) -> Any:
        """Replay the call, or run Python where its path is unknown or the replay fails."""
        self.history.calls += 1
        replay, steps = self.replay, self.steps
        if replay is None:
            if self._is_stale:
                self._renew()
                steps = self.steps
            if self.history.refused is not None:
                self._drop_pending()
                return self.function(*arguments.args, **arguments.kwargs)
            replay = self.replay = steps.replay()
        if (steps.changed_arguments and steps.cannot_change(arguments.passed())) or (
            steps.tensors and steps.has_another_name(arguments.passed())
        ):
            return self.function(*arguments.args, **arguments.kwargs)
        if replay is None:
            return self._capture(arguments, leaves, {})
        try:
            found = replay(leaves, arguments.passed)
        except JournaledError as failed:
            return self._run_in_python(arguments, failed.error, failed.outcomes)
        except Exception as error:
            if is_interrupt(error):
                raise
            return self._run_in_python(arguments, error.with_traceback(None))
        if type(found) is not UnknownPath:
            return found
        # Values are taken over unless variables may have changed meanwhile; callbacks are not
        # called again, but told what they returned.
        is_known = not (found.outcomes or steps.read or steps.assigned)
        return self._capture(arguments, leaves, found.values if is_known else {}, found.outcomes)

    def _drop_pending(self) -> None:
        """Forget results of earlier calls that nobody has looked at and nobody holds."""
        recording = state.recording
        if len(recording.nodes) >= self._drop_at:
            release(recording)
            self._drop_at = max(PENDING, 2 * len(state.recording.nodes))

    def _run_in_python(
        self, arguments: Arguments, error: BaseException, outcomes: list[Outcome] | None = None
    ) -> Any:
        """Run the function as it is, so that it fails on the user's line."""
        try:
            with journal.use(None, outcomes):
                return self.function(*arguments.args, **arguments.kwargs)
        except type(error) as again:
            if not getattr(again, "__notes__", None):
                for note in getattr(error, "__notes__", ()):
                    again.add_note(note)
            raise again from None

    # Capturing.

    def _capture(
        self,
        arguments: Arguments,
        leaves: Inputs,
        fed: dict[Node, Value],
        outcomes: list[Outcome] | None = None,
    ) -> Any:
        """Run the function as a capture, and keep its path if later calls can take it."""
        start = time.perf_counter()
        run = self._new_run(arguments, leaves, fed)
        if run.is_aliased(arguments.passed()):
            with journal.use(None, outcomes):
                return self.function(*arguments.args, **arguments.kwargs)
        try:
            with journal.use(None, outcomes):
                returned = run.run()
            self._learn(run)
            return returned
        except BaseException as error:
            if not self._is_compared(run):
                self._begin_anew()
            if is_interrupt(error):
                # All of the call or nothing: once the caller's arguments are changed, all of it.
                if not run.lasts:
                    run.capture.undo()
                raise
            if not run.capture.broken:
                run.stand_ins.carry_out()
                raise
            failure = error
        finally:
            self._end_run(start)
        run.capture.undo()
        return self._run_in_python(arguments, failure)

    def prepare(self, arguments: Arguments, leaves: Inputs) -> None:
        """Capture a run for arguments like these, and leave all state as it is."""
        start = time.perf_counter()
        run = self._new_run(arguments, leaves, {})
        try:
            run.run(lasts=False)
            self._learn(run)
        finally:
            self._end_run(start)
            run.capture.undo()

    def _new_run(self, arguments: Arguments, leaves: Inputs, fed: dict[Node, Value]) -> CaptureRun:
        return CaptureRun(
            self.function, arguments, leaves, self.steps.root, fed, self.fastmath, self._learned,
            self.frozen,
        )  # fmt: skip

    def _end_run(self, start: float) -> None:
        spent = time.perf_counter() - start
        self.history.took(spent)
        _log.debug("%s ran as a capture, in %.1f ms", self.name, spent * 1e3)
        if PROBE.sink is not None:
            PROBE.sink.captured(self, start)
        # The tree may have grown: it is written again when it is next replayed.
        self.replay = None
        leave_full_table()

    def _learn(self, run: CaptureRun) -> None:
        """Draw the conclusions from a captured run."""
        if run.refusal is not None:
            self.refuse(run.refusal)
            return
        self._learned = run.observation
        if run.changed is not None:
            self._begin(outside_refusal(run.changed))
        elif run.read_more:
            # The next run is one that can be kept. Nothing compares what this one has read, so its
            # steps must not stay.
            self._begin_anew()
            self._grown += 1
            if run.unlike_others:
                self._begin_anew()
            if self._grown > PATHS:
                self.refuse(outside_refusal("every run of it reads other things outside"))
        elif not run.capture.failed:
            self._keep(run)
            if self.steps.paths and run.guards is not None:
                self.steps.guard_by(run.guards)

    def _is_compared(self, run: CaptureRun) -> bool:
        """Whether the guards compare all that a run has read which ended in an error."""
        if self.frozen:
            return True
        known = {} if self._learned is None else self._learned.everything()
        return self.steps.guards is not None and run.observation.executed.keys() <= known.keys()

    def _begin(self, refusal: Refusal) -> None:
        """A run was unlike those to come: it is forgotten, and too many of them are refused."""
        self._begin_anew()
        self._beginnings += 1
        if self._beginnings > BEGINNINGS:
            self.refuse(refusal)

    def _keep(self, run: CaptureRun) -> None:
        """Add the path of a run to the tree, if later calls can take it."""
        capture, left = run.capture, run.left_outside
        if capture.escaped is not None and left is None:
            what, line = capture.escaped
            self.refuse(Refusal(f"{what} at {line}", silently=capture.meant))
        elif left is not None or capture.unrepeatable is not None:
            # That others came in between says nothing of the next call.
            self._beginnings -= left is None and capture.unrepeatable == MEANWHILE
            self._begin(Refusal(left or str(capture.unrepeatable)))
        elif capture.inconsistent:
            # Two runs on the same values have looked at different ones, or computed others.
            self._begin_anew()
        elif run.result is not None:
            self.steps.add(capture, run.result)
            self._watch(capture.outside())
            if self.steps.paths > PATHS:
                self.refuse(Refusal(f"it takes more than {PATHS} paths, by values it looks at"))
            elif capture.missed is not None:
                warn_of_paths(self.name, self.history.latest, capture.missed)

    def _begin_anew(self) -> None:
        """Forget all paths."""
        self._end_replay()
        self.steps, self._outside = CapturedSteps(self.fastmath), []

    def _end_replay(self) -> None:
        """Leave the written-out and the native replay: they do not hold any more."""
        self.replay, native, self.native_call = None, self.native_call, None
        if native is not None:
            self.history.calls += native.calls
            self.look_at = self.history.calls + first_look()
            native.end()

    def refuse(self, refusal: Refusal) -> None:
        """Run in Python from now on, and say so."""
        self.history.refused, self.history.remedy = refusal.why, refusal.remedy
        self._begin_anew()
        _log.info("%s runs in Python for arguments of this kind: %s", self.name, refusal.why)
        if not refusal.silently:
            warn(
                f"gt.function: {self.name} runs in Python for arguments of this kind: "
                f"{refusal.why}. {refusal.remedy}, or leave the decorator out."
            )

    # What is read outside.

    def for_outside_values(self) -> Captured:
        """The captures for the values that are read outside now: these, others, or new ones."""
        guards = self.steps.guards
        changed = None if guards is None else guards.difference()
        if guards is None or changed is None:
            return self
        label, old, new = changed
        for each in self.siblings:
            if each.steps.guards is not None and each.steps.guards.difference() is None:
                return each
        if len(self.siblings) > OUTSIDE_VALUES:
            line = guards.line(label)
            where = f" in {line}" if line else ""
            why = f"{label}, which it reads from outside{where}, was {old} and is {new}"
            self.refuse(outside_refusal(f"{why}, and changes again and again"))
            return self
        change = (f"{label}, which it reads from outside,", old, new)
        found = Captured(self.name, self.function, self.fastmath, self.frozen, change)
        found.siblings, found._learned = self.siblings, self._learned
        self.siblings.append(found)
        return found

    def _watch(self, handles: list[Handle]) -> None:
        """Notice when tensors from outside are gone: others may be there in their place."""
        reference = weakref.ref(self)

        def gone(handle: weakref.ref[Handle]) -> None:
            captured = reference()
            if captured is not None and any(handle is each for each in captured._outside):
                captured._is_stale = True
                captured._end_replay()

        self._outside += [weakref.ref(handle, gone) for handle in handles]

    def _renew(self) -> None:
        """A tensor from outside is gone: a run in Python will find what is read instead."""
        self._is_stale = False
        self._begin_anew()
        stayed = self.calls - self._replaced_at > STAY
        self._replaced = 1 if stayed else self._replaced + 1
        self._replaced_at = self.calls
        if self._replaced > BEGINNINGS:
            self.refuse(Refusal("tensors that it reads from outside are replaced between calls"))
