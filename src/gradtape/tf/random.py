"""Random numbers under TensorFlow's names: `tf.random`. They replay; the bits are gradtape's."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradtape import random as core
from gradtape.ops.elementwise import arithmetic
from gradtape.ops.elementwise import unary as elementwise
from gradtape.ops.families.casting import cast
from gradtape.ops.reductions import reduction
from gradtape.ops.reductions.cumulative import cumulative_sum
from gradtape.tf.conversion import as_int, as_shape, convert
from gradtape.tf.dispatch import fresh, operation
from gradtape.tf.dtypes import as_dtype, float32, int64
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tensor import Tensor

__all__ = [
    "Generator", "categorical", "get_global_generator", "normal", "set_global_generator",
    "set_seed", "shuffle", "stateless_normal", "stateless_truncated_normal", "stateless_uniform",
    "truncated_normal", "uniform",
]  # fmt: skip


def set_seed(seed: Any) -> None:
    """Begin the stream of random numbers anew, from a seed.

    >>> tf.random.set_seed(3)
    >>> a = tf.random.normal([2])
    >>> tf.random.set_seed(3)
    >>> bool(tf.reduce_all(a == tf.random.normal([2])))
    True
    """
    core.seed(abs(operator.index(int(seed))))


def source(seed: Any) -> Any:
    """Where numbers come from: the shared stream, or one of its own for a seed."""
    if seed is None:
        return core
    parts = np.atleast_1d(np.asarray(seed)).astype(np.int64).tolist()
    number = 0
    for part in parts:
        number = (number << 64) | (part & (2**64 - 1))
    return core.Generator(number)


@fresh
def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed numbers; mean and stddev broadcast to the shape.

    >>> tf.random.normal([2, 3]).shape
    TensorShape([2, 3])
    """
    return _normal(source(seed), shape, mean, stddev, dtype)


def _normal(stream: Any, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    return stream.normal(as_shape(shape), loc=mean, scale=stddev, dtype=as_dtype(dtype).dtype)


@fresh
def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Normal numbers that lie within two standard deviations of the mean.

    >>> bool(tf.reduce_all(tf.abs(tf.random.truncated_normal([100])) <= 2.0))
    True
    """
    return _truncated(source(seed), shape, mean, stddev, dtype)


def _truncated(stream: Any, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    kind = as_dtype(dtype).dtype
    return stream.truncated_normal(as_shape(shape), loc=mean, scale=stddev, dtype=kind)


@fresh
def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from minval up to, but without, maxval, which is 1 for floats if it is not given.

    >>> x = tf.random.uniform([100], 0, 10, dtype=tf.int32)
    >>> bool(tf.reduce_all((x >= 0) & (x < 10)))
    True
    """
    return _uniform(source(seed), shape, minval, maxval, dtype)


def _uniform(stream: Any, shape: Any, minval: Any, maxval: Any, dtype: Any) -> Any:
    kind, shape = as_dtype(dtype), as_shape(shape)
    if kind.kind in "iu":
        if maxval is None:
            raise ValueError("uniform: maxval must be given for integers.")
        return stream.integers(shape, as_int(minval), as_int(maxval), dtype=kind.dtype)
    low, high = (_number(x, 1.0 if x is None else x) for x in (minval, maxval))
    return stream.uniform(shape, low=low, high=high, dtype=kind.dtype)


def _number(given: Any, value: Any) -> Any:
    return float(value) if isinstance(value, (int, float, np.number)) else given


@fresh
def shuffle(value: Any, seed: Any = None, name: str | None = None) -> Tensor:
    """The rows of a tensor in random order.

    >>> sorted(tf.random.shuffle([1, 2, 3]).numpy().tolist())
    [1, 2, 3]
    """
    return source(seed).permutation(convert(value))


@fresh
def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: Any = None, name: str | None = None
) -> Tensor:
    """Classes drawn with probabilities softmax(logits), for each row so many.

    >>> tf.random.categorical([[0.0, -1e9]], 3).numpy().tolist()
    [[0, 0, 0]]
    """
    return categorical_from(source(seed), logits, num_samples, dtype)


