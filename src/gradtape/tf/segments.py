"""Segments: rows that belong together are combined; `segment_ids` says where each row goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.errors import DtypeError, IndexRangeError, ShapeError
from gradtape.ops.arrays.creation import full, zeros
from gradtape.ops.arrays.indexing import take
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.arrays.scatter import scatter_add
from gradtape.ops.elementwise.arithmetic import maximum, where
from gradtape.ops.elementwise.unary import sqrt
from gradtape.ops.families.casting import cast
from gradtape.ops.reductions import reduction
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import operation
from gradtape.tf.indexing import as_indices
from gradtape.tf.tensor import Tensor

__all__ = [
    "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum",
    "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min",
    "unsorted_segment_prod", "unsorted_segment_sqrt_n", "unsorted_segment_sum",
]  # fmt: skip


class _Segments:
    """Rows, the segment of each, and how many segments there are."""

    def __init__(self, name: str, data: Any, segment_ids: Any, count: Any) -> None:
        x, ids = convert(data), as_indices(name, segment_ids)
        shape = ids.spec.shape
        if not shape or x.spec.shape[: len(shape)] != shape:
            raise ShapeError(
                f"{name}: segment_ids of shape {ids.shape} do not number the first axes of data "
                f"of shape {x.shape}."
            )
        self.name = name
        self.ids = reshape(ids, (math.prod(shape),))
        self.rows = reshape(x, (math.prod(shape), *x.spec.shape[len(shape) :]))
        self.count = self._sorted_count() if count is None else int(count)

    def known_ids(self) -> Any:
        return np.asarray(convert(self.ids).read())

    def _sorted_count(self) -> int:
        known = self.known_ids()
        if known.size and (known[0] < 0 or (np.diff(known) < 0).any()):
            raise ShapeError(f"{self.name}: segment_ids are not sorted. Use unsorted_{self.name}.")
        return int(known[-1]) + 1 if known.size else 0

    def sums(self, rows: Any = None) -> Any:
        """The sum of each segment. Rows with a negative id go to one more, which is cut off."""
        rows = self.rows if rows is None else rows
        places = cast(self.ids, np.dtype(np.int64))
        places = where(places < 0, self.count, places)
        nothing = zeros((self.count + 1, *rows.shape[1:]), dtype=rows.spec.dtype)
        return scatter_add(nothing, places, rows)[: self.count]

    def counts(self) -> Any:
        """How many rows each segment has, 1 at least, to divide sums by."""
        ones = full((self.rows.spec.shape[0],), 1, dtype=self.rows.spec.dtype)
        found = maximum(self.sums(ones), 1)
        return reshape(found, (self.count,) + (1,) * (self.rows.ndim - 1))

    def reduced(self, function: Callable[..., Any], filler: Any, empty: Any) -> Any:
        """Each segment as a line of one table, filled up with what changes nothing, and reduced."""
        ids, dtype = self.known_ids(), self.rows.spec.dtype
        if ids.size and ids.max() >= self.count:
            raise IndexRangeError(f"{self.name}: id {ids.max()} is outside 0 to {self.count - 1}.")
        lengths = np.bincount(ids[ids >= 0], minlength=self.count)
        table = np.full((self.count, int(lengths.max(initial=0)) or 1), len(ids))
        order = np.argsort(ids, kind="stable")[np.count_nonzero(ids < 0) :]
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if self.count else lengths
        table[ids[order], np.arange(len(order)) - starts[ids[order]]] = order
        filling = full((1, *self.rows.spec.shape[1:]), filler, dtype=dtype)
        lines = take(concat([self.rows, filling], axis=0), table, axis=0)
        found = cast(function(lines, axis=1), dtype)
        if empty == filler or (lengths > 0).all():
            return found
        chosen = (lengths > 0).reshape((-1,) + (1,) * (self.rows.ndim - 1))
        return where(chosen, found, empty)


def _bounds(name: str, dtype: Any) -> tuple[Any, Any]:
    if dtype.kind not in "iuf":
        raise DtypeError(f"{name}: data of dtype {dtype} have no order.")
    if dtype.kind == "f":
        return -np.inf, np.inf
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)


def _extreme(name: str, data: Any, ids: Any, count: Any, largest: bool) -> Any:
    segments = _Segments(name, data, ids, count)
    dtype = segments.rows.spec.dtype
    low, high = _bounds(name, dtype)
    filler = low if largest else high
    empty: Any = 0
    if count is not None:
        # What TensorFlow has for nothing: the lowest or highest finite number.
        finite: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        empty = np.dtype(dtype).type(finite.min if largest else finite.max).item()
    return segments.reduced(reduction.max if largest else reduction.min, filler, empty)


def _mean(segments: _Segments) -> Any:
    total, count = segments.sums(), segments.counts()
    return total / count if total.spec.dtype.kind in "fc" else total // count


@operation
def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The sum of each run of rows; ids are sorted.

    >>> tf.math.segment_sum([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()
    [3.0, 3.0]
    """
    return _Segments("segment_sum", data, segment_ids, None).sums()


