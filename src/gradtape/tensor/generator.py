"""Generator: a stream of random numbers, which a seed and a counter determine."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias

import numpy as np

from gradtape.caches import remembered
from gradtape.concurrency import new_lock
from gradtape.display import Displayed, Fields
from gradtape.dtypes import DType, as_dtype, default_dtype
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir.spec import Shape
from gradtape.ops.arrays.indexing import take
from gradtape.ops.arrays.sorting import argsort
from gradtape.ops.elementwise import random as draws
from gradtape.ops.elementwise.arithmetic import less, record_operand, shift
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import sizes
from gradtape.tensor.modes import is_deterministic
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.tensor_like import TensorLike
from gradtape.trace.capturing import capturing
from gradtape.trace.recording import state as recording_state
from gradtape.trace.trace import Trace, next_number
from gradtape.trace.value import Handle

if TYPE_CHECKING:
    from gradtape.dtypes import DTypeLike

# Both words of the key, and the counter.
GeneratorState: TypeAlias = tuple[int, int, int]
DrawShape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]


@remembered(1024)
def _key_of(seed: int) -> tuple[int, int]:
    """The key that NumPy's Philox derives from the same seed."""
    words = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return int(words[0]), int(words[1])


def _checked_key(seed: SupportsIndex) -> tuple[int, int]:
    try:
        return _key_of(operator.index(seed))
    except (TypeError, ValueError):
        raise ValueError(
            f"Generator: seed {seed!r} is not a non-negative integer. Pass one, or None."
        ) from None


def _float_dtype(name: str, dtype: DTypeLike | None) -> DType:
    found = default_dtype() if dtype is None else as_dtype(dtype)
    if found.kind != "f":
        raise DtypeError(f"{name}: {found} is not float32 or float64. Choose one of them.")
    return found


def _fitting(name: str, result: Tensor, shape: Shape) -> Tensor:
    if result.shape != shape:
        raise ShapeError(
            f"{name}: parameters that broadcast to {result.shape} do not fit the shape {shape}. "
            f"Ask for shape {result.shape}, or reshape the parameters."
        )
    return result


