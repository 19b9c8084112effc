"""Starting values of variables: functions of a shape and a dtype, with Keras' names and defaults.

`glorot_uniform(seed=1)` returns such a function; layers also take its name, or any function of a
shape and a dtype. Without a seed, numbers come from the stream of `gt.random`. With an integer
every call returns the same numbers; with a `gt.random.Generator` each call continues where the last
one ended.

>>> start = gt.nn.initializers.glorot_uniform(seed=1)
>>> start((2, 3), gt.float32).shape
(2, 3)
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any, TypeVar

import numpy as np

import gradtape as gt
from gradtape import Tensor, random
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports, checked, namespace as _namespace
from gradtape.training.storage import MadeFunction
from gradtape.typing import DTypeLike, Finite, NonNegative, TensorLike

__all__ = [
    "constant",
    "get",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "zeros",
]

# From a shape and a dtype to the starting value.
Initializer = Callable[..., Tensor]
# Arguments of layers: an initialiser, a function that makes one, its name, or the value itself.
InitializerLike = Initializer | Callable[..., Initializer] | str | TensorLike
Seed = int | random.Generator | None

# The standard deviation of a standard normal that is cut off at two standard deviations.
_CUT = 0.87962566103423978


def _draw(seed: Seed, kind: str, shape: Sequence[int], dtype: DTypeLike | None, **more: Any) -> Any:
    """Numbers from the shared stream, from an integer seed, or from a generator."""
    source: Any = random
    if seed is not None:
        source = seed if isinstance(seed, random.Generator) else random.Generator(seed)
    return getattr(source, kind)(shape, dtype=dtype, **more)


def _drawn(seed: Seed, kind: str, **more: Any) -> Initializer:
    @checked
    def initializer(shape: Sequence[int], dtype: DTypeLike | None = None) -> Any:
        return _draw(seed, kind, shape, dtype, **more)

    return initializer


Factory = TypeVar("Factory", bound=Callable[..., Initializer])


def _noted(factory: Factory) -> Factory:
    """Note in each initialiser what made it, so that `gt.save` can name it."""

    title = f"gradtape.nn.initializers.{factory.__name__}"
    # Read once: a layer may be built inside a captured function, which must not inspect code.
    names = tuple(inspect.signature(factory).parameters)

    @functools.wraps(factory)
    def make(*args: Any, **kwargs: Any) -> Initializer:
        found: Any = factory(*args, **kwargs)
        found.made_by = MadeFunction(title, {**dict(zip(names, args, strict=False)), **kwargs})
        return found

    return make  # type: ignore[return-value]


@_noted
def zeros() -> Initializer:
    """Zeros.

    >>> gt.nn.initializers.zeros()((2,)).tolist()
    [0.0, 0.0]
    """
    return constant(0.0)


@_noted
def ones() -> Initializer:
    """Ones.

    >>> gt.nn.initializers.ones()((2,)).tolist()
    [1.0, 1.0]
    """
    return constant(1.0)


@_noted
def constant(value: TensorLike = 0.0) -> Initializer:
    """One number everywhere, or an array of the right shape.

    >>> gt.nn.initializers.constant(0.5)((2,)).tolist()
    [0.5, 0.5]
    """
    gt.asarray(value)

    @checked
    def initializer(shape: Sequence[int], dtype: DTypeLike | None = None) -> Tensor:
        dtype = gt.default_dtype() if dtype is None else dtype
        array = np.asarray(value, dtype)
        if array.ndim == 0:
            return gt.full(tuple(shape), array.item(), dtype=dtype)
        if array.shape != tuple(shape):
            raise ShapeError(
                f"constant: a value of shape {array.shape} does not fit a variable of shape "
                f"{tuple(shape)}. Give a number, or an array of that shape."
            )
        return gt.asarray(array)

    return initializer


@_noted
def uniform(minval: float = -0.05, maxval: float = 0.05, seed: Seed = None) -> Initializer:
    """Numbers from minval to maxval, evenly distributed.

    >>> bool(gt.all(gt.abs(gt.nn.initializers.uniform(seed=0)((100,))) <= 0.05))
    True
    """
    return _drawn(seed, "uniform", low=minval, high=maxval)


@_noted
def normal(mean: float = 0.0, stddev: NonNegative = 0.05, seed: Seed = None) -> Initializer:
    """Normally distributed numbers.

    >>> gt.nn.initializers.normal(seed=0)((2, 3)).shape
    (2, 3)
    """
    return _drawn(seed, "normal", loc=mean, scale=stddev)


@_noted
def truncated_normal(
    mean: float = 0.0, stddev: NonNegative = 0.05, seed: Seed = None
) -> Initializer:
    """Normally distributed numbers, none further than two standard deviations from the mean.

    >>> bool(gt.all(gt.abs(gt.nn.initializers.truncated_normal(seed=0)((100,))) <= 0.1))
    True
    """
    return _drawn(seed, "truncated_normal", loc=mean, scale=stddev)


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    """Fan-in and fan-out of kernels of shape (..., in, out)."""
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return float(size), float(size)
    field = math.prod(shape[:-2])
    return float(shape[-2] * field), float(shape[-1] * field)


@_noted
def variance_scaling(
    scale: float = 1.0,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
    seed: Seed = None,
) -> Initializer:
    """Numbers of mean 0 and variance scale / n, where n is the number of inputs or outputs.

    `mode` is "fan_in", "fan_out" or "fan_avg", their mean. `distribution` is "truncated_normal",
    "untruncated_normal" or "uniform".

    >>> start = gt.nn.initializers.variance_scaling(2.0, distribution="untruncated_normal", seed=0)
    >>> round(float(gt.var(start((400, 300)))) * 400, 1)
    2.0
    """
    if not scale > 0.0:
        raise ValueError(f"variance_scaling: scale={scale} is not positive.")
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        raise ValueError(
            f'variance_scaling: mode {mode!r} is unknown. Use "fan_in", "fan_out" or "fan_avg".'
        )
    if distribution not in ("truncated_normal", "untruncated_normal", "uniform"):
        raise ValueError(
            f"variance_scaling: distribution {distribution!r} is unknown. "
            'Use "truncated_normal", "untruncated_normal" or "uniform".'
        )

    @checked
    def initializer(shape: Sequence[int], dtype: DTypeLike | None = None) -> Tensor:
        fan_in, fan_out = _fans(shape)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[mode]
        variance = scale / max(1.0, count)
        if distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return uniform(-limit, limit, seed)(shape, dtype)
        if distribution == "untruncated_normal":
            return normal(0.0, math.sqrt(variance), seed)(shape, dtype)
        return truncated_normal(0.0, math.sqrt(variance) / _CUT, seed)(shape, dtype)

    return initializer


@_noted
def glorot_uniform(seed: Seed = None) -> Initializer:
    """Uniform up to ±sqrt(6 / (inputs + outputs)) (Glorot and Bengio 2010).

    >>> bool(gt.all(gt.abs(gt.nn.initializers.glorot_uniform(seed=0)((3, 3))) <= 1.0))
    True
    """
    return variance_scaling(1.0, "fan_avg", "uniform", seed)


@_noted
def glorot_normal(seed: Seed = None) -> Initializer:
    """Truncated normal of variance 2 / (inputs + outputs).

    >>> gt.nn.initializers.glorot_normal(seed=0)((3, 4)).shape
    (3, 4)
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal", seed)


