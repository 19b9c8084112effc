"""Conversion of Python, NumPy and gradtape values to tensors, by TensorFlow's rules for dtypes.

Python floats become float32 and ints int32, unless they are operands beside a tensor: then they
take its dtype, if it can hold them. Tensors of different dtypes do not mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, overload

import numpy as np

import gradtape as gt
from gradtape import Variable
from gradtape.annotated_kinds import is_integer
from gradtape.errors import DtypeError, ShapeError
from gradtape.libraries import check_exports, shown
from gradtape.tensor import tensor as core
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.dtypes import DType, as_dtype, of_numpy
from gradtape.tf.base.shapes import TensorShape
from gradtape.tf.base.tensor import Tensor, adopt, from_value, sharing
from gradtape.tf.base.types import (
    Array,
    Axis,
    DTypeLike,
    IntLike,
    IntsLike,
    Name,
    ShapeLike,
    TensorLike,
)
from gradtape.trace.followed_number import Followed, plain
from gradtape.trace.record import any_handle, enter
from gradtape.trace.recording import state
from gradtape.trace.value import Value, host_value, refuse_masked

__all__ = ["constant", "convert_to_tensor"]

# The dtype of Python numbers, by the kind of the array that NumPy makes of them.
_DEFAULTS: dict[str, np.dtype[Any]] = {
    "f": np.dtype(np.float32),
    "i": np.dtype(np.int32),
    "c": np.dtype(np.complex128),
    "b": np.dtype(bool),
}
_INT32 = np.iinfo(np.int32)
# Kinds of dtype from narrow to wide: a number may be widened, and never narrowed.
_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def convert(value: Any, dtype: DTypeLike | None = None, hint: DTypeLike | None = None) -> Tensor:
    """A tensor of anything. `dtype` is a demand; `hint` gives way to a tensor's or array's own."""
    kind = type(value)
    if kind is Tensor:
        return value if dtype is None else required(value, dtype)
    if isinstance(value, core.Tensor):
        tensor: Any = value
        if getattr(value, "rows", None) is not None:
            tensor = adopt(tensor.dense())
        elif not isinstance(value, Tensor):
            tensor = sharing(value)
        return tensor if dtype is None else required(tensor, dtype)
    if isinstance(value, Variable):
        read: Any = value.value
        return convert(read, dtype)
    if isinstance(value, Followed):
        return _number(value, dtype or hint)
    if isinstance(value, (list, tuple)) and any_handle(value):
        return _stacked(value, dtype, hint)
    if hasattr(value, "__gradtape__"):
        return convert(value.__gradtape__(), dtype, hint)
    return from_value(_host(value, None if dtype is None else as_dtype(dtype), hint))


def required(tensor: Tensor, dtype: DTypeLike) -> Tensor:
    """The tensor, if it has this dtype."""
    wanted = as_dtype(dtype)
    if tensor.dtype != wanted:
        raise ValueError(
            f"Tensor conversion requested dtype {wanted.name} for a tensor of dtype "
            f"{tensor.dtype.name}. Use tf.cast to change it."
        )
    return tensor


def _number(value: Followed, dtype: DTypeLike | None) -> Tensor:
    """A number that differs between calls of a captured function is one of its inputs."""
    is_float = type(value.plain) is float
    of: np.dtype[Any] = _DEFAULTS["f" if is_float else "i"]
    if dtype is not None:
        of = as_dtype(dtype).dtype
    if is_float and of.kind not in "fc":
        raise DtypeError(f"Cannot convert {value!r} to a tensor of dtype {of}. Cast it first.")
    recording = state.recording
    return gt.identity(recording.hold(enter(recording, value, of), Tensor))


def _stacked(nest: Sequence[object], dtype: DTypeLike | None, hint: DTypeLike | None) -> Tensor:
    """A list of tensors and numbers, stacked, in the dtype of the tensors."""
    if dtype is None:
        dtype = _first_dtype(nest) or hint
    parts = [convert(item, dtype) for item in nest]
    return gt.stack(parts)


def _first_dtype(nest: Any) -> Any:
    if isinstance(nest, (list, tuple)):
        return next((result for item in nest if (result := _first_dtype(item)) is not None), None)
    return nest.dtype if hasattr(nest, "enter") else None


def _host(value: object, dtype: DType | None, hint: DTypeLike | None) -> Value:
    """A copy in host memory, in the dtype that the rules give it."""
    if isinstance(value, TensorShape):
        value.assert_is_fully_defined()
        value = list(value)
    own = isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__")
    if isinstance(value, np.ma.MaskedArray):
        refuse_masked(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(
            f"Can't convert non-rectangular Python sequence to Tensor: {error}. Pad the rows."
        ) from None
    if array.dtype.kind == "O":
        raise ValueError(
            f"Attempt to convert a value ({shown(value)}) with an unsupported type ({type(value)}) "
            "to a Tensor. Pass numbers, arrays or lists of them, within the range of int64."
        )
    if array.dtype.kind not in _ORDER:
        raise DtypeError(
            f"a tensor holds numbers or booleans, not {type(value).__name__} ({array.dtype}). "
            "Pass numbers."
        )
    if dtype is not None:
        if not own and array.size and not fits(array.dtype, dtype):
            raise DtypeError(
                f"Cannot convert {value!r} to a tensor of dtype {dtype.name}. Cast it first, or "
                "choose a dtype that can hold it."
            )
        return host_value(_bounded(array, dtype), dtype)
    if hint is not None and fits(array.dtype, as_dtype(hint)):
        return host_value(_bounded(array, as_dtype(hint)), as_dtype(hint))
    return host_value(array, array.dtype if own else _numpy_dtype(value, array) or _default(array))


def fits(dtype: np.dtype[Any], wanted: DType) -> bool:
    """Whether numbers of one dtype may be widened to another without a cast."""
    return _ORDER[dtype.kind] <= _ORDER[wanted.kind] and (wanted.kind != "b" or dtype.kind == "b")


def _bounded(array: Array, dtype: DType) -> Array:
    if dtype.kind in "iu" and array.dtype.kind in "iu" and array.size:
        bounds = np.iinfo(dtype.dtype)
        if array.min() < bounds.min or array.max() > bounds.max:
            raise DtypeError(
                f"a value does not fit {dtype.name} ({bounds.min} to {bounds.max}). "
                "Choose a wider dtype."
            )
    return array


def _default(array: Array) -> np.dtype[Any]:
    """The dtype of Python numbers where neither a dtype nor a tensor decides."""
    if array.dtype.kind == "i" and array.size:
        wide = array.min() < _INT32.min or array.max() > _INT32.max
        return np.dtype(np.int64) if wide else _DEFAULTS["i"]
    default = _DEFAULTS.get(array.dtype.kind)
    return array.dtype if default is None else default


def _numpy_dtype(nest: object, array: Array) -> np.dtype[Any] | None:
    """The dtype of the first NumPy number in a list, if it can hold the others."""
    result = _first_numpy(nest)
    return result if result is None or fits(array.dtype, of_numpy(result)) else array.dtype


def _first_numpy(nest: object) -> np.dtype[Any] | None:
    if isinstance(nest, (list, tuple)):
        return next((result for item in nest if (result := _first_numpy(item)) is not None), None)
    return nest.dtype if isinstance(nest, (np.ndarray, np.generic)) else None


def concrete(value: object) -> Array:
    """Integers that decide on shapes, as an array. They are computed now; while a function is
    captured, each becomes a guard.
    """
    if not (hasattr(value, "enter") or any_handle(value)):
        return host_value(value).array
    tensor = convert(value)
    recording = tensor.recording
    if recording is not None and recording.capturing and tensor.spec.dtype.kind in "biu":
        flat = gt.reshape(tensor, (tensor.spec.size,))
        return np.array([int(flat[k]) for k in range(tensor.spec.size)], tensor.spec.dtype).reshape(
            tensor.spec.shape
        )
    return tensor.read()


def as_shape(shape: ShapeLike) -> tuple[int, ...]:
    """A shape from a list, an integer, a TensorShape or an integer tensor."""
    if hasattr(shape, "enter"):
        return tuple(np.atleast_1d(concrete(shape)).tolist())
    if type(shape) is int or isinstance(shape, (np.integer, Followed)):
        return (int(shape),)
    if not isinstance(shape, (tuple, list, range, np.ndarray)):
        raise TypeError(f"{shown(shape)} is not a shape. Pass a list of whole numbers.")
    lengths = shape.ravel().tolist() if isinstance(shape, np.ndarray) else shape
    return tuple(-1 if n is None else _whole("a length", n) for n in lengths)


def as_lengths(shape: ShapeLike) -> tuple[int, ...]:
    """A shape in which no length is left open."""
    found = as_shape(shape)
    if min(found, default=0) < 0:
        raise ValueError(f"shape {found} has a negative length. Pass whole numbers of at least 0.")
    return found


def _whole(what: str, value: Any) -> int:
    if type(plain(value)) is int:
        return int(value)
    # A tensor says by its dtype whether it is whole. As in TensorFlow, 2.0 is not.
    whole = value.dtype.kind in "iu" if hasattr(value, "dtype") else is_integer(value)
    try:
        result = int(value) if whole else None
    except (TypeError, ValueError):
        result = None
    if result is None:
        raise TypeError(f"Cannot convert {shown(value)} to an integer: {what} is a whole number.")
    return result


@overload
def as_int(value: IntLike) -> int: ...
@overload
def as_int(value: IntLike | None) -> int | None: ...
def as_int(value: IntLike | None) -> int | None:
    """An integer argument, or None; a tensor is computed now."""
    return None if value is None else _whole("this argument", value)


@overload
def as_axes(axis: IntsLike) -> int | tuple[int, ...]: ...
@overload
def as_axes(axis: Axis) -> int | tuple[int, ...] | None: ...
def as_axes(axis: Axis) -> int | tuple[int, ...] | None:
    """Axes from an integer, a list or an integer tensor."""
    if axis is None or type(axis) is int:
        return axis
    result = concrete(axis)
    if result.dtype.kind not in "iu" and result.size:
        raise TypeError(f"Cannot convert {shown(axis)} to axes: they are integers.")
    return int(result) if result.ndim == 0 else tuple(result.tolist())


def common(values: Sequence[object], name: str) -> list[Tensor]:
    """Tensors of one dtype: that of the first tensor among the values, or of the first value.

    Without a tensor, arrays whose dtype the first value's dtype cannot hold set the dtype.
    """
    dtype: Any = next((v.dtype for v in values if hasattr(v, "enter")), None)  # type: ignore[attr-defined]
    if dtype is None and len(values):
        dtype = convert(values[0]).dtype
        arrays = [v.dtype for v in values if isinstance(v, (np.ndarray, np.generic))]
        if not all(each.kind in _ORDER and fits(each, dtype) for each in arrays):
            dtype = as_dtype(np.result_type(*arrays))
    result = [convert(value, hint=dtype) for value in values]
    for tensor in result[1:]:
        if tensor.spec.dtype != result[0].spec.dtype:
            refuse_mixture(name, result[0], tensor)
    return result


def refuse_mixture(name: str, first: Tensor, other: Tensor) -> NoReturn:
    """Raise the error for operands of different dtypes."""
    raise DtypeError(
        f"{name}: operands of dtype {first.dtype.name} and {other.dtype.name} do not mix. "
        f"Use tf.cast on one of them."
    )


@operation
def constant(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    name: str = "Const",
) -> Tensor:
    """A tensor of a number, an array or a nest of lists.

    >>> tf.constant([1, 2, 3])
    <tf.Tensor: shape=(3,), dtype=int32, numpy=array([1, 2, 3], dtype=int32)>
    >>> tf.constant(0.5, shape=[2]).numpy()
    array([0.5, 0.5], dtype=float32)
    """
    if isinstance(value, Variable):
        # A constant is the variable's current value, and no derivative passes to it.
        value = gt.stop_gradient(convert(value))
    if isinstance(value, core.Tensor) and dtype is not None:
        result = gt.cast(convert(value), as_dtype(dtype).dtype)
    else:
        result = convert(value, dtype)
    if shape is None:
        return result
    wanted = as_shape(shape)
    if result.spec.size == 1 and result.spec.shape != wanted:
        return gt.broadcast_to(gt.reshape(result, ()), wanted)
    return gt.reshape(result, wanted)


@operation
def convert_to_tensor(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    dtype_hint: DTypeLike | None = None,
    name: Name = None,
    preferred_dtype: DTypeLike | None = None,
) -> Tensor:
    """A tensor of anything that can be one. If a dtype is passed, a tensor must have it already.

    >>> tf.convert_to_tensor([1.0, 2.0]).dtype
    tf.float32
    """
    hint = dtype_hint if dtype_hint is not None else preferred_dtype
    return convert(value, dtype, None if hint is None else as_dtype(hint))


check_exports(globals(), __all__)
