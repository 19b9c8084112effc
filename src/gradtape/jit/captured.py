"""Captured: the calls of one signature, and the choice of how to run each of them.

A call is replayed if two runs have recorded its path, and if the guards hold; else the function
runs in Python as a capture. Some calls of a replayed path run in Python again, as checks: if such a
run has recorded another program, its own result is returned, and the path has to be recorded anew.
Where a replay fails, the function runs in Python without a capture, so that the error comes from
the user's line. A signature whose calls cannot be replayed is refused: its calls run in Python.

A check costs a captured run where a replay would do. Calls 3, 7, 17, 37 ... are checks while that
takes less than a tenth of the time; later checks come at a rate that takes about 2 %.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Set
from types import CodeType
from typing import Any, Literal, NamedTuple

from gradtape.compiler.cpython import switch
from gradtape.concurrency import is_interrupt
from gradtape.config import (
    CALLS_BEFORE_NATIVE,
    CHECKS_SHARE,
    FIRST_CHECK_GAPS,
    FIRST_CHECKS_SHARE,
    MOST_CAPTURED_PENDING,
    MOST_DIFFERENCES,
    MOST_FUNCTION_PATHS,
    MOST_OUTSIDE_VALUES,
    MOST_UNEQUAL_RUNS,
    MOST_UNREPEATABLE_RUNS,
    SHORTEST_CALL,
    variable,
)
from gradtape.ir.logs import Log
from gradtape.ir.origin import shown_line, warn
from gradtape.jit.capture.capture import MEANWHILE, Capture
from gradtape.jit.capture.capture_run import CaptureRun, Refusal
from gradtape.jit.explain import NEVER, warn_of_paths
from gradtape.jit.guards.collect import Outside, collect
from gradtape.jit.guards.names import remedy_for, unread_parameters
from gradtape.jit.native.native_call import CallContext
from gradtape.jit.replay.captured_steps import CapturedSteps, are_reachable
from gradtape.jit.replay.same_path import (
    Comparison,
    DifferentError,
    compare,
    used_numbers,
    without_pins,
)
from gradtape.jit.replay.steps import UNKNOWN, PathStep, ReplayedCall
from gradtape.jit.signature import CallArguments, InputValues
from gradtape.ops.custom.callback import Outcome, journal
from gradtape.runtime.flush import leave_full_table, release
from gradtape.runtime.profiler_sink import PROBE
from gradtape.trace.recording import state

Recheck = int | Literal["auto"] | None


def checked_recheck(recheck: object) -> Recheck:
    """The option `recheck` of gt.function; "auto" leaves it to GRADTAPE_RECHECK."""
    shown, text = f"function: recheck={recheck!r}", variable("RECHECK", "auto").lower()
    if recheck == "auto":
        if text == "auto":
            return "auto"
        shown = f"GRADTAPE_RECHECK={text!r}"
        is_off = text in ("0", "false", "off", "never")
        recheck = None if is_off else int(text) if text.isdecimal() else text
    if recheck is False or recheck is None:
        return None
    if isinstance(recheck, int) and not isinstance(recheck, bool) and recheck > 0:
        return recheck
    raise ValueError(f"{shown} is no count of calls. Use a positive int, 'auto' or False.")


class CallHistory:
    """Statistics of the calls of one signature."""

    def __init__(self, why: tuple[str, str, str] | None) -> None:
        # The argument that made it another signature, with what it was before and what it is.
        self.why = why
        # Calls that went through Python, native calls not counted.
        self.calls = 0
        # Why calls run in Python, if they do.
        self.refused: str | None = None
        self.remedy = ""
        # Calls that ran in Python to be compared, what they found, and the replays before the next.
        self.checks = 0
        self.differences: list[str] = []
        self.gap = 0
        # Seconds that captures took: all of them, and each of the latest.
        self.seconds = 0.0
        self.latest: deque[float] = deque(maxlen=8)


class CheckSchedule:
    """How many calls are replayed before the next check."""

    def __init__(self, recheck: Recheck) -> None:
        self._recheck = recheck
        # Calls that were replayed or checked when the next check comes.
        self._calls = 2
        self._gaps = 0
        # Seconds that a check costs, and that the program takes for each replay: the least so far.
        self._check_cost = float("inf")
        self._replay_cost = float("inf")
        self._checks = 0

    def note_run(self, check: float, replay: float) -> None:
        """Note what a captured run took: without its plans, and its plans alone."""
        if not self._checks:
            self._check_cost = min(self._check_cost, check)
        self._replay_cost = min(self._replay_cost, replay)

    def note_check(self, check: float, replay: float) -> None:
        """Note what a check took, and the program for each of the replays before it."""
        self._checks += 1
        self._check_cost = check if self._checks == 1 else (self._check_cost + check) / 2
        self._replay_cost = min(self._replay_cost, replay)

    def next_gap(self) -> int:
        """The number of replays until the next check."""
        if self._recheck is None:
            return NEVER
        if self._recheck != "auto":
            return self._recheck - 1
        ratio = self._check_cost / max(self._replay_cost, SHORTEST_CALL)
        # The next power of two: noise in the costs does not move the checks.
        steady = 1 << max(int(ratio / CHECKS_SHARE) - 1, 0).bit_length()
        gap = FIRST_CHECK_GAPS.get(self._calls, self._calls + 2)
        self._gaps += 1
        checks = ratio * self._gaps
        is_cheap = checks < FIRST_CHECKS_SHARE * (self._calls + gap + 1 + checks)
        found = min(gap, steady) if is_cheap else steady
        self._calls += found + 1
        return found


_log = Log("jit")

REMEDY = "Pass it as an argument, make it a Variable, or say frozen=True"


def calls_before_native() -> int:
    """The number of calls in Python after which a native call is considered."""
    return 1 if switch.MODE == "native" else CALLS_BEFORE_NATIVE


class Contract(NamedTuple):
    """The options of a decorated function."""

    fastmath: bool = False
    frozen: bool = False
    recheck: Recheck = "auto"


DEFAULT_CONTRACT = Contract()


class Captured:
    """The calls of one signature of a function."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        contract: Contract,
        why: tuple[str, str, str] | None,
    ) -> None:
        self.name = name
        self.function = function
        self.contract = contract
        self.history = CallHistory(why)
        self.steps = CapturedSteps(contract.fastmath)
        # The number of calls at which native code is next considered.
        self.consider_native_at = calls_before_native()
        # What the function names outside, and whether any of it is another than it was.
        self._found: Outside | None = None
        self.differs: Callable[[], bool] | None = None
        # The next check, and the replays until then while no native call counts them.
        self._schedule = CheckSchedule(None if contract.frozen else contract.recheck)
        self._until_check = NEVER
        # The start of the calls until the next check, and the cost of the latest captured run.
        self._gap_began = self._cost = 0.0
        # Whether the run that ends was a check that found no difference.
        self._has_agreed = False
        # Numbers among the inputs that are proven to be inputs of the program.
        self._free: set[int] = set()
        # Runs that were captured; how many of them in a row were unlike the run before; how many
        # could not be repeated; and how often a check found a difference.
        self._runs = self._unequal = self._beginnings = self._differences = 0
        # Code of callbacks in the program; and whether an array that enters it has changed.
        self._callbacks: set[CodeType] = set()
        self._arrays_changed = False
        # The ids of arrays that enter the program and whose elements Python reads as well.
        self._read_arrays: set[int] = set()
        # The captures of this signature for other values outside, this one included.
        self.siblings: list[Captured] = [self]
        self._drop_at = MOST_CAPTURED_PENDING
        # The number of calls before captures were last dropped.
        self.calls_before = -1

    @property
    def native_call(self) -> CallContext | None:
        """The replay in native code."""
        return self.steps.native_call

    @property
    def refused(self) -> str | None:
        """Why calls run in Python, if they do."""
        return self.history.refused

    @property
    def calls(self) -> int:
        """The number of calls."""
        return self.history.calls + (0 if self.native_call is None else self.native_call.calls)

    # Running.

    def run(self, arguments: CallArguments, leaves: InputValues) -> Any:
        """Replay the call, or run Python where its path is unknown or the replay fails."""
        self.history.calls += 1
        steps = self.steps
        if self.history.refused is not None:
            self._drop_pending()
            return self.function(*arguments.args, **arguments.kwargs)
        if (steps.changed_arguments and steps.cannot_change(arguments.passed())) or (
            steps.tensors and are_reachable(steps.tensors, arguments.passed())
        ):
            return self.function(*arguments.args, **arguments.kwargs)
        if not steps.is_replayed or self._arrays_changed or self._is_check_due():
            return self._capture(arguments, leaves, is_check=steps.is_replayed)
        call = ReplayedCall(leaves, arguments.passed)
        try:
            found = steps.replay(call)
        except Exception as error:
            if is_interrupt(error):
                raise
            return self._run_in_python(arguments, error.with_traceback(None), call.outcomes)
        if found is not UNKNOWN:
            return found
        # Callbacks are not called again: they return what they returned.
        with journal.use(None, call.outcomes):
            return self._capture(arguments, leaves)

    def _is_check_due(self) -> bool:
        """Count down to the next check."""
        native = self.native_call
        if native is not None:
            native.until_check -= 1
            return native.until_check < 0
        self._until_check -= 1
        return self._until_check < 0

    def _drop_pending(self) -> None:
        """Release pending results of earlier calls that have no reader and no holder."""
        recording = state.recording
        if len(recording.log) >= self._drop_at:
            release(recording)
            self._drop_at = max(MOST_CAPTURED_PENDING, 2 * len(state.recording.log))

    def _run_in_python(
        self, arguments: CallArguments, error: BaseException, outcomes: list[Outcome] | None = None
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
        arguments: CallArguments,
        leaves: InputValues,
        is_check: bool = False,
    ) -> Any:
        """Run the function as a capture, and compare its path with those known."""
        self._find_outside(arguments)
        start = time.perf_counter()
        known = () if self._found is None else self._found.tensors
        # No stand-in can be a tensor that the function can reach by another name, too.
        if self.refused or (known and are_reachable(known, arguments.passed())):
            return self.function(*arguments.args, **arguments.kwargs)
        run = self._new_run(arguments, leaves, is_check)
        try:
            returned = run.run()
            self._learn(run, time.perf_counter() - start)
            return returned
        except BaseException as error:
            if is_interrupt(error):
                # All of the call or nothing: once the caller's arguments are changed, all of it.
                if not run.lasts:
                    run.capture.undo()
                raise
            if not run.capture.broken and not run.stand_ins.may_be_to_blame(error):
                run.stand_ins.carry_out()
                raise
            failure = error
        finally:
            self._end_run(start)
        run.capture.undo()
        returned = self._run_in_python(arguments, failure)
        if not run.capture.broken:
            what = "an array as an argument where a tensor does not do"
            self.refuse(Refusal(f"it needs {what}: {failure}", "Pass a tensor"))
        return returned

    def prepare(self, arguments: CallArguments, leaves: InputValues) -> None:
        """Capture runs for arguments like these, and leave all state as it is."""
        for _ in range(self._needed()):
            self._find_outside(arguments)
            if self.refused is not None:
                return
            start = time.perf_counter()
            run = self._new_run(arguments, leaves)
            try:
                run.run(lasts=False)
                self._learn(run, time.perf_counter() - start)
            finally:
                self._end_run(start)
                run.capture.undo()

    def _find_outside(self, arguments: CallArguments) -> None:
        """Find what the function names outside, unless that is known and the same."""
        if self.contract.frozen:
            return
        if self._found is not None:
            self._found.guards.renew_arrays()
            return
        try:
            self._found = collect(self.function, arguments.objects(), self._callbacks)
        except Exception as error:
            if is_interrupt(error):
                raise
            # Attributes of the user's objects may raise. Checks need no guards.
            _log.debug("%s has no guards: %s", self.name, repr(error))
            self._found = Outside()
        self.differs = self._found.guards.differs
        if self._found.never is not None:
            reason, label, line = self._found.never
            where = f" at {line}" if line else ""
            self.refuse(Refusal(f"it uses {label}{where}, which {reason}", remedy_for(reason)))

    def _new_run(
        self, arguments: CallArguments, leaves: InputValues, is_check: bool = False
    ) -> CaptureRun:
        # Before the run: runs that are compared share a table of nodes, if it has room for both.
        leave_full_table()
        pinned = set(range(len(leaves))) - self._free
        return CaptureRun(
            self.function,
            arguments,
            leaves,
            self.contract.fastmath,
            self._found,
            pinned,
            is_check,
        )

    def _end_run(self, start: float) -> None:
        spent = time.perf_counter() - start
        self.history.seconds += spent
        self.history.latest.append(spent)
        _log.debug("%s ran as a capture, in %.1f ms", self.name, spent * 1e3)
        if not self._has_agreed and PROBE.sink is not None:
            PROBE.sink.captured(self, start)
        self._has_agreed = False

    def _learn(self, run: CaptureRun, seconds: float) -> None:
        """Draw the conclusions from a captured run."""
        capture = run.capture
        self._runs += 1
        self._cost = seconds - capture.seconds_of_plans
        self._schedule.note_run(self._cost, capture.seconds_of_plans)
        if capture.escaped is not None and run.left_outside is None and run.refusal is None:
            what, line = capture.escaped
            self.refuse(Refusal(f"{what} at {line}", silently=capture.meant))
        elif run.refusal is not None:
            self.refuse(run.refusal)
        elif self._has_new_callbacks(capture) or self._has_changed_outside():
            pass
        elif run.left_outside is not None or capture.unrepeatable is not None:
            # Calls of others in between do not predict the next call.
            self._beginnings -= run.left_outside is None and capture.unrepeatable == MEANWHILE
            self._begin(Refusal(run.left_outside or str(capture.unrepeatable)))
        elif not (capture.failed or capture.incomplete):
            self._compare(capture)

    def _has_new_callbacks(self, capture: Capture) -> bool:
        """Whether callbacks were met: replays call them, so what their code names is no guard."""
        found = {code for step in capture.steps() for run in step.runs for code in run.callbacks()}
        if found <= self._callbacks or self.contract.frozen:
            return False
        self._callbacks |= found
        self._begin_anew()
        return True

    def _has_changed_outside(self) -> bool:
        """Whether the run has changed something that it reads outside."""
        found = self._found
        change = None if found is None else found.guards.changed_by_run()
        if found is None or change is None:
            return False
        label, old, new = change
        line = found.guards.line(label)
        where = f" in {line}" if line else ""
        why = f"it changes {label}, which is outside,{where} from {old} to {new}"
        self._begin_anew()
        if self._runs > MOST_UNREPEATABLE_RUNS:
            self.refuse(Refusal(why, REMEDY))
        return True

    # Comparing runs.

    def _compare(self, capture: Capture) -> None:
        """Compare a run with the paths that earlier runs have taken."""
        pinned = frozenset(capture.labels.keys() - self._free)
        path, tree = capture.root, self.steps.root
        arrays_changed, self._arrays_changed = self._arrays_changed, False
        if not tree.complete:
            self._begin_with(capture, path)
            return
        known = compare(tree, path, pinned)
        if known.moved:
            # Numbers had other values: they are inputs if that has changed nothing else.
            inputs = known.moved & (used_numbers(path) | self._unread(capture))
            if known.is_known and inputs:
                self._free_numbers(inputs, inputs == known.moved, capture)
                return
            known = compare(tree, path)
        if known.difference is not None:
            if not any(step.is_replayed for step in known.last.ends()):
                self._note_unequal(known.difference, capture)
                if self.history.refused is None:
                    self._replace(known, capture)
            elif arrays_changed and self._found is not None:
                # Their elements are read by Python, too: another content is another program.
                self._read_arrays |= self._found.guards.changed_arrays()
                self._begin_anew()
            else:
                self._disagree(known.difference, capture)
        elif known.is_known:
            self._unequal = 0
            if arrays_changed and self._found is not None:
                self._found.guards.free_arrays()
            if known.last.is_replayed:
                self.history.checks += 1
                self._has_agreed = True
                if self.history.gap:
                    elapsed = time.perf_counter() - self._gap_began - self._cost
                    self._schedule.note_check(self._cost, elapsed / self.history.gap)
                self._set_until_check()
            else:
                known.last.count += 1
                self._keep(known.last, capture)
        else:
            self._replace(known, capture)

    def _begin_with(self, capture: Capture, path: PathStep) -> None:
        """The path of a run is the only one that is known."""
        if self.steps.root.complete:
            self._begin_anew(keeps_outside=True)
        self.steps.root = path
        capture.step.count += 1
        self._keep(capture.step, capture)

    def _replace(self, known: Comparison, capture: Capture) -> None:
        """Add a path where it leaves the known ones, in the place of one that it contradicts."""
        if not known.interned:
            # Its nodes are of another table: plans on the way do not give these.
            self._begin_with(capture, capture.root)
            return
        capture.step.count += 1
        if known.difference is not None:
            known.last.become(known.own)
            missed = None
        else:
            missed = known.last
            (key,) = known.own.branches
            missed.branches[key] = known.own.branches[key]
            missed.values += known.own.values
        self._keep(capture.step, capture)
        if self.steps.paths > MOST_FUNCTION_PATHS:
            self.refuse(
                Refusal(f"it takes more than {MOST_FUNCTION_PATHS} paths, by values it reads")
            )
        elif missed is not None and self.history.refused is None:
            warn_of_paths(self.name, self.history.latest, missed)

    def _keep(self, last: PathStep, capture: Capture) -> None:
        """Replay a path if enough runs have taken it."""
        self.steps.note(capture)
        if last.count < self._needed():
            return
        last.is_replayed = self.steps.is_replayed = True
        if self._found is not None and self.steps.guards is None:
            inputs = capture.entered_arrays() - self._read_arrays
            self.steps.guard_by(self._found, inputs)
            self._set_until_check()

    def _needed(self) -> int:
        """The number of equal runs in a row after which a path is replayed."""
        if self.contract.frozen:
            return 1
        return int(max(2, 2 ** min(self._differences, MOST_DIFFERENCES)))

    def _note_unequal(self, difference: DifferentError, capture: Capture) -> None:
        """Two runs before a replay differ: layers were built, or it will never be the same."""
        self._unequal += 1
        if self._unequal < MOST_UNEQUAL_RUNS:
            return
        what = self._described(difference, capture)
        self.refuse(Refusal(f"every run of it records another program: {what}", REMEDY))

    def _disagree(self, difference: DifferentError, capture: Capture) -> None:
        """A run has recorded another program than the one that was replayed."""
        what = self._described(difference, capture)
        self._differences += 1
        self.history.differences.append(what)
        self._free = set()
        self._begin_anew()
        warn(
            f"gt.function: {self.name} was replayed, and a run of it to check that recorded "
            f"another program: {what}. Something that it reads has changed "
            f"unseen, up to {self.history.gap + 1} calls ago. {REMEDY}; or say recheck=1. It is "
            f"replayed again after {self._needed()} equal runs."
        )

    def _described(self, difference: DifferentError, capture: Capture) -> str:
        """A difference, with the line that recorded it or where the function is defined."""
        code = getattr(self.function, "__code__", None)
        definition = "unknown" if code is None else shown_line(code)
        return f"{difference} ({capture.line_of(difference.leaf) or definition})"

    def _free_numbers(self, inputs: Set[int], is_equal: bool, capture: Capture) -> None:
        """Numbers with other values gave the same program: they are inputs of it."""
        self._free |= inputs
        self._unequal = 0
        self._begin_anew(keeps_outside=True)
        # Other numbers have new values, too, and stay pinned to them.
        capture.step.count = int(is_equal)
        self._begin_with(capture, without_pins(capture.root, inputs))

    def _unread(self, capture: Capture) -> set[int]:
        """Numbers that the function is given and whose parameters its code never reads."""
        code = getattr(self.function, "__code__", None)
        if code is None:
            return set()
        names = unread_parameters(code)
        return {position for position, label in capture.labels.items() if label in names}

    def _set_until_check(self) -> None:
        """Begin to count down to the next check."""
        self._gap_began = time.perf_counter()
        self._until_check = self.history.gap = self._schedule.next_gap()
        if self.native_call is not None:
            self.native_call.until_check = self._until_check

    @property
    def until_check(self) -> int:
        """How many calls are replayed before the next check."""
        native = self.native_call
        return self._until_check if native is None else native.until_check

    def _begin(self, refusal: Refusal) -> None:
        """A run was unlike those to come: it is forgotten, and too many of them are refused."""
        self._begin_anew()
        self._beginnings += 1
        if self._beginnings > MOST_UNREPEATABLE_RUNS:
            self.refuse(refusal)

    def _begin_anew(self, keeps_outside: bool = False) -> None:
        """Forget all paths."""
        native = self.native_call
        if native is not None:
            self.history.calls += native.calls
            self._until_check = native.until_check
            self.consider_native_at = self.history.calls + calls_before_native()
            native.end()
        self.steps = CapturedSteps(self.contract.fastmath)
        if not keeps_outside:
            self._found = self.differs = None

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

    # Objects that are read outside.

    def for_outside_values(self) -> Captured:
        """The captures for the values that are read outside now: these, others, or new ones."""
        guards = None if self._found is None else self._found.guards
        changed = None if guards is None else guards.difference()
        if guards is None or changed is None:
            return self
        if guards.only_inputs_differ():
            # Arrays that enter the program whole are compared until they have proven to be inputs.
            self._arrays_changed = True
            return self
        for each in self.siblings:
            if each.differs is not None and not each.differs():
                return each
        label, old, new = changed
        if len(self.siblings) > MOST_OUTSIDE_VALUES:
            line = guards.line(label)
            where = f" in {line}" if line else ""
            why = f"{label}, which it reads from outside{where}, was {old} and is {new}"
            self.refuse(Refusal(f"{why}, and changes again and again", REMEDY))
            return self
        change = (f"{label}, which it reads from outside,", old, new)
        found = Captured(self.name, self.function, self.contract, change)
        found.siblings, found._free = self.siblings, set(self._free)
        found._differences, found._schedule = self._differences, self._schedule
        self.siblings.append(found)
        return found
