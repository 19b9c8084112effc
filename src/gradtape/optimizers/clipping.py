"""Clipping: gradients held to a length, or elements to a range, before they are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import gradtape as gt
from gradtape import RowSparse, Tensor
from gradtape.libraries import TellsChanges, combined_rows
from gradtape.optimizers.gradient_pairs import VariablePair

NAMES = ("clipnorm", "clipvalue", "global_clipnorm")


@dataclass(frozen=True)
class Clipping(TellsChanges):
    """At most one of three bounds, as in Keras.

    `clipnorm` bounds the length of each gradient, `global_clipnorm` that of all together,
    `clipvalue` the size of each element. Rows that a gradient names several times are summed first.
    """

    clipnorm: float | None = None
    clipvalue: float | None = None
    global_clipnorm: float | None = None

    def __post_init__(self) -> None:
        bounds = [name for name in NAMES if getattr(self, name) is not None]
        if len(bounds) > 1:
            raise ValueError(f"optimizer: {' and '.join(bounds)} exclude each other. Give one.")
        for name in bounds:
            if not float(getattr(self, name)) > 0:
                raise ValueError(
                    f"optimizer: {name}={getattr(self, name)} is not a positive number. "
                    "Leave it out to clip nothing."
                )

    def apply(self, pairs: Sequence[VariablePair]) -> list[VariablePair]:
        """The pairs with clipped gradients."""
        if all(getattr(self, name) is None for name in NAMES):
            return list(pairs)
        ready = [
            (combined_rows(g) if isinstance(g, RowSparse) else g, variable) for g, variable in pairs
        ]
        if self.clipvalue is not None:
            bound = float(self.clipvalue)
            return [(_mapped(g, lambda x: gt.clip(x, -bound, bound)), v) for g, v in ready]
        if self.clipnorm is not None:
            return [(_shortened(g, length(g), float(self.clipnorm)), v) for g, v in ready]
        assert self.global_clipnorm is not None
        parts = [gt.cast(_squares(g), gt.float64) for g, _ in ready]
        overall = _root(sum(parts[1:], parts[0]))
        return [(_shortened(g, overall, float(self.global_clipnorm)), v) for g, v in ready]


def length(gradient: Tensor) -> Tensor:
    """The Euclidean length of all elements; its derivative is 0 where it is 0."""
    return _root(_squares(gradient))


def _squares(gradient: Tensor) -> Tensor:
    values = gradient.values if isinstance(gradient, RowSparse) else gradient
    if values.dtype.kind == "c":
        return gt.sum(gt.square(gt.real(values)) + gt.square(gt.imag(values)))
    return gt.sum(gt.square(values))


def _root(squares: Tensor) -> Tensor:
    return gt.where(gt.equal(squares, 0.0), 0.0, gt.sqrt(squares))


def _shortened(gradient: Tensor, size: Tensor, bound: float) -> Tensor:
    factor = bound / gt.maximum(size, bound)
    factor = gt.astype(factor, np.finfo(gradient.dtype).dtype, copy=False)
    return _mapped(gradient, lambda x: x * factor)


def _mapped(gradient: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    if isinstance(gradient, RowSparse):
        return RowSparse(gradient.indices, function(gradient.values), gradient.spec)
    return function(gradient)