@_noted
def he_uniform(seed: Seed = None) -> Initializer:
    """Uniform up to ±sqrt(6 / inputs) (He et al. 2015).

    >>> gt.nn.initializers.he_uniform(seed=0)((3, 4)).shape
    (3, 4)
    """
    return variance_scaling(2.0, "fan_in", "uniform", seed)


@_noted
def he_normal(seed: Seed = None) -> Initializer:
    """Truncated normal of variance 2 / inputs.

    >>> gt.nn.initializers.he_normal(seed=0)((3, 4)).shape
    (3, 4)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", seed)


@_noted
def lecun_uniform(seed: Seed = None) -> Initializer:
    """Uniform up to ±sqrt(3 / inputs).

    >>> gt.nn.initializers.lecun_uniform(seed=0)((3, 4)).shape
    (3, 4)
    """
    return variance_scaling(1.0, "fan_in", "uniform", seed)


@_noted
def lecun_normal(seed: Seed = None) -> Initializer:
    """Truncated normal of variance 1 / inputs.

    >>> gt.nn.initializers.lecun_normal(seed=0)((3, 4)).shape
    (3, 4)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", seed)


@_noted
def orthogonal(gain: Finite = 1.0, seed: Seed = None) -> Initializer:
    """A random orthogonal matrix times `gain`; columns or rows of one where it is not square.

    Further leading axes count as rows (Saxe et al. 2014).

    >>> q = gt.nn.initializers.orthogonal(seed=0)((3, 3))
    >>> bool(gt.all(gt.abs(q @ gt.matrix_transpose(q) - gt.eye(3)) < 1e-12))
    True
    """

    @checked
    def initializer(shape: Sequence[int], dtype: DTypeLike | None = None) -> Tensor:
        if len(shape) < 2:
            raise ShapeError(
                f"orthogonal: a variable of shape {tuple(shape)} has fewer than two axes. "
                "Use another initializer for it."
            )
        dtype = np.dtype(gt.default_dtype() if dtype is None else dtype)
        rows, columns = math.prod(shape[:-1]), shape[-1]
        square = (max(rows, columns), min(rows, columns))
        q, r = np.linalg.qr(_draw(seed, "normal", square, dtype).numpy())
        # With the signs of the diagonal of r, every orthogonal matrix is equally likely.
        q = q * np.where(np.diagonal(r) < 0, -1, 1).astype(dtype)
        q = q if rows >= columns else q.T
        return gt.asarray(np.asarray(gain * q.reshape(shape), dtype))

    return initializer


def get(identifier: InitializerLike) -> Initializer:
    """The initialiser of a name; functions and values as they are.

    >>> gt.nn.initializers.get("ones")((2,)).tolist()
    [1.0, 1.0]
    """
    if callable(identifier):
        # `glorot_uniform` itself stands for `glorot_uniform()`.
        made: Any = identifier() if identifier in BY_NAME.values() else identifier
        return made
    if isinstance(identifier, str):
        if identifier not in BY_NAME:
            raise ValueError(
                f"initializers: {identifier!r} is unknown. There are {', '.join(sorted(BY_NAME))}."
            )
        return BY_NAME[identifier]()
    return constant(identifier)


check_exports(globals(), __all__)

BY_NAME = {
    function.__name__: function
    for function in (
        *(zeros, ones, constant, uniform, normal, truncated_normal, orthogonal, variance_scaling),
        *(glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform, lecun_normal),
    )
}

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
