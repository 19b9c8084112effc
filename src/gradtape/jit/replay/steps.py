"""Steps: a captured function as a tree of plans and guards, and the replay of a tree.

A capture notes a source for every input of a plan, every value that a guard reads, and every leaf
that the function returned; a replay reads them, and `native_call` writes them as rows of a table.
Sources are compared field by field, so a class lists the fields that count if not all of them do.

A step draws random numbers, runs its plans, and then reads one value: its guard. The value
chooses the next step. The last step of a path has a result instead: the leaves that the call
returns, and the changes that it makes to variables, tensors and arguments. All changes happen
there, so a call that meets an unknown value at a guard has changed nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol, dataclass_transform

import numpy as np

from gradtape.ir.derived import digest_of
from gradtape.ir.node import Node
from gradtape.ir.spec import Spec
from gradtape.ops.custom.callback import Outcome
from gradtape.pytree import Structure, unflatten
from gradtape.runtime.error_lines import Lines
from gradtape.runtime.flush import compute_handle
from gradtape.runtime.tiers import TieredPlan
from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.tensor.variable_updates import written_assignment
from gradtape.trace.followed_number import NumberFormula
from gradtape.trace.value import Content, Handle, Value, host_value

WORD = 2**64

# The counter of a random generator at a draw, after the two words of its key.
Counter = tuple[int, int, int]


class MovedGenerator(Protocol):
    """The part of a `gt.random.Generator` that captures and replays use."""

    number: int

    def reserve(self, blocks: int) -> Counter:
        """Move the counter on; returns what it was before."""

    def rewind(self, start: int, stop: int) -> bool:
        """Move the counter back from `stop` to `start`; False if it is not at `stop`."""


class ReplayedCall:
    """The inputs of one replayed call, and what it has computed and drawn so far.

    `passed()` gives the inputs as the caller passed them.
    """

    __slots__ = ("contents", "drawn", "inputs", "outcomes", "passed")

    def __init__(self, inputs: list[Any], passed: Callable[[], Sequence[object]]) -> None:
        self.inputs = inputs
        self.passed = passed
        self.contents: dict[Node, Content] = {}
        # Each draw: the generator, its counter before, and the number of blocks.
        self.drawn: list[tuple[MovedGenerator, Counter, int]] = []
        # The results of callbacks, in order.
        self.outcomes: list[Outcome] = []

    def give_back(self) -> None:
        """Move generators back to where they were, unless others have drawn meanwhile."""
        for generator, before, blocks in reversed(self.drawn):
            generator.rewind(before[2], before[2] + blocks)
        self.drawn = []


@dataclass_transform(eq_default=False)
class Record:
    """A base of classes whose instances hold their annotated fields, and are equal by identity.

    The standard decorator compiles a method for each class: these are made in first calls.
    """

    names: tuple[str, ...] = ()
    # The fields in which two equal records agree, and what one is called.
    compared: tuple[str, ...] = ()
    what = "a value"

    def __init_subclass__(cls, what: str = "a value", compared: tuple[str, ...] = ()) -> None:
        cls.names = tuple([name for name in cls.__annotations__ if name[0] != "_"])
        cls.compared = compared or cls.names
        cls.what = what

    def __init__(self, *values: Any) -> None:
        self.__dict__.update(zip(self.names, values, strict=False))


class ValueSource(Record):
    """The source of a value."""

    def read(self, call: ReplayedCall) -> Any:
        """The value in this call; it may be held by others, too."""
        raise NotImplementedError

    def own(self, call: ReplayedCall) -> Value:
        """The value as a Value of its own: later tapes see its holders as two."""
        value = self.read(call)
        return Value(value.content, value.spec)

    def settled(self) -> ValueSource:
        """The source; a constant for a tensor that is gone, or for memory that stays the same."""
        return self


def value_of(handle: Handle) -> Value:
    """The value of a tensor, computed if it is pending."""
    if handle.computed is None:
        compute_handle(handle)
    value: Any = handle.computed
    return value


# Inputs of plans.


class ArgumentValue(ValueSource, what="an argument"):
    """An input of the call, by its position among the inputs."""

    position: int

    def read(self, call: ReplayedCall) -> Any:
        return call.inputs[self.position]


class ComputedNumber(ValueSource, what="a number computed from the arguments"):
    """A Python number that is computed from the inputs of the call."""

    formula: NumberFormula

    def read(self, call: ReplayedCall) -> Any:
        return self.formula.compute(call.inputs)


class NumberAsTensor(ValueSource, what="a number computed from the arguments"):
    """A Python number that is computed from the inputs, as the value of a 0-d tensor."""

    formula: NumberFormula
    dtype: np.dtype[Any]

    def read(self, call: ReplayedCall) -> Value:
        return host_value(self.formula.compute(call.inputs), self.dtype)


class VariableValue(ValueSource, what="a variable"):
    """The value that a variable holds at the time of the call."""

    variable: Variable

    def read(self, call: ReplayedCall) -> Value:
        return self.variable.current()


class Constant(ValueSource, what="the constant"):
    """An object that is the same in every call."""

    content: Any

    def read(self, call: ReplayedCall) -> Any:
        return self.content


class OutsideTensor(ValueSource, what="a tensor from outside", compared=("handle",)):
    """The value that a tensor from outside the function has at the time of the call.

    The tensor may be changed in place between calls. It is not kept alive by the capture.
    """

    handle: weakref.ref[Handle]
    content: Value

    @classmethod
    def of(cls, handle: Handle) -> OutsideTensor:
        """The source of a tensor, with the value that is left if the tensor goes."""
        return cls(weakref.ref(handle), value_of(handle))

    def read(self, call: ReplayedCall) -> Value:
        handle = self.handle()
        return self.content if handle is None else value_of(handle)

    # For Python that reads the elements.
    key = read

    def settled(self) -> ValueSource:
        return Constant(self.content) if self.handle() is None else self


class OutsideArray(ValueSource, what="an array from outside"):
    """A NumPy array from outside that enters the program whole: a replay reads its memory."""

    array: np.ndarray
    spec: Spec

    def read(self, call: ReplayedCall | None = None) -> Value:
        return Value(self.array, self.spec) if self._is_shared() else self.own()

    def own(self, call: ReplayedCall | None = None) -> Value:
        return host_value(self.array, self.spec.dtype)

    def settled(self) -> ValueSource:
        return Constant(self.read()) if self._is_shared() else self

    def _is_shared(self) -> bool:
        """Whether plans may read the memory of the array itself."""
        array = self.array
        plain = array.ndim > 0 and array.flags.c_contiguous and array.flags.aligned
        return plain and array.dtype == self.spec.dtype and array.dtype.isnative


class ComputedNode(ValueSource, what="a computed value"):
    """A value that an earlier plan of the same call computed."""

    node: Node

    def read(self, call: ReplayedCall) -> Value:
        return Value(call.contents[self.node], self.node.spec)

    own = read


class RandomPosition(ValueSource, what="a random number"):
    """The position of random numbers: an offset from the generator's counter at a draw.

    The offsets of an array of positions are a Value.
    """

    draw: int
    offset: int | Value

    def read(self, call: ReplayedCall) -> Value:
        first, second, counter = call.drawn[self.draw][1]
        if isinstance(self.offset, int):
            counter += self.offset
            return host_value(np.array([first, second, counter % WORD, counter // WORD], np.uint64))
        offsets = self.offset.array
        found = np.empty((*offsets.shape, 4), np.uint64)
        found[..., 0], found[..., 1] = first, second
        found[..., 2] = offsets + np.uint64(counter % WORD)
        # An addition that wraps around gives a sum below what was added: carry one.
        found[..., 3] = np.uint64(counter // WORD) + (found[..., 2] < offsets)
        return host_value(found)


# Values that guards read.


class Element(Record, compared=("source", "kind")):
    """The only element of a tensor as a Python number."""

    source: ValueSource
    node: Node
    kind: type

    def key(self, call: ReplayedCall) -> Hashable:
        found = self.kind(self._element(self.source.read(call)))
        return found if self.kind is bool else branch_key(found)

    @cached_property
    def _element(self) -> Callable[[Value], Any]:
        if self.node.dtype.kind == "c":
            return lambda value: value.array.reshape(())[()]
        memory = np.ctypeslib.as_ctypes_type(self.node.dtype).from_address
        return lambda value: memory(value.address).value


class NumberKey(Record):
    """A Python number among the inputs, or the result of a comparison of it, as a branch key."""

    formula: NumberFormula

    def key(self, call: ReplayedCall) -> Hashable:
        return branch_key(self.formula.compute(call.inputs))


class Attribute(Record):
    """An attribute of a Python object that is known to change, such as a layer's mode."""

    thing: object
    name: str

    def key(self, call: ReplayedCall) -> Hashable:
        return branch_key(getattr(self.thing, self.name))


