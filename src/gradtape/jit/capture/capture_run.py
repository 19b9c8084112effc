"""Capture run: run a function once as a capture, and find out whether later calls can repeat it.

The leaves that it returns have their sources in later calls, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import gc
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from gradtape.autodiff.sparse.programs import is_pending
from gradtape.concurrency import is_interrupt
from gradtape.ir.node import Node
from gradtape.jit.capture.capture import Capture
from gradtape.jit.guards.collect import Outside
from gradtape.jit.guards.guards import SINGLE
from gradtape.jit.guards.names import states_of_global_generators
from gradtape.jit.replay import steps as replay
from gradtape.jit.signature import CallArguments, InputValues
from gradtape.pytree import flatten, unflatten
from gradtape.runtime.flush import flush, retire
from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.followed_number import Followed, followed, plain
from gradtape.trace.recording import Recording, settle, state
from gradtape.trace.value import Value

# The entries of a container by index, key or name.
_Entries = dict[Any, object]
# Classes of objects besides tensors that are taken to be the same in every call.
PLAIN = (*SINGLE, range, slice, type, np.generic, np.dtype, enum.Enum, Variable)


class Refusal(NamedTuple):
    """Why calls of a signature run in Python, and what the user can do about it."""

    why: str
    remedy: str = "Keep the value a tensor"
    silently: bool = False


class CaptureRun:
    """One captured run, and the verdict on it."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: CallArguments,
        leaves: InputValues,
        fastmath: bool,
        outside: Outside | None,
        pinned: Container[int] = (),
        is_check: bool = False,
    ) -> None:
        self._function = function
        # What the function names outside itself; None if that counts as constant.
        self._outside = outside
        # The result, if it has containers that have to be themselves.
        self._shared: SharedContainers | None = None
        arrays = () if outside is None else outside.guards.arrays
        self.capture = Capture(fastmath, arrays, is_check, is_frozen=outside is None)
        # A function that reads the type of a number must not get a subclass.
        plain = outside is not None and outside.reads_types
        self.stand_ins = StandIns(self.capture, arguments, leaves, pinned, plain)
        # Set by the run: whether in-place changes of the caller's arguments have begun; why no call
        # can be replayed; and what it left outside, so that a replay would have to do it, too.
        self.lasts = False
        self.refusal: Refusal | None = None
        self.left_outside: str | None = None
        # Whether `random` or `np.random` has moved on.
        self.drew_elsewhere = False

    def run(self, lasts: bool = True) -> Any:
        """Run the function; returns what it returns.

        If the run is to last, in-place changes of stand-in arguments are carried out on the
        caller's.
        """
        before = None if self._outside is None else states_of_global_generators()
        running = captured_run(self.capture, self._function, self.stand_ins)
        with _without_collections(), running as box:
            if before is not None:
                self.drew_elsewhere = states_of_global_generators() != before
            return self._finish(box, lasts)

    def _finish(self, box: list[object], lasts: bool) -> Any:
        # From here on nothing may hold the tensors of the run for longer than it needs them: a
        # reference left at the end counts as an escape.
        capture, stand_ins = self.capture, self.stand_ins
        settle()  # tapes that died do not outlive the call
        if self._outside is not None:
            theirs = stand_ins.changes.originals
            shared = SharedContainers(box[0], self._outside.containers, theirs)
            self._shared = shared if shared else None
            del shared
        leaves, structure = flatten(box.pop())
        capture.finish()
        nodes = [leaf.node if is_inside(leaf, capture) else None for leaf in leaves]
        capture.tapes.pop(id(capture), None)
        capture.active = 0
        tape_outlives = bool(capture.tapes)
        source = capture.source
        result = capture.step.result = replay.PathResult(
            structure,
            _leaf_sources(capture, leaves, nodes),
            tuple((each, source(node)) for each, node in capture.variables.last_assigned(capture)),
            tuple((each, source(node)) for each, node in capture.tensors.rebound(capture)),
            tuple(
                (position, source(handle.node))
                for position, handle in capture.tensors.changed_arguments.items()
            ),
        )
        flush(capture)
        if capture.broken:
            # The function has gone on after a plan failed, so it is run again without a capture.
            raise RuntimeError("a plan failed earlier")
        if not capture.given.issuperset(result.computed()):
            capture.incomplete = True
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
        # Leaves of the caller's arguments may be returned as they are.
        static = {id(each) for each in flatten(self.stand_ins.passed)[0]}
        for leaf in leaves:
            is_static = isinstance(leaf, (Tensor, *PLAIN)) or id(leaf) in static
            if not is_static and not is_pending(leaf):
                what = f"an object of class {type(leaf).__name__}"
                return Refusal(f"it returns {what}, which may differ between calls")
        if self._shared is not None:
            why = "it returns a list, dict or dataclass that it is given, twice, or from outside"
            return Refusal(why, "Return a copy")
        if self.stand_ins.changes:
            return Refusal("it changes a list, dict or dataclass that it is given")
        if self.drew_elsewhere:
            return Refusal("it draws random numbers of Python or NumPy", "Use gt.random")
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
            for thing in capture.variables.made.alive():
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


