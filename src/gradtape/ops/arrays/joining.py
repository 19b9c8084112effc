"""Joining and parting: stack and concat, and their inverses, unstack and split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Never

import numpy as np

from gradtape.argument_checks import as_integer, is_choice
from gradtape.errors import ShapeError, shown
from gradtape.ir import Join, Op, Spec, View, spec
from gradtape.ir.node import Node, apply, constant, constant_value, outputs
from gradtape.ops.arrays.movement import broadcast_to, reshape
from gradtape.ops.arrays.slicing import SLICE, along_axis, axis_part
from gradtape.ops.elementwise.arithmetic import not_equal, record_operand, subtract
from gradtape.ops.families import (
    Sample,
    batching,
    independence,
    memory_copies,
    normalize_axis,
    promotion,
)
from gradtape.ops.families.define import define
from gradtape.ops.families.signatures import (
    ShapeLike,
    Tensor,
    TensorLike,
    kind_of_operand,
    kind_of_parts,
    parts_of_kind,
)
from gradtape.suggestions import unexpected_arguments
from gradtape.trace.record import SCALARS, record


def _stack_spec(*parts: Spec, axis: int) -> Spec:
    for position, one in enumerate(parts):
        if one.shape != parts[0].shape:
            raise ShapeError(
                f"stack: part 0 has shape {parts[0].shape} and part {position} {one.shape}. "
                "Give all of them one shape."
            )
    shape = parts[0].shape
    return spec((*shape[:axis], len(parts), *shape[axis:]), parts[0].dtype)


def _stack_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], axis: int) -> Node:
    return apply(SLICE, (g,), (*axis_part(g.shape, axis, index, 1), inputs[index].shape))


STACK = define(
    "stack",
    "movement",
    params=("axis",),
    spec=_stack_spec,
    numpy=lambda *parts, axis: np.stack(parts, axis),
    promote=promotion("stack", "same", "any"),
    vjp=_stack_vjp,
    batch=batching.shifted("axis"),
    examples=independence.joined,
    join=Join.STACK,
    copies=memory_copies.joined,
    samples=lambda: [
        Sample((np.array([1.0, 2.0]), np.array([3.0, 4.0])), {"axis": 0}),
        Sample((np.array([1.0, 2.0]), np.array([3.0, 4.0])), {"axis": 1}),
        Sample((np.array(1.5), np.array(2.0), np.array(3.0)), {"axis": 0}),
        Sample((np.array([1j, 2.0]), np.array([3.0, 4.0])), {"axis": 0}),
        Sample((np.zeros((0, 2)),), {"axis": 2}),
        Sample((np.array([1, 2]), np.array([True, False])), {"axis": 0}),
    ],
)


@kind_of_parts
def stack(arrays: Sequence[TensorLike], /, axis: int = 0, *more: Never, **unknown: Never) -> Tensor:
    """Tensors of one shape along a new axis.

    >>> gt.stack([gt.asarray([1, 2]), gt.asarray([3, 4])], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    parts = _parts("stack", arrays)
    ndim = max(getattr(part, "ndim", 0) for part in parts)
    return record(STACK, parts, (normalize_axis("stack", axis, ndim + 1),))


def _parts(name: str, arrays: Any) -> tuple[Any, ...]:
    """The operands of a join. Python scalars stay scalars, which adapt to the others' dtype."""
    if isinstance(arrays, (str, bytes, bytearray)):
        raise TypeError(f"{name}: {arrays!r} is text, not a sequence of tensors. Pass a list.")
    if not hasattr(type(arrays), "__iter__") and type(arrays) is not Node:
        raise TypeError(f"{name}: {shown(arrays)} is not a sequence of tensors. Pass a list.")
    if type(arrays) is not Node and getattr(arrays, "ndim", None) is not None:
        arrays = unstack(arrays)
    parts = tuple(part if type(part) in SCALARS else record_operand(part) for part in arrays)
    if not parts:
        raise ValueError(f"{name}: there is nothing to join. Pass at least one tensor.")
    return parts


def _concat_spec(*parts: Spec, axis: int) -> Spec:
    first = parts[0].shape
    for position, one in enumerate(parts):
        if one.ndim != len(first) or any(
            m != n for at, (m, n) in enumerate(zip(first, one.shape, strict=True)) if at != axis
        ):
            raise ShapeError(
                f"concat: part 0 has shape {first} and part {position} {one.shape}. "
                f"Only axis {axis} may differ in length."
            )
    total = sum(one.shape[axis] for one in parts)
    return spec((*first[:axis], total, *first[axis + 1 :]), parts[0].dtype)


def _concat_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], axis: int) -> Node:
    start = sum(node.shape[axis] for node in inputs[:index])
    return along_axis(g, axis, start, inputs[index].shape[axis])