class IndexDigest(Record):
    """All elements of a tensor, as a digest: a proof or a sparsity pattern depends on them."""

    source: ValueSource

    def key(self, call: ReplayedCall) -> Hashable:
        return digest_of(self.source.read(call).array)


# The values of these choose the branch that a call takes.
GuardSource = Element | NumberKey | Attribute | OutsideTensor | IndexDigest


# Leaves that the function returns, besides plain sources.


class NewTensor(ValueSource):
    """A tensor that the call makes around a value."""

    source: ValueSource
    kind: type[Handle]

    def read(self, call: ReplayedCall) -> Handle:
        return self.kind(None, None, self.source.own(call))


class NewSparseMatrix(ValueSource, compared=("source",)):
    """A SciPy matrix that the call makes from the values of its entries."""

    source: ValueSource
    from_entries: Callable[[np.ndarray], object]

    def read(self, call: ReplayedCall) -> object:
        return self.from_entries(self.source.read(call).array)


class RowSparseTensor(ValueSource):
    """A RowSparse gradient that the call makes from its rows and values."""

    kind: type[RowSparse]
    parts: tuple[ValueSource, ...]
    spec: Spec

    def read(self, call: ReplayedCall) -> RowSparse:
        parts: list[Any] = [part.read(call) for part in self.parts]
        return self.kind(*parts, self.spec)  # type: ignore[call-arg]