def categorical_from(stream: Any, logits: Any, num_samples: Any, dtype: Any) -> Any:
    """Classes drawn with probabilities softmax(logits), from a stream."""
    x = convert(logits)
    top = reduction.max(x, axis=-1, keepdims=True)
    shares = cumulative_sum(elementwise.exp(x - top), axis=-1)
    shape = (x.spec.shape[0], int(num_samples))
    drawn = stream.uniform(shape, dtype=np.dtype(np.float64))
    limits = cast(shares, np.dtype(np.float64))
    wanted = arithmetic.multiply(drawn, limits[:, -1:])
    below = arithmetic.less_equal(limits[:, None, :], wanted[:, :, None])
    found = reduction.sum(below, axis=-1)
    return cast(found, as_dtype(int64 if dtype is None else dtype).dtype)


@operation
def stateless_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Normally distributed numbers that depend on the seed alone.

    >>> a, b = (tf.random.stateless_normal([2], seed=[1, 2]) for _ in range(2))
    >>> bool(tf.reduce_all(a == b))
    True
    """
    return _normal(source(seed), shape, mean, stddev, dtype)


@operation
def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Uniform numbers that depend on the seed alone.

    >>> tf.random.stateless_uniform([2], seed=[1, 2]).shape
    TensorShape([2])
    """
    return _uniform(source(seed), shape, minval, maxval, dtype)


@operation
def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Truncated normal numbers that depend on the seed alone.

    >>> tf.random.stateless_truncated_normal([2], seed=[1, 2]).shape
    TensorShape([2])
    """
    return _truncated(source(seed), shape, mean, stddev, dtype)


def bernoulli_mask(shape: Any, probability: float, seed: Any) -> Any:
    """Booleans that hold with a probability, for dropout."""
    return source(seed).bernoulli(shape, p=probability)


class Generator:
    """A stream of random numbers of one's own.

    >>> a = tf.random.Generator.from_seed(1)
    >>> b = tf.random.Generator.from_seed(1)
    >>> bool(tf.reduce_all(a.normal([3]) == b.normal([3])))
    True
    """

    def __init__(self, stream: core.Generator) -> None:
        self._stream = stream

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """The stream that a seed begins."""
        return cls(source(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A stream that begins anywhere."""
        return cls(core.Generator())

    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, name: Any = None
    ) -> Tensor:
        """Normally distributed numbers."""
        return convert(_normal(self._stream, shape, mean, stddev, dtype))

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, name: Any = None
    ) -> Tensor:
        """Normal numbers that lie within two standard deviations of the mean."""
        return convert(_truncated(self._stream, shape, mean, stddev, dtype))

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = float32,
        name: Any = None,
    ) -> Tensor:
        """Uniform numbers."""
        return convert(_uniform(self._stream, shape, minval, maxval, dtype))

    def binomial(
        self, shape: Any, counts: Any, probs: Any, dtype: Any = "int32", name: Any = None
    ) -> Tensor:
        """Numbers of binomial distributions."""
        from gradtape.tf.distributions import binomial

        return convert(binomial(self._stream, shape, counts, probs, dtype))

    def split(self, count: int = 1) -> list[Generator]:
        """Streams that do not meet."""
        words = np.asarray(self._stream.bits((count,)).numpy()).tolist()
        return [Generator(core.Generator(word)) for word in words]


_global: dict[str, Generator] = {}


def get_global_generator() -> Generator:
    """The stream that everybody shares.

    >>> tf.random.get_global_generator() is tf.random.get_global_generator()
    True
    """
    if not _global:
        _global["generator"] = Generator.from_non_deterministic_state()
    return _global["generator"]


def set_global_generator(generator: Generator) -> None:
    """Share another stream.

    >>> tf.random.set_global_generator(tf.random.Generator.from_seed(1))
    """
    _global["generator"] = generator


# Defined with the help of what is above.
_LATER = (
    "fold_in", "gamma", "poisson", "split", "stateless_binomial", "stateless_categorical",
    "stateless_gamma", "stateless_poisson",
)  # fmt: skip
__all__ += _LATER


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from gradtape.tf import distributions

        return getattr(distributions, name)
    return find(name)


find = attribute_finder(__name__, globals())
