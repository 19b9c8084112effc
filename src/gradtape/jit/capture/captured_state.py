"""Captured state: the random draws, variables and tensors that a captured run uses.

A replay draws as many blocks at each step as the captured run did, and finds the position of each
random number as an offset from the generator's counter at that draw. It reads a variable when it
begins and assigns it when it ends. That repeats the captured run only if nothing else assigned the
variable during the run, so every read of a variable is compared with the latest one.

The run gets stand-in arguments for the tensors of the caller. It may change them in place, and
tensors from outside, too; a replay then does the same. Tensors that are held after the run without
a replay being able to make them show that the function cannot be replayed.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape.errors import InPlaceError
from gradtape.ir.node import Node
from gradtape.jit.replay.sources import MovedGenerator, RandomPosition, value_of
from gradtape.jit.replay.steps import rebind
from gradtape.jit.signature import CallArguments, InputValues
from gradtape.pytree import flatten
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.followed_number import followed, plain
from gradtape.trace.recording import Recording
from gradtape.trace.value import Handle, Value, host_value

if TYPE_CHECKING:
    from gradtape.jit.capture.capture import Capture

# The entries of a container by index, key or name.
_Entries = dict[Any, object]
VIEW_CHANGED = "a tensor that was made by indexing or viewing another is changed in place"

Reference = Callable[[], Handle | None]
# What a handle stands for.
_Meaning = tuple[Node | None, Recording | None, Value | None]


class _Made:
    """Objects that the run has made, by weak references."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[object]] = {}

    def add(self, thing: object) -> None:
        self._references[id(thing)] = weakref.ref(thing)

    def __contains__(self, thing: object) -> bool:
        found = self._references.get(id(thing))
        return found is not None and found() is thing

    def alive(self) -> list[object]:
        """The objects that are still held."""
        found = [reference() for reference in self._references.values()]
        return [thing for thing in found if thing is not None]


class CapturedDraws:
    """Notes where generators were moved by a captured run."""

    def __init__(self) -> None:
        # The number of draws in earlier steps. In this step, for each generator: the number of its
        # draw, and the counter before and after. In the whole run: the counter before, None if
        # there is no way back, and after.
        self._before = 0
        self._in_step: dict[MovedGenerator, tuple[int, int, int]] = {}
        self._whole: dict[MovedGenerator, tuple[int | None, int]] = {}
        # Whether others have drawn from the same generator during the run.
        self.disturbed = False

    def __bool__(self) -> bool:
        return bool(self._whole)

    def drew(self, generator: MovedGenerator, start: int, stop: int) -> None:
        """The run has moved a generator from `start` to `stop`."""
        first, latest = self._whole.get(generator, (start, start))
        known = self._in_step.get(generator)
        if latest != start:
            first = None
            if known is not None:
                # Two draws with others in between cannot be replayed as one.
                self.disturbed = True
        number, place, _ = known or (self._before + len(self._in_step), start, stop)
        self._set(generator, first, number, place, stop)

    def drew_again(self, generator: MovedGenerator, start: int, width: int, stop: int) -> None:
        """The draw of `width` blocks from `start` on was repeated, up to `stop`."""
        first, latest = self._whole[generator]
        if latest != start + width:
            self.disturbed, first = True, None
        number, place, _ = self._in_step[generator]
        self._set(generator, first, number, place, stop)

    def gave_back(self, generator: MovedGenerator, start: int) -> None:
        """A generator was moved back to `start`: the numbers after it will be drawn again."""
        first, _ = self._whole[generator]
        number, place, _ = self._in_step[generator]
        self._set(generator, first, number, place, start)

    def _set(
        self, generator: MovedGenerator, first: int | None, number: int, place: int, stop: int
    ) -> None:
        self._whole[generator] = (first, stop)
        self._in_step[generator] = (number, place, stop)

    def position(self, generator: MovedGenerator, positions: np.ndarray) -> RandomPosition:
        """The source of one or many positions of random numbers drawn in this step."""
        draw, start, _ = self._in_step[generator]
        # Counters have two words, more than NumPy's integers hold.
        counters = positions[..., 2:].astype(object)
        offsets = counters[..., 0] + counters[..., 1] * 2**64 - start
        single = not isinstance(offsets, np.ndarray)
        return RandomPosition(
            draw, int(offsets) if single else host_value(offsets.astype(np.uint64))
        )

    def end_step(self) -> list[tuple[MovedGenerator, int]]:
        """Begin another step; returns the draws of the one that ends, with the blocks of each."""
        draws = [(each, stop - start) for each, (_, start, stop) in self._in_step.items()]
        self._before += len(draws)
        self._in_step = {}
        return draws

    def undo(self) -> bool:
        """Move all generators back; False if others have drawn meanwhile."""
        gone = [
            start is None or not generator.rewind(start, stop)
            for generator, (start, stop) in self._whole.items()
        ]
        return not any(gone)


