"""Dropout: elements set to zero at random while training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape import random
from gradtape.dtypes import to_inexact
from gradtape.nn.initializers import Seed
from gradtape.nn.layer import Layer, words
from gradtape.ops.elementwise.arithmetic import greater_equal
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import broadcast_shapes
from gradtape.tensor.tensor import Tensor

__all__ = ["Dropout"]


class Dropout(Layer):
    """In training each element is 0 with probability `rate`, and the others grow by 1 / (1 - rate).

    >>> layer = gt.nn.Dropout(0.5, seed=0)
    >>> sorted(set(layer(np.ones(100)).tolist()))
    [0.0, 2.0]
    >>> layer.eval()(np.ones(3)).tolist()
    [1.0, 1.0, 1.0]

    `noise_shape` is a shape that broadcasts to the input's: along its axes of length 1 elements
    fall together. Without a seed the numbers come from the stream of `gt.random`; `seed` may
    also be a `Generator`.
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Sequence[int] | None = None,
        seed: Seed = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"Dropout: rate={rate} is not a probability. Give a number 0 to 1.")
        self.rate = float(rate)
        self.noise_shape = None if noise_shape is None else tuple(noise_shape)
        self.generator = random.Generator(seed) if isinstance(seed, int) else seed
        self.built = True

    def cast_input(self, x: Tensor) -> Tensor:
        """The input unchanged: dropout has no variables and therefore no dtype."""
        return x

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        """The input with elements dropped, if `training`; None stands for the module's own flag."""
        if self.rate == 0.0 or not (self.training if training is None else training):
            return x
        return self.drop(x, x.shape if self.noise_shape is None else self.noise_shape)

    def drop(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The input with elements dropped, by random numbers of a shape."""
        broadcast_shapes("Dropout", [x.shape, shape])
        draw: Any = random if self.generator is None else self.generator
        kept = greater_equal(draw.uniform(shape, dtype="float32"), self.rate)
        growth = 1.0 / (1.0 - self.rate) if self.rate < 1.0 else 0.0
        return x * (cast(kept, to_inexact(x.dtype)) * growth)

    def describe(self) -> str:
        """The arguments that `repr` shows."""
        return words(rate=self.rate)