def is_inside(leaf: object, capture: Capture) -> bool:
    """Whether something is a tensor of a capture."""
    return isinstance(leaf, Tensor) and leaf.recording is capture


def _leaf_sources(
    capture: Capture, leaves: list[Any], nodes: list[Node | None]
) -> tuple[replay.ValueSource, ...]:
    """The sources of all leaves that the function returned; one source for one tensor."""
    pairs = {id(leaf): (leaf, node) for leaf, node in zip(leaves, nodes, strict=True)}
    found = {key: _leaf_source(capture, *each) for key, each in pairs.items()}
    return tuple([found[id(leaf)] for leaf in leaves])


def _leaf_source(capture: Capture, leaf: Any, node: Node | None) -> replay.ValueSource:
    """The source of one leaf that the function returned."""
    if isinstance(leaf, RowSparse):
        parts = [
            _leaf_source(capture, part, part.node if is_inside(part, capture) else None)
            for part in leaf.rows
        ]
        return replay.RowSparseTensor(type(leaf), tuple(parts), leaf.spec)
    if node is not None:
        fresh = replay.NewTensor(capture.source(node), type(leaf).result_class)
        position = capture.tensors.position(leaf)
        if position is not None:
            return replay.CallersTensor(position, fresh)
        return (
            replay.OutsideTensorItself(weakref.ref(leaf), fresh)
            if capture.tensors.is_rebound(leaf)
            else fresh
        )
    if isinstance(leaf, Tensor):
        if leaf in capture.tensors.made:
            return replay.NewTensor(replay.Constant(leaf.computed), type(leaf).result_class)
        leaf.enter(capture)  # so that changes of it in place are noticed
        return replay.OutsideTensorItself(
            weakref.ref(leaf), replay.NewTensor(replay.Constant(leaf.computed), Tensor)
        )
    if isinstance(leaf, Followed):
        return replay.ComputedNumber(leaf.formula)
    if isinstance(leaf, PLAIN) or not is_pending(leaf):
        return replay.Constant(leaf)
    return replay.NewSparseMatrix(capture.source(leaf.entries.node), leaf.pattern.with_data)


