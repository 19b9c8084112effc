"""Random numbers. They are part of the program and can be replayed; the bits are gradtape's.

NumPy draws gamma, Poisson and binomial numbers, from bits of the same streams.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

import gradtape as gt
from gradtape import random as core
from gradtape.libraries import check_exports
from gradtape.ops.elementwise import arithmetic, unary as elementwise
from gradtape.ops.reductions import reduction
from gradtape.tf.base.conversion import as_int, as_lengths, as_shape, common, convert
from gradtape.tf.base.dispatch import documented, operation
from gradtape.tf.base.dtypes import as_dtype, float32, int32, int64
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import (
    Array,
    CountLike,
    DTypeLike,
    IntLike,
    IntsLike,
    Name,
    ShapeLike,
    TensorLike,
)
from gradtape.tf.ops.custom import numpy_function
from gradtape.typing import Count

__all__ = [
    "Generator",
    "categorical",
    "fold_in",
    "gamma",
    "get_global_generator",
    "normal",
    "poisson",
    "set_global_generator",
    "set_seed",
    "shuffle",
    "split",
    "stateless_binomial",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_normal",
    "stateless_poisson",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
]


def set_seed(seed: IntLike) -> None:
    """Restart the shared stream of random numbers from a seed.

    >>> tf.random.set_seed(3)
    >>> a = tf.random.normal([2])
    >>> tf.random.set_seed(3)
    >>> bool(tf.reduce_all(a == tf.random.normal([2])))
    True
    """
    core.seed(abs(operator.index(int(seed))))


def _stream(seed: TensorLike | None) -> Any:
    """The stream that numbers come from: the shared one, or the one that a seed starts."""
    if seed is None:
        return core._generator(None)
    number = 0
    for part in np.atleast_1d(np.asarray(seed)).astype(np.int64).tolist():
        number = (number << 64) | (part & (2**64 - 1))
    return core.Generator(number)


# Draws from a stream, which functions of the shared stream, stateless functions and the methods of
# Generator have in common.


def _normal(
    stream: Any, shape: ShapeLike, mean: object, stddev: object, dtype: DTypeLike
) -> Tensor:
    return stream.normal(as_shape(shape), loc=mean, scale=stddev, dtype=as_dtype(dtype).dtype)


def _truncated_normal(
    stream: Any, shape: ShapeLike, mean: object, stddev: object, dtype: DTypeLike
) -> Tensor:
    kind = as_dtype(dtype).dtype
    return stream.truncated_normal(as_shape(shape), loc=mean, scale=stddev, dtype=kind)


def _uniform(stream: Any, shape: ShapeLike, minval: Any, maxval: Any, dtype: DTypeLike) -> Tensor:
    kind, lengths = as_dtype(dtype), as_shape(shape)
    if kind.kind in "iu":
        if maxval is None:
            raise ValueError("uniform: maxval must be given for integers.")
        return stream.integers(lengths, as_int(minval), as_int(maxval), dtype=kind.dtype)
    low, high = (_as_float(1.0 if x is None else x) for x in (minval, maxval))
    return stream.uniform(lengths, low=low, high=high, dtype=kind.dtype)


def _as_float(value: Any) -> Any:
    return float(value) if isinstance(value, (int, float, np.number)) else value


def _categorical(
    stream: Any, logits: TensorLike, num_samples: CountLike, dtype: DTypeLike | None
) -> Tensor:
    x = convert(logits)
    top = reduction.max(x, axis=-1, keepdims=True)
    shares = gt.cumulative_sum(elementwise.exp(x - top), axis=-1)
    shape = (x.spec.shape[0], int(num_samples))
    drawn = stream.uniform(shape, dtype=np.dtype(np.float64))
    limits = gt.cast(shares, np.dtype(np.float64))
    wanted = arithmetic.multiply(drawn, limits[:, -1:])
    below = arithmetic.less_equal(limits[:, None, :], wanted[:, :, None])
    result = reduction.sum(below, axis=-1)
    return gt.cast(result, as_dtype(int64 if dtype is None else dtype).dtype)


def _drawn(
    stream: Any,
    draw: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: DTypeLike,
    *parameters: object,
) -> Tensor:
    """Numbers drawn by a method of NumPy's generators; they have no derivative."""
    kind = as_dtype(dtype)

    def call(words: Array, *parameters: Array) -> Array:
        generator = np.random.Generator(np.random.Philox(key=words))
        return np.asarray(draw(generator, *parameters, shape)).astype(kind.dtype)

    operands = [
        adopt(stream.bits((2,))),
        *(arithmetic.stop_gradient(convert(p)) for p in parameters),
    ]
    return arithmetic.stop_gradient(numpy_function(call, operands, TensorSpec(shape, kind)))


