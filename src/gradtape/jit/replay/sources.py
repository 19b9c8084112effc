"""Sources: where a replayed call finds each value that it needs.

A capture notes one source for every input of a plan, every value that a guard looks at, and every
leaf that the function returned. A replay reads them; `native_call` writes them as rows of a table.
Sources are compared field by field, so a class lists the fields that count if not all of them do.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, Protocol, dataclass_transform

import numpy as np

from gradtape.ir.derived import digest_of
from gradtape.ir.node import Node
from gradtape.ir.spec import Spec
from gradtape.ops.custom.callback import Outcome
from gradtape.runtime.flush import compute_handle
from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
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
        # What callbacks returned, in order.
        self.outcomes: list[Outcome] = []

    def give_back(self) -> None:
        """Move generators back to where they were, unless others have drawn meanwhile."""
        for generator, before, blocks in reversed(self.drawn):
            generator.rewind(before[2], before[2] + blocks)
        self.drawn = []


@dataclass_transform(eq_default=False)
class Record:
    """A base of classes whose instances hold their annotated fields, and are told by identity.

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
    """Where a value is found."""

    def read(self, call: ReplayedCall) -> Any:
        """The value in this call; it may be held by others, too."""
        raise NotImplementedError

    def own(self, call: ReplayedCall) -> Value:
        """The value as a Value of its own: later tapes tell its holders apart."""
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


# Values that guards look at.


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
        return self.kind(*parts, self.spec)


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
    """The key of a guard's branch: unlike ==, it tells -0.0 from 0.0 and takes NaN for NaN."""
    if type(value) is float:
        return value.hex()
    if type(value) is complex:
        return value.real.hex(), value.imag.hex()
    return value
