"""Same path: whether two captured runs recorded the same program, and what differs if not.

Two runs are the same if the results, the assignments and the guarded values are computed by the
same ops from leaves with the same sources: an argument, a variable, a tensor from outside, a draw
relative to its generator, a formula of numbers, or an equal constant. Functions that ops call are
compared by code and closure cells, so a lambda that every run makes anew is the same one.
"""

from __future__ import annotations

import itertools
import types
import weakref
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape.config import MOST_COMPARED_VALUES
from gradtape.ir.node import LEAF, Node
from gradtape.ir.program import Program
from gradtape.ir.spec import Spec
from gradtape.jit.guards.guards import in_words, is_other
from gradtape.jit.replay import steps as replay
from gradtape.trace.followed_number import NumberFormula
from gradtape.trace.value import Value


class DifferentError(Exception):
    """The first thing that a run has recorded otherwise than the run before, and its leaf."""

    def __init__(self, what: str, leaf: int | None = None) -> None:
        super().__init__(what)
        self.leaf = leaf


class Comparison(NamedTuple):
    """The result of comparing a run with known ones.

    With a difference the runs disagree. Else `last` is the last known step that the run has passed,
    `own` is the same step of the run, and `is_known` says whether it took a known path to the end.
    `moved` has the positions of pinned numbers that had other values; `interned` says whether both
    have the same nodes, which they do not if the thread's table was renewed in between.
    """

    difference: DifferentError | None
    last: replay.PathStep
    own: replay.PathStep
    is_known: bool
    moved: frozenset[int] = frozenset()
    interned: bool = True


def compare(
    known: replay.PathStep, run: replay.PathStep, ignored: Container[int] = ()
) -> Comparison:
    """Compare a run, which is a chain of steps, with the paths of a tree.

    Values of pinned numbers at the positions `ignored` may differ.
    """
    comparing, is_known = _Paths(), True
    try:
        while not comparing.compare_steps(known, run):
            ((key, following),) = run.branches.items()
            if key in known.branches:
                known, run = known.branches[key], following
                continue
            if run.pinned not in ignored or not known.branches:
                is_known = False
                break
            # The latest values first: one of them may have taken the same path.
            latest = itertools.islice(reversed(known.branches.values()), MOST_COMPARED_VALUES)
            found = [compare(each, following, ignored) for each in latest]
            best = next((each for each in found if each.is_known), found[0])
            return best._replace(moved=best.moved | {run.pinned})
        comparing.compare_programs()
    except DifferentError as error:
        return Comparison(error.with_traceback(None), known, run, False)
    return Comparison(None, known, run, is_known, interned=comparing.interned)


def used_numbers(root: replay.PathStep) -> set[int]:
    """The positions of numbers that a path computes with, or compares."""
    found: set[int] = set()
    step: replay.PathStep | None = root
    while step is not None:
        if step.pinned < 0 and isinstance(step.guard, replay.NumberKey):
            found.update(step.guard.formula.inputs())
        sources: list[Any] = list(step.sources.values())
        if step.result is not None:
            sources += [*step.result.leaves, *[source for _, source in step.result.updates]]
        for source in sources:
            each = source.source if isinstance(source, replay.NewTensor) else source
            if isinstance(each, (replay.ComputedNumber, replay.NumberAsTensor)):
                found.update(each.formula.inputs())
        step = next(iter(step.branches.values()), None)
    return found


def without_pins(root: replay.PathStep, positions: Container[int]) -> replay.PathStep:
    """The path without the guards that pin numbers at these positions."""
    step = before = root
    while True:
        position = step.pinned
        if position < 0:
            return root
        (following,) = step.branches.values()
        if position in positions:
            if step is root:
                root = following
            else:
                before.branches = dict.fromkeys(before.branches, following)
        else:
            before = step
        step = following