@operation
def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The mean of each run of rows; ids are sorted.

    >>> tf.math.segment_mean([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()
    [1.5, 3.0]
    """
    return _mean(_Segments("segment_mean", data, segment_ids, None))


@operation
def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The maximum of each run of rows; ids are sorted. A segment without rows has 0.

    >>> tf.math.segment_max([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()
    [2.0, 3.0]
    """
    return _extreme("segment_max", data, segment_ids, None, True)


@operation
def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The minimum of each run of rows; ids are sorted. A segment without rows has 0.

    >>> tf.math.segment_min([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()
    [1.0, 3.0]
    """
    return _extreme("segment_min", data, segment_ids, None, False)


@operation
def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The product of each run of rows; ids are sorted. A segment without rows has 1.

    >>> tf.math.segment_prod([1.0, 2.0, 3.0], [0, 0, 1]).numpy().tolist()
    [2.0, 3.0]
    """
    return _Segments("segment_prod", data, segment_ids, None).reduced(reduction.prod, 1, 1)


@operation
def unsorted_segment_sum(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """The sum of the rows of each segment; rows with a negative id are left out.

    >>> tf.math.unsorted_segment_sum([1.0, 2.0, 3.0], [1, 0, 1], 3).numpy().tolist()
    [2.0, 4.0, 0.0]
    """
    return _Segments("unsorted_segment_sum", data, segment_ids, num_segments).sums()


@operation
def unsorted_segment_mean(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """The mean of the rows of each segment, 0 where there are none.

    >>> tf.math.unsorted_segment_mean([1.0, 2.0, 3.0], [1, 0, 1], 3).numpy().tolist()
    [2.0, 2.0, 0.0]
    """
    return _mean(_Segments("unsorted_segment_mean", data, segment_ids, num_segments))


@operation
def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """The sum of the rows of each segment over the root of their number.

    >>> tf.math.unsorted_segment_sqrt_n([2.0, 2.0, 2.0, 2.0], [0, 0, 0, 0], 1).numpy().tolist()
    [4.0]
    """
    segments = _Segments("unsorted_segment_sqrt_n", data, segment_ids, num_segments)
    return segments.sums() / sqrt(segments.counts())


@operation
def unsorted_segment_max(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """The maximum of the rows of each segment; the lowest number where there are none.

    >>> tf.math.unsorted_segment_max([1.0, 2.0, 3.0], [1, 0, 1], 2).numpy().tolist()
    [2.0, 3.0]
    """
    return _extreme("unsorted_segment_max", data, segment_ids, num_segments, True)


@operation
def unsorted_segment_min(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """The minimum of the rows of each segment; the highest number where there are none.

    >>> tf.math.unsorted_segment_min([1.0, 2.0, 3.0], [1, 0, 1], 2).numpy().tolist()
    [2.0, 1.0]
    """
    return _extreme("unsorted_segment_min", data, segment_ids, num_segments, False)


@operation
def unsorted_segment_prod(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """The product of the rows of each segment, 1 where there are none.

    >>> tf.math.unsorted_segment_prod([1.0, 2.0, 3.0], [1, 0, 1], 3).numpy().tolist()
    [2.0, 3.0, 1.0]
    """
    segments = _Segments("unsorted_segment_prod", data, segment_ids, num_segments)
    return segments.reduced(reduction.prod, 1, 1)
