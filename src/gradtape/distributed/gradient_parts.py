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

from gradtape.config import GRADIENT_BUCKET_BYTES
from gradtape.distributed import pairwise
from gradtape.distributed.pairwise import Span


@dataclass(frozen=True)
class GradientLayout:
    """The arrays of a model: those of one dtype lie in one flat vector, which is cut into buckets.

    Those in `rows` are row-sparse and have no place in the vectors.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    rows: frozenset[int]
    # Bytes of a bucket at most.
    bucket: int = GRADIENT_BUCKET_BYTES

    def _vectors(self) -> list[tuple[np.dtype[Any], list[int], int, range]]:
        """Dtype, numbers of arrays and size of each vector, and where its buckets begin."""
        dense = [number for number in range(len(self.shapes)) if number not in self.rows]
        found = []
        for dtype in map(np.dtype, dict.fromkeys(self.dtypes[number] for number in dense)):
            numbers = [number for number in dense if self.dtypes[number] == dtype.name]
            size = sum(map(self._size, numbers))
            step = max(1, self.bucket // dtype.itemsize)
            found.append((dtype, numbers, size, range(0, size, step)))
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of all dense arrays."""
        return sum(dtype.itemsize * size for dtype, _, size, _ in self._vectors())

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return sum(len(begins) for *_, begins in self._vectors())

    def _size(self, number: int) -> int:
        return math.prod(self.shapes[number])

    def flat(self, arrays: Sequence[np.ndarray | None], weight: float) -> list[np.ndarray]:
        """The arrays of one shard times its weight, by bucket; zeros for None."""
        found = []
        for dtype, numbers, size, begins in self._vectors():
            vector, start = np.zeros(size, dtype), 0
            for number in numbers:
                array, stop = arrays[number], start + self._size(number)
                if array is not None:
                    np.multiply(np.ravel(array), dtype.type(weight), out=vector[start:stop])
                start = stop
            found += [vector[at : at + begins.step] for at in begins]
        return found

    def arrays(self, sums: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """The arrays by number, from the sums of all buckets."""
        found = {}
        for dtype, numbers, _, _ in self._vectors():
            own = [part for part in sums if part.dtype == dtype]
            vector, start = np.concatenate([np.zeros(0, dtype), *own]), 0
            for number in numbers:
                stop = start + self._size(number)
                found[number] = vector[start:stop].reshape(self.shapes[number])
                start = stop
        return found


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of two parts; parts from the object store are never written to."""
    return np.add(a, b)


def partial_sums(
    shards: Mapping[int, Sequence[np.ndarray]], count: int
) -> list[dict[Span, np.ndarray]]:
    """For each bucket, the sums of the largest subtrees over the shards of one worker."""
    spans = pairwise.largest_spans(0, count, min(shards), max(shards) + 1)
    found = []
    for parts in zip(*shards.values(), strict=True):
        known = {(n, n + 1): part for n, part in zip(shards, parts, strict=True)}
        found.append({span: pairwise.total(span, known, add) for span in spans})
    return found


def whole(pieces: Sequence[dict[Span, np.ndarray]], count: int) -> np.ndarray:
    """The sum of one bucket over all shards, from the pieces of all workers."""
    known = {span: part for piece in pieces for span, part in piece.items()}
    return pairwise.total((0, count), known, add)


def merged_rows(indices: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows with each index once, in rising order; equal ones are added in the order they have."""
    if not len(indices):
        return indices, values
    order = np.argsort(indices, kind="stable")
    ordered, first = np.unique(indices[order], return_index=True)
    return ordered, np.add.reduceat(values[order], first, axis=0)


# For each row-sparse array: shard, indices and values.
RowParts = dict[int, list[tuple[int, np.ndarray, np.ndarray]]]


def joined_rows(parts: Sequence[RowParts]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
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
