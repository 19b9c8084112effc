"""Captured steps: the paths that are known of one signature, and their replay.

The tree grows by one path with every capture. When a signature begins anew, because a capture
turned out not to hold for later calls, all of this is replaced.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.concurrency import is_interrupt
from gradtape.ir.lines import warn
from gradtape.jit.arguments.signature import Inputs
from gradtape.jit.capture.capture import Capture
from gradtape.jit.capture.captured_tensors import is_view
from gradtape.jit.guards.guards import Guards
from gradtape.jit.guards.search import Outside
from gradtape.jit.replay.joined_path import PathReplay
from gradtape.jit.replay.replay_source import CallerArguments, Replay, UnknownPath, written_replay
from gradtape.jit.replay.steps import Step
from gradtape.ops.custom.callback import Outcome, journal
from gradtape.tensor.variable import Variable


class CapturedSteps:
    """The tree of steps of one signature, and what its paths have in common."""

    def __init__(self, fastmath: bool) -> None:
        self.root = Step()
        # Names of variables that are read; variables that are assigned, in the order in which they
        # are locked; whether random numbers are drawn.
        self.read: tuple[str, ...] = ()
        self.assigned: tuple[Variable, ...] = ()
        self.draws = False
        # Arguments that are changed in place; whether an op may fail or calls Python.
        self.changed_arguments: frozenset[int] = frozenset()
        self.fallible = False
        # Guards on what is read outside, and the comparison of all of them.
        self.guards: Guards | None = None
        self.differs: Callable[[], bool] | None = None
        # Tensors that the function can reach without being given them.
        self.tensors: tuple[weakref.ref[Any], ...] = ()
        self._fastmath = fastmath
        self._path_replay: PathReplay | None = None

    def note(self, capture: Capture) -> None:
        """Note the state that a run has used: replays use the same."""
        assigned = {*self.assigned, *capture.variables.assigned}
        self.assigned = tuple(sorted(assigned, key=lambda variable: variable.number))
        names = [*self.read, *[variable.name for variable in capture.variables.read]]
        self.read = tuple(dict.fromkeys(names))
        self.draws = self.draws or bool(capture.draws)
        result = capture.step.result
        self.changed_arguments |= {position for position, _ in (result.moved if result else ())}
        self.fallible = self.fallible or capture.fallible

    @property
    def paths(self) -> int:
        """How many paths runs have taken."""
        return sum(1 for _ in self.root.ends())

    @property
    def is_replayed(self) -> bool:
        """Whether any path is replayed."""
        return any(step.is_replayed for step in self.root.ends())

    def guard_by(self, found: Outside, entered: set[int]) -> None:
        """Replays hold as long as what the function names is what it was.

        Arrays that `entered` the program whole may turn out to be inputs of it.
        """
        found.guards.seal(entered)
        for label, nbytes in found.guards.large_arrays:
            warn(
                f"gt.function: {label} is a NumPy array of {nbytes >> 20} MB whose elements are "
                "read in Python, so it is compared at every call. Make it a tensor with gt.asarray."
            )
        self.guards, self.tensors = found.guards, tuple(found.tensors)
        self.differs = found.guards.differs

    def has_another_name(self, passed: Sequence[object]) -> bool:
        """Whether the function can reach one of these tensors without being given it."""
        known = {id(reference()) for reference in self.tensors}
        return any(id(each) in known for each in passed)

    def cannot_change(self, passed: Sequence[object]) -> bool:
        """Whether an argument that is changed in place was passed twice, or refuses to be."""
        ids = [id(each) for each in passed]
        return any(
            ids.count(ids[position]) > 1
            or is_view(passed[position])
            or _shares_memory(passed, position)
            for position in self.changed_arguments
        )

    def replay(self) -> Replay | None:
        """Write the replay of the tree as it is now; None if nothing is captured."""
        if not self.is_replayed:
            return None
        if self.root.unpinned()[0].guard is None:
            replay = written_replay(self.root)
        else:
            if self._path_replay is None:
                self._path_replay = PathReplay(self.root, self._fastmath)
            else:
                self._path_replay.rewrite()
            replay = self._path_replay
        return _locked(_journaled(replay) if self.fallible else replay, self.assigned)


def _shares_memory(passed: Sequence[object], position: int) -> bool:
    """Whether an array is changed in place and another one sees it."""
    mine = passed[position]
    return isinstance(mine, np.ndarray) and any(
        isinstance(each, np.ndarray) and np.may_share_memory(mine, each)
        for number, each in enumerate(passed)
        if number != position
    )


class JournaledError(Exception):
    """A replay failed after callbacks had run: a run in Python is told what they returned."""

    def __init__(self, error: Exception, outcomes: list[Outcome]) -> None:
        super().__init__(error)
        self.error = error
        self.outcomes = outcomes


def _journaled(replay: Replay) -> Replay:
    """A replay that remembers what callbacks return, for a run in Python that may follow."""

    def journaled(arguments: Inputs, caller_arguments: CallerArguments) -> Any:
        outcomes: list[Outcome] = []
        with journal.use(outcomes, None):
            try:
                found = replay(arguments, caller_arguments)
            except Exception as error:
                if is_interrupt(error):
                    raise
                raise JournaledError(error.with_traceback(None), outcomes) from None
        if type(found) is UnknownPath:
            found.outcomes = outcomes
        return found

    return journaled


def _locked(replay: Replay, variables: tuple[Variable, ...]) -> Replay:
    """A replay that is atomic to other threads which read or assign the same variables."""
    if not variables:
        return replay
    locks = [variable.lock for variable in variables]

    def locked(arguments: Inputs, caller_arguments: CallerArguments) -> Any:
        for lock in locks:
            lock.acquire()
        try:
            return replay(arguments, caller_arguments)
        finally:
            for lock in locks:
                lock.release()

    return locked
