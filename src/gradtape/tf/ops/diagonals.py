"""Diagonals of matrices: extracted, replaced, and bands of them."""

from __future__ import annotations

import math

import numpy as np

import gradtape as gt
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports
from gradtape.ops.arrays import triangles
from gradtape.ops.elementwise import arithmetic
from gradtape.tf.base.conversion import common, concrete, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.errors import InvalidValueError
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Array, IntLike, IntsLike, Name, TensorLike

__all__ = ["band_part", "diag", "diag_part", "set_diag", "tensor_diag", "tensor_diag_part"]

_ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


class _Band:
    """Several diagonals of a matrix in compact form: one row for each, the uppermost first.

    Rows of shorter diagonals are padded. `align` names the sides that elements are aligned to:
    first for diagonals above the main one, then for those below it.
    """

    def __init__(self, name: str, k: IntsLike, rows: int, columns: int, align: str) -> None:
        self.low, self.high = _numbers(name, k)
        if align not in _ALIGNMENTS:
            raise InvalidValueError(f"{name}: align {align!r} is not one of {_ALIGNMENTS}.")
        if not -rows < self.low <= self.high < columns and rows and columns:
            raise InvalidValueError(
                f"{name}: a matrix of {rows} by {columns} has no diagonals k = {k}."
            )
        self.rows, self.columns = rows, columns
        above, below = align.split("_")
        numbers = range(self.high, self.low - 1, -1)
        lengths = {d: min(rows + min(d, 0), columns - max(d, 0)) for d in numbers}
        self.longest = max(lengths.values(), default=0)
        self.shifts = {
            d: 0 if (above if d >= 0 else below) == "LEFT" else self.longest - lengths[d]
            for d in numbers
        }
        self.lengths = lengths

    def places(self) -> tuple[Array, Array, Array]:
        """For each compact element its row and column in the matrix; false where it is padding."""
        shape = (self.high - self.low + 1, self.longest)
        row, column, there = np.zeros(shape, int), np.zeros(shape, int), np.zeros(shape, bool)
        for line, d in enumerate(self.lengths):
            span = slice(self.shifts[d], self.shifts[d] + self.lengths[d])
            along = np.arange(self.lengths[d])
            row[line, span], column[line, span] = along - min(d, 0), along + max(d, 0)
            there[line, span] = True
        return row, column, there

    def sources(self) -> tuple[Array, Array, Array]:
        """For each element of the matrix its compact place; false where it is on no diagonal."""
        i, j = np.indices((self.rows, self.columns))
        d = j - i
        there = (d >= self.low) & (d <= self.high)
        shift = np.vectorize(lambda number: self.shifts.get(number, 0), otypes=[int])(d)
        line = np.where(there, self.high - d, 0)
        return line, np.where(there, np.minimum(i, j) + shift, 0), there


def _numbers(name: str, k: IntsLike) -> tuple[int, int]:
    result = np.atleast_1d(concrete(k)).tolist()
    if len(result) > 2 or result[0] > result[-1]:
        raise InvalidValueError(f"{name}: k = {k} is neither one number nor a low and a high one.")
    return result[0], result[-1]


def _spread(x: Tensor, band: _Band, otherwise: Tensor) -> Tensor:
    """Matrices with diagonals from their compact form, and other values around them."""
    line, at, there = band.sources()
    return arithmetic.where(convert(there), x[..., line, at], otherwise)


