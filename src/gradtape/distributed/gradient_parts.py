"""Gradients on their way between workers: dense ones as flat buckets, row-sparse ones as rows.

A *bucket* is a range of the flat vector of all dense gradients of one dtype; each is one object, so
that different workers can sum different buckets. Averages of variables that are not trained, such
as moving means, travel in the same vectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.distributed import pairwise
from gradtape.distributed.pairwise import Span

# Bytes of a bucket.
BUCKET = 4 << 20


@dataclass(frozen=True)
class Entry:
    """A dense array in the flat vectors: its number, its dtype and its range there."""

    number: int
    dtype: str
    start: int
    stop: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Bucket:
    """A range of the flat vector of one dtype."""

    dtype: str
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """Where dense arrays lie in flat vectors, how those are divided, and which arrays are rows."""

    entries: tuple[Entry, ...]
    buckets: tuple[Bucket, ...]
    rows: frozenset[int]
    sizes: tuple[tuple[str, int], ...]

    @property
    def nbytes(self) -> int:
        """The bytes of all dense arrays."""
        return sum(size * np.dtype(dtype).itemsize for dtype, size in self.sizes)

    def flat(self, arrays: Sequence[np.ndarray | None], weight: float) -> dict[str, np.ndarray]:
        """The arrays of one shard times its weight, as flat vectors; zeros for None."""
        found = {dtype: np.zeros(size, dtype) for dtype, size in self.sizes}
        for entry in self.entries:
            array = arrays[entry.number]
            if array is not None:
                part = found[entry.dtype][entry.start : entry.stop]
                np.multiply(np.ravel(array), np.dtype(entry.dtype).type(weight), out=part)
        return found

    def arrays(self, sums: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """The arrays by number, from the sums of all buckets."""
        flat = {dtype: np.empty(size, dtype) for dtype, size in self.sizes}
        for bucket, values in zip(self.buckets, sums, strict=True):
            flat[bucket.dtype][bucket.start : bucket.stop] = values
        return {
            entry.number: flat[entry.dtype][entry.start : entry.stop].reshape(entry.shape)
            for entry in self.entries
        }


def layout_of(
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[Any],
    rows: frozenset[int],
    bucket: int = BUCKET,
) -> Layout:
    """The layout of arrays of these shapes and dtypes; those in `rows` are row-sparse."""
    sizes: dict[str, int] = {}
    entries = []
    for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
        if number in rows:
            continue
        kind = np.dtype(dtype).name
        start = sizes.get(kind, 0)
        sizes[kind] = start + math.prod(shape)
        entries.append(Entry(number, kind, start, sizes[kind], tuple(shape)))
    buckets = []
    for kind, size in sizes.items():
        step = max(1, bucket // np.dtype(kind).itemsize)
        buckets += [Bucket(kind, at, min(at + step, size)) for at in range(0, size, step)]
    return Layout(tuple(entries), tuple(buckets), rows, tuple(sizes.items()))


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of two parts; parts from the object store are never written to."""
    return np.add(a, b)


def partial_sums(
    shards: Mapping[int, dict[str, np.ndarray]], count: int
) -> dict[Span, dict[str, np.ndarray]]:
    """The sums of the largest subtrees over the shards that one worker holds."""
    known = {(number, number + 1): flat for number, flat in shards.items()}
    low, high = min(shards), max(shards) + 1
    spans = pairwise.largest_spans(0, count, low, high)
    return {span: pairwise.total(span, known, _add_all) for span in spans}


def _add_all(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {dtype: a[dtype] + b[dtype] for dtype in a}


def piece(sums: dict[Span, dict[str, np.ndarray]], bucket: Bucket) -> dict[Span, np.ndarray]:
    """The part of a worker's sums that lies in one bucket."""
    return {span: flat[bucket.dtype][bucket.start : bucket.stop] for span, flat in sums.items()}


def whole(pieces: Sequence[dict[Span, np.ndarray]], count: int) -> np.ndarray:
    """The sum of one bucket over all shards, from the pieces of all workers."""
    known: dict[Span, np.ndarray] = {}
    for found in pieces:
        known.update(found)
    return pairwise.total((0, count), known, add)


def merged_rows(indices: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows with each index once, in rising order; equal ones are added in the order they have."""
    if not len(indices):
        return indices, values
    order = np.argsort(indices, kind="stable")
    ordered, first = np.unique(indices[order], return_index=True)
    return ordered, np.add.reduceat(values[order], first, axis=0)


# For each row-sparse array: shard, indices and values.
Rows = dict[int, list[tuple[int, np.ndarray, np.ndarray]]]


def joined_rows(parts: Sequence[Rows]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """The rows of all shards in the order of the shards, merged."""
    found: dict[int, list[tuple[int, np.ndarray, np.ndarray]]] = {}
    for part in parts:
        for number, rows in part.items():
            found.setdefault(number, []).extend(rows)
    merged = {}
    for number, rows in found.items():
        rows.sort(key=lambda each: each[0])
        indices = np.concatenate([each[1] for each in rows])
        values = np.concatenate([each[2] for each in rows])
        merged[number] = merged_rows(indices, values)
    return merged
