"""Sorting, searching and sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtape.config import PARALLEL_SORT
from gradtape.errors import ShapeError
from gradtape.ir import Node, Rule, Spec, apply, spec
from gradtape.ops.arrays.creation import zeros_like
from gradtape.ops.arrays.gathering import GATHER, TAKE_ALONG_AXIS
from gradtape.ops.arrays.indexing import take
from gradtape.ops.arrays.movement import flip, permute, reshape, reshape_node
from gradtape.ops.arrays.positions import observed
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.arrays.sorted_pieces import sorted_in_pieces
from gradtape.ops.elementwise.arithmetic import equal, minimum, not_equal, record_operand
from gradtape.ops.families import (
    Sample,
    batching,
    generator,
    independence,
    normalize_axis,
    promotion,
)
from gradtape.ops.families.define import define
from gradtape.ops.families.native_code import NativeCall
from gradtape.ops.families.samples import drawn
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand
from gradtape.ops.families.sparsity import lanes
from gradtape.trace.record import SCALARS, record

INT64 = np.dtype(np.int64)


def _argsort_numpy(x: np.ndarray, axis: int, descending: bool, stable: bool) -> np.ndarray:
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(x, axis, kind)
    # Flip before and after sorting: one flip alone would reverse the order of equal elements.
    backwards = np.argsort(np.flip(x, axis), axis, kind)
    return np.flip(x.shape[axis] - 1 - backwards, axis)


def _argsort_samples() -> list[Sample]:
    rng = generator("argsort")
    plain = {"descending": False, "stable": True}
    turned = {"descending": True, "stable": True}
    return [
        Sample((rng.normal(size=(2, 3)),), {"axis": 1, **plain}),
        Sample((np.array([[2, 1], [2, 1], [0, 1]]),), {"axis": 0, **turned}),
        Sample((np.array([1.0, np.nan, -1.0]),), {"axis": 0, "descending": False, "stable": False}),
        Sample((np.array([True, False]),), {"axis": 0, **turned}),
        Sample((np.zeros((2, 0)),), {"axis": 1, **turned}),
    ]


def _rows_natively(routine: str, key_size: int, arrays: int) -> Rule:
    """A rule for a routine that works on rows; its scratch memory has `arrays` rows of keys."""

    def rule(y: Node) -> NativeCall | None:
        (x,) = y.inputs
        axis, descending = y.params[:2]
        if x.dtype.kind == "c" or axis != x.ndim - 1:
            return None
        length = x.shape[-1]
        options = (x.dtype.str[1:], "descending" if descending else "ascending")
        size = max(x.dtype.itemsize, key_size)
        work = x.size * max(4, length.bit_length())
        scratch = arrays * size * length
        return NativeCall(routine, options, (length,), x.size // length, work, scratch)

    return rule


def _on_last_axis(x: Node, axis: int, **params: Any) -> Node | None:
    """The op along another axis: routines sort rows that are contiguous."""
    if x.dtype.kind == "c" or axis == x.ndim - 1:
        return None
    op = ARGSORT if "stable" in params else SORT
    order = (*(at for at in range(x.ndim) if at != axis), axis)
    back = tuple(np.argsort(order).tolist())
    found = apply(op, (permute(x, order),), (x.ndim - 1, *params.values()))
    return permute(found, back)


def _sort_composition(x: Node, axis: int, descending: bool) -> Node | None:
    """One long row is sorted in pieces, by all threads; others as above."""
    narrow = x.dtype.itemsize < 4 or x.dtype.kind == "c"
    if narrow or x.size != x.shape[axis] or x.size < PARALLEL_SORT:
        return _on_last_axis(x, axis, descending=descending)
    found = sorted_in_pieces(reshape_node(x, (x.size,)))
    if descending:
        found = flip(found, axis=0)
    return reshape_node(found, x.shape)


ARGSORT = define(
    "argsort",
    "sorting",
    params=("axis", "descending", "stable"),
    spec=lambda x, axis, descending, stable: spec(x.shape, INT64),
    numpy=_argsort_numpy,
    undefined="argsort gives integers",
    batch=batching.shifted("axis"),
    expensive=True,
    samples=_argsort_samples,
    composition=_on_last_axis,
    native=_rows_natively("order_rows", 8, 3),
)


@kind_of_operand
def argsort(
    x: TensorLike, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort along an axis.

    >>> gt.argsort(gt.asarray([3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    """
    x = record_operand(x)
    axis = normalize_axis("argsort", axis, x.ndim)
    return record(ARGSORT, (x,), (axis, bool(descending), bool(stable)))


