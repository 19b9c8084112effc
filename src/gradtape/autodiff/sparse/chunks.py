"""Colour chunks: the products of a sparse derivative with the seeds of some colours at a time.

The products with all colours take (colours x size) numbers, of which the matrix needs its entries
only. Past a memory budget one plan computes the products with `count` colours, from number `offset`
on, and the entries are picked from each chunk before the next one runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.autodiff.chunks import Limits, ProductWith, SeedChunks, Seeds, seed_chunks
from gradtape.autodiff.seeded import numbered
from gradtape.autodiff.sparse.colouring import Colours
from gradtape.dtypes import Array, DType
from gradtape.ir import Node, placeholder, spec
from gradtape.ir.program import program
from gradtape.runtime.footprint import intermediate_bytes, total_bytes
from gradtape.trace import Recording, Value


def colour_seeds(like: Node, colours: Colours, product: ProductWith) -> Seeds:
    """The seeds of all colours. The plan reads the colour of each element from an input."""
    of = spec(like.shape, numbered(0, 1).dtype)
    numbers = placeholder(of)
    value = Value(np.ascontiguousarray(colours.of, of.dtype).reshape(of.shape), of)
    return Seeds(like, colours.count, product, numbers, {numbers: value})


def colour_chunks(
    recording: Recording, seeds: Sequence[Seeds], outputs: Sequence[Node], wanted: Limits
) -> tuple[SeedChunks, ...]:
    """The plans that compute `outputs` in chunks; none if all of it fits the budget at once."""
    most = max((one.count for one in seeds), default=0)
    if most <= (wanted.chunk_size or 1):
        return ()
    if wanted.chunk_size is None:
        steps = program(outputs, recording.values.keys())
        room = wanted.budget - sum(node.spec.nbytes for node in outputs)
        # The first number is quick to find, and larger than the second.
        if total_bytes(steps) <= room or intermediate_bytes(steps) <= room:
            return ()
    chunks = [seed_chunks(recording, one, wanted) for one in seeds]
    # The products with all colours exist, so those with some do.
    return tuple(one for one in chunks if one is not None)


def entries_by_chunks(
    chunks: Sequence[SeedChunks],
    recording: Recording,
    places: Array,
    dtype: DType,
    title: str = "jacobian",
) -> Array:
    """The entries at places in the products of all chunks laid end to end."""
    result = np.empty(len(places), dtype)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    begin = 0
    for one in chunks:
        width = one.bound.outputs[0].size // one.count
        for first, part in one.run(recording, title):
            low = begin + first * width
            start, stop = np.searchsorted(ordered, [low, low + part.size])
            chosen = order[start:stop]
            result[chosen] = part.reshape(-1).take(places[chosen] - low)
        begin += one.seeds.count * width
    return result
