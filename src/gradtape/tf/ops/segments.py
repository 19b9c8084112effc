"""Segments: rows with one id are combined. Each public function is a row of the table below."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError, IndexRangeError, ShapeError
from gradtape.libraries import check_exports
from gradtape.ops.reductions import reduction
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import documented, named_in, operation
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import Array, CountLike, IntLike, Name, TensorLike
from gradtape.tf.ops.elementwise import truediv, truncatediv
from gradtape.tf.ops.indexing import as_indices

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
]


class _Segments:
    """Rows, the segment of each, and how many segments there are."""

    def __init__(
        self, name: str, data: TensorLike, segment_ids: TensorLike, count: IntLike | None
    ) -> None:
        x, ids = convert(data), as_indices(name, segment_ids)
        shape = ids.spec.shape
        if not shape or x.spec.shape[: len(shape)] != shape:
            raise ShapeError(
                f"{name}: segment_ids of shape {ids.shape} do not number the first axes of data "
                f"of shape {x.shape}."
            )
        self.name = name
        self.are_sorted = count is None
        self.ids = gt.reshape(ids, (math.prod(shape),))
        self.rows = gt.reshape(x, (math.prod(shape), *x.spec.shape[len(shape) :]))
        self.count = self._sorted_count() if count is None else int(count)

    def known_ids(self) -> Array:
        """The ids, computed now."""
        return np.asarray(convert(self.ids).read())

    def _sorted_count(self) -> int:
        known = self.known_ids()
        if known.size and (known[0] < 0 or (np.diff(known) < 0).any()):
            raise ShapeError(f"{self.name}: segment_ids are not sorted. Use unsorted_{self.name}.")
        return int(known[-1]) + 1 if known.size else 0

    def sums(self, rows: Tensor | None = None) -> Tensor:
        """The sum of each segment. Rows with a negative id go to an extra one, which is cut off."""
        rows = self.rows if rows is None else rows
        places = gt.cast(self.ids, np.dtype(np.int64))
        # An id that is too large must not fall on the extra segment: scatter_add refuses the next.
        beyond = gt.cast(places >= self.count, np.dtype(np.int64))
        places = gt.where(places < 0, self.count, places + beyond)
        nothing = gt.zeros((self.count + 1, *rows.shape[1:]), dtype=rows.spec.dtype)
        result: Any = gt.scatter_add(nothing, places, rows)
        return result[: self.count]

    def counts(self) -> Tensor:
        """The number of rows of each segment, at least 1, to divide sums by."""
        ones = adopt(gt.full((self.rows.spec.shape[0],), 1, dtype=np.dtype(np.int64)))
        result = gt.cast(gt.maximum(self.sums(ones), 1), self.rows.spec.dtype)
        return gt.reshape(result, (self.count,) + (1,) * (self.rows.ndim - 1))

    def reduced(self, function: Callable[..., Any], filler: float, empty: float) -> Tensor:
        """Lay each segment out as a line, fill it up with a neutral number, and reduce lines."""
        ids, dtype = self.known_ids(), self.rows.spec.dtype
        if ids.size and ids.max() >= self.count:
            raise IndexRangeError(f"{self.name}: id {ids.max()} is outside 0 to {self.count - 1}.")
        lengths = np.bincount(ids[ids >= 0], minlength=self.count)
        table = np.full((self.count, int(lengths.max(initial=0)) or 1), len(ids))
        order = np.argsort(ids, kind="stable")[np.count_nonzero(ids < 0) :]
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if self.count else lengths
        table[ids[order], np.arange(len(order)) - starts[ids[order]]] = order
        filling = gt.full((1, *self.rows.spec.shape[1:]), filler, dtype=dtype)
        lines = gt.take(gt.concat([self.rows, filling], axis=0), table, axis=0)
        result = gt.cast(function(lines, axis=1), dtype)
        if empty == filler or (lengths > 0).all():
            return result
        chosen = (lengths > 0).reshape((-1,) + (1,) * (self.rows.ndim - 1))
        return gt.where(convert(chosen), result, empty)


def _sum(segments: _Segments) -> Tensor:
    return segments.sums()


def _mean(segments: _Segments) -> Tensor:
    """The mean; of integers, cut to an integer for sorted ids, else a float, as in TensorFlow."""
    total, count = segments.sums(), segments.counts()
    cut = segments.are_sorted and total.spec.dtype.kind in "iu"
    return truncatediv(total, count) if cut else truediv(total, count)


def _sqrt_n(segments: _Segments) -> Tensor:
    return segments.sums() / gt.sqrt(segments.counts())


def _prod(segments: _Segments) -> Tensor:
    return segments.reduced(reduction.prod, 1, 1)


def _max(segments: _Segments) -> Tensor:
    return _extremum(segments, reduction.max, "min")


def _min(segments: _Segments) -> Tensor:
    return _extremum(segments, reduction.min, "max")


def _extremum(segments: _Segments, function: Callable[..., Any], bound: str) -> Tensor:
    dtype = segments.rows.spec.dtype
    if dtype.kind not in "iuf":
        raise DtypeError(f"{segments.name}: data of dtype {dtype} have no order. Use tf.cast.")
    limits: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    finite = dtype.type(getattr(limits, bound)).item()
    filler = math.copysign(math.inf, finite) if dtype.kind == "f" else finite
    # In TensorFlow a segment without rows has 0, or the lowest or highest finite number.
    return segments.reduced(function, filler, 0 if segments.are_sorted else finite)


def _of_sorted(
    compute: Callable[[_Segments], Tensor], sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a function of runs of rows; ids are sorted."""
    own = named_in(example)

    def segment(data: TensorLike, segment_ids: TensorLike, name: Name = None) -> Tensor:
        return compute(_Segments(own, data, segment_ids, None))

    return operation(documented(segment, __name__, sentence, example, result))


