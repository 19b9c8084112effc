"""Capture run: run a function once as a capture, and find out whether later calls can repeat it."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gradtape.codegen.cpython.observe import PAUSES
from gradtape.evaluate.flush import flush, retire
from gradtape.functions.arguments.signature import Arguments, Inputs
from gradtape.functions.capture.capture import Capture
from gradtape.functions.capture.returned_values import (
    ReturnedLeaves,
    SharedContainers,
    is_inside,
    leaf_sources,
    unsupported_leaf,
)
from gradtape.functions.capture.stand_ins import StandIns
from gradtape.functions.outside.outside_reads import OutsideReads
from gradtape.functions.outside.run_observer import Observation, RunObserver
from gradtape.functions.outside.trusted_code import what_it_may_do
from gradtape.functions.replay.steps import Result, Step
from gradtape.graph.node import Node
from gradtape.process.interrupts import is_interrupt
from gradtape.pytree import flatten, unflatten
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import settle, state
from gradtape.recording.value import Value
from gradtape.tensor.row_sparse import RowSparse


class Refusal(NamedTuple):
    """Why calls of a signature run in Python, and what the user can do about it."""

    why: str
    remedy: str = "Keep the value a tensor"
    silently: bool = False


REMEDY = "Pass it as an argument, make it a Variable, or say frozen=True"


def outside_refusal(why: str) -> Refusal:
    """The refusal of a run because of what it does outside."""
    return Refusal(why, "Use gt.random" if "random numbers" in why else REMEDY)


class EarlierError(Exception):
    """A plan failed and the function has gone on, so it is run again without a capture."""


class CaptureRun:
    """One captured run, and the verdict on it."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Arguments,
        leaves: Inputs,
        root: Step,
        fed: Mapping[Node, Value],
        fastmath: bool,
        learned: Observation | None,
        frozen: bool,
    ) -> None:
        self._function = function
        self._roots = arguments.objects()
        # What is outside before the run, as far as code and earlier runs tell what is read; None
        # if what is outside counts as constant.
        self._before = None if frozen else OutsideReads(function, self._roots, learned)
        self.observation = Observation() if learned is None else learned.next_run()
        self.guards: OutsideReads | None = None
        # What the run changed outside; and whether it read something that was not looked at before,
        # so that nobody knows whether the run has changed it.
        self.changed: str | None = None
        # The result, if it has containers that have to be themselves.
        self._shared: SharedContainers | None = None
        self.read_more = False
        # Whether later runs have other guards than those that were captured so far.
        self.unlike_others = False
        self.capture = Capture(root, fed, fastmath)
        # A function that asks for the type of a number must not get a stand-in for it.
        plain = self._before is not None and self._before.asks_for_types
        self.stand_ins = StandIns(self.capture, arguments, leaves, plain)
        # Set by the run: the path that it took; why no call can be replayed; and what it left
        # outside, so that a replay would have to do it, too.
        self.result: Result | None = None
        # Whether in-place changes of the caller's arguments have begun.
        self.lasts = False
        self.refusal: Refusal | None = None
        self.left_outside: str | None = None

    def is_aliased(self, passed: Iterable[object]) -> bool:
        """Whether the function can reach an argument by another name: no stand-in can be both."""
        known = () if self._before is None else self._before.tensors
        ids = {id(reference()) for reference in known}
        return any(id(each) in ids for each in passed if each is not None)

    def run(self, lasts: bool = True) -> Any:
        """Run the function; returns what it returns.

        If the run is to last, in-place changes of stand-in arguments are carried out on the
        caller's.
        """
        function = self._function if self._before is None else self._observed
        with _without_collections(), captured_run(self.capture, function, self.stand_ins) as box:
            return self._finish(box, lasts)

    def _observed(self, *args: Any, **kwargs: Any) -> Any:
        with RunObserver(self.observation) as observer:
            # Native code has pauses of its own.
            self.capture.observer = observer if PAUSES and not observer.is_native else None
            try:
                return self._function(*args, **kwargs)
            finally:
                self.capture.observer = None

    def _finish(self, box: list[object], lasts: bool) -> Any:
        # From here on nothing may hold the tensors of the run for longer than it needs them: who
        # holds one at the end is taken for somebody outside.
        capture, stand_ins = self.capture, self.stand_ins
        settle()  # tapes that died do not outlive the call
        if self._before is not None:
            outside, theirs = self._before.containers, stand_ins.changes.originals
            shared = SharedContainers(box[0], outside, theirs)
            self._shared = shared if shared else None
            del shared
        leaves, structure = flatten(box.pop())
        capture.finish()
        nodes = [leaf.node if is_inside(leaf, capture) else None for leaf in leaves]
        capture.tapes.pop(id(capture), None)
        capture.active = 0
        tape_outlives = bool(capture.tapes)
        source = capture.source
        self.result = Result(
            structure,
            leaf_sources(capture, leaves, nodes),
            tuple((each, source(node)) for each, node in capture.variables.last_assigned(capture)),
            tuple((each, source(node)) for each, node in capture.tensors.rebound(capture)),
            tuple(
                (position, source(handle.node))
                for position, handle in capture.tensors.changed_arguments.items()
            ),
        )
        flush(capture)
        if capture.broken:
            raise EarlierError
        if not capture.given.issuperset(self.result.computed()):
            capture.inconsistent = True
        if lasts:
            self.lasts = True
            stand_ins.carry_out()
        if not capture.closed and not capture.tapes:
            retire(capture)
        self.refusal = self._refused(leaves)
        ids = [id(leaf) for leaf in leaves]
        replaced = ReturnedLeaves(leaves, nodes, stand_ins.originals)
        if self.refusal is None and not capture.failed:
            self.left_outside = self._left_outside(leaves, tape_outlives)
            if self.left_outside is not None:
                # Another thread that assigned meanwhile holds on to what was assigned here.
                capture.variables.compare_all()
        if self._shared is not None:
            return self._shared.with_leaves(dict(zip(ids, leaves, strict=True)))
        if self.refusal is not None:
            stand_ins.release()
        return unflatten(structure, replaced.known_outside(leaves))

    def _refused(self, leaves: list[object]) -> Refusal | None:
        unsupported = unsupported_leaf(leaves, self.stand_ins.static_leaves())
        if unsupported is not None:
            kind = type(unsupported).__name__
            return Refusal(f"it returns an object of class {kind}, which may differ between calls")
        if self._shared is not None:
            why = "it returns a list, dict or dataclass that it is given, twice, or from outside"
            return Refusal(why, "Return a copy")
        if self.stand_ins.changes:
            return Refusal("it changes a list, dict or dataclass that it is given")
        return None if self._before is None else self._looked_outside(self._before)

    def _looked_outside(self, before: OutsideReads) -> Refusal | None:
        """What the run read and changed outside."""
        if self.observation.impure is not None:
            what, line = self.observation.impure
            return outside_refusal(f"it calls {what} at {line}, {what_it_may_do(what)}")
        guards = OutsideReads(self._function, self._roots, self.observation)
        changed = before.difference(guards)
        if changed is not None:
            label, old, new = changed
            line = guards.line(label)
            where = f" in {line}" if line else ""
            self.changed = f"it changes {label}, which is outside,{where} from {old} to {new}"
        elif guards.unknown:
            return outside_refusal(guards.unknown[0])
        elif guards.asks_for_types != before.asks_for_types:
            # The numbers of this run were stand-ins and those of the next are not, or vice versa.
            self.read_more = self.unlike_others = True
        elif not guards.places <= before.places:
            self.read_more = True
        else:
            self.guards = guards
        return None

    def _left_outside(self, leaves: list[object], tape_outlives: bool) -> str | None:
        inputs = self.stand_ins.release()
        if tape_outlives:
            return "every call makes a tape that outlives it"
        capture = self.capture
        parts = [part for leaf in leaves if isinstance(leaf, RowSparse) for part in leaf.rows]
        # Variables that wait for an update are held by the recording only.
        capture.unassigned = set()

        def found() -> str | None:
            for thing in capture.variables.lasting():
                return f"every call makes a {type(thing).__name__} that outlives it"
            known = [*leaves, *parts, *capture.variables.known()]
            leaked = capture.tensors.leaked(inputs, known)
            return "a tensor that it computes or is given is kept outside" if leaked else None

        if found() is None:
            return None
        # Functions that call themselves are in reference cycles, and so are their tensors. They are
        # in the youngest generation, for nothing was collected during the run.
        gc.collect(0)
        return found()


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Keep what a run makes in the youngest generation of the garbage collector."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def captured_run(
    capture: Capture, function: Callable[..., Any], stand_ins: StandIns
) -> Iterator[list[Any]]:
    """Run a function on stand-in arguments; yields a list with the only reference to its result."""
    outer, interrupted = state.recording, False
    try:
        state.recording = capture
        box = [function(*stand_ins.args, **stand_ins.kwargs)]
        yield box
    except BaseException as error:
        interrupted = is_interrupt(error)
        raise
    finally:
        capture.tapes.pop(id(capture), None)
        capture.active = 0
        try:
            if not interrupted and not capture.closed and not capture.tapes:
                # Only after an error: other pending work is computed, if it can be.
                with contextlib.suppress(Exception):
                    flush(capture)
        finally:
            state.recording = Recording() if outer.closed else outer