def _gamma(
    stream: Any,
    shape: tuple[int, ...],
    alpha: TensorLike,
    beta: TensorLike | None,
    dtype: DTypeLike,
) -> Tensor:
    a, b = (convert(x, dtype) for x in (alpha, 1.0 if beta is None else beta))
    return _drawn(stream, np.random.Generator.standard_gamma, shape, dtype, a) / b


def _binomial(
    stream: Any, shape: ShapeLike, counts: object, probs: object, dtype: DTypeLike
) -> Tensor:
    def draw(generator: np.random.Generator, n: Array, p: Array, size: tuple[int, ...]) -> Any:
        return generator.binomial(n.astype(np.int64), p, size)

    return _drawn(stream, draw, as_lengths(shape), dtype, *common([counts, probs], "binomial"))


def _before(shape: ShapeLike, *parameters: object) -> tuple[int, ...]:
    """A shape of samples, followed by the shape that the parameters broadcast to."""
    return (*as_lengths(shape), *np.broadcast_shapes(*(convert(p).spec.shape for p in parameters)))


class _Draw(Protocol):
    def __call__(
        self, stream: Any, shape: ShapeLike, a: object, b: object, dtype: DTypeLike, /
    ) -> Tensor: ...


def _from_shared(draw: _Draw, sentence: str, example: str, result: str) -> Callable[..., Tensor]:
    """A row for a normal distribution, drawn from the shared stream."""

    def drawn(
        shape: ShapeLike,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DTypeLike = float32,
        seed: IntsLike | None = None,
        name: Name = None,
    ) -> Tensor:
        return draw(_stream(seed), shape, mean, stddev, dtype)

    return operation(documented(drawn, __name__, sentence, example, result))


def _from_seed(draw: _Draw, sentence: str, example: str, result: str) -> Callable[..., Tensor]:
    """A row for a normal distribution that depends on the seed alone."""

    def drawn(
        shape: ShapeLike,
        seed: IntsLike,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DTypeLike = float32,
        name: Name = None,
        alg: object = "auto_select",
    ) -> Tensor:
        return draw(_stream(seed), shape, mean, stddev, dtype)

    return operation(documented(drawn, __name__, sentence, example, result))


normal = _from_shared(
    _normal,
    "Normally distributed numbers; mean and stddev broadcast to the shape.",
    "tf.random.normal([2, 3]).shape",
    "TensorShape([2, 3])",
)
truncated_normal = _from_shared(
    _truncated_normal,
    "Normal numbers that lie within two standard deviations of the mean.",
    "bool(tf.random.truncated_normal([100]).numpy().max() <= 2.0)",
    "True",
)
stateless_normal = _from_seed(
    _normal,
    "Normally distributed numbers that depend on the seed alone.",
    "tf.random.stateless_normal([2], seed=[1, 2]).shape",
    "TensorShape([2])",
)
stateless_truncated_normal = _from_seed(
    _truncated_normal,
    "Truncated normal numbers that depend on the seed alone.",
    "tf.random.stateless_truncated_normal([2], seed=[1, 2]).shape",
    "TensorShape([2])",
)


@operation
def uniform(
    shape: ShapeLike,
    minval: TensorLike = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = float32,
    seed: IntsLike | None = None,
    name: Name = None,
) -> Tensor:
    """Numbers from minval up to, but without, maxval, which is 1 for floats if it is left out.

    >>> x = tf.random.uniform([100], 0, 10, dtype=tf.int32)
    >>> bool(tf.reduce_all((x >= 0) & (x < 10)))
    True
    """
    return _uniform(_stream(seed), shape, minval, maxval, dtype)