def _of_unsorted(
    compute: Callable[[_Segments], Tensor], sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a function of rows in any order; rows with a negative id are left out."""
    own = named_in(example)

    def segment(
        data: TensorLike, segment_ids: TensorLike, num_segments: CountLike, name: Name = None
    ) -> Tensor:
        return compute(_Segments(own, data, segment_ids, num_segments))

    return operation(documented(segment, __name__, sentence, example, result))


segment_sum = _of_sorted(
    _sum,
    "The sum of each run of rows; ids are sorted.",
    "tf.math.segment_sum([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()",
    "[3.0, 3.0]",
)
segment_mean = _of_sorted(
    _mean,
    "The mean of each run of rows; integers give integers.",
    "tf.math.segment_mean([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()",
    "[1.5, 3.0]",
)
segment_max = _of_sorted(
    _max,
    "The maximum of each run of rows, 0 without rows; ids are sorted.",
    "tf.math.segment_max([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()",
    "[2.0, 3.0]",
)
segment_min = _of_sorted(
    _min,
    "The minimum of each run of rows, 0 without rows; ids are sorted.",
    "tf.math.segment_min([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()",
    "[1.0, 3.0]",
)
segment_prod = _of_sorted(
    _prod,
    "The product of each run of rows, 1 without rows; ids are sorted.",
    "tf.math.segment_prod([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()",
    "[2.0, 3.0]",
)
unsorted_segment_sum = _of_unsorted(
    _sum,
    "The sum of the rows of each segment; rows with a negative id are left out.",
    "tf.math.unsorted_segment_sum([1.0, 2.0, 3.0], [1, 0, 1], 3).numpy().tolist()",
    "[2.0, 4.0, 0.0]",
)
unsorted_segment_mean = _of_unsorted(
    _mean,
    "The mean of the rows of each segment, 0 without rows.",
    "tf.math.unsorted_segment_mean([1.0, 2.0, 3.0], [1, 0, 1], 3).numpy().tolist()",
    "[2.0, 2.0, 0.0]",
)
unsorted_segment_sqrt_n = _of_unsorted(
    _sqrt_n,
    "The sum of the rows of each segment over the square root of their number.",
    "tf.math.unsorted_segment_sqrt_n([2.0, 2.0, 2.0, 2.0], [0, 0, 0, 0], 1).numpy().tolist()",
    "[4.0]",
)
unsorted_segment_max = _of_unsorted(
    _max,
    "The maximum of the rows of each segment; the lowest number without rows.",
    "tf.math.unsorted_segment_max([1.0, 2.0, 3.0], [1, 0, 1], 2).numpy().tolist()",
    "[2.0, 3.0]",
)
unsorted_segment_min = _of_unsorted(
    _min,
    "The minimum of the rows of each segment; the highest number without rows.",
    "tf.math.unsorted_segment_min([1.0, 2.0, 3.0], [1, 0, 1], 2).numpy().tolist()",
    "[2.0, 1.0]",
)
unsorted_segment_prod = _of_unsorted(
    _prod,
    "The product of the rows of each segment, 1 without rows.",
    "tf.math.unsorted_segment_prod([1.0, 2.0, 3.0], [1, 0, 1], 3).numpy().tolist()",
    "[2.0, 3.0, 1.0]",
)


check_exports(globals(), __all__)
