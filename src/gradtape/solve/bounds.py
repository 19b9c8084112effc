"""Bounds of the unknowns of a minimum, in the forms that users and SciPy write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.ops.arrays.movement import broadcast_to, reshape
from gradtape.ops.families.casting import cast
from gradtape.pytree import flatten
from gradtape.tape.flat_vector import Layout, join
from gradtape.tensor.tensor import Tensor, asarray


def bounds_as_tensors(bounds: Any, layout: Layout) -> tuple[Tensor, Tensor]:
    """Lower and upper bounds as tensors, for the unknowns laid end to end."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        lower, upper = bounds.lb, bounds.ub
    elif _is_list_of_pairs(bounds, layout.size):
        lower, upper = ([pair[side] for pair in bounds] for side in (0, 1))
    elif isinstance(bounds, tuple) and len(bounds) == 2:
        lower, upper = bounds
    else:
        raise ValueError(
            "minimize: bounds are a pair (lower, upper), or a list with such a pair for each of "
            f"the {layout.size} elements of x0, not {type(bounds).__name__}."
        )
    return _bound(lower, -np.inf, layout), _bound(upper, np.inf, layout)


def _is_list_of_pairs(bounds: object, count: int) -> bool:
    """Whether bounds are given as in SciPy: one pair of numbers for each unknown."""
    return (
        isinstance(bounds, (list, tuple))
        and len(bounds) == count
        and all(
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and all(end is None or np.isscalar(end) for end in pair)
            for pair in bounds
        )
    )


def _bound(given: object, otherwise: float, layout: Layout) -> Tensor:
    leaves, _ = flatten(given)
    parts = [asarray(otherwise if leaf is None else leaf) for leaf in leaves] or [
        asarray(otherwise)
    ]
    if len(parts) == 1 and parts[0].size == 1:
        whole = broadcast_to(reshape(parts[0], (1,)), (layout.size,))
    else:
        whole = parts[0] if len(parts) == 1 and parts[0].ndim == 1 else join(parts)
    if whole.size != layout.size:
        raise ShapeError(
            f"minimize: a bound has {whole.size} elements and x0 has {layout.size}. Give one "
            "number for all of them, or one for each."
        )
    return cast(whole, layout.dtype)
