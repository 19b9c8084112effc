"""Pairs of a gradient and its variable: checked, and those without a gradient left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gradtape as gt
from gradtape import RowSparse, Tensor, Variable
from gradtape.errors import DtypeError, ShapeError
from gradtape.libraries import warn
from gradtape.typing import TensorLike

VariablePair = tuple[Tensor, Variable]


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
) -> list[VariablePair]:
    """The pairs that have a gradient. Of the others one warning names those not `warned` of yet."""
    if len(gradients) != len(variables):
        raise ValueError(
            f"apply: {len(gradients)} gradients for {len(variables)} variables. Pass one for each."
        )
    if not variables:
        raise ValueError(
            "apply: there are no gradients. Pass at least one, with its variable. A model has no "
            "variables before its first call: call it on data, then ask for model.parameters()."
        )
    missing = [v for g, v in zip(gradients, variables, strict=True) if g is None]
    if len(missing) == len(variables):
        raise ValueError(
            f"apply: no gradient for any variable: {_names(missing)}. "
            "Compute the loss from them inside `with gt.GradientTape() as tape:`."
        )
    fresh = [variable for variable in missing if variable.number not in warned]
    if fresh:
        warned.update(variable.number for variable in fresh)
        were = "it was" if len(fresh) == 1 else "they were"
        warn(
            f"apply: no gradient for {_names(fresh)}: {were} left unchanged. "
            "Compute the loss from all variables, or leave these out of the list."
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
    gradient = gradient if isinstance(gradient, Tensor) else gt.asarray(gradient)
    if gradient.shape != variable.shape:
        raise ShapeError(
            f"apply: the gradient of {variable.name} has shape {gradient.shape} and the variable "
            f"{variable.shape}. Pass gradients in the order of the variables."
        )
    if gradient.dtype == variable.dtype:
        return gradient
    if isinstance(gradient, RowSparse):
        indices, values = gradient.rows
        return RowSparse(indices, gt.cast(values, variable.dtype), variable.value.spec)
    return gt.cast(gradient, variable.dtype)