@operation
def stateless_uniform(
    shape: ShapeLike,
    seed: IntsLike,
    minval: TensorLike = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = float32,
    name: Name = None,
    alg: object = "auto_select",
) -> Tensor:
    """Uniform numbers that depend on the seed alone.

    >>> tf.random.stateless_uniform([2], seed=[1, 2]).shape
    TensorShape([2])
    """
    return _uniform(_stream(seed), shape, minval, maxval, dtype)


@operation
def shuffle(value: TensorLike, seed: IntsLike | None = None, name: Name = None) -> Tensor:
    """The rows of a tensor in random order.

    >>> sorted(tf.random.shuffle([1, 2, 3]).numpy().tolist())
    [1, 2, 3]
    """
    return _stream(seed).permutation(convert(value))


@operation
def categorical(
    logits: TensorLike,
    num_samples: CountLike,
    dtype: DTypeLike | None = None,
    seed: IntsLike | None = None,
    name: Name = None,
) -> Tensor:
    """Classes drawn with probabilities softmax(logits), `num_samples` for each row.

    >>> tf.random.categorical([[0.0, -1e9]], 3).numpy().tolist()
    [[0, 0, 0]]
    """
    return _categorical(_stream(seed), logits, num_samples, dtype)


@operation
def stateless_categorical(
    logits: TensorLike,
    num_samples: CountLike,
    seed: IntsLike,
    dtype: DTypeLike = int64,
    name: Name = None,
) -> Tensor:
    """Classes drawn with probabilities softmax(logits), which depend on the seed alone.

    >>> tf.random.stateless_categorical([[0.0, -1e9]], 3, [1, 2]).numpy().tolist()
    [[0, 0, 0]]
    """
    return _categorical(_stream(seed), logits, num_samples, dtype)


@operation
def gamma(
    shape: ShapeLike,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: DTypeLike = float32,
    seed: IntsLike | None = None,
    name: Name = None,
) -> Tensor:
    """Numbers of gamma distributions; the derivative passes to beta, and not to alpha.

    >>> tf.random.gamma([3], alpha=[1.0, 2.0]).shape
    TensorShape([3, 2])
    """
    whole = _before(shape, alpha, 1.0 if beta is None else beta)
    return _gamma(_stream(seed), whole, alpha, beta, dtype)


@operation
def stateless_gamma(
    shape: ShapeLike,
    seed: IntsLike,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: DTypeLike = float32,
    name: Name = None,
) -> Tensor:
    """Numbers of gamma distributions that depend on the seed alone.

    >>> tf.random.stateless_gamma([2], seed=[1, 2], alpha=1.0).shape
    TensorShape([2])
    """
    return _gamma(_stream(seed), as_lengths(shape), alpha, beta, dtype)


@operation
def poisson(
    shape: ShapeLike,
    lam: TensorLike,
    dtype: DTypeLike = float32,
    seed: IntsLike | None = None,
    name: Name = None,
) -> Tensor:
    """Numbers of Poisson distributions.

    >>> tf.random.poisson([3], lam=[1.0, 2.0]).shape
    TensorShape([3, 2])
    """
    return _drawn(_stream(seed), np.random.Generator.poisson, _before(shape, lam), dtype, lam)


@operation
def stateless_poisson(
    shape: ShapeLike, seed: IntsLike, lam: TensorLike, dtype: DTypeLike = int32, name: Name = None
) -> Tensor:
    """Numbers of Poisson distributions that depend on the seed alone.

    >>> tf.random.stateless_poisson([2], seed=[1, 2], lam=3.0).dtype
    tf.int32
    """
    return _drawn(_stream(seed), np.random.Generator.poisson, as_lengths(shape), dtype, lam)