class ReturnedLeaves:
    """Replaces the tensors of a run in the list of returned leaves.

    The caller gets its own tensors back for stand-ins, and new tensors for others. A
    reference to a tensor of the run that is left afterwards did not come from the result.
    """

    def __init__(
        self, leaves: list[Any], nodes: list[Node | None], originals: dict[int, Tensor]
    ) -> None:
        self._new: dict[int, tuple[Tensor, weakref.ref[Tensor]]] = {}
        for place, (leaf, node) in enumerate(zip(leaves, nodes, strict=True)):
            if isinstance(leaf, Followed):
                leaves[place] = plain(leaf)
            elif id(leaf) in originals or (node is not None and leaf.node is None):
                new = originals.get(id(leaf))
                if new is None:
                    new = type(leaf)(None, None, leaf.computed)
                new, _ = self._new.setdefault(id(leaf), (new, weakref.ref(leaf)))
                leaves[place] = new
            elif not isinstance(leaf, (Tensor, *PLAIN)) and is_pending(leaf):
                leaves[place] = leaf.pattern.with_data(np.array(leaf.entries.computed.array))

    def known_outside(self, leaves: list[object]) -> list[object]:
        """The leaves to return: tensors of the run if they are known outside, else the new."""
        known = {id(new): first() for new, first in self._new.values()}
        return [leaf if known.get(id(leaf)) is None else known[id(leaf)] for leaf in leaves]


class SharedContainers:
    """A result with containers that have to be themselves: the caller's, others', or one twice."""

    def __init__(self, returned: Any, outside: Set[int], theirs: Mapping[int, object]) -> None:
        self._returned = returned
        self._outside = outside
        # The caller's containers by the ids of their stand-ins.
        self._theirs = theirs

    def __bool__(self) -> bool:
        seen: set[int] = set()
        pending = [self._returned]
        while pending:
            each = pending.pop()
            parts = content(each)
            if parts is not None and not isinstance(each, tuple):
                if id(each) in seen or id(each) in self._outside or id(each) in self._theirs:
                    return True
                seen.add(id(each))
            pending += (parts or {}).values()
        return False

    def with_leaves(self, replaced: Mapping[int, object]) -> Any:
        """The result itself, with other leaves: they are given by the ids of those they replace."""
        known: dict[int, Any] = {**self._theirs, **replaced}

        def visit(each: Any) -> Any:
            if id(each) in known:
                return known[id(each)]
            parts = content(each)
            if parts is None or id(each) in self._outside:
                return each
            if isinstance(each, tuple):
                found = [*map(visit, each)]
                return each._make(found) if hasattr(each, "_make") else tuple(found)
            known[id(each)] = each
            fill(each, {key: visit(part) for key, part in parts.items()})
            return each

        return visit(self._returned)


class StandIns:
    """Stand-in arguments of one captured run."""

    def __init__(
        self,
        capture: Capture,
        arguments: CallArguments,
        leaves: InputValues,
        pinned: Container[int] = (),
        plain_numbers: bool = False,
    ) -> None:
        self._capture = capture
        self._arguments = arguments
        self.inputs: list[Any] = []
        originals = arguments.inputs()
        aliases = arguments.key.aliases or range(len(leaves))
        for position, (leaf, (label, original)) in enumerate(zip(leaves, originals, strict=True)):
            if aliases[position] < position:
                self.inputs.append(self.inputs[aliases[position]])
            elif type(leaf) is Value:
                kind = getattr(original, "result_class", Tensor)
                self.inputs.append(capture.argument(position, leaf, kind, original))
            else:
                capture.labels[position] = label
                number = followed(leaf, position, capture.number_guards)
                if plain_numbers or position in pinned:
                    number.read()
                self.inputs.append(leaf if plain_numbers else number)
        self.args, self.kwargs = arguments.rebuilt(self.inputs)
        passed = [original for _, original in originals]
        pairs = list(zip(passed, self.inputs, strict=True))
        self.passed = (arguments.args, list(arguments.kwargs.values()))
        mine = (self.args, list(self.kwargs.values()))
        self.changes = ContainerChanges(self.passed, mine, pairs)
        # The caller's own tensors, by the ids of their stand-ins.
        self.originals = {id(mine): each for each, mine in pairs if isinstance(each, Tensor)}

    def carry_out(self) -> None:
        """Carry out in-place changes of the stand-ins on the caller's arguments."""
        changed = self._capture.tensors.changed_arguments
        if changed:
            originals = self._arguments.inputs()
            for position, handle in changed.items():
                if handle.computed is not None:
                    replay.rebind(originals[position][1], handle.computed)
        self.changes.carry_out()

    def may_be_to_blame(self, error: BaseException) -> bool:
        """Whether an error may come from a tensor in the place of an array."""
        return isinstance(error, (TypeError, AttributeError)) and any(
            isinstance(each, (np.ndarray, np.generic)) for each in self._arguments.passed()
        )

    def release(self) -> list[weakref.ref[Tensor]]:
        """Let go of the stand-ins; returns references: those the function kept are alive."""
        found = [weakref.ref(each) for each in self.inputs if isinstance(each, Tensor)]
        self.inputs, self.args, self.kwargs = [], (), {}
        self.changes = ContainerChanges((), (), [])
        self._capture.tensors.changed_arguments = {}
        return found