class CallersTensor(ValueSource, compared=("position",)):
    """The caller's own tensor among the inputs; a new one if the caller passed an array."""

    position: int
    otherwise: NewTensor

    def read(self, call: ReplayedCall) -> Handle:
        own = call.passed()[self.position]
        return own if isinstance(own, Tensor) else self.otherwise.read(call)


class OutsideTensorItself(ValueSource, compared=("handle",)):
    """The very tensor from outside that the function returned; a new one if it is gone."""

    handle: Callable[[], Handle | None]
    otherwise: NewTensor

    def read(self, call: ReplayedCall) -> Handle:
        own = self.handle()
        return self.otherwise.read(call) if own is None else own


def branch_key(value: Any) -> Hashable:
    """The key of a guard's branch: unlike ==, -0.0 differs from 0.0, and NaN equals NaN."""
    if type(value) is float:
        return value.hex()
    if type(value) is complex:
        return value.real.hex(), value.imag.hex()
    return value


# The result of a replay at a guard that finds a value that no capture has seen.
UNKNOWN = object()


class PlanRun(Record):
    """A plan, the sources of its inputs, and the nodes whose values it gives."""

    plan: TieredPlan
    inputs: tuple[ValueSource, ...]
    outputs: tuple[Node, ...]
    # The lines where ops that may fail were recorded; None if nothing may fail.
    lines: Lines | None = None
    # Callbacks with effects among the nodes.
    effects: tuple[Node, ...] = ()

    # Readers of the inputs, None before the first replay; and arrays from outside among them.
    _reads: list[Callable[[ReplayedCall], Any]] | None = None
    _arrays: Sequence[np.ndarray] = ()

    def callbacks(self) -> Iterator[CodeType]:
        """The code of functions of the user's that its ops call."""
        for node in self.effects:
            for function in _functions_in(node.params):
                yield function.__code__

    def constants(self) -> dict[int, Any]:
        """The inputs that are the same in every call, by position."""
        return {
            position: source.content
            for position, source in enumerate(self.inputs)
            if isinstance(source, Constant)
        }

    def replay(self, call: ReplayedCall) -> None:
        """Compute the outputs for a call."""
        reads = self._settle() if self._reads is None else self._reads
        try:
            found = self.plan.run([read(call) for read in reads])
        except Exception as error:
            if self.lines is not None:
                self.lines.explain(error, [source.read(call) for source in self.inputs])
            raise
        if self._arrays:
            found = [self._apart(each) for each in found]
        contents = call.contents
        for node, content in zip(self.outputs, found, strict=True):
            contents[node] = content

    def _settle(self) -> list[Callable[[ReplayedCall], Any]]:
        # Not earlier: a tensor from outside may be gone when the capture has ended.
        self._arrays = [each.array for each in self.inputs if isinstance(each, OutsideArray)]
        self.inputs = tuple([source.settled() for source in self.inputs])
        self._reads = [each.read for each in self.inputs]
        return self._reads

    def _apart(self, content: Content) -> Content:
        """The content; a copy if it shares the memory of an array from outside."""
        shared = isinstance(content, np.ndarray) and any(
            np.may_share_memory(content, array) for array in self._arrays
        )
        return np.array(content) if shared else content


