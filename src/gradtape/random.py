"""Random numbers that replay: every number is a function of a seed and a position.

A `Generator` holds a key and a counter and moves the counter on at each draw. The functions of this
module draw from one generator that all share (`gt.random.seed` sets it), or, given `seed=`, from a
fresh one: the same numbers at every call.

>>> a = gt.random.Generator(7)
>>> b = gt.random.Generator(7)
>>> a.normal((3,)).tolist() == b.normal((3,)).tolist()
True
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype, default_dtype
from gradtape.errors import DtypeError, ShapeError
from gradtape.graph.locks import new_lock
from gradtape.ops.arrays.indexing import take
from gradtape.ops.arrays.sorting import argsort
from gradtape.ops.elementwise import random as draws
from gradtape.ops.elementwise.arithmetic import less, record_operand
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_shape
from gradtape.recording.capturing import capturing
from gradtape.recording.thread_state import state as recording_state
from gradtape.recording.trace import Trace, next_number
from gradtape.tensor.modes import is_deterministic

__all__ = [
    "Generator", "bernoulli", "exponential", "integers", "normal", "permutation", "seed",
    "truncated_normal", "uniform",
]  # fmt: skip

State = tuple[int, int, int]


@lru_cache(maxsize=1024)
def _key_of(seed: int) -> tuple[int, int]:
    """The key that NumPy's Philox derives from the same seed."""
    words = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return int(words[0]), int(words[1])


def _checked_key(seed: Any) -> tuple[int, int]:
    try:
        return _key_of(operator.index(seed))
    except (TypeError, ValueError):
        raise ValueError(
            f"Generator: seed {seed!r} is not a non-negative integer. Pass one, or None."
        ) from None


def _float_dtype(name: str, dtype: Any) -> Any:
    found = default_dtype() if dtype is None else as_dtype(dtype)
    if found.kind != "f":
        raise DtypeError(f"{name}: {found} is not float32 or float64. Choose one of them.")
    return found


def _fitting(name: str, result: Any, shape: tuple[int, ...]) -> Any:
    if result.shape != shape:
        raise ShapeError(
            f"{name}: parameters that broadcast to {result.shape} do not fit the shape {shape}. "
            f"Ask for shape {result.shape}, or reshape the parameters."
        )
    return result


