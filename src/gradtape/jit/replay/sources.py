"""Sources: where a replayed call finds each value that it needs.

A capture notes one source for every input of a plan, every value that a guard looks at, and every
leaf that the function returned. Sources are data: `replay_source` writes each of them as a Python
expression over the call, and `native_call` as a row of a table.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, dataclass_transform

import numpy as np

from gradtape.ir.derived import digest_of
from gradtape.ir.node import Node
from gradtape.ir.spec import Spec
from gradtape.runtime.flush import compute_handle
from gradtape.tensor.variable import Variable
from gradtape.trace.followed_number import Formula
from gradtape.trace.handle import Handle
from gradtape.trace.value import Value, host_value

WORD = 2**64


@dataclass_transform(eq_default=False)
class Record:
    """A base of classes whose instances hold their annotated fields, and are told by identity.

    The standard decorator compiles a method for each class: these are made in first calls.
    """

    _names: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls._names = tuple(cls.__annotations__)

    def __init__(self, *values: Any) -> None:
        for name, value in zip(self._names, values, strict=True):
            setattr(self, name, value)


# The counter of a random generator at a draw, after the two words of its key.
Place = tuple[int, int, int]


class Generator(Protocol):
    """The part of a `gt.random.Generator` that captures and replays use."""

    number: int

    def reserve(self, blocks: int) -> Place:
        """Move the counter on; returns the place before."""

    def rewind(self, start: int, stop: int) -> bool:
        """Move the counter back from `stop` to `start`; False if it is not at `stop`."""


def value_of(handle: Handle) -> Value:
    """The value of a tensor, computed if it is pending."""
    if handle.computed is None:
        compute_handle(handle)
    value: Any = handle.computed
    return value


# Inputs of plans.


class Argument(Record):
    """An input of the call, by its position among the inputs."""

    position: int


class Number(Record):
    """A Python number that is computed from the inputs of the call."""

    formula: Formula


class NumberAsTensor(Record):
    """A Python number that is computed from the inputs, as the value of a 0-d tensor."""

    formula: Formula
    dtype: np.dtype[Any]

    def of(self, arguments: Sequence[Any]) -> Value:
        """The value for these inputs."""
        return host_value(self.formula.compute(arguments), self.dtype)


class VariableValue(Record):
    """The value that a variable holds at the time of the call."""

    variable: Variable


class Constant(Record):
    """An object that is the same in every call."""

    content: Any


class OutsideTensor(Record):
    """The value that a tensor from outside the function has at the time of the call.

    The tensor may be changed in place between calls. It is not kept alive by the capture.
    """

    handle: weakref.ref[Handle]
    content: Value

    @classmethod
    def of(cls, handle: Handle) -> OutsideTensor:
        """The source of a tensor, with the value that is left if the tensor goes."""
        return cls(weakref.ref(handle), value_of(handle))

    def current(self) -> Value:
        """The value of the tensor now."""
        handle = self.handle()
        return self.content if handle is None else value_of(handle)


class OutsideArray(Record):
    """A NumPy array from outside that enters the program whole: a replay reads its memory."""

    array: np.ndarray
    spec: Spec

    def value(self) -> Value:
        """The content of now. The value shares the memory of the array if it can."""
        array = self.array
        if self.is_shared():
            return Value(array, self.spec)
        return host_value(array, self.spec.dtype)

    def copy(self) -> Value:
        """The content of now, in memory of its own."""
        return host_value(self.array, self.spec.dtype)

    def is_shared(self) -> bool:
        """Whether plans may read the memory of the array itself."""
        array = self.array
        plain = array.ndim > 0 and array.flags.c_contiguous and array.flags.aligned
        return plain and array.dtype == self.spec.dtype and array.dtype.isnative


class Computed(Record):
    """A value that an earlier plan of the same call computed."""

    node: Node


class RandomPosition(Record):
    """The position of random numbers: an offset from the generator's counter at a draw."""

    draw: int
    offset: int | np.ndarray

    def after(self, place: Place) -> Value:
        """The position, or the array of positions, for a draw at this place."""
        first, second, counter = place
        if isinstance(self.offset, int):
            counter += self.offset
            return host_value(np.array([first, second, counter % WORD, counter // WORD], np.uint64))
        found = np.empty((*self.offset.shape, 4), np.uint64)
        found[..., 0], found[..., 1] = first, second
        found[..., 2] = self.offset + np.uint64(counter % WORD)
        # An addition that wraps around gives a sum below what was added: carry one.
        found[..., 3] = np.uint64(counter // WORD) + (found[..., 2] < self.offset)
        return host_value(found)


Source = (
    Argument
    | Number
    | NumberAsTensor
    | VariableValue
    | Constant
    | OutsideTensor
    | OutsideArray
    | Computed
    | RandomPosition
)


def settled(source: Source) -> Source:
    """The source; a constant for a tensor that is gone, or for memory that is always the same."""
    if isinstance(source, OutsideArray) and source.is_shared():
        return Constant(source.value())
    if isinstance(source, OutsideTensor) and source.handle() is None:
        return Constant(source.content)
    return source


# Values that guards look at.


class Element(Record):
    """The only element of a tensor as a Python number."""

    source: Source
    node: Node
    kind: type

    def reader(self) -> Callable[[Value], Any]:
        """The function that reads the element from a value."""
        kind = self.kind
        if self.node.dtype.kind == "c":
            return lambda value: kind(value.array.reshape(())[()])
        memory = np.ctypeslib.as_ctypes_type(self.node.dtype).from_address
        return lambda value: kind(memory(value.address).value)


class NumberKey(Record):
    """A Python number among the inputs, or the result of a comparison of it, as a branch key."""

    formula: Formula
    is_inexact: bool


class Attribute(Record):
    """An attribute of a Python object that is known to change, such as a layer's mode."""

    thing: object
    name: str


class Contents(Record):
    """All elements of a tensor, as a digest: a proof or a sparsity pattern depends on them."""

    source: Source

    @staticmethod
    def read(value: Value) -> str:
        """The digest of a value."""
        return digest_of(value.array)


GuardSource = Element | NumberKey | Attribute | OutsideTensor | Contents


# Leaves that the function returns.


class NewTensor(Record):
    """A tensor that the call makes around a value."""

    source: Source
    kind: type[Handle]


class SparseMatrix(Record):
    """A SciPy matrix that the call makes from the values of its entries."""

    source: Source
    from_entries: Callable[[np.ndarray], object]


class RowSparseTensor(Record):
    """A RowSparse gradient that the call makes from its rows and values."""

    kind: type
    parts: tuple[Leaf, ...]
    spec: Spec


class CallersTensor(Record):
    """The caller's own tensor among the inputs; a new one if the caller passed an array."""

    position: int
    otherwise: NewTensor


class OutsideTensorItself(Record):
    """The very tensor from outside that the function returned; a new one if it is gone."""

    handle: Callable[[], Handle | None]
    otherwise: NewTensor


Leaf = NewTensor | SparseMatrix | RowSparseTensor | CallersTensor | OutsideTensorItself | Source


def branch_key(value: Any) -> Hashable:
    """The key of a guard's branch: unlike ==, it tells -0.0 from 0.0 and takes NaN for NaN."""
    if type(value) is float:
        return value.hex()
    if type(value) is complex:
        return value.real.hex(), value.imag.hex()
    return value
