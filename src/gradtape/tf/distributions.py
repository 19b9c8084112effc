"""Random numbers that NumPy draws, from bits of the same streams: gamma, Poisson, binomial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape import random as core
from gradtape.ops.elementwise.arithmetic import stop_gradient
from gradtape.tf.conversion import as_shape, common, convert
from gradtape.tf.custom import numpy_function
from gradtape.tf.dispatch import fresh, operation
from gradtape.tf.dtypes import as_dtype, float32, int32, int64
from gradtape.tf.random import categorical_from, source
from gradtape.tf.shapes import TensorSpec
from gradtape.tf.tensor import Tensor, adopt

__all__ = [
    "fold_in", "gamma", "poisson", "split", "stateless_binomial", "stateless_categorical",
    "stateless_gamma", "stateless_poisson",
]  # fmt: skip


def _stream(seed: Any) -> Any:
    return core._generator(None) if seed is None else source(seed)


def _drawn(stream: Any, draw: Callable[..., Any], shape: Any, dtype: Any, *parameters: Any) -> Any:
    """Numbers of a shape, drawn by a method of NumPy's generators; they have no derivative."""
    kind = as_dtype(dtype)

    def call(words: Any, *parameters: Any) -> Any:
        generator = np.random.Generator(np.random.Philox(key=words))
        return np.asarray(draw(generator, *parameters, tuple(shape))).astype(kind.dtype)

    given = [adopt(stream.bits((2,))), *(stop_gradient(convert(p)) for p in parameters)]
    return stop_gradient(numpy_function(call, given, TensorSpec(shape, kind)))


def _gamma(stream: Any, shape: Any, alpha: Any, beta: Any, dtype: Any) -> Any:
    alpha, beta = (convert(x, dtype) for x in (alpha, 1.0 if beta is None else beta))
    drawn = _drawn(stream, lambda g, a, size: g.standard_gamma(a, size), shape, dtype, alpha)
    return drawn / beta


def _behind(shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of samples, and behind it that of the parameters."""
    return (*as_shape(shape), *np.broadcast_shapes(*(convert(p).spec.shape for p in parameters)))


@fresh
def gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Numbers of gamma distributions; the derivative passes to beta, and not to alpha.

    >>> tf.random.gamma([3], alpha=[1.0, 2.0]).shape
    TensorShape([3, 2])
    """
    whole = _behind(shape, alpha, 1.0 if beta is None else beta)
    return _gamma(_stream(seed), whole, alpha, beta, as_dtype(dtype))


@fresh
def poisson(
    shape: Any, lam: Any, dtype: Any = float32, seed: Any = None, name: str | None = None
) -> Tensor:
    """Numbers of Poisson distributions.

    >>> tf.random.poisson([3], lam=[1.0, 2.0]).shape
    TensorShape([3, 2])
    """
    whole = _behind(shape, lam)
    return _drawn(_stream(seed), lambda g, lam, size: g.poisson(lam, size), whole, dtype, lam)


@operation
def stateless_gamma(
    shape: Any,
    seed: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """Numbers of gamma distributions that only the seed decides.

    >>> tf.random.stateless_gamma([2], seed=[1, 2], alpha=1.0).shape
    TensorShape([2])
    """
    return _gamma(_stream(seed), as_shape(shape), alpha, beta, as_dtype(dtype))


@operation
def stateless_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Numbers of Poisson distributions that only the seed decides.

    >>> tf.random.stateless_poisson([2], seed=[1, 2], lam=3.0).dtype
    tf.int32
    """
    draw = lambda g, lam, size: g.poisson(lam, size)  # noqa: E731
    return _drawn(_stream(seed), draw, as_shape(shape), dtype, lam)


@operation
def stateless_binomial(
    shape: Any,
    seed: Any,
    counts: Any,
    probs: Any,
    output_dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Numbers of binomial distributions that only the seed decides.

    >>> tf.random.stateless_binomial([2], [1, 2], [3.0, 3.0], [0.0, 1.0]).numpy().tolist()
    [0, 3]
    """
    return binomial(_stream(seed), shape, counts, probs, output_dtype)


def binomial(stream: Any, shape: Any, counts: Any, probs: Any, dtype: Any) -> Any:
    """Numbers of binomial distributions from a stream."""
    counts, probs = common([counts, probs], "binomial")
    draw = lambda g, n, p, size: g.binomial(n.astype(np.int64), p, size)  # noqa: E731
    return _drawn(stream, draw, as_shape(shape), dtype, counts, probs)


@operation
def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = int64, name: str | None = None
) -> Tensor:
    """Classes drawn with probabilities softmax(logits), that only the seed decides.

    >>> tf.random.stateless_categorical([[0.0, -1e9]], 3, [1, 2]).numpy().tolist()
    [[0, 0, 0]]
    """
    return categorical_from(_stream(seed), logits, num_samples, dtype)


@operation
def split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Tensor:
    """Seeds that a seed decides, and whose numbers do not meet.

    >>> tf.random.split([1, 2], 3).shape
    TensorShape([3, 2])
    """
    return _seeds(seed, (int(num), 2))


@operation
def fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Tensor:
    """A seed that a seed and a number decide.

    >>> tf.random.fold_in([1, 2], 3).shape
    TensorShape([2])
    """
    known = np.atleast_1d(convert(seed).numpy())
    return _seeds([*known.tolist(), int(data)], (2,), known.dtype)


def _seeds(seed: Any, shape: Any, dtype: Any = None) -> Any:
    words = np.asarray(adopt(_stream(convert(seed).numpy()).bits(shape)).numpy())
    kind = np.dtype(np.int32) if dtype is None else dtype
    return convert((words >> np.uint64(33)).astype(kind))
