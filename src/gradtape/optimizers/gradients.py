"""Gradients before a step: pairs with their variables, those that are missing, and clipping."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.dtypes import REAL_OF, float64
from gradtape.errors import DtypeError, ShapeError
from gradtape.ops.elementwise.arithmetic import clip, equal, maximum, where
from gradtape.ops.elementwise.complexes import imag, real
from gradtape.ops.elementwise.unary import sqrt, square
from gradtape.ops.families.casting import cast
from gradtape.ops.reductions.reduction import sum as total
from gradtape.optimizers.rows import combined
from gradtape.tensor import RowSparse, Tensor, TensorLike, Variable, asarray

Pair = tuple[Tensor, Variable]


def as_pairs(
    grads_and_vars: Iterable[Sequence[Any]],
) -> tuple[list[TensorLike | None], list[Variable]]:
    """Two lists from a zip or list of (gradient, variable)."""
    gradients, variables = [], []
    for pair in grads_and_vars:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"apply_gradients: expected pairs (gradient, variable), got {type(pair).__name__}. "
                "Pass zip(gradients, variables)."
            )
        gradients.append(pair[0])
        variables.append(pair[1])
    return gradients, variables


def check_variables(name: str, variables: Sequence[object], accepts: str) -> None:
    """Raise unless all are variables of an accepted kind of dtype, each listed once."""
    seen: set[int] = set()
    for variable in variables:
        if not isinstance(variable, Variable):
            raise TypeError(
                f"{name}: expected a Variable to update, got {type(variable).__name__}. "
                "Pass gt.Variables, in the order of the gradients."
            )
        if variable.dtype.kind not in accepts:
            raise DtypeError(
                f"{name}: variable {variable.name} of dtype {variable.dtype} cannot be updated. "
                "Use real floating-point variables, for complex ones one for each part."
            )
        if variable.number in seen:
            raise ValueError(
                f"{name}: variable {variable.name} is listed twice. Add its gradients first."
            )
        seen.add(variable.number)


def connected(
    gradients: Sequence[TensorLike | None], variables: Sequence[Variable], warned: set[int]
) -> list[Pair]:
    """The pairs that have a gradient. Of the others one warning names those not `warned` of yet."""
    if len(gradients) != len(variables):
        raise ValueError(
            f"apply: {len(gradients)} gradients for {len(variables)} variables. Pass one for each."
        )
    if not variables:
        raise ValueError("apply: there are no gradients. Pass at least one, with its variable.")
    missing = [v for g, v in zip(gradients, variables, strict=True) if g is None]
    if len(missing) == len(variables):
        raise ValueError(
            f"apply: no gradient for any variable: {_names(missing)}. "
            "Compute the loss from them inside `with gt.GradientTape() as tape:`."
        )
    fresh = [variable for variable in missing if variable.number not in warned]
    if fresh:
        warned.update(variable.number for variable in fresh)
        warnings.warn(
            f"apply: no gradient for {_names(fresh)}, which stay as they are. Leave them out of "
            "the list, or compute the loss from them.",
            stacklevel=4,
        )
    return [
        (_fitting(gradient, variable), variable)
        for gradient, variable in zip(gradients, variables, strict=True)
        if gradient is not None
    ]


def _names(variables: Sequence[Variable]) -> str:
    return ", ".join(variable.name for variable in variables)


def _fitting(gradient: TensorLike, variable: Variable) -> Tensor:
    """A gradient of the variable's shape, in its dtype; row-sparse ones stay so."""
    gradient = gradient if isinstance(gradient, Tensor) else asarray(gradient)
    if gradient.shape != variable.shape:
        raise ShapeError(
            f"apply: the gradient of {variable.name} has shape {gradient.shape} and the variable "
            f"{variable.shape}. Pass gradients in the order of the variables."
        )
    if gradient.dtype == variable.dtype:
        return gradient
    if isinstance(gradient, RowSparse):
        indices, values = gradient.rows
        return RowSparse(indices, cast(values, variable.dtype), variable.value.spec)
    return cast(gradient, variable.dtype)


NAMES = ("clipnorm", "clipvalue", "global_clipnorm")


@dataclass(frozen=True)
class Clipping:
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

    def apply(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The pairs with clipped gradients."""
        if all(getattr(self, name) is None for name in NAMES):
            return list(pairs)
        ready = [
            (combined(g) if isinstance(g, RowSparse) else g, variable) for g, variable in pairs
        ]
        if self.clipvalue is not None:
            bound = float(self.clipvalue)
            return [(_mapped(g, lambda x: clip(x, -bound, bound)), v) for g, v in ready]
        if self.clipnorm is not None:
            return [(_shortened(g, length(g), float(self.clipnorm)), v) for g, v in ready]
        assert self.global_clipnorm is not None
        parts = [cast(_squares(g), float64) for g, _ in ready]
        overall = _root(sum(parts[1:], parts[0]))
        return [(_shortened(g, overall, float(self.global_clipnorm)), v) for g, v in ready]


def length(gradient: Tensor) -> Tensor:
    """The Euclidean length of all elements; its derivative is 0 where it is 0."""
    return _root(_squares(gradient))


def _squares(gradient: Tensor) -> Tensor:
    values = gradient.values if isinstance(gradient, RowSparse) else gradient
    if values.dtype.kind == "c":
        return total(square(real(values)) + square(imag(values)))
    return total(square(values))


def _root(squares: Tensor) -> Tensor:
    return where(equal(squares, 0.0), 0.0, sqrt(squares))


def _shortened(gradient: Tensor, size: Tensor, bound: float) -> Tensor:
    factor = bound / maximum(size, bound)
    dtype = REAL_OF[gradient.dtype]
    factor = factor if factor.dtype == dtype else cast(factor, dtype)
    return _mapped(gradient, lambda x: x * factor)


def _mapped(gradient: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    if isinstance(gradient, RowSparse):
        return RowSparse(gradient.indices, function(gradient.values), gradient.spec)
    return function(gradient)