def _sort_numpy(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    # Equal elements are alike, so the fastest method will do.
    found = np.sort(x, axis)
    return np.flip(found, axis) if descending else found


def _sorted_like(t: Node, y: Node, x: Node, axis: int, descending: bool) -> Node:
    order = apply(ARGSORT, (x,), (axis, descending, True))
    return apply(TAKE_ALONG_AXIS, (t, order), (axis,))


SORT = define(
    "sort",
    "sorting",
    params=("axis", "descending"),
    spec=lambda x, axis, descending: x,
    numpy=_sort_numpy,
    push=_sorted_like,
    batch=batching.shifted("axis"),
    examples=independence.along_axes,
    sparsity=lanes,
    expensive=True,
    composition=_sort_composition,
    native=_rows_natively("sort_rows", 4, 2),
    samples=drawn(
        "sort",
        ("axis", "descending"),
        ((3, 4), 1, False),
        ((3, 4), 0, True),
        dtypes=("float64", "float32", "int32"),
    ),
    doc="The argsort is computed only for derivatives: it takes many times as long.",
)


@kind_of_operand
def sort(
    x: TensorLike, /, axis: int = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """Sorted along an axis; the derivative follows each element to its place.

    >>> gt.sort(gt.asarray([3.0, 1.0, 2.0]), descending=True).tolist()
    [3.0, 2.0, 1.0]
    """
    x = record_operand(x)
    axis = normalize_axis("sort", axis, x.ndim)
    return record(SORT, (x,), (axis, bool(descending)))


def top_k(x: TensorLike, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The k largest elements along an axis, largest first, and their indices.

    >>> values, indices = gt.top_k(gt.asarray([3.0, 1.0, 2.0]), 2)
    >>> values.tolist(), indices.tolist()
    ([3.0, 2.0], [0, 2])
    """
    x = record_operand(x)
    axis = normalize_axis("top_k", axis, x.ndim)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(
            f"top_k: k = {k} is out of range for axis {axis} of length {x.shape[axis]}. "
            f"Use 0 to {x.shape[axis]}."
        )
    indices = along_axis(argsort(x, axis=axis, descending=True), axis, 0, k)
    return record(TAKE_ALONG_AXIS, (x, indices), (axis,)), indices


def _search_batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    """One search for all examples, unless they search in rows of their own."""
    return (batching.by_scan if batched[0] else batching.leading)(inputs, batched, y)


def _searchsorted_spec(x1: Spec, x2: Spec, side: str) -> Spec:
    if x1.ndim != 1:
        raise ShapeError(
            f"searchsorted: the sorted tensor has shape {x1.shape} and must be 1-d. "
            "Search in one row at a time."
        )
    return spec(x2.shape, INT64)


def _search_natively(y: Node) -> NativeCall | None:
    x1 = y.inputs[0]
    if x1.dtype.kind == "c":
        return None
    length = x1.size
    work = y.size * max(4, 4 * length.bit_length())
    return NativeCall("search_rows", (x1.dtype.str[1:], y.params[0]), (length,), y.size, work)


SEARCHSORTED = define(
    "searchsorted",
    "sorting",
    params=("side",),
    spec=_searchsorted_spec,
    numpy=np.searchsorted,
    promote=promotion("searchsorted", "same", "any"),
    undefined="searchsorted gives integers",
    batch=_search_batch,
    expensive=True,
    native=_search_natively,
    samples=lambda: [
        Sample((np.array([1.0, 2.0, 2.0]), np.array([[2.0], [0.5]])), {"side": "left"}),
        Sample((np.array([1, 2, 2]), np.array(2.0)), {"side": "right"}),
        Sample((np.zeros(0), np.zeros(2)), {"side": "left"}),
    ],
)


@kind_of_operand
def searchsorted(
    x1: TensorLike, x2: TensorLike, /, side: str = "left", sorter: TensorLike | None = None
) -> Tensor:
    """Where to insert elements into a sorted tensor so that it stays sorted.

    >>> gt.searchsorted(gt.asarray([1.0, 2.0, 3.0]), gt.asarray([2.5, 0.0])).tolist()
    [2, 0]
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side {side!r} is neither 'left' nor 'right'.")
    if sorter is not None:
        x1 = take(x1, sorter, axis=0)
    return record(SEARCHSORTED, (x1, x2), (side,))


@kind_of_operand
def isin(x1: TensorLike, x2: TensorLike, /, *, invert: bool = False) -> Tensor:
    """For each element of the first operand whether the second holds it.

    >>> gt.isin(gt.asarray([1, 2]), gt.asarray([2, 3])).tolist()
    [False, True]
    """
    compared = not_equal if invert else equal
    if type(x2) in SCALARS:
        return compared(x1, x2)
    rows = reshape(x2, (-1,))
    if not rows.size:
        return zeros_like(x1, dtype=bool) ^ bool(invert)
    # The first of the sorted elements that is not before an element is the only one to compare.
    rows = record(SORT, (rows,), (0, False))
    place = minimum(record(SEARCHSORTED, (rows, x1), ("left",)), rows.size - 1)
    return compared(record(GATHER, (rows, place), (0,)), x1)


# The shapes of the results below depend on values, so these functions compute their operand.


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, one tensor per axis.

    >>> [axis.tolist() for axis in gt.nonzero(gt.asarray([[0, 1], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    array = observed("nonzero", x)
    if not array.ndim:
        raise ShapeError("nonzero: a 0-d tensor has no axes to index. Reshape it to one axis.")
    return tuple(record_operand(axis) for axis in np.nonzero(array))


class UniqueAll(NamedTuple):
    """The results of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The results of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The results of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: TensorLike, /) -> UniqueAll:
    """The distinct elements, the first index of each, the inverse indices, and the counts.

    >>> gt.unique_all(gt.asarray([2, 1, 2])).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueAll(*map(record_operand, np.unique_all(observed("unique_all", x))))


def unique_counts(x: TensorLike, /) -> UniqueCounts:
    """The different elements, and how many there are of each.

    >>> gt.unique_counts(gt.asarray([2, 1, 2])).counts.tolist()
    [1, 2]
    """
    return UniqueCounts(*map(record_operand, np.unique_counts(observed("unique_counts", x))))


def unique_inverse(x: TensorLike, /) -> UniqueInverse:
    """The different elements, and which of them each element is.

    >>> gt.unique_inverse(gt.asarray([2, 1, 2])).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueInverse(*map(record_operand, np.unique_inverse(observed("unique_inverse", x))))


@kind_of_operand
def unique_values(x: TensorLike, /) -> Tensor:
    """The different elements.

    >>> gt.unique_values(gt.asarray([2, 1, 2])).tolist()
    [1, 2]
    """
    return record_operand(np.unique(observed("unique_values", x), equal_nan=False))