class _Paths:
    """Pairs of nodes and of sources that have to be the same."""

    def __init__(self) -> None:
        # The sources of leaves, by number, of the known path and of the run.
        self._known: dict[int, Any] = {}
        self._run: dict[int, Any] = {}
        self._pairs: list[tuple[Node, Node]] = []

    @property
    def interned(self) -> bool:
        """Whether both have the same nodes."""
        return all(one is other for one, other in self._pairs)

    def compare_steps(self, known: replay.PathStep, run: replay.PathStep) -> bool:
        """Compare two steps; says whether the path ends with them."""
        self._known |= known.sources
        self._run |= run.sources
        _check(
            len(known.draws) == len(run.draws)
            and all(
                one[0] is other[0] and one[1] == other[1]
                for one, other in zip(known.draws, run.draws, strict=True)
            ),
            "it draws other random numbers",
        )
        effects = [[node for each in step.runs for node in each.effects] for step in (known, run)]
        _check(len(effects[0]) == len(effects[1]), "it calls other Python functions")
        self._pairs += zip(*effects, strict=True)
        if known.result is not None or run.result is not None:
            if known.result is None or run.result is None:
                guarded = known if known.result is None else run
                raise DifferentError(f"a run reads the value of {guarded.label}, another does not")
            self._results(known.result, run.result)
            return True
        if known.guard is None or run.guard is None:
            raise DifferentError("a run has ended earlier")
        _check(type(known.guard) is type(run.guard), f"it reads another value: {run.label}")
        self._sources(known.guard, run.guard)
        return False

    def compare_programs(self) -> None:
        """Compare all that was left for the end: nodes, and the leaves below them."""
        if self.interned:
            # The usual case: nodes are interned, so their leaves have the same numbers.
            for number, source in self._run.items():
                if number in self._known:
                    self._sources(self._known[number], source, number)
            return
        seen: set[tuple[int, int]] = set()
        stack = list(self._pairs)
        while stack:
            one, other = stack.pop()
            if (id(one), id(other)) in seen:
                continue
            seen.add((id(one), id(other)))
            if one.op is LEAF or other.op is LEAF:
                _check(one.op is other.op and one.spec == other.spec, _changed_op(one, other))
                mine, theirs = self._known.get(one.params[0]), self._run.get(other.params[0])
                if mine is not None and theirs is not None:
                    self._sources(mine, theirs, other.params[0])
                continue
            same = one.op is other.op and len(one.inputs) == len(other.inputs)
            _check(same and one.spec == other.spec, _changed_op(one, other))
            _check(_same_params(one.params, other.params), f"{other.op.name} has other parameters")
            stack += zip(one.inputs, other.inputs, strict=True)

    def _results(self, known: replay.PathResult, run: replay.PathResult) -> None:
        _check(known.structure == run.structure, "it returns another nest")
        for one, other in zip(known.leaves, run.leaves, strict=True):
            self._sources(one, other)
        for what, mine, theirs in (
            ("it assigns other variables", known.updates, run.updates),
            ("it changes other tensors in place", known.rebound, run.rebound),
            ("it changes other arguments in place", known.moved, run.moved),
        ):
            _check(len(mine) == len(theirs), what)
            for (target, one), (expected, other) in zip(mine, theirs, strict=True):
                _check(_same_field(target, expected), what)
                self._sources(one, other)

    def _sources(self, one: Any, other: Any, leaf: int | None = None) -> None:
        """Compare two records field by field; nodes are left for the end."""
        if isinstance(one, replay.OutsideArray) and isinstance(other, replay.Constant):
            one = replay.Constant(one.read())
        if isinstance(other, replay.OutsideArray) and isinstance(one, replay.Constant):
            other = replay.Constant(other.read())
        if type(one) is not type(other):
            what = f"{_described(other)} is read instead of {_described(one)}"
            raise DifferentError(what, leaf)
        if isinstance(one, replay.OutsideTensor) and one.handle() is other.handle() is None:
            one, other = replay.Constant(one.content), replay.Constant(other.content)
        for name in one.compared:
            mine, theirs = getattr(one, name), getattr(other, name)
            if isinstance(mine, replay.Record):
                self._sources(mine, theirs, leaf)
            elif type(mine) is tuple:
                for part, expected in zip(mine, theirs, strict=True):
                    self._sources(part, expected, leaf)
            elif type(mine) is Node:
                self._pairs.append((mine, theirs))
            elif isinstance(one, replay.Constant) and not same_constant(mine, theirs):
                raise DifferentError(f"{_described(one)} is {_shown(theirs)} now", leaf)
            elif not isinstance(one, replay.Constant) and not _same_field(mine, theirs):
                raise DifferentError(f"{_described(other)} is another one", leaf)