class CapturedVariables:
    """Notes how a captured run uses variables."""

    def __init__(self) -> None:
        # Variables that were assigned, with what each held before the run; and those read.
        self.assigned: dict[Variable, Tensor] = {}
        self.read: dict[Variable, None] = {}
        # What each variable holds, as far as the run knows.
        self._latest: dict[Variable, Handle | Value] = {}
        # Leaves by the ids of variable and value.
        self._leaves: dict[tuple[int, int], Node] = {}
        # Variables and generators that the run made: state only if they outlive it.
        self.made = _Made()
        # Whether a variable was assigned elsewhere during the run.
        self.disturbed = False

    def enter(self, variable: Variable, handle: Tensor, recording: Recording) -> tuple[Node, bool]:
        """The leaf of the value of a variable; and whether later calls read the variable for it.

        The leaf is the variable's own: a tensor may hold the same value, and does not follow the
        variable.
        """
        value = value_of(handle)
        is_outside = variable not in self.made
        if is_outside:
            self._compare(variable, handle)
            self._latest[variable] = value
            self.read[variable] = None
        key = (id(variable), id(value))
        node = self._leaves.get(key)
        if node is None:
            node = self._leaves[key] = recording.add_leaf(value, value.spec)
        return node, is_outside

    def assign(self, variable: Variable, before: Tensor, handle: Tensor) -> None:
        """A variable was assigned; later calls assign it at their end."""
        if variable not in self.made:
            self._compare(variable, before)
            self.assigned.setdefault(variable, before)
            self._latest[variable] = handle

    def last_assigned(self, recording: Recording) -> list[tuple[Variable, Node]]:
        """The variables assigned, with the node that each was given last."""
        latest = [(variable, self._latest[variable]) for variable in self.assigned]
        return [
            (variable, handle.node)
            for variable, handle in latest
            if isinstance(handle, Handle) and handle.recording is recording
        ]

    def _compare(self, variable: Variable, handle: Handle) -> None:
        """Compare what a variable holds with what it was last seen or assigned to hold."""
        latest = self._latest.get(variable)
        if latest is not None and latest is not handle and latest is not handle.computed:
            self.disturbed = True

    def compare_all(self) -> None:
        """Notice assignments by other threads to variables that were read or assigned here."""
        for variable in self._latest:
            self._compare(variable, variable._handle)

    def known(self) -> list[Handle | Value]:
        """Handles that variables hold, so that captures of other threads may know them."""
        return list(self._latest.values())

    def undo(self) -> None:
        """Let variables hold again what they held before the run."""
        for variable, handle in self.assigned.items():
            variable.restore(handle, self._latest[variable])


def is_view(thing: object) -> bool:
    """Whether something is a tensor that refuses to be changed in place."""
    return type(thing) is getattr(thing, "view_class", None)


class _StandIn(NamedTuple):
    """A stand-in argument: its input, a reference to its tensor, and what the caller passed."""

    position: int
    handle: Reference
    original: object


