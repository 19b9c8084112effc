"""associative_scan: all prefixes of an associative operation, by a logarithmic number of ops."""

from __future__ import annotations

from collections.abc import Callable

from gradtape.errors import ShapeError
from gradtape.ops.arrays.joining import concat, stack
from gradtape.ops.arrays.movement import flip, reshape
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.families.shapes import normalize_axis
from gradtape.pytree import Tree, flatten, leaf_names, unflatten
from gradtape.tensor.tensor import Tensor, asarray


def associative_scan(
    fn: Callable[[Tree, Tree], Tree], elems: object, reverse: bool = False, axis: int = 0
) -> Tree:
    """The results of combining the first 1, 2, 3, … elements along an axis.

    >>> gt.associative_scan(gt.maximum, gt.asarray([1.0, 3.0, 2.0, 5.0])).tolist()
    [1.0, 3.0, 3.0, 5.0]

    `fn(a, b)` must be associative, and combine many elements at once: it is called on nests of the
    structure of `elems`, with many elements along the axis. With `reverse` it combines the last
    1, 2, 3, … elements, and is called with later ones first.

    >>> def compose(f, g):
    ...     return f[0] * g[0], g[0] * f[1] + g[1]
    >>> slopes, offsets = gt.associative_scan(compose, (np.full(3, 2.0), np.ones(3)))
    >>> offsets.tolist()
    [1.0, 3.0, 7.0]
    """
    leaves, structure = flatten(elems)
    tensors = [asarray(leaf) for leaf in leaves]
    if not tensors:
        return unflatten(structure, [])
    axes = [normalize_axis("associative_scan", axis, tensor.ndim) for tensor in tensors]
    names = leaf_names(structure, "elems")
    for name, tensor, at in zip(names, tensors, axes, strict=True):
        if tensor.shape[at] != tensors[0].shape[axes[0]]:
            raise ShapeError(
                f"associative_scan: {name} has {tensor.shape[at]} elements along axis {at} and "
                f"{names[0]} {tensors[0].shape[axes[0]]}. Give all of them one length."
            )

    def combined(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        found, shape = flatten(fn(unflatten(structure, a), unflatten(structure, b)))
        if shape != structure:
            raise ValueError(
                "associative_scan: fn returned another structure than that of elems. "
                "Return a nest like each of its two arguments."
            )
        results = [asarray(result) for result in found]
        for name, given, result in zip(names, a, results, strict=True):
            if result.shape != given.shape:
                raise ShapeError(
                    f"associative_scan: fn was given {name} of shape {given.shape} and returned "
                    f"{result.shape}. It combines many elements at once, each with its own."
                )
        return results

    def part(xs: list[Tensor], start: int, stop: int, step: int = 1) -> list[Tensor]:
        length = max(0, -(-(stop - start) // step))
        return [along_axis(x, at, start, length, step) for x, at in zip(xs, axes, strict=True)]

    def prefixes(xs: list[Tensor]) -> list[Tensor]:
        count = xs[0].shape[axes[0]]
        if count < 2:
            return xs
        # Pairs first: their prefixes are every second result, and one more call gives the others.
        odd = prefixes(combined(part(xs, 0, count - 1, 2), part(xs, 1, count, 2)))
        even = part(xs, 0, 1)
        if count > 2:
            before = part(odd, 0, (count - 1) // 2)
            more = combined(before, part(xs, 2, count, 2))
            even = [concat([a, b], axis=at) for a, b, at in zip(even, more, axes, strict=True)]
        return [_interleaved(a, b, at) for a, b, at in zip(even, odd, axes, strict=True)]

    if reverse:
        tensors = [flip(x, axis=at) for x, at in zip(tensors, axes, strict=True)]
    found = prefixes(tensors)
    if reverse:
        found = [flip(x, axis=at) for x, at in zip(found, axes, strict=True)]
    return unflatten(structure, found)


def _interleaved(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """Elements of both in turn; `even` may have one more."""
    count = odd.shape[axis]
    pairs = stack([along_axis(even, axis, 0, count), odd], axis=axis + 1)
    shape = (*odd.shape[:axis], 2 * count, *odd.shape[axis + 1 :])
    found = reshape(pairs, shape)
    if even.shape[axis] == count:
        return found
    return concat([found, along_axis(even, axis, count, 1)], axis=axis)
