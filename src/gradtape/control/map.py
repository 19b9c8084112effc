"""map: a function of one element after another, or of some at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gradtape.control.checks import as_count, check_function
from gradtape.control.scan import length_of, scanned
from gradtape.control.vmap import vmap
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import reshape
from gradtape.pytree import flatten, map_leaves, unflatten
from gradtape.tensor.tensor import asarray

__all__ = ["map"]

Row = TypeVar("Row")


def map(f: Callable[[Any], Row], xs: object, *, batch_size: int | None = None) -> Row:
    """`f` applied to each element along axis 0 in turn, with results stacked: a loop, as one op.

    >>> gt.map(lambda x: x * x, gt.asarray([1.0, 2.0, 3.0])).tolist()
    [1.0, 4.0, 9.0]

    `vmap` computes the same for all elements at once; `map` takes the memory of one at a time, or
    of `batch_size` of them.
    """
    check_function("map", "f", f)
    if batch_size is None:
        return scanned("map", lambda _, x: (None, f(x)), None, xs)[1]
    width = as_count("map", "batch_size", batch_size)
    if width < 1:
        raise ValueError("map: batch_size is 0. Pass 1 or more, or None.")
    leaves, shape = flatten(xs)
    sequences = [asarray(leaf) for leaf in leaves]
    rounds, rest = divmod(length_of("map", shape, sequences, None), width)
    full = rounds * width
    parts = []
    if rounds or not rest:
        rows = [reshape(x[:full], (rounds, width, *x.shape[1:])) for x in sequences]
        _, found = scanned("map", lambda _, x: (None, vmap(f)(x)), None, unflatten(shape, rows))
        parts.append(map_leaves(lambda y: reshape(y, (full, *y.shape[2:])), found))
    if rest:
        parts.append(vmap(f)(unflatten(shape, [x[full:] for x in sequences])))
    if len(parts) == 1:
        return parts[0]
    _, structure = flatten(parts[0])
    columns = zip(*[flatten(part)[0] for part in parts], strict=True)
    return unflatten(structure, [concat(column) for column in columns])
