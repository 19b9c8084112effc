"""Shape arithmetic shared by the families: broadcasting, axes, and their errors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.argument_checks import as_flag, as_integer
from gradtape.dtypes import DType
from gradtape.errors import AxisError, ShapeError, shown
from gradtape.ir import REGISTRY, Node, Rule, Shape, Spec, apply, spec
from gradtape.suggestions import of_two

# Integers with one for each axis, such as strides.
Ints = tuple[int, ...]


def broadcast_shapes(name: str, shapes: Iterable[Shape]) -> Shape:
    """The common shape, or the error that names the first axis that disagrees.

    >>> gt.libraries.broadcast_shapes("where", [(3, 1), (4,)])
    (3, 4)
    """
    shapes = list(shapes)
    result: Shape = ()
    for shape in shapes:
        result = _broadcast_pair(name, result, shape, shapes)
    return result


def _broadcast_pair(name: str, left: Shape, right: Shape, shapes: list[Shape]) -> Shape:
    if left == right or not right:
        return left
    ndim = max(len(left), len(right))
    a = (1,) * (ndim - len(left)) + left
    b = (1,) * (ndim - len(right)) + right
    for axis, (m, n) in enumerate(zip(a, b, strict=True)):
        if m != n and m != 1 and n != 1:
            listed = " and ".join(str(shape) for shape in shapes)
            raise ShapeError(
                f"{name}: shapes {listed} do not broadcast (axis {axis}: {m} and {n}). "
                "Reshape one of them."
            )
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))


def normalize_axis(name: str, axis: Any, ndim: int) -> int:
    """The axis as a non-negative int, or an error that names the allowed range.

    >>> gt.libraries.normalize_axis("softmax", -1, 3)
    2
    """
    if type(axis) is int and -ndim <= axis < ndim:
        return axis % ndim
    try:
        found = operator.index(axis)
    except TypeError:
        found = None
    if found is None or isinstance(axis, (bool, np.bool_)):
        remedy = f", or use {of_two(name)}" if of_two(name) else ""
        raise TypeError(f"{name}: axis {shown(axis)} is not an integer. Pass an int{remedy}.")
    if not -ndim <= found < ndim:
        allowed = f"{-ndim} to {ndim - 1}" if ndim else "none, the tensor is 0-d"
        remedy = f" Of two numbers: {of_two(name)}." if of_two(name) and not ndim else ""
        raise AxisError(
            f"{name}: axis {found} is out of range for {ndim} dimensions ({allowed}).{remedy}"
        )
    return found % ndim


def listed(value: Any) -> Any:
    """The entries of a list of integers: a tuple, list, range or array, or else the value alone.

    NumPy takes arrays of integers for axes, shapes and shifts.
    """
    kind = type(value)
    if kind is int:
        return (value,)
    if kind is tuple or isinstance(value, (tuple, list, range)):
        return value
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "iu":
        return value.tolist()
    return (value,)


def normalize_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """A sorted tuple of non-negative axes; None means all axes.

    >>> gt.libraries.normalize_axes("softmax", (-1, 0), 3)
    (0, 2)
    """
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    found = tuple(sorted(normalize_axis(name, one, ndim) for one in listed(axis)))
    if len(set(found)) != len(found):
        raise ShapeError(f"{name}: axis {tuple(axis)} names an axis twice. Name each once.")
    return found


def reduced_shape(shape: Shape, axis: Ints, keepdims: bool) -> Shape:
    """The shape of the result of a reduction over `axis`."""
    if keepdims:
        return tuple(1 if position in axis else n for position, n in enumerate(shape))
    return tuple(n for position, n in enumerate(shape) if position not in axis)


def reduced_spec(dtype_of: Callable[[DType], DType] = lambda dtype: dtype) -> Rule:
    """The spec rule of a reduction whose result has a dtype that follows from the operand's."""

    def rule(x: Spec, axis: Ints, keepdims: bool, **params: Any) -> Spec:
        return spec(reduced_shape(x.shape, axis, keepdims), dtype_of(x.dtype))

    return rule


def reduction_params(
    name: str, ndim: int, axis: Any, keepdims: object
) -> tuple[tuple[int, ...], bool]:
    """The params `axis` and `keepdims` of a reduction, checked."""
    if type(keepdims) is not bool:
        keepdims = as_flag(f"{name}: keepdims", keepdims)
    return normalize_axes(name, axis, ndim), keepdims


def normalize_shape(name: str, shape: Any) -> Shape:
    """A shape from an int or a sequence of ints."""
    shape = listed(shape)
    for n in shape:
        if type(n) is not int:
            return tuple(as_integer(f"{name}: shape[{at}]", n) for at, n in enumerate(shape))
    return tuple(shape)


def sizes(name: str, shape: Any) -> Shape:
    """A shape whose lengths are not negative."""
    found = normalize_shape(name, shape)
    if any(n < 0 for n in found):
        raise ShapeError(f"{name}: shape {found} has a negative length. Lengths are 0 or more.")
    return found


def normalize_integers(where: str, numbers: Any) -> tuple[int, ...]:
    """A tuple of ints from an int or a sequence of ints, under the name of the argument."""
    found = listed(numbers)
    for n in found:
        if type(n) is not int:
            return tuple(as_integer(where, n) for n in found)
    return tuple(found)


def reduce_to(node: Node, shape: Shape, reduction: str = "sum") -> Node:
    """Undo broadcasting: reduce `node` over the axes along which `shape` was stretched."""
    if node.shape == shape:
        return node
    lead = node.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        lead + axis for axis, n in enumerate(shape) if n == 1 and node.shape[lead + axis] != 1
    )
    reduced = apply(REGISTRY[reduction], (node,), (axes, False)) if axes else node
    return reduced if reduced.shape == shape else apply(REGISTRY["reshape"], (reduced,), (shape,))


def broadcast_to(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else apply(REGISTRY["broadcast_to"], (node,), (shape,))


def keep_axes(node: Node, shape: Shape, axes: Ints) -> Node:
    """Give a reduced node back its axes, with length 1."""
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    return node if node.shape == kept else apply(REGISTRY["reshape"], (node,), (kept,))


def expand_reduced(node: Node, shape: Shape, axes: Ints) -> Node:
    """Stretch a reduced node over the axes it was reduced over."""
    return broadcast_to(keep_axes(node, shape, axes), shape)