def _check(same: bool, what: str) -> None:
    if not same:
        raise DifferentError(what)


def _changed_op(one: Node, other: Node) -> str:
    names = ["a leaf" if node.op is LEAF else node.op.name for node in (one, other)]
    if names[0] == names[1]:
        return f"{names[0]} is {other.spec} instead of {one.spec}"
    return f"it records {names[1]} instead of {names[0]}"


def _same_field(one: Any, other: Any) -> bool:
    """Whether fields of two sources or guards are the same: objects by identity."""
    if isinstance(one, weakref.ref):
        return one() is other()
    if isinstance(one, Value):
        return same_constant(one, other)
    return one is other or (
        isinstance(one, (int, str, NumberFormula, Spec, np.dtype)) and one == other
    )


def _described(source: Any) -> str:
    if isinstance(source, replay.Constant):
        return f"{source.what} {_shown(source.content)}"
    return str(source.what)


def _shown(content: Any) -> str:
    if isinstance(content, Value):
        array = content.array
        return repr(array.item()) if array.size == 1 else f"array of shape {array.shape}"
    return in_words(content)


def same_constant(one: Any, other: Any) -> bool:
    """Whether two constants of programs are the same, to the last bit."""
    if one is other:
        return True
    if isinstance(one, Value) and isinstance(other, Value):
        if one.spec != other.spec:
            return False
        mine, theirs = np.ascontiguousarray(one.array), np.ascontiguousarray(other.array)
        return mine.tobytes() == theirs.tobytes()
    return not is_other(one, other)


def _same_params(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether params of nodes are the same; functions are compared by code and cells."""
    if one is other:
        return True
    if type(one) is not type(other) or depth > 20:
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(
            _same_params(a, b, depth + 1) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, types.FunctionType):
        return _same_functions(one, other, depth)
    if isinstance(one, types.MethodType):
        return one.__func__ is other.__func__ and one.__self__ is other.__self__
    if isinstance(one, Program):
        return _same_bodies(one, other, depth)
    if one == other:
        return True
    held, theirs = getattr(one, "__dict__", None), getattr(other, "__dict__", None)
    if isinstance(held, dict) and isinstance(theirs, dict) and held.keys() == theirs.keys():
        return bool(held) and all(_same_params(held[k], theirs[k], depth + 1) for k in held)
    return False


def _same_functions(one: Any, other: Any, depth: int) -> bool:
    if one.__code__ is not other.__code__ or one.__globals__ is not other.__globals__:
        return False
    mine, theirs = one.__closure__ or (), other.__closure__ or ()
    try:
        cells = [(a.cell_contents, b.cell_contents) for a, b in zip(mine, theirs, strict=True)]
    except ValueError:
        return False
    parts = [*cells, (one.__defaults__, other.__defaults__)]
    return all(_same_contents(a, b, depth + 1) for a, b in parts)


def _same_contents(one: Any, other: Any, depth: int) -> bool:
    """Whether what a closure holds is the same: functions again, plain values, or one object."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        same = one.dtype == other.dtype and one.shape == other.shape
        return same and one.tobytes() == other.tobytes()
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _same_contents(one[key], other[key], depth + 1) for key in one
        )
    if isinstance(one, (types.FunctionType, tuple, list)):
        return _same_params(one, other, depth)
    return one is other or not is_other(one, other)


def _same_bodies(one: Program, other: Program, depth: int) -> bool:
    """Whether two bodies of loops or branches are the same, node by node."""
    sizes = [(len(each.inputs), len(each.nodes), len(each.outputs)) for each in (one, other)]
    if sizes[0] != sizes[1]:
        return False
    pairs: dict[Node, Node] = dict(zip(one.inputs, other.inputs, strict=True))
    mine: Sequence[Node] = one.nodes
    for a, b in zip(mine, other.nodes, strict=True):
        same = a.op is b.op and a.spec == b.spec and len(a.inputs) == len(b.inputs)
        if not same or not _same_params(a.params, b.params, depth + 1):
            return False
        if any(pairs.get(x, x) is not y for x, y in zip(a.inputs, b.inputs, strict=True)):
            return False
        pairs[a] = b
    return all(pairs.get(x, x) is y for x, y in zip(one.outputs, other.outputs, strict=True))
