"""Shared parts of reductions: the shape of the result, the accumulator's dtype, and samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.dtypes import DType, default_dtype
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir import REGISTRY, Node, Op, Rule, apply
from gradtape.ops.elementwise.arithmetic import record_operand
from gradtape.ops.families.casting import cast
from gradtape.ops.families.samples import drawn
from gradtape.ops.families.shapes import Ints, reduction_params
from gradtape.ops.families.signatures import kind_of_operand
from gradtape.trace.record import record


def count(x: Any, axis: Ints) -> int:
    """The number of elements that a reduction over `axis` combines."""
    return math.prod(x.shape[position] for position in axis)


def accumulator(dtype: DType) -> DType:
    """The dtype of a sum: 64 bits wide for integers and booleans, as in NumPy."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


@kind_of_operand
def in_dtype(x: Any, dtype: Any) -> Any:
    """A tensor or node, cast to `dtype` unless that is None."""
    return x if dtype is None or x.dtype == dtype else cast(x, dtype)


@kind_of_operand
def inexact_operand(x: Any) -> Any:
    """An operand that can be divided: integers and booleans become the default float."""
    x = record_operand(x)
    return x if x.dtype.kind in "fc" else cast(x, default_dtype())


def reduced(op: Op, x: Any, axis: Any, keepdims: object) -> Any:
    """Record a reduction of a node or tensor."""
    return record(op, (x,), reduction_params(op.name, x.ndim, axis, keepdims))


def add_up(x: Node, axis: Ints, keepdims: bool) -> Node:
    """The sum as a node, for modules that cannot import `reduction` because it imports them."""
    return apply(REGISTRY["sum"], (x,), (axis, keepdims))


def require_order(name: str, x: Any, axis: Ints) -> None:
    """Raise an error if the operand has no largest element: it is complex, or it is empty."""
    if x.dtype.kind == "c":
        raise DtypeError(f"{name}: {x.dtype} has no order. Take gt.abs or gt.real first.")
    if count(x, axis) == 0:
        raise ShapeError(
            f"{name}: axis {axis} of shape {x.shape} has no elements to choose from. "
            "Check the size first."
        )


def reduction_samples(name: str, dtypes: tuple[str, ...] = ("float64",), **more: Any) -> Rule:
    """Samples that reduce 2-d, 3-d, 0-d and empty operands over one, several and no axes."""
    return drawn(
        name,
        ("axis", "keepdims"),
        ((2, 3), (0,), False),
        ((2, 3), (1,), True),
        ((2, 3), (0, 1), False),
        ((2, 2, 3), (0, 2), False),
        ((), (), False),
        ((0, 3), (1,), False),
        ((3,), (), False),
        dtypes=dtypes,
        **more,
    )
