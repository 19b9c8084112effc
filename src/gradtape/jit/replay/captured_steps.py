"""Captured steps: the paths that are known of one signature, and their replay.

The tree grows by one path with every capture. When a signature begins anew, because a capture
turned out not to hold for later calls, all of this is replaced.

Every guard ends a plan. Where the values at the guards have been the same for a while, all steps up
to the result are joined into one, with one more output that is true if every guarded value was
what it used to be. If not, nothing has happened yet, and the steps are replayed one by one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import (
    CALLS_BEFORE_JOINING,
    LARGE_COMPARED_ARRAY,
    MOST_JOINED_NODES,
    MOST_JOINED_WORK,
)
from gradtape.ir.node import Node, constant
from gradtape.ir.operators import OPERATORS
from gradtape.ir.origin import warn
from gradtape.ir.program import Program, program
from gradtape.ir.spec import spec
from gradtape.jit.capture.capture import Capture, is_view
from gradtape.jit.guards.collect import Outside
from gradtape.jit.guards.guards import Guards
from gradtape.jit.replay.steps import (
    UNKNOWN,
    ComputedNode,
    Element,
    PathResult,
    PathStep,
    PlanRun,
    ReplayedCall,
)
from gradtape.ops.custom.callback import journal
from gradtape.runtime.plan_cache import plan_for
from gradtape.runtime.when_to_compile import work
from gradtape.tensor.variable import Variable

if TYPE_CHECKING:
    from gradtape.jit.native.native_call import CallContext

_BOOL = spec((), np.dtype(bool))


class CapturedSteps:
    """The tree of steps of one signature, and what its paths have in common."""

    def __init__(self, fastmath: bool) -> None:
        self.root = PathStep()
        # Names of variables that are read; variables that are assigned, in the order in which they
        # are locked; whether random numbers are drawn.
        self.read: tuple[str, ...] = ()
        self.assigned: tuple[Variable, ...] = ()
        self.draws = False
        # Arguments that are changed in place; whether an op may fail or calls Python.
        self.changed_arguments: frozenset[int] = frozenset()
        self.fallible = False
        # Whether any path is replayed.
        self.is_replayed = False
        # Guards on what is read outside, and the comparison of all of them.
        self.guards: Guards | None = None
        self.differs: Callable[[], bool] | None = None
        # Tensors that the function can reach without being given them.
        self.tensors: tuple[weakref.ref[Any], ...] = ()
        self._fastmath = fastmath
        # The replay in native code; an earlier one may be at its end.
        self.native_call: CallContext | None = None
        # The steps of a path as one step, and how often calls took that path, or another one.
        self.joined: PathStep | None = None
        self._hits = self._misses = 0
        # The result of the latest calls, the number of calls in a row that had it, and the results
        # for which joining was tried.
        self._latest: PathResult | None = None
        self._repeats = 0
        self._tried: list[PathResult] = []

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
        """The number of paths that runs have taken."""
        return sum(1 for _ in self.root.ends())

    def guard_by(self, found: Outside, entered: set[int]) -> None:
        """Replays hold as long as what the function names is what it was.

        Arrays that `entered` the program whole may turn out to be inputs of it.
        """
        found.guards.seal(entered)
        for each in found.guards.compared:
            if (nbytes := each.array.nbytes) >= LARGE_COMPARED_ARRAY:
                warn(
                    f"gt.function: {each.label} is a NumPy array of {nbytes >> 20} MB whose "
                    "elements are read in Python, so it is compared at every call. Make it a "
                    "tensor with gt.asarray."
                )
        self.guards, self.tensors = found.guards, tuple(found.tensors)
        self.differs = found.guards.differs

    def cannot_change(self, passed: Sequence[object]) -> bool:
        """Whether an argument that is changed in place was passed twice, or refuses to be."""
        for position in self.changed_arguments:
            mine = passed[position]
            others = [*passed[:position], *passed[position + 1 :]]
            arrays = [each for each in (mine, *others) if isinstance(each, np.ndarray)]
            shares = isinstance(mine, np.ndarray) and any(
                np.may_share_memory(mine, each) for each in arrays[1:]
            )
            if shares or is_view(mine) or any(each is mine for each in others):
                return True
        return False

    def replay(self, call: ReplayedCall) -> Any:
        """Replay a call; returns `UNKNOWN` where it takes a path that is not replayed.

        It is atomic to other threads that read or assign the variables that it assigns.
        """
        for variable in self.assigned:
            variable.lock.acquire()
        try:
            if not self.fallible:
                return self._replay(call)
            with journal.use(call.outcomes, None):
                return self._replay(call)
        finally:
            for variable in self.assigned:
                variable.lock.release()

    def _replay(self, call: ReplayedCall) -> Any:
        if self.root.guard is None:
            return self.root.replay(call)
        if self.joined is not None:
            found = self.joined.replay(call)
            if found is not UNKNOWN:
                self._hits += 1
                return found
            self._misses += 1
            native = self.native_call
            if self._misses > 2 + (self._hits + (native.calls if native is not None else 0)) // 8:
                self.joined = None
                if native is not None:
                    native.end()
        found = self.root.replay(call, self._note_path)
        if self._repeats >= CALLS_BEFORE_JOINING:
            self._join()
        return found

    def _note_path(self, result: PathResult) -> None:
        if result is not self._latest:
            self._latest, self._repeats = result, 0
        self._repeats += 1

    def _join(self) -> None:
        self._repeats = 0
        result = self._latest
        if result is not None and result not in self._tried:
            self._tried.append(result)
            joined = joined_steps(self.root, result, self._fastmath)
            if joined is not None:
                self.joined, self._hits, self._misses = joined, 0, 0


def are_reachable(known: Iterable[weakref.ref[Any]], passed: Sequence[object]) -> bool:
    """Whether the function can reach one of these tensors without being given it."""
    ids = {id(reference()) for reference in known}
    return any(id(each) in ids for each in passed if each is not None)


def joined_steps(root: PathStep, result: PathResult, fastmath: bool) -> PathStep | None:
    """The steps that lead to a result as one step with one run and one guard.

    None if there is a reason against it: random draws, ops that may fail, guards on other values
    than booleans of tensors, or too much work.
    """
    steps = list(_path_to(root, result))
    runs = [run for step, _ in steps for run in step.runs]
    if any(step.draws for step, _ in steps) or any(run.lines is not None for run in runs):
        return None
    agrees = constant(True, _BOOL)
    for step, key in steps[:-1]:
        guard = step.guard
        if not isinstance(guard, Element) or type(key) is not bool or guard.node.spec is not _BOOL:
            return None
        same = guard.node if key else Node(OPERATORS.logical_not, (guard.node,), (), _BOOL)
        agrees = Node(OPERATORS.logical_and, (agrees, same), (), _BOOL)
    joined = program((agrees, *result.computed()))
    sources = {number: source for step, _ in steps for number, source in step.sources.items()}
    numbers = [leaf.params[0] for leaf in joined.inputs]
    if not (sources.keys() >= set(numbers) and _pays(joined)):
        return None
    inputs = tuple([sources[number] for number in numbers])
    run = PlanRun(plan_for(joined, fastmath), inputs, joined.outputs)
    guard = Element(ComputedNode(agrees), agrees, bool)
    end = PathStep(result=result, is_replayed=True)
    return PathStep(runs=[run], guard=guard, branches={True: end})


def _pays(joined: Program) -> bool:
    """Whether a program may be computed speculatively: its ops cannot fail, and cost little."""
    ops = {node.op for node in joined.nodes}
    is_pure = all(op.self_contained and not (op.opaque or op.may_fail) for op in ops)
    return is_pure and len(joined.nodes) <= MOST_JOINED_NODES and work(joined) <= MOST_JOINED_WORK


def _path_to(step: PathStep, result: PathResult) -> Iterator[tuple[PathStep, Hashable]]:
    """The steps up to a result, each with the key of the branch that leads on."""
    stack: list[tuple[PathStep, tuple[tuple[PathStep, Hashable], ...]]] = [(step, ())]
    while stack:
        step, before = stack.pop()
        if step.result is result:
            yield from (*before, (step, None))
            return
        stack += [(after, (*before, (step, key))) for key, after in step.branches.items()]