class CapturedTensors:
    """Notes the tensors that a captured run was given, made and changed in place."""

    def __init__(self) -> None:
        # Stand-ins by the id of their handle, and by the id of what the caller passed.
        self._stand_ins: dict[int, _StandIn] = {}
        self._originals: dict[int, list[_StandIn]] = {}
        # Stand-ins that were changed in place, by position.
        self.changed_arguments: dict[int, Handle] = {}
        # Tensors from outside that were changed in place, with what they were before.
        self._rebound: dict[int, tuple[Reference, _Meaning]] = {}
        # Tensors of host memory that the run made; tensors that were held when a plan ran.
        self.made = _Made()
        self._computed = _Made()
        # Whether a tensor that is changed was passed twice, or is known to the function otherwise.
        self.shares_argument = False

    # Stand-in arguments.

    def add_stand_in(self, position: int, handle: Handle, original: object) -> None:
        """The run gets this tensor for an input; a tensor that is passed twice gets two."""
        stand_in = _StandIn(position, weakref.ref(handle), original)
        self._stand_ins[id(handle)] = stand_in
        self._originals.setdefault(id(original), []).append(stand_in)

    def position(self, handle: Handle) -> int | None:
        """The input that a tensor stands for."""
        stand_in = self._stand_in(handle)
        return None if stand_in is None else stand_in.position

    def _stand_in(self, handle: Handle) -> _StandIn | None:
        found = self._stand_ins.get(id(handle))
        return found if found is not None and found.handle() is handle else None

    def changed_stand_in(self, original: Handle) -> Handle | None:
        """The stand-in for a caller's tensor that was changed in place, if it was."""
        if self.changed_arguments:
            for stand_in in self._originals.get(id(original), ()):
                if stand_in.position in self.changed_arguments:
                    self.shares_argument = True
                    return self.changed_arguments[stand_in.position]
        return None

    # In-place changes.

    def rebinding(self, handle: Handle, new: Handle, recording: Recording) -> None:
        """A tensor is about to be changed in place, which all its holders will see."""
        stand_in = self._stand_in(handle)
        if stand_in is None:
            if handle.recording is not recording and handle not in self.made:
                before = (handle.node, handle.recording, handle.computed)
                self._rebound.setdefault(id(handle), (weakref.ref(handle), before))
            return
        original = stand_in.original
        if is_view(original):
            raise InPlaceError(VIEW_CHANGED)
        self.changed_arguments[stand_in.position] = handle
        if isinstance(original, Handle) and original.computed is not None:
            # The function may know the caller's tensor, too: let it be entered again.
            original.computed.entry = (0, None)
        self._rebind_others(original, handle, new)

    def _rebind_others(self, original: object, handle: Handle, new: Handle) -> None:
        """The caller has passed one tensor in several places: all stand-ins are changed."""
        for stand_in in self._originals[id(original)]:
            other = stand_in.handle()
            if other is not None and other is not handle:
                self.shares_argument = True
                self.changed_arguments[stand_in.position] = other
                other.node, other.recording, other.computed = new.node, new.recording, new.computed
                if other.computed is None and other.recording is not None:
                    other.recording.handles.append(other)

    def is_rebound(self, handle: Handle) -> bool:
        """Whether a tensor is from outside and was changed in place."""
        found = self._rebound.get(id(handle))
        return found is not None and found[0]() is handle

    def rebound(self, recording: Recording) -> list[tuple[Reference, Node]]:
        """Tensors from outside that now stand for nodes of the run."""
        found = [(reference, reference()) for reference, _ in self._rebound.values()]
        return [
            (reference, handle.node)
            for reference, handle in found
            if handle is not None and handle.recording is recording
        ]

    def undo(self) -> None:
        """Let tensors from outside be what they were before the run."""
        for reference, before in self._rebound.values():
            handle = reference()
            if handle is not None:
                handle.node, handle.recording, handle.computed = before

    # Tensors that may outlive the run.

    def held(self, handles: Iterable[Handle]) -> None:
        """These tensors were held when a plan ran."""
        for handle in handles:
            self._computed.add(handle)

    def leaked(self, stand_ins: Sequence[Reference], known: Sequence[object]) -> bool:
        """Whether a tensor of the run is still held that is not among the known ones."""
        expected = {id(handle) for handle in known}
        expected.update(id(reference()) for reference, _ in self._rebound.values())
        passed = [each for reference in stand_ins if (each := reference()) is not None]
        alive = (*self._computed.alive(), *self.made.alive(), *passed)
        return any(id(handle) not in expected for handle in alive)


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
        whole = (arguments.args, list(arguments.kwargs.values()))
        self.changes = ContainerChanges(whole, (self.args, list(self.kwargs.values())), pairs)
        # The caller's own tensors, by the ids of their stand-ins.
        self.originals = {id(mine): each for each, mine in pairs if isinstance(each, Tensor)}

    def carry_out(self) -> None:
        """Carry out in-place changes of the stand-ins on the caller's arguments."""
        changed = self._capture.tensors.changed_arguments
        if changed:
            originals = self._arguments.inputs()
            for position, handle in changed.items():
                if handle.computed is not None:
                    rebind(originals[position][1], handle.computed)
        self.changes.carry_out()

    def may_be_to_blame(self, error: BaseException) -> bool:
        """Whether an error may come from a tensor in the place of an array."""
        return isinstance(error, (TypeError, AttributeError)) and any(
            isinstance(each, (np.ndarray, np.generic)) for each in self._arguments.passed()
        )

    def static_leaves(self) -> list[Any]:
        """Leaves of the caller's arguments, which a function may return as they are."""
        return flatten((self._arguments.args, self._arguments.kwargs))[0]

    def release(self) -> list[weakref.ref[Tensor]]:
        """Let go of the stand-ins; returns references that tell whether somebody holds them."""
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
