"""Positions: integer indices checked against the length of their axis, and wrapped if negative.

Indices with a known value are checked at once. Indices that are not computed yet pass through an
op that can raise, and is therefore evaluated when it is recorded, on the line of the mistake.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from gradtape.errors import DtypeError, IndexRangeError
from gradtape.ir import Node, Shape, spec
from gradtape.ops.elementwise.arithmetic import record_operand
from gradtape.ops.families import Sample, batching, kind_of_operand
from gradtape.ops.families.define import define
from gradtape.ops.families.native_code import NativeCall
from gradtape.trace import Value, record, state
from gradtape.trace.value import host_value


def refuse(name: str, index: object, axis: int, length: int) -> NoReturn:
    allowed = f"{-length} to {length - 1}" if length else "none, the axis is empty"
    raise IndexRangeError(
        f"{name}: index {index} is out of range for axis {axis} of length {length} ({allowed})."
    )


def wrap(indices: np.ndarray, name: str, axis: int, length: int) -> np.ndarray:
    """Non-negative positions, or the error that names the first index out of range."""
    indices = np.asarray(indices)
    if not indices.size:
        return indices.astype(np.int64)
    low, high = indices.min(), indices.max()
    if low < -length or high >= length:
        wrong = (indices < -length) | (indices >= length)
        refuse(name, indices[wrong][0], axis, length)
    found = indices.astype(np.int64, copy=False)
    return np.where(found < 0, found + length, found) if low < 0 else found


def _check_natively(y: Node) -> NativeCall:
    (indices,) = y.inputs
    return NativeCall("check_positions", (indices.dtype.str[1:],), (y.params[2],), y.size, y.size)


CHECKED = define(
    "checked_positions",
    "indexing",
    params=("name", "axis", "length"),
    spec=lambda indices, name, axis, length: spec(indices.shape, np.dtype(np.int64)),
    numpy=wrap,
    undefined="positions are integers",
    batch=batching.leading,
    may_fail=True,
    native=_check_natively,
    samples=lambda: [
        Sample((np.array([[0, -1], [2, -3]]),), {"name": "take", "axis": 0, "length": 3}),
        Sample((np.array(1, np.uint8),), {"name": "take", "axis": 1, "length": 2}),
        Sample((np.zeros(0, np.int32),), {"name": "take", "axis": 0, "length": 0}),
    ],
    doc="Indices in range as non-negative int64; an IndexError for any other.",
)


def is_symbolic(x: object) -> bool:
    """Whether x is a node, tensor or variable, as opposed to host data."""
    return type(x) is Node or hasattr(x, "enter") or hasattr(x, "__gradtape__")


@kind_of_operand
def as_operand(x: Any) -> Any:
    """Nodes, tensors and variables as they are, anything else as a tensor."""
    return x if type(x) is Node or hasattr(x, "enter") else record_operand(x)


def shape_of(x: Any) -> Shape:
    """The shape of any operand, without np.shape, which would compute the value of a tensor."""
    found = getattr(x, "shape", None)
    return np.shape(x) if found is None else found


def known_value(x: Any) -> Any:
    """The array of a tensor that is computed already, or None.

    None also during a capture, because a replay may have another value there.

    >>> gt.libraries.known_value(gt.asarray([1.0, 2.0]))
    array([1., 2.])
    """
    computed = getattr(x, "computed", None)
    if type(computed) is not Value or state.recording.capturing:
        return None
    return computed.array


def checked(name: str, indices: Any, axis: int, length: int) -> Any:
    """In-range, non-negative positions: a host array, or a tensor or node that holds them."""
    if not is_symbolic(indices):
        array = host_value(indices).array
        if not array.size and array.dtype.kind == "f" and not isinstance(indices, np.ndarray):
            array = array.astype(np.int64)  # np.asarray([]) is an array of floats
        require_integers(name, array.dtype)
        return wrap(array, name, axis, length)
    if hasattr(indices, "__gradtape__"):
        indices = indices.__gradtape__()
    require_integers(name, indices.dtype)
    array = known_value(indices)
    if array is None:
        return record(CHECKED, (indices,), (name, axis, length))
    positions = wrap(array, name, axis, length)
    return indices if positions is array else positions


def require_integers(name: str, dtype: np.dtype) -> None:
    if dtype.kind not in "iu":
        raise DtypeError(
            f"{name}: indices of dtype {dtype} are not integers. Cast them, or use a boolean mask "
            "as in x[mask]."
        )


def observed(name: str, x: Any) -> Any:
    """The computed value of an operand, for results whose shape depends on values."""
    if type(x) is Node:
        raise TypeError(
            f"{name}: the shape of the result depends on values, which a derivative rule or a "
            "transformed program does not have. Use gt.where, or indices of fixed number."
        )
    return np.asarray(x.numpy() if hasattr(x, "numpy") else host_value(x).array)