@operation
def diag(
    diagonal: TensorLike,
    name: str = "diag",
    k: IntsLike = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with these values on diagonal `k`, or on a range of diagonals, and zeros elsewhere.

    >>> tf.linalg.diag([1, 2]).numpy().tolist()
    [[1, 0], [0, 2]]
    >>> tf.linalg.diag([[1, 2], [3, 0]], k=(-1, 0)).numpy().tolist()
    [[1, 0], [3, 2]]
    """
    x = convert(diagonal)
    low, high = _numbers("diag", k)
    length = x.spec.shape[-1]
    least_rows, least_columns = length - min(high, 0), length + max(low, 0)
    rows, columns = int(num_rows), int(num_cols)
    if rows == columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    short = rows < least_rows or columns < least_columns
    if short or (rows > least_rows and columns > least_columns):
        raise InvalidValueError(
            f"diag: diagonals of length {length}, number {k}, do not fill {rows} by {columns}."
        )
    band = _Band("diag", k, rows, columns, align)
    lines = x if low != high else x[..., None, :]
    if lines.spec.shape[-2] != high - low + 1:
        raise ShapeError(f"diag: {lines.spec.shape[-2]} diagonals for k = {k}.")
    return _spread(lines, band, convert(padding_value, x.dtype))


@operation
def diag_part(
    input: TensorLike,
    name: str = "diag_part",
    k: IntsLike = 0,
    padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Diagonal `k` of the last two axes, or a range of diagonals.

    >>> tf.linalg.diag_part([[1, 2], [3, 4]]).numpy().tolist()
    [1, 4]
    >>> tf.linalg.diag_part([[1, 2], [3, 4]], k=(-1, 0)).numpy().tolist()
    [[1, 4], [3, 0]]
    """
    x = convert(input)
    low, high = _numbers("diag_part", k)
    band = _Band("diag_part", k, x.spec.shape[-2], x.spec.shape[-1], align)
    if low == high:
        convert(padding_value)
        return triangles.diagonal(x, offset=low)
    row, column, there = band.places()
    return arithmetic.where(convert(there), x[..., row, column], convert(padding_value, x.dtype))


@operation
def set_diag(
    input: TensorLike,
    diagonal: TensorLike,
    name: str = "set_diag",
    k: IntsLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with diagonal `k`, or a range of diagonals, replaced.

    >>> tf.linalg.set_diag([[1, 2], [3, 4]], [7, 8]).numpy().tolist()
    [[7, 2], [3, 8]]
    """
    x, values = common([input, diagonal], "set_diag")
    low, high = _numbers("set_diag", k)
    band = _Band("set_diag", k, x.spec.shape[-2], x.spec.shape[-1], align)
    lines = values if low != high else values[..., None, :]
    if lines.spec.shape != (*x.spec.shape[:-2], high - low + 1, band.longest):
        raise ShapeError(
            f"set_diag: a diagonal of shape {values.shape} does not fit matrices of {x.shape}."
        )
    return _spread(lines, band, x)


@operation
def tensor_diag(diagonal: TensorLike, name: Name = None) -> Tensor:
    """A tensor with these elements where the first half of the indices equals the second.

    >>> tf.linalg.tensor_diag([1, 2]).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    x = convert(diagonal)
    flat = diag(gt.reshape(x, (x.spec.size,)))
    return gt.reshape(flat, x.spec.shape * 2)


@operation
def tensor_diag_part(input: TensorLike, name: Name = None) -> Tensor:
    """The elements where the first half of the indices equals the second.

    >>> tf.linalg.tensor_diag_part([[1, 2], [3, 4]]).numpy().tolist()
    [1, 4]
    """
    x = convert(input)
    half = x.spec.shape[: x.ndim // 2]
    if half * 2 != x.spec.shape:
        raise ShapeError(f"tensor_diag_part: the halves of shape {x.shape} differ.")
    size = math.prod(half)
    return gt.reshape(triangles.diagonal(gt.reshape(x, (size, size))), half)


@operation
def band_part(
    input: TensorLike, num_lower: IntLike, num_upper: IntLike, name: Name = None
) -> Tensor:
    """Matrices with a number of diagonals below and above the main one; -1 keeps all.

    >>> tf.linalg.band_part([[1, 2], [3, 4]], 0, -1).numpy().tolist()
    [[1, 2], [0, 4]]
    """
    x = convert(input)
    lower, upper = int(num_lower), int(num_upper)
    if lower >= 0:
        x = triangles.triu(x, k=-lower)
    return triangles.tril(x, k=upper) if upper >= 0 else x


check_exports(globals(), __all__)
