"""Triangles and diagonals of matrices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.ir import Node, Op, Spec, apply, constant, spec
from gradtape.ops.arrays import large_constants
from gradtape.ops.arrays.movement import moveaxis, reshape
from gradtape.ops.arrays.slicing import UNSLICE, along_axis, axis_part
from gradtape.ops.elementwise.arithmetic import identity, record_operand, where
from gradtape.ops.families import batching, independence
from gradtape.ops.families.define import define
from gradtape.ops.families.samples import drawn
from gradtape.ops.families.shapes import normalize_axes, normalize_axis
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand
from gradtape.trace.record import record


def _triangle(name: str, kernel: Callable[..., Any], lower: bool) -> Op:
    """Declare an op that keeps one triangle, which is its own transpose."""

    def composed(x: Node, k: int) -> Node | None:
        rows, columns = x.shape[-2:]
        if not rows * columns:
            return None
        name = "less_equal" if lower else "greater_equal"
        mask = large_constants.compared(name, rows, columns, k)
        return where(mask, x, constant(0, spec((), x.dtype)))

    def rule(x: Spec, k: int) -> Spec:
        if x.ndim < 2:
            raise ShapeError(
                f"{name}: shape {x.shape} has fewer than 2 axes. Pass a matrix or a stack of them."
            )
        return x

    op = define(
        name,
        "movement",
        params=("k",),
        spec=rule,
        numpy=kernel,
        transpose=lambda g, x, k: apply(op, (g,), (k,)),
        batch=batching.leading,
        # The elements that are kept stay in place.
        examples=independence.in_place,
        composition=composed,
        samples=drawn(name, ("k",), ((3, 3), 0), ((2, 3), 1), ((2, 3, 2), -1), ((0, 2), 0)),
    )
    return op


TRIL = _triangle("tril", np.tril, True)
TRIU = _triangle("triu", np.triu, False)


@kind_of_operand
def tril(x: TensorLike, /, k: int = 0) -> Tensor:
    """The lower triangle, with 0 above diagonal number `k`.

    >>> gt.tril(gt.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    return _keep(TRIL, x, k)


@kind_of_operand
def triu(x: TensorLike, /, k: int = 0) -> Tensor:
    """The upper triangle, with 0 below diagonal number `k`.

    >>> gt.triu(gt.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    return _keep(TRIU, x, k)


def _keep(op: Op, x: TensorLike, k: int) -> Tensor:
    x, k = record_operand(x), operator.index(k)
    # Diagonals further out are as empty as these, and NumPy counts in 64 bits.
    return record(op, (x,), (max(-sum(x.shape), min(k, sum(x.shape))),))


@kind_of_operand
def diagonal(x: TensorLike, /, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Diagonals of the matrices that two axes span, as the last axis.

    >>> gt.diagonal(gt.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    x = record_operand(x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: shape {x.shape} has fewer than 2 axes. Pass a matrix.")
    normalize_axes("diagonal", (axis1, axis2), x.ndim)
    first = normalize_axis("diagonal", axis1, x.ndim)
    second = normalize_axis("diagonal", axis2, x.ndim)
    x = moveaxis(x, (first, second), (x.ndim - 2, x.ndim - 1))
    *batch, rows, columns = x.shape
    start, length = _diagonal_part(rows, columns, offset)
    # In a flattened matrix a diagonal is a slice whose step is one row and one column.
    flat = reshape(x, (*batch, rows * columns))
    return along_axis(flat, len(batch), start, length, columns + 1 if length else 1)


def _diagonal_part(rows: int, columns: int, offset: int) -> tuple[int, int]:
    if offset >= 0:
        length = min(rows, columns - offset)
        start = offset
    else:
        length = min(rows + offset, columns)
        start = -offset * columns
    return (start, length) if length > 0 else (0, 0)


@kind_of_operand
def diag(x: TensorLike, /, k: int = 0) -> Tensor:
    """The matrix with the given diagonal, or the diagonal of a given matrix.

    >>> gt.diag(gt.asarray([1, 2])).tolist()
    [[1, 0], [0, 2]]
    >>> gt.diag(gt.asarray([[1, 2], [3, 4]]), k=1).tolist()
    [2]
    """
    x = record_operand(x)
    if x.ndim == 2:
        return identity(diagonal(x, offset=k))
    if x.ndim != 1:
        raise ShapeError(
            f"diag: shape {x.shape} is neither a vector nor a matrix. Use gt.diagonal."
        )
    n = x.shape[0] + abs(k)
    start, length = _diagonal_part(n, n, k)
    part = axis_part((n * n,), 0, start, length, n + 1)
    flat = record(UNSLICE, (x,), (*part, (n * n,)))
    return identity(reshape(flat, (n, n)))