CONCAT = define(
    "concat",
    "movement",
    params=("axis",),
    spec=_concat_spec,
    numpy=lambda *parts, axis: np.concatenate(parts, axis),
    promote=promotion("concat", "same", "any"),
    vjp=_concat_vjp,
    batch=batching.shifted("axis"),
    examples=independence.joined,
    join=Join.CONCAT,
    copies=memory_copies.joined,
    samples=lambda: [
        Sample((np.array([1.0, 2.0]), np.array([3.0])), {"axis": 0}),
        Sample((np.ones((2, 1)), np.zeros((2, 3)), np.zeros((2, 0))), {"axis": 1}),
        Sample((np.array([1j, 2.0]), np.array([3.0, 4.0])), {"axis": 0}),
        Sample((np.array([1, 2]), np.array([True, False])), {"axis": 0}),
    ],
)


@kind_of_parts
def concat(
    arrays: Sequence[TensorLike], /, axis: int | None = 0, *more: Never, **unknown: Never
) -> Tensor:
    """Tensors one after the other along an axis; flattened first if the axis is None.

    >>> gt.concat([gt.asarray([1, 2]), gt.asarray([3])]).tolist()
    [1, 2, 3]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    parts = _parts("concat", arrays)
    if axis is None:
        parts = tuple(reshape(part, (-1,) if getattr(part, "size", 1) else (0,)) for part in parts)
        axis = 0
    ndim = getattr(parts[0], "ndim", 0)
    if ndim == 0:
        raise ShapeError("concat: 0-d tensors have no axis to join along. Use gt.stack.")
    return record(CONCAT, parts, (normalize_axis("concat", axis, ndim),))


def _split_spec(x: Spec, sizes: tuple[int, ...], axis: int) -> tuple[Spec, ...]:
    return tuple(spec((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes)


def _split_composition(x: Node, sizes: tuple[int, ...], axis: int) -> tuple[Node, ...]:
    """Each part is a slice, which is a view of the operand."""
    value = constant_value(x)
    found, start = [], 0
    for of in _split_spec(x.spec, sizes, axis):
        if value is not None:
            found.append(constant(value, of))
        else:
            starts = tuple(start if at == axis else 0 for at in range(x.ndim))
            found.append(apply(SLICE, (x,), (starts, of.shape, (1,) * x.ndim, of.shape)))
        start += of.shape[axis]
    return tuple(found)


SPLIT: Op = define(
    "split",
    "movement",
    params=("sizes", "axis"),
    spec=_split_spec,
    numpy=lambda x, sizes, axis: tuple(np.split(x, np.cumsum(sizes)[:-1], axis)),
    push=lambda t, y, x, sizes, axis: outputs(apply(SPLIT, (t,), (sizes, axis))),
    pull=lambda g, y, x, sizes, axis: apply(CONCAT, g, (axis,)),
    batch=batching.shifted("axis"),
    examples=independence.along_axes,
    mask=None,
    view=View.OTHER,
    composition=_split_composition,
    samples=lambda: [
        Sample((np.arange(6.0).reshape(3, 2),), {"sizes": (1, 2), "axis": 0}),
        Sample((np.arange(6.0).reshape(2, 3) * 1j,), {"sizes": (1, 0, 2), "axis": 1}),
        Sample((np.arange(3),), {"sizes": (3,), "axis": 0}),
        Sample((np.zeros((0, 2)),), {"sizes": (0, 0), "axis": 0}),
    ],
)


@parts_of_kind
def split(
    x: TensorLike,
    sections: ShapeLike | np.ndarray,
    /,
    axis: int = 0,
    *more: Never,
    **unknown: Never,
) -> tuple[Tensor, ...]:
    """Parts along an axis: that number of equal parts, or the parts between the positions.

    >>> [part.tolist() for part in gt.split(gt.asarray([1, 2, 3, 4]), 2)]
    [[1, 2], [3, 4]]
    >>> [part.tolist() for part in gt.split(gt.asarray([1, 2, 3, 4]), [1, 3])]
    [[1], [2, 3], [4]]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = record_operand(x)
    axis = normalize_axis("split", axis, x.ndim)
    length = x.shape[axis]
    if isinstance(sections, (tuple, list)) or (isinstance(sections, np.ndarray) and sections.ndim):
        # As in NumPy, positions have the meaning of slice bounds: negative ones count from the end.
        edges = [0, *(as_integer("split: a section", at) for at in sections), length]
        parts = [range(length)[low:high] for low, high in pairwise(edges)]
        if all(one.start + len(one) == after.start for one, after in pairwise(parts)):
            return _split(x, tuple(map(len, parts)), axis)
        return tuple(along_axis(x, axis, part.start, len(part)) for part in parts)
    count = as_integer("split: sections", sections)
    if count <= 0 or length % count:
        raise ShapeError(
            f"split: axis {axis} of length {length} does not divide into {count} equal parts. "
            "Pass the positions to split at instead."
        )
    return _split(x, (length // count,) * count, axis)


def _split(x: Any, sizes: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    parts = record(SPLIT, (x,), (sizes, axis))
    return outputs(parts) if type(parts) is Node else parts


@parts_of_kind
def unstack(x: TensorLike, /, axis: int = 0, *more: Never, **unknown: Never) -> tuple[Tensor, ...]:
    """The tensors along an axis, without that axis.

    >>> [part.tolist() for part in gt.unstack(gt.asarray([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = record_operand(x)
    axis = normalize_axis("unstack", axis, x.ndim)
    if not x.shape[axis]:
        return ()
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return tuple(reshape(part, shape) for part in _split(x, (1,) * x.shape[axis], axis))


def meshgrid(*arrays: TensorLike, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid from the coordinates along its axes.

    >>> [y.tolist() for y in gt.meshgrid(gt.asarray([1, 2]), gt.asarray([3]))]
    [[[1, 2]], [[3, 3]]]
    """
    if not is_choice(indexing, ("xy", "ij")):
        raise ValueError(f"meshgrid: indexing {shown(indexing)} is neither 'xy' nor 'ij'.")
    given = [record_operand(array) for array in arrays]
    for array in given:
        if array.ndim > 1:
            raise ShapeError(f"meshgrid: shape {array.shape} is not 1-d. Flatten it first.")
    order = list(range(len(given)))
    if indexing == "xy" and len(given) > 1:
        order[0], order[1] = 1, 0
    shape = tuple(given[at].size for at in order)
    return [
        broadcast_to(reshape(array, tuple(array.size if at == one else 1 for at in order)), shape)
        for one, array in enumerate(given)
    ]


@kind_of_operand
def diff(
    x: TensorLike,
    /,
    n: int = 1,
    axis: int = -1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
    *more: Never,
    **unknown: Never,
) -> Tensor:
    """Differences of neighbours along an axis, taken `n` times.

    >>> gt.diff(gt.asarray([1, 4, 9])).tolist()
    [3, 5]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = record_operand(x)
    axis = normalize_axis("diff", axis, x.ndim)
    n = as_integer("diff: n", n)
    if n < 0:
        raise ValueError(f"diff: n = {n} is negative. Differences are taken 0 or more times.")
    ends = [None if end is None else record_operand(end) for end in (prepend, append)]
    edge = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    first, last = (end if end is None or end.ndim else broadcast_to(end, edge) for end in ends)
    parts = [part for part in (first, x, last) if part is not None]
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    step = not_equal if x.dtype.kind == "b" else subtract
    # After as many differences as there are elements none is left.
    for _ in range(min(n, x.shape[axis])):
        length = max(x.shape[axis] - 1, 0)
        start = min(1, x.shape[axis])
        x = step(along_axis(x, axis, start, length), along_axis(x, axis, 0, length))
    return x