class Generator:
    """A stream of random numbers: a key from a seed, and a counter that moves on at each draw.

    >>> generator = gt.random.Generator(42)
    >>> first = generator.uniform((2,))
    >>> again = gt.random.Generator(42).uniform((2,))
    >>> first.tolist() == again.tolist()
    True

    A draw of n numbers moves the counter by ceil(n / 4), whatever they are, so that draws in parts
    whose sizes are multiples of 4 equal one draw of all. The bits are those of
    `np.random.Philox(seed)`. Generators may be shared between threads.
    """

    __slots__ = ("__weakref__", "_counter", "_key", "_lock", "number")

    def __init__(self, seed: int | None = None) -> None:
        capture = capturing(recording_state.recording)
        if capture is not None:
            capture.make(self)
            if seed is None:
                capture.escape("a generator without a seed is made")
        if seed is None:
            _require_repeatable("a generator without a seed starts anywhere")
            seed = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        self._key = _checked_key(seed)
        self._counter = 0
        # Tells generators that were made inside a function that vmap traces from those outside.
        self.number = next_number()
        self._lock = new_lock()

    @property
    def state(self) -> State:
        """Key and counter: all there is to restore with `from_state`."""
        self._leave("the state of a generator is read")
        return (*self._key, self._counter)

    @classmethod
    def from_state(cls, state: State) -> Generator:
        """The generator that goes on where another was.

        >>> a = gt.random.Generator(1)
        >>> _ = a.uniform((5,))
        >>> b = gt.random.Generator.from_state(a.state)
        >>> a.uniform((5,)).tolist() == b.uniform((5,)).tolist()
        True
        """
        made = cls(0)
        made._key, made._counter = (int(state[0]), int(state[1])), int(state[2])
        return made

    def __reduce__(self) -> Any:
        return Generator.from_state, (self.state,)

    def __repr__(self) -> str:
        return f"Generator(key=({self._key[0]:#x}, {self._key[1]:#x}), counter={self._counter})"

    def _next(self, count: int) -> Any:
        """The position of a draw, as a leaf: its value is no part of the program's structure."""
        recording = recording_state.recording
        capture = capturing(recording)
        position = self.advance(count)
        if capture is None and not isinstance(recording, Trace):
            return position
        start = int(position[2]) + (int(position[3]) << 64)
        if capture is not None and capture.is_outside(self):
            capture.drew(self, start, start + draws.blocks(count))
        if recording.capturing:
            return recording.draw(self, position)  # type: ignore[attr-defined]
        if isinstance(recording, Trace) and self.number < recording.number:
            return recording.draw(self, start, position, start + draws.blocks(count))
        return position

    def advance(self, count: int) -> Any:
        """Move on by the place that so many numbers take, and give the position before."""
        first, second, counter = self.reserve(draws.blocks(count))
        return np.array([first, second, counter & (2**64 - 1), counter >> 64], np.uint64)

    # What captured functions draw when they run without Python.

    @property
    def place(self) -> int:
        """The counter."""
        return self._counter

    def reserve(self, blocks: int) -> State:
        """Move the counter on, and give the state before."""
        with self._lock:
            counter = self._counter
            self._counter = counter + blocks
            return (*self._key, counter)

    def rewind(self, start: int, stop: int) -> bool:
        """Go back to `start` if nobody has drawn since the counter was at `stop`."""
        with self._lock:
            if self._counter != stop:
                return False
            self._counter = start
        capture = capturing(recording_state.recording)
        if capture is not None and capture.is_outside(self):
            capture.gave_back(self, start)
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
        """Python looks at or sets the state: a captured function cannot follow."""
        capture = capturing(recording_state.recording)
        if capture is not None and capture.is_outside(self):
            capture.escape(what)

    def _repeat(self, start: int, times: int) -> int:
        """Draw what was drawn since position `start` so many times in all; gives its length."""
        with self._lock:
            width = self._counter - start
            stop = self._counter = start + times * width
        capture = capturing(recording_state.recording)
        if capture is not None and capture.is_outside(self):
            capture.drew_again(self, start, width, stop)
        return width

    def bits(self, shape: Any = ()) -> Any:
        """Uniform 64-bit words, of dtype uint64."""
        shape = normalize_shape("bits", shape)
        return draws.bits(self._next(math.prod(shape)), shape)

    def uniform(
        self, shape: Any = (), *, low: Any = 0.0, high: Any = 1.0, dtype: Any = None
    ) -> Any:
        """Numbers from low to high, high excluded; differentiable in both."""
        shape, dtype = normalize_shape("uniform", shape), _float_dtype("uniform", dtype)
        found = draws.unit_interval(self.bits(shape), dtype)
        low, high = _parameter(low, dtype), _parameter(high, dtype)
        if not (_is_number(low, 0.0) and _is_number(high, 1.0)):
            found = draws.shift(found * (high - low), low)
        return _fitting("uniform", found, shape)

    def normal(
        self, shape: Any = (), *, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None
    ) -> Any:
        """Normally distributed numbers; differentiable in mean and standard deviation."""
        shape, dtype = normalize_shape("normal", shape), _float_dtype("normal", dtype)
        found = draws.standard_normal(self._next(math.prod(shape)), shape, dtype)
        return _moved("normal", found, loc, scale)

    def truncated_normal(
        self,
        shape: Any = (),
        *,
        loc: Any = 0.0,
        scale: Any = 1.0,
        lower: Any = -2.0,
        upper: Any = 2.0,
        dtype: Any = None,
    ) -> Any:
        """Normal numbers that lie between `lower` and `upper` standard deviations from the mean."""
        shape = normalize_shape("truncated_normal", shape)
        dtype = _float_dtype("truncated_normal", dtype)
        position = self._next(math.prod(shape))
        lower, upper = record_operand(lower), record_operand(upper)
        found = draws.standard_truncated_normal(position, shape, dtype, lower, upper)
        return _moved("truncated_normal", _fitting("truncated_normal", found, shape), loc, scale)

    def exponential(self, shape: Any = (), *, scale: Any = 1.0, dtype: Any = None) -> Any:
        """Exponentially distributed numbers; differentiable in their mean, `scale`."""
        shape, dtype = normalize_shape("exponential", shape), _float_dtype("exponential", dtype)
        found = draws.standard_exponential(self._next(math.prod(shape)), shape, dtype)
        return _moved("exponential", found, 0.0, scale)

    def integers(
        self, shape: Any = (), low: int = 0, high: int | None = None, *, dtype: Any = None
    ) -> Any:
        """Integers from low to high, high excluded; from 0 to low if high is None."""
        shape = normalize_shape("integers", shape)
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
        found = draws.integers_below(self.bits(shape), last - first)
        # Words are added modulo 2⁶⁴, so that negative bounds come out right after the cast.
        return cast(found + (first % 2**64) if first else found, chosen)

    def bernoulli(self, shape: Any = (), *, p: Any = 0.5) -> Any:
        """Booleans that are True with probability p."""
        shape = normalize_shape("bernoulli", shape)
        found = draws.unit_interval(self.bits(shape), np.dtype(np.float64))
        return _fitting("bernoulli", less(found, p), shape)

    def permutation(self, x: Any) -> Any:
        """The integers below x in random order, or the rows of a tensor x."""
        if isinstance(x, int):
            return argsort(self.bits((x,)))
        x = record_operand(x)
        if not x.ndim:
            raise ShapeError("permutation: a 0-d tensor has no rows. Pass an int or more axes.")
        return take(x, argsort(self.bits((x.shape[0],))), axis=0)