def _functions_in(params: Any) -> Iterator[Any]:
    """Python functions among the params of a callback, also behind wrappers."""
    for each in params if isinstance(params, tuple) else (params,):
        while hasattr(each, "function"):
            each = each.function
        if isinstance(each, MethodType):
            each = each.__func__
        if isinstance(each, FunctionType):
            yield each
        elif isinstance(each, tuple):
            yield from _functions_in(each)
        for node in getattr(each, "nodes", ()):
            yield from _functions_in(node.params)


class PathResult(Record):
    """The leaves that a call returns, and the changes that it makes, once all plans have run.

    Variables (`updates`), references to tensors from outside (`rebound`) and positions of arguments
    (`moved`) are changed in place; each is there with its new value.
    """

    structure: Structure
    leaves: tuple[ValueSource, ...]
    updates: tuple[tuple[Variable, ValueSource], ...]
    rebound: tuple[tuple[Callable[[], Handle | None], ValueSource], ...] = ()
    moved: tuple[tuple[int, ValueSource], ...] = ()

    @cached_property
    def assignment(self) -> Callable[..., None]:
        """Lets the variables of `updates` hold the handles that it is called with."""
        return written_assignment([variable for variable, _ in self.updates])

    def replay(self, call: ReplayedCall) -> Any:
        """Make everything that is returned, then make all changes."""
        # A leaf in several places is one object.
        made = {leaf: leaf.read(call) for leaf in self.leaves}
        leaves = [made[leaf] for leaf in self.leaves]
        handles = [Tensor(None, None, source.own(call)) for _, source in self.updates]
        if self.rebound or self.moved:
            passed = call.passed() if self.moved else ()
            changes: list[tuple[object, Value]] = [
                *[(reference(), source.own(call)) for reference, source in self.rebound],
                *[(passed[position], source.own(call)) for position, source in self.moved],
            ]
            variables = [variable for variable, _ in self.updates]
            change_all(changes, variables, self.assignment, handles)
        elif handles:
            self.assignment(*handles)
        return leaves[0] if self.structure.kind is None else unflatten(self.structure, leaves)

    def computed(self) -> list[Node]:
        """The nodes whose values take part in it."""
        pairs = (*self.updates, *self.rebound, *self.moved)
        parts: list[Any] = [*self.leaves, *[source for _, source in pairs]]
        found: dict[Node, None] = {}
        while parts:
            part = parts.pop()
            if isinstance(part, ComputedNode):
                found[part.node] = None
            elif isinstance(part, Record):
                parts += [getattr(part, name) for name in part.names]
            elif isinstance(part, tuple):
                parts += part
        return list(found)


def change_all(
    changes: Sequence[tuple[object, Value]],
    variables: Sequence[Variable],
    assign: Callable[..., None],
    handles: Sequence[Tensor],
) -> None:
    """Change tensors and arrays of the caller in place, and assign variables: all of it or none."""
    places = [_content_of(original) for original, _ in changes]
    before = [variable._handle for variable in variables]
    try:
        for original, value in changes:
            rebind(original, value)
        assign(*handles)
    except BaseException:
        Variable.hold_again(variables, before)
        for (original, _), content in zip(changes, places, strict=True):
            if isinstance(original, Tensor):
                original.node, original.recording, original.computed = content
            elif isinstance(original, np.ndarray) and original.flags.writeable:
                original[...] = content
        raise


