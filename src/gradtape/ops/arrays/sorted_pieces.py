"""A long array sorted by several threads: it is split by values, and its pieces are sorted apart.

The ops of this module are parts of the composition of `sort`, and of nothing else.
"""

from __future__ import annotations

import itertools
import os

import numpy as np

from gradtape.config import MOST_SORTED_PIECES
from gradtape.ir import REGISTRY, Node, Spec, apply, spec
from gradtape.ir.node import PICK
from gradtape.ops.families import Sample, batching, generator
from gradtape.ops.families.define import define
from gradtape.ops.families.native_code import NativeCall
from gradtape.ops.families.sparsity import dense

# Bytes in which a routine has the elements that a pivot is chosen from.
_SCRATCH = 1 << 10
# Elements that a pivot is chosen from, as in the routine.
_CHOSEN = 127
_INDEX = np.dtype(np.int64)
_WHY = "it is a part of the composition of sort"


def _split_spec(x: Spec, bounds: Spec) -> tuple[Spec, Spec]:
    return x, spec((2 * bounds.size - 1,), _INDEX)


def _split_numpy(x: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found, ends = np.array(x), [bounds[0]]
    for first, last in itertools.pairwise(bounds):
        if first >= last:
            ends += [first, last]
            continue
        piece = x[first:last]
        chosen = piece[np.arange(_CHOSEN) * ((last - first) // _CHOSEN)]
        before = piece < np.sort(chosen)[_CHOSEN // 2]
        found[first:last] = np.concatenate([piece[before], piece[~before]])
        ends += [first + before.sum(), last]
    return found, np.array(ends, np.int64)


def _split_natively(y: Node) -> NativeCall:
    x, bounds = y.inputs
    pieces = bounds.size - 1
    return NativeCall("split_each", (x.dtype.str[1:],), (), pieces, 2 * x.size, _SCRATCH)


def _bits() -> list[Sample]:
    """Two values only: the order of elements on one side of the pivot is not defined."""
    x = np.asarray(generator("split_pieces").permutation(2000) % 4 > 0, np.float64)
    return [Sample((x, np.array([0, 600, 2000])), order=0)]


SPLIT = define(
    "split_pieces",
    "sorting",
    spec=_split_spec,
    numpy=_split_numpy,
    undefined=_WHY,
    batch=batching.one_by_one,
    sparsity=dense,
    native=_split_natively,
    samples=_bits,
    doc="The pieces of an array, each in two: smaller elements, and larger ones.",
)


def _sort_numpy(x: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    return np.concatenate([np.sort(piece) for piece in np.split(x, bounds[1:-1])])


def _sort_natively(y: Node) -> NativeCall:
    x, bounds = y.inputs
    work = x.size * x.size.bit_length()
    return NativeCall(
        "sort_each", (x.dtype.str[1:],), (), bounds.size - 1, work, shared=x.spec.nbytes
    )


SORT_PIECES = define(
    "sort_pieces",
    "sorting",
    spec=lambda x, bounds: x,
    numpy=_sort_numpy,
    undefined=_WHY,
    batch=batching.one_by_one,
    sparsity=dense,
    native=_sort_natively,
    samples=lambda: [
        Sample((generator("sort_pieces").permutation(900) * 0.5, np.array([0, 300, 900])), order=0)
    ],
    doc="Each piece of an array in ascending order.",
)


def sorted_in_pieces(x: Node) -> Node:
    """A one-dimensional array in ascending order, in as many pieces as there are processors."""
    # Pieces begin at 0 and end at the size.
    bounds = apply(REGISTRY["arange"], (), (0, 2 * x.size, x.size, _INDEX))
    pieces = 1
    while pieces < min(os.cpu_count() or 1, MOST_SORTED_PIECES):
        split = apply(SPLIT, (x, bounds))
        x, bounds = (apply(PICK, (split,), (k,)) for k in range(2))
        pieces *= 2
    return apply(SORT_PIECES, (x, bounds))