class Generator(Displayed):
    """A stream of random numbers: a key from a seed, and a counter that moves on at each draw.

    >>> generator = gt.random.Generator(42)
    >>> first = generator.uniform((2,))
    >>> again = gt.random.Generator(42).uniform((2,))
    >>> first.tolist() == again.tolist()
    True

    A draw of n numbers of any distribution moves the counter by ceil(n / 4): draws in parts whose
    sizes are multiples of 4 equal one draw of all. The bits are those of `np.random.Philox(seed)`.
    Generators may be shared between threads.
    """

    __slots__ = {
        "__weakref__": None,
        "_counter": None,
        "_key": None,
        "_lock": None,
        "number": "The order in which generators were made.",
    }

    def __init__(self, seed: int | None = None) -> None:
        capture = capturing(recording_state.recording)
        if capture is not None:
            capture.variables.made.add(self)
            if seed is None:
                capture.escape("a generator without a seed is made")
        if seed is None:
            require_repeatable("a generator without a seed starts anywhere")
            seed = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        self._key = _checked_key(seed)
        self._counter = 0
        # Distinguishes generators made inside a function that vmap traces from those outside.
        self.number = next_number()
        self._lock = new_lock()

    @property
    def state(self) -> GeneratorState:
        """Key and counter, from which `from_state` restores the generator."""
        self._leave("the state of a generator is read")
        return (*self._key, self._counter)

    @classmethod
    def from_state(cls, state: GeneratorState) -> Generator:
        """A generator that goes on where another one was.

        >>> a = gt.random.Generator(1)
        >>> _ = a.uniform((5,))
        >>> b = gt.random.Generator.from_state(a.state)
        >>> a.uniform((5,)).tolist() == b.uniform((5,)).tolist()
        True
        """
        made = cls(0)
        made.restore(state)
        return made

    def restore(self, state: GeneratorState) -> None:
        """Go on where a generator of this state was.

        >>> a, b = gt.random.Generator(1), gt.random.Generator(2)
        >>> b.restore(a.state)
        >>> a.uniform((5,)).tolist() == b.uniform((5,)).tolist()
        True
        """
        self._leave("the state of a generator is set")
        first, second, counter = (int(word) for word in state)
        if not (0 <= first < 2**64 and 0 <= second < 2**64 and 0 <= counter < 2**128):
            raise ValueError(f"Generator: {state!r} is not a state. Pass one that `state` gave.")
        with self._lock:
            self._key, self._counter = (first, second), counter

    def __reduce__(self) -> tuple[object, ...]:
        return Generator.from_state, (self.state,)

    def __repr__(self) -> str:
        return f"Generator(key=({self._key[0]:#x}, {self._key[1]:#x}), counter={self._counter})"

    def _fields(self) -> Fields:
        return [("key", ", ".join(f"{word:#x}" for word in self._key)), ("counter", self._counter)]

    def _next(self, count: int) -> np.ndarray | Handle:
        """The position of a draw of `count` numbers, as an operand.

        It is a leaf, not part of the program's structure: the next draw finds the same plan. In a
        trace or a captured function it is a handle on a leaf that every example or call fills.
        """
        recording = recording_state.recording
        capture = capturing(recording)
        position = self.advance(count)
        if capture is None and not isinstance(recording, Trace):
            return position
        start = int(position[2]) + (int(position[3]) << 64)
        if capture is not None and capture.is_outside(self):
            capture.draws.drew(self, start, start + draws.blocks(count))
        if recording.capturing:
            return recording.capturing.draw(self, position)
        if isinstance(recording, Trace) and self.number < recording.number:
            return recording.draw(self, start, position, start + draws.blocks(count))
        return position

    def advance(self, count: int) -> np.ndarray:
        """Move the counter past `count` numbers; returns the position before."""
        first, second, counter = self.reserve(draws.blocks(count))
        return np.array([first, second, counter & (2**64 - 1), counter >> 64], np.uint64)

    # Replays of captured functions move the counter by these.

    @property
    def place(self) -> int:
        """The counter."""
        return self._counter

    def reserve(self, blocks: int) -> GeneratorState:
        """Move the counter on by `blocks`; returns the state before."""
        with self._lock:
            counter = self._counter
            self._counter = counter + blocks
            return (*self._key, counter)

    def rewind(self, start: int, stop: int) -> bool:
        """Move the counter back to `start` if nothing was drawn since it was at `stop`."""
        with self._lock:
            if self._counter != stop:
                return False
            self._counter = start
        capture = capturing(recording_state.recording)
        if capture is not None and capture.is_outside(self):
            capture.draws.gave_back(self, start)
        return True

    def restart(self, seed: int) -> None:
        """Begin anew, from a seed.

        >>> generator = gt.random.Generator(1)
        >>> first = generator.uniform((2,)).tolist()
        >>> generator.restart(1)
        >>> generator.uniform((2,)).tolist() == first
        True
        """
        self._leave("a generator is begun anew")
        key = _checked_key(seed)
        with self._lock:
            self._key, self._counter = key, 0

    def _leave(self, what: str) -> None:
        """End a capture where Python reads or sets the state, which a replay could not repeat."""
        capture = capturing(recording_state.recording)
        if capture is not None and capture.is_outside(self):
            capture.escape(what)

    def _repeat(self, start: int, times: int) -> int:
        """Repeat the draws since `start`, `times` times in all; returns their length in blocks."""
        with self._lock:
            width = self._counter - start
            stop = self._counter = start + times * width
        capture = capturing(recording_state.recording)
        if capture is not None and capture.is_outside(self):
            capture.draws.drew_again(self, start, width, stop)
        return width

    def bits(self, shape: DrawShape = ()) -> Tensor:
        """Uniform 64-bit words, of dtype uint64."""
        size = sizes("bits", shape)
        return draws.bits(self._next(math.prod(size)), size)

    def uniform(
        self,
        shape: DrawShape = (),
        *,
        low: TensorLike = 0.0,
        high: TensorLike = 1.0,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Numbers from low to high, high excluded; differentiable in both."""
        size, kind = sizes("uniform", shape), _float_dtype("uniform", dtype)
        found = draws.unit_interval(self.bits(size), kind)
        start, stop = _parameter(low, kind), _parameter(high, kind)
        if not (_is_number(start, 0.0) and _is_number(stop, 1.0)):
            found = shift(found * (stop - start), start)
        return _fitting("uniform", found, size)

    def normal(
        self,
        shape: DrawShape = (),
        *,
        loc: TensorLike = 0.0,
        scale: TensorLike = 1.0,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Normally distributed numbers; differentiable in mean and standard deviation."""
        size, kind = sizes("normal", shape), _float_dtype("normal", dtype)
        found = draws.standard_normal(self._next(math.prod(size)), size, kind)
        return _moved("normal", found, loc, scale)

    def truncated_normal(
        self,
        shape: DrawShape = (),
        *,
        loc: TensorLike = 0.0,
        scale: TensorLike = 1.0,
        lower: TensorLike = -2.0,
        upper: TensorLike = 2.0,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Normal numbers that lie between `lower` and `upper` standard deviations from the mean."""
        size = sizes("truncated_normal", shape)
        kind = _float_dtype("truncated_normal", dtype)
        position = self._next(math.prod(size))
        ends = record_operand(lower), record_operand(upper)
        found = draws.standard_truncated_normal(position, size, kind, *ends)
        return _moved("truncated_normal", _fitting("truncated_normal", found, size), loc, scale)

    def exponential(
        self,
        shape: DrawShape = (),
        *,
        scale: TensorLike = 1.0,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Exponentially distributed numbers; differentiable in their mean, `scale`."""
        size, kind = sizes("exponential", shape), _float_dtype("exponential", dtype)
        found = draws.standard_exponential(self._next(math.prod(size)), size, kind)
        return _moved("exponential", found, 0.0, scale)

    def integers(
        self,
        shape: DrawShape = (),
        low: int = 0,
        high: int | None = None,
        *,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Integers from low to high, high excluded; from 0 to low if high is None."""
        size = sizes("integers", shape)
        chosen = np.dtype(np.int64) if dtype is None else as_dtype(dtype)
        if chosen.kind not in "iu":
            raise DtypeError(
                f"integers: {chosen} is not an integer dtype. Use bernoulli or uniform."
            )
        first, last = (0, low) if high is None else (low, high)
        first, last = operator.index(first), operator.index(last)
        limits = np.iinfo(chosen)
        if not limits.min <= first < last <= limits.max + 1:
            raise ValueError(
                f"integers: {first} to {last} is empty or does not fit {chosen} "
                f"({limits.min} to {limits.max}). Choose low < high, or a wider dtype."
            )
        found = draws.integers_below(self.bits(size), last - first)
        # Words are added modulo 2⁶⁴, so that negative bounds come out right after the cast.
        return cast(found + (first % 2**64) if first else found, chosen)

    def bernoulli(self, shape: DrawShape = (), *, p: TensorLike = 0.5) -> Tensor:
        """Booleans that are True with probability p."""
        size = sizes("bernoulli", shape)
        found = draws.unit_interval(self.bits(size), np.dtype(np.float64))
        return _fitting("bernoulli", less(found, p), size)

    def permutation(self, x: TensorLike) -> Tensor:
        """The integers below x in random order, or the rows of a tensor x."""
        if isinstance(x, int):
            return argsort(self.bits((x,)))
        rows: Tensor = record_operand(x)
        if not rows.ndim:
            raise ShapeError("permutation: a 0-d tensor has no rows. Pass an int or more axes.")
        return take(rows, argsort(self.bits((rows.shape[0],))), axis=0)


def _moved(name: str, standard: Tensor, loc: TensorLike, scale: TensorLike) -> Tensor:
    """Standard numbers scaled and shifted, in their own dtype; defaults record nothing."""
    found, dtype = standard, standard.dtype
    if not _is_number(scale, 1.0):
        found = found * _parameter(scale, dtype)
    if not _is_number(loc, 0.0):
        found = shift(found, _parameter(loc, dtype))
    return _fitting(name, found, standard.shape)


def _parameter(value: TensorLike, dtype: DType) -> float | Tensor:
    """A Python number as a float, anything else as a tensor of the numbers' dtype."""
    if type(value) is int or type(value) is float:
        return float(value)
    return cast(record_operand(value), dtype)


def _is_number(value: TensorLike, number: float) -> bool:
    return (type(value) is int or type(value) is float) and value == number


def require_repeatable(why: str) -> None:
    """Raise a RuntimeError in the deterministic mode."""
    if is_deterministic():
        raise RuntimeError(
            f"random: the deterministic mode is on, and {why}. "
            "Pass seed=, or draw from a gt.random.Generator(seed)."
        )