class ContainerChanges:
    """Notices changes of the lists, dicts and dataclasses that a function is given."""

    def __init__(
        self,
        originals: Sequence[object],
        stand_ins: Sequence[object],
        inputs: Iterable[tuple[object, object]],
    ) -> None:
        # Containers of the caller, their stand-ins, and what these held at first.
        self._pairs: list[tuple[object, object, _Entries]] = []
        self._theirs = {id(mine): original for original, mine in inputs}
        for theirs, mine in zip(originals, stand_ins, strict=True):
            self._pair(theirs, mine)

    def _pair(self, original: object, mine: object) -> None:
        if original is mine or type(original) is not type(mine):
            return
        held = content(mine)
        if held is None:
            return
        theirs = content(original) or {}
        if dataclasses.is_dataclass(mine):
            # A pytree has the fields of a dataclass only; other attributes are copied here.
            for name in theirs.keys() - held.keys():
                object.__setattr__(mine, name, theirs[name])
                held[name] = theirs[name]
        if not isinstance(mine, tuple):
            self._pairs.append((original, mine, held))
            self._theirs[id(mine)] = original
        if not held.keys() <= theirs.keys():
            # As Python says of a dict whose size changes during iteration.
            raise RuntimeError(
                f"gt.function: another thread changed a {type(original).__name__} among the "
                "arguments while they were read. Pass a copy, or use a lock."
            )
        for key, part in held.items():
            self._pair(theirs[key], part)

    @property
    def originals(self) -> dict[int, object]:
        """The caller's containers by the ids of their stand-ins."""
        return {id(mine): original for original, mine, _ in self._pairs}

    def __bool__(self) -> bool:
        """Whether anything was changed."""
        return any(_differs(mine, before) for _, mine, before in self._pairs)

    def carry_out(self) -> None:
        """Change the caller's containers as their stand-ins were."""
        for original, mine, before in self._pairs:
            if _differs(mine, before):
                now = content(mine) or {}
                fill(original, {key: self._own(part) for key, part in now.items()})

    def _own(self, part: object) -> object:
        """The caller's own object for a stand-in."""
        if id(part) in self._theirs:
            return self._theirs[id(part)]
        return plain(part)


def _differs(container: object, before: _Entries) -> bool:
    now = content(container) or {}
    return list(now) != list(before) or any(now[key] is not before[key] for key in now)


def content(container: object) -> _Entries | None:
    """The entries of a list, tuple, dict or dataclass by key; None for anything else."""
    if isinstance(container, (list, tuple)):
        return dict(enumerate(container))
    if isinstance(container, dict):
        return dict(container)
    if dataclasses.is_dataclass(container) and not isinstance(container, type):
        names = [field.name for field in dataclasses.fields(container)]
        held = {name: getattr(container, name) for name in names if hasattr(container, name)}
        return held | getattr(container, "__dict__", {})
    return None


def fill(container: object, entries: _Entries) -> None:
    """Let a list, dict or dataclass have these entries and no others."""
    if isinstance(container, list):
        container[:] = entries.values()
    elif isinstance(container, dict):
        container.clear()
        container.update(entries)
    else:
        for name in getattr(container, "__dict__", {}).keys() - entries.keys():
            object.__delattr__(container, name)
        for name, part in entries.items():
            object.__setattr__(container, name, part)