def _moved(name: str, standard: Any, loc: Any, scale: Any) -> Any:
    """Standard numbers scaled and shifted, in their own dtype; defaults cost nothing."""
    found, dtype = standard, standard.dtype
    if not _is_number(scale, 1.0):
        found = found * _parameter(scale, dtype)
    if not _is_number(loc, 0.0):
        found = draws.shift(found, _parameter(loc, dtype))
    return _fitting(name, found, standard.shape)


def _parameter(value: Any, dtype: Any) -> Any:
    """A Python number as it is, anything else as a tensor of the numbers' dtype."""
    return float(value) if type(value) in (int, float) else cast(record_operand(value), dtype)


def _is_number(value: Any, number: float) -> bool:
    return type(value) in (int, float) and value == number


def _require_repeatable(why: str) -> None:
    if is_deterministic():
        raise RuntimeError(
            f"random: the deterministic mode is on, and {why}. "
            "Pass seed=, or draw from a gt.random.Generator(seed)."
        )


_shared: dict[str, Generator] = {}
_lock = new_lock()


def _generator(seed: int | None) -> Generator:
    if seed is not None:
        return Generator(seed)
    _require_repeatable("numbers from the shared stream depend on what was drawn before")
    with _lock:
        if not _shared:
            made = _shared["generator"] = Generator()
            made.number = 0  # wherever it is first used
        return _shared["generator"]


def seed(seed: int, /) -> None:
    """Begin the shared stream anew, from a seed.

    >>> gt.random.seed(3)
    >>> a = gt.random.uniform((2,)).tolist()
    >>> gt.random.seed(3)
    >>> a == gt.random.uniform((2,)).tolist()
    True
    """
    with _lock:
        if _shared:
            # The same generator: functions that were captured draw from it.
            _shared["generator"].restart(seed)
            return
        made = _shared["generator"] = Generator(seed)
        made.number = 0


def uniform(
    shape: Any = (),
    *,
    low: Any = 0.0,
    high: Any = 1.0,
    dtype: Any = None,
    seed: int | None = None,
) -> Any:
    """Numbers from low to high, high excluded; differentiable in both.

    >>> gt.random.uniform((2, 3), low=-1.0, seed=0).shape
    (2, 3)
    """
    return _generator(seed).uniform(shape, low=low, high=high, dtype=dtype)


def normal(
    shape: Any = (),
    *,
    loc: Any = 0.0,
    scale: Any = 1.0,
    dtype: Any = None,
    seed: int | None = None,
) -> Any:
    """Normally distributed numbers; differentiable in mean `loc` and standard deviation `scale`.

    >>> a, b = gt.random.normal((3,), seed=1), gt.random.normal((3,), seed=1)
    >>> a.tolist() == b.tolist()
    True
    """
    return _generator(seed).normal(shape, loc=loc, scale=scale, dtype=dtype)


def truncated_normal(
    shape: Any = (),
    *,
    loc: Any = 0.0,
    scale: Any = 1.0,
    lower: Any = -2.0,
    upper: Any = 2.0,
    dtype: Any = None,
    seed: int | None = None,
) -> Any:
    """Normal numbers that lie between `lower` and `upper` standard deviations from the mean.

    >>> bool(gt.all(gt.abs(gt.random.truncated_normal((100,), seed=0)) <= 2.0))
    True
    """
    return _generator(seed).truncated_normal(
        shape, loc=loc, scale=scale, lower=lower, upper=upper, dtype=dtype
    )


def exponential(
    shape: Any = (), *, scale: Any = 1.0, dtype: Any = None, seed: int | None = None
) -> Any:
    """Exponentially distributed numbers; differentiable in their mean, `scale`.

    >>> bool(gt.all(gt.random.exponential((100,), seed=0) >= 0.0))
    True
    """
    return _generator(seed).exponential(shape, scale=scale, dtype=dtype)


def integers(
    shape: Any = (),
    low: int = 0,
    high: int | None = None,
    *,
    dtype: Any = None,
    seed: int | None = None,
) -> Any:
    """Integers from low to high, high excluded; from 0 to low if high is None.

    >>> gt.random.integers((4,), 10, seed=0).shape
    (4,)
    """
    return _generator(seed).integers(shape, low, high, dtype=dtype)


def bernoulli(shape: Any = (), *, p: Any = 0.5, seed: int | None = None) -> Any:
    """Booleans that are True with probability p.

    >>> gt.random.bernoulli((3,), p=1.0, seed=0).tolist()
    [True, True, True]
    """
    return _generator(seed).bernoulli(shape, p=p)


def permutation(x: Any, /, *, seed: int | None = None) -> Any:
    """The integers below x in random order, or the rows of a tensor x.

    >>> sorted(gt.random.permutation(4, seed=0).tolist())
    [0, 1, 2, 3]
    """
    return _generator(seed).permutation(x)