def rebind(original: object, value: Value) -> None:
    """Change a tensor or an array of the caller in place."""
    if isinstance(original, Tensor):
        original.rebind(Tensor(None, None, value), "x op= v inside a function")
    elif isinstance(original, np.ndarray):
        original[...] = value.array


def _content_of(original: object) -> Any:
    if isinstance(original, Tensor):
        return original.node, original.recording, original.computed
    return np.array(original) if isinstance(original, np.ndarray) else None


class PathStep:
    """Draws and plans, then a guard that chooses the next step, or the result."""

    def __init__(
        self,
        guard: GuardSource | None = None,
        branches: dict[Hashable, PathStep] | None = None,
        result: PathResult | None = None,
        runs: Iterable[PlanRun] = (),
        is_replayed: bool = False,
    ) -> None:
        # Random generators that the step draws from, with the number of blocks.
        self.draws: list[tuple[MovedGenerator, int]] = []
        self.runs = [*runs]
        # The sources of the leaves that the runs read, by number.
        self.sources: dict[int, ValueSource] = {}
        self.guard = guard
        # The user's name for the value of the guard, the line that reads it, and the values seen.
        self.label = self.line = ""
        self.values: list[object] = []
        self.branches = {} if branches is None else branches
        self.result = result
        # The number of runs in a row that recorded the path that ends here, and whether it is
        # replayed.
        self.count = 0
        self.is_replayed = is_replayed

    def replay(
        self, call: ReplayedCall, note_path: Callable[[PathResult], None] | None = None
    ) -> Any:
        """Run a call from here; returns `UNKNOWN` where a guard finds an unknown value.

        `note_path` is called with the result of the path that the call takes.
        """
        step: PathStep | None = self
        try:
            while step is not None and step.complete:
                for generator, blocks in step.draws:
                    call.drawn.append((generator, generator.reserve(blocks), blocks))
                for run in step.runs:
                    run.replay(call)
                if step.is_replayed and step.result is not None:
                    if note_path is not None:
                        note_path(step.result)
                    return step.result.replay(call)
                step = None if step.guard is None else step.branches.get(step.guard.key(call))
        except BaseException:
            # A call that fails has drawn nothing.
            call.give_back()
            raise
        call.give_back()
        return UNKNOWN

    @property
    def complete(self) -> bool:
        """Whether it is known how the step ends."""
        return self.guard is not None or self.result is not None

    def ends(self) -> Iterator[PathStep]:
        """The last steps of all paths from here."""
        stack = [self]
        while stack:
            step = stack.pop()
            if step.result is not None:
                yield step
            stack += step.branches.values()

    def become(self, other: PathStep) -> None:
        """Be another step from now on, with all that follows it."""
        self.__dict__.update(other.__dict__)

    @property
    def pinned(self) -> int:
        """The number among the inputs whose value the guard reads as it is; -1 if it is another."""
        guard = self.guard
        if isinstance(guard, NumberKey) and guard.formula.key[0] == "input" and not self.runs:
            return int(guard.formula.key[1])
        return -1

    def unpinned(self) -> tuple[PathStep, dict[int, object]]:
        """The step after guards that pin numbers to one value each, and these values."""
        step, values = self, {}
        while step.pinned >= 0 and len(step.branches) == 1:
            values[step.pinned] = step.values[0]
            (step,) = step.branches.values()
        return step, values

    @property
    def only_result(self) -> PathResult | None:
        """The result of calls that are this step with one run, and a true guard of it at most.

        None if such calls draw random numbers or change tensors in place.
        """
        end, guard = self, self.guard
        if len(self.runs) != 1 or self.draws:
            return None
        if isinstance(guard, Element) and guard.node in self.runs[0].outputs:
            end = self.branches.get(True, self) if guard.node.dtype == bool else self
            if end.runs or end.draws:
                return None
        result = end.result
        if result is None or not end.is_replayed or result.rebound or result.moved:
            return None
        return result
