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

from typing import TYPE_CHECKING

from gradtape.argument_checks import check_exports as _check_exports
from gradtape.concurrency import new_lock
from gradtape.suggestions import namespace as _namespace
from gradtape.tensor.generator import DrawShape, Generator, GeneratorState, require_repeatable
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.tensor_like import TensorLike

if TYPE_CHECKING:
    from gradtape.dtypes import DTypeLike

__all__ = [
    "Generator",
    "bernoulli",
    "exponential",
    "get_state",
    "integers",
    "normal",
    "permutation",
    "seed",
    "set_state",
    "truncated_normal",
    "uniform",
]

_shared: dict[str, Generator] = {}
_lock = new_lock()


def _generator(seed: int | None) -> Generator:
    if seed is not None:
        return Generator(seed)
    require_repeatable("numbers from the shared stream depend on what was drawn before")
    with _lock:
        if not _shared:
            made = _shared["generator"] = Generator()
            # It counts as made outside, even if a traced function is the first to draw from it.
            made.number = 0
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
            # Captured functions hold this generator, so it is restarted and not replaced.
            _shared["generator"].restart(seed)
            return
        made = _shared["generator"] = Generator(seed)
        made.number = 0


def get_state() -> GeneratorState | None:
    """The state of the shared stream; None if nothing was drawn from it and no seed was set.

    >>> gt.random.seed(3)
    >>> state = gt.random.get_state()
    >>> a = gt.random.uniform((2,)).tolist()
    >>> gt.random.set_state(state)
    >>> a == gt.random.uniform((2,)).tolist()
    True
    """
    with _lock:
        return _shared["generator"].state if _shared else None


def set_state(state: GeneratorState, /) -> None:
    """Let the shared stream go on from a state that `get_state` gave.

    >>> gt.random.set_state(gt.random.Generator(3).state)
    >>> gt.random.uniform((2,)).tolist() == gt.random.Generator(3).uniform((2,)).tolist()
    True
    """
    checked = Generator.from_state(state).state
    with _lock:
        if not _shared:
            _shared["generator"] = Generator(0)
            _shared["generator"].number = 0
        _shared["generator"].restore(checked)


def uniform(
    shape: DrawShape = (),
    *,
    low: TensorLike = 0.0,
    high: TensorLike = 1.0,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Numbers from low to high, high excluded; differentiable in both.

    >>> gt.random.uniform((2, 3), low=-1.0, seed=0).shape
    (2, 3)
    """
    return _generator(seed).uniform(shape, low=low, high=high, dtype=dtype)


def normal(
    shape: DrawShape = (),
    *,
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Normally distributed numbers; differentiable in mean `loc` and standard deviation `scale`.

    >>> a, b = gt.random.normal((3,), seed=1), gt.random.normal((3,), seed=1)
    >>> a.tolist() == b.tolist()
    True
    """
    return _generator(seed).normal(shape, loc=loc, scale=scale, dtype=dtype)


def truncated_normal(
    shape: DrawShape = (),
    *,
    loc: TensorLike = 0.0,
    scale: TensorLike = 1.0,
    lower: TensorLike = -2.0,
    upper: TensorLike = 2.0,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Normal numbers that lie between `lower` and `upper` standard deviations from the mean.

    >>> bool(gt.all(gt.abs(gt.random.truncated_normal((100,), seed=0)) <= 2.0))
    True
    """
    return _generator(seed).truncated_normal(
        shape, loc=loc, scale=scale, lower=lower, upper=upper, dtype=dtype
    )


def exponential(
    shape: DrawShape = (),
    *,
    scale: TensorLike = 1.0,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Exponentially distributed numbers; differentiable in their mean, `scale`.

    >>> bool(gt.all(gt.random.exponential((100,), seed=0) >= 0.0))
    True
    """
    return _generator(seed).exponential(shape, scale=scale, dtype=dtype)


def integers(
    shape: DrawShape = (),
    low: int = 0,
    high: int | None = None,
    *,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
) -> Tensor:
    """Integers from low to high, high excluded; from 0 to low if high is None.

    >>> gt.random.integers((4,), 10, seed=0).shape
    (4,)
    """
    return _generator(seed).integers(shape, low, high, dtype=dtype)


def bernoulli(shape: DrawShape = (), *, p: TensorLike = 0.5, seed: int | None = None) -> Tensor:
    """Booleans that are True with probability p.

    >>> gt.random.bernoulli((3,), p=1.0, seed=0).tolist()
    [True, True, True]
    """
    return _generator(seed).bernoulli(shape, p=p)


def permutation(x: TensorLike, /, *, seed: int | None = None) -> Tensor:
    """The integers below x in random order, or the rows of a tensor x.

    >>> sorted(gt.random.permutation(4, seed=0).tolist())
    [0, 1, 2, 3]
    """
    return _generator(seed).permutation(x)


_check_exports(globals(), __all__)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