@operation
def stateless_binomial(
    shape: ShapeLike,
    seed: IntsLike,
    counts: TensorLike,
    probs: TensorLike,
    output_dtype: DTypeLike = int32,
    name: Name = None,
) -> Tensor:
    """Numbers of binomial distributions that depend on the seed alone.

    >>> tf.random.stateless_binomial([2], [1, 2], [3.0, 3.0], [0.0, 1.0]).numpy().tolist()
    [0, 3]
    """
    return _binomial(_stream(seed), shape, counts, probs, output_dtype)


@operation
def split(seed: TensorLike, num: Count = 2, alg: object = "auto_select") -> Tensor:
    """Seeds that follow from a seed, and start streams that do not overlap.

    >>> tf.random.split([1, 2], 3).shape
    TensorShape([3, 2])
    """
    return _seeds(convert(seed).numpy(), (int(num), 2))


@operation
def fold_in(seed: TensorLike, data: IntLike, alg: object = "auto_select") -> Tensor:
    """A seed that follows from a seed and a number.

    >>> tf.random.fold_in([1, 2], 3).shape
    TensorShape([2])
    """
    known = np.atleast_1d(convert(seed).numpy())
    return _seeds(convert([*known.tolist(), int(data)]).numpy(), (2,), known.dtype)


def _seeds(seed: Array, shape: Sequence[int], dtype: np.dtype[Any] | None = None) -> Tensor:
    words = np.asarray(adopt(_stream(seed).bits(shape)).numpy())
    return convert((words >> np.uint64(33)).astype(np.int32 if dtype is None else dtype))


def bernoulli_mask(shape: ShapeLike, probability: float, seed: IntsLike | None) -> Tensor:
    """Booleans that are true with a probability, for dropout."""
    return _stream(seed).bernoulli(shape, p=probability)


class Generator:
    """A stream of random numbers of its own.

    >>> a = tf.random.Generator.from_seed(1)
    >>> b = tf.random.Generator.from_seed(1)
    >>> bool(tf.reduce_all(a.normal([3]) == b.normal([3])))
    True
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @classmethod
    def from_seed(cls, seed: IntsLike, alg: object = None) -> Generator:
        """The stream that a seed starts."""
        return cls(_stream(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: object = None) -> Generator:
        """A stream that starts at an unpredictable place."""
        return cls(core.Generator())

    def normal(
        self,
        shape: ShapeLike,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DTypeLike = float32,
        name: Name = None,
    ) -> Tensor:
        """Normally distributed numbers."""
        return convert(_normal(self._stream, shape, mean, stddev, dtype))

    def truncated_normal(
        self,
        shape: ShapeLike,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: DTypeLike = float32,
        name: Name = None,
    ) -> Tensor:
        """Normal numbers that lie within two standard deviations of the mean."""
        return convert(_truncated_normal(self._stream, shape, mean, stddev, dtype))

    def uniform(
        self,
        shape: ShapeLike,
        minval: TensorLike = 0,
        maxval: TensorLike | None = None,
        dtype: DTypeLike = float32,
        name: Name = None,
    ) -> Tensor:
        """Uniform numbers."""
        return convert(_uniform(self._stream, shape, minval, maxval, dtype))

    def binomial(
        self,
        shape: ShapeLike,
        counts: TensorLike,
        probs: TensorLike,
        dtype: DTypeLike = "int32",
        name: Name = None,
    ) -> Tensor:
        """Numbers of binomial distributions."""
        return convert(_binomial(self._stream, shape, counts, probs, dtype))

    def split(self, count: Count = 1) -> list[Generator]:
        """Streams that do not overlap."""
        words = np.asarray(self._stream.bits((count,)).numpy()).tolist()
        return [Generator(core.Generator(word)) for word in words]


_global: dict[str, Generator] = {}


def get_global_generator() -> Generator:
    """The generator that all modules of a program share.

    >>> tf.random.get_global_generator() is tf.random.get_global_generator()
    True
    """
    if not _global:
        _global["generator"] = Generator.from_non_deterministic_state()
    return _global["generator"]


def set_global_generator(generator: Generator) -> None:
    """Replace the shared generator.

    >>> tf.random.set_global_generator(tf.random.Generator.from_seed(1))
    """
    _global["generator"] = generator


check_exports(globals(), __all__)
