"""Ops without operands: constants, ranges, and the identity matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from gradtape.annotated_kinds import Count
from gradtape.argument_checks import as_integer, is_choice
from gradtape.dtypes import COMPLEX_OF, Array, DType, as_dtype, default_dtype, of_scalar
from gradtape.errors import DtypeError, ShapeError, shown
from gradtape.ir import Node, Op, Shape, Spec, apply, spec
from gradtape.ops.arrays import large_constants
from gradtape.ops.arrays.movement import broadcast_to
from gradtape.ops.elementwise.arithmetic import identity, record_operand
from gradtape.ops.families import Sample, cast
from gradtape.ops.families.define import define
from gradtape.ops.families.shapes import sizes
from gradtape.ops.families.signatures import (
    DTypeLike,
    ShapeLike,
    Tensor,
    TensorLike,
    kind_of_operand,
)
from gradtape.trace import SCALARS, Followed, host_value, plain, record
from gradtape.trace.record import scalar_spec

_FLOAT = np.dtype(np.float64)


FULL = define(
    "full",
    "creation",
    params=("shape", "value", "dtype"),
    spec=lambda shape, value, dtype: spec(shape, dtype),
    numpy=lambda shape, value, dtype: np.full(shape, value, dtype),
    llvm=lambda b, shape, value, dtype: b.constant(value, dtype),
    samples=lambda: [Sample((), {"shape": (2, 3), "value": 1.5, "dtype": _FLOAT})],
)


def _arange_spec(start: Any, stop: Any, step: Any, dtype: DType) -> Spec:
    exact = all(isinstance(value, int) for value in (start, stop, step))
    # -(-a // b) is a / b rounded up, which floats would get wrong past 2**53.
    count = -((start - stop) // step) if exact else _steps_in(stop - start, step)
    # First: a range that is too long for any memory is an error of its own.
    found = spec((max(count, 0),), dtype)
    ends = (start, start + (count - 1) * step) if exact and count > 0 else ()
    if any(not -(2**63) <= end < 2**63 for end in ends):
        raise ValueError(f"arange: integers from {start} to {stop} do not fit into 64 bits.")
    return found


def _steps_in(distance: float, step: float) -> int:
    """The length of a range from its start, with one number every `step`."""
    share = distance / step
    if share == 0 and distance:
        # An infinite step, or a quotient that is too small: the start is in the range, as in NumPy.
        return int(math.copysign(1.0, share) > 0)
    return math.ceil(share)


ARANGE = define(
    "arange",
    "creation",
    params=("start", "stop", "step", "dtype"),
    spec=_arange_spec,
    numpy=lambda start, stop, step, dtype: _range(start, stop, step, dtype),
    composition=large_constants.arange,
    samples=lambda: [
        Sample((), {"start": 1, "stop": 6, "step": 2, "dtype": np.dtype(np.int64)}),
        Sample((), {"start": 1.0, "stop": 0.0, "step": -0.3, "dtype": _FLOAT}),
        Sample((), {"start": 3, "stop": 1, "step": 1, "dtype": np.dtype(np.uint8)}),
        Sample((), {"start": 0, "stop": 3, "step": 1, "dtype": np.dtype(np.float32)}),
    ],
)


def _range(start: Any, stop: Any, step: Any, dtype: DType) -> Array:
    # The spec decides the count: np.arange's may differ by one because it rounds a quotient.
    count = _arange_spec(start, stop, step, dtype).shape[0]
    exact = all(isinstance(value, int) for value in (start, step))
    steps = np.arange(count, dtype=np.int64 if exact else np.float64)
    # Numbers that are never reached may be too large for an int64.
    start, step = (start if count else 0), (step if count > 1 else 0)
    return (start + steps * step).astype(dtype)


LINSPACE = define(
    "linspace",
    "creation",
    params=("start", "stop", "num", "endpoint", "dtype"),
    spec=lambda start, stop, num, endpoint, dtype: spec((num,), dtype),
    numpy=np.linspace,
    composition=large_constants.linspace,
    samples=lambda: [
        Sample((), {"start": 0.0, "stop": 1.0, "num": n, "endpoint": end, "dtype": _FLOAT})
        for n, end in ((5, True), (4, False), (1, True), (0, True))
    ],
)


EYE = define(
    "eye",
    "creation",
    params=("rows", "columns", "k", "dtype"),
    spec=lambda rows, columns, k, dtype: spec((rows, columns), dtype),
    numpy=lambda rows, columns, k, dtype: np.eye(rows, columns, k, dtype),
    composition=large_constants.eye,
    samples=lambda: [
        Sample((), {"rows": rows, "columns": columns, "k": k, "dtype": _FLOAT})
        for rows, columns, k in ((2, 3, 0), (3, 2, -1), (2, 2, 1), (0, 2, 0))
    ],
)


def check_device(name: str, device: object) -> None:
    """Raise an error for every device except the CPU."""
    if not is_choice(device, (None, "cpu")):
        raise ValueError(f"{name}: {shown(device)} is not a device here. The only one is 'cpu'.")


def _chosen(
    name: str, shape: Any, dtype: Any, device: object, more: tuple[Any, ...] = ()
) -> tuple[Shape, Any]:
    check_device(name, device)
    if more and dtype is None and not hasattr(type(more[-1]), "__index__"):
        *more, dtype = more  # type: ignore[assignment]  # its place in NumPy
    shape = (shape, *more) if more else shape
    return sizes(name, shape), default_dtype() if dtype is None else as_dtype(dtype)


def zeros(
    shape: ShapeLike,
    *more: SupportsIndex | DTypeLike,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """A tensor of zeros.

    >>> gt.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    shape, dtype = _chosen("zeros", shape, dtype, device, more)
    return record(FULL, (), (shape, 0, dtype))


def ones(
    shape: ShapeLike,
    *more: SupportsIndex | DTypeLike,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """A tensor of ones.

    >>> gt.ones(3, dtype=gt.int32).tolist()
    [1, 1, 1]
    """
    shape, dtype = _chosen("ones", shape, dtype, device, more)
    return record(FULL, (), (shape, 1, dtype))


def empty(
    shape: ShapeLike,
    *more: SupportsIndex | DTypeLike,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """A tensor whose values should not be read; here they are zeros.

    >>> gt.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, *more, dtype=dtype, device=device)


def full(
    shape: ShapeLike,
    fill_value: TensorLike,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """A tensor with one value everywhere; the derivative passes to a tensor `fill_value`.

    >>> gt.full((2,), 3.5).tolist()
    [3.5, 3.5]
    """
    if dtype is None:
        kind: type = type(plain(fill_value))
        dtype = of_scalar(kind, None) if kind in SCALARS else record_operand(fill_value).dtype
    shape, dtype = _chosen("full", shape, dtype, device)
    if isinstance(fill_value, Followed):
        _check_kind(fill_value, dtype)
    elif type(fill_value) in SCALARS:
        _check_kind(fill_value, dtype)
        if (fill_value == 1 or fill_value == 0) and not _has_negative_zero(fill_value):
            return record(FULL, (), (shape, int(fill_value.real), dtype))
        # Other values are leaves: a number that changes with each call must not make a new program.
        fill_value = host_value(fill_value, dtype).array
    # `identity` gives the result its own memory: a broadcast view could not be written to.
    return identity(broadcast_to(cast(record_operand(fill_value), dtype), shape))


def _check_kind(value: object, dtype: Any) -> None:
    if isinstance(value, complex) and dtype.kind != "c":
        raise DtypeError(f"full: {value} is complex and {dtype} is not. Choose a complex dtype.")


def _has_negative_zero(value: Any) -> bool:
    # Params of nodes are compared by value, and -0.0 == 0.0 would share one node.
    return any(part == 0 and math.copysign(1.0, part) < 0 for part in (value.real, value.imag))


def _like(create: Callable[..., Any], x: Any, dtype: Any, device: object, *fill: Any) -> Any:
    check_device(f"{create.__name__}_like", device)
    x = x if hasattr(x, "dtype") else record_operand(x)
    return create(tuple(x.shape), *fill, dtype=x.dtype if dtype is None else dtype)


@kind_of_operand
def zeros_like(
    x: TensorLike, /, dtype: DTypeLike | None = None, *, device: str | None = None
) -> Tensor:
    """Zeros in the shape and dtype of another tensor.

    >>> gt.zeros_like(gt.asarray([1, 2])).tolist()
    [0, 0]
    """
    return _like(zeros, x, dtype, device)


@kind_of_operand
def ones_like(
    x: TensorLike, /, dtype: DTypeLike | None = None, *, device: str | None = None
) -> Tensor:
    """Ones in the shape and dtype of another tensor.

    >>> gt.ones_like(gt.asarray([1.5, 2.5])).tolist()
    [1.0, 1.0]
    """
    return _like(ones, x, dtype, device)


@kind_of_operand
def empty_like(
    x: TensorLike, /, dtype: DTypeLike | None = None, *, device: str | None = None
) -> Tensor:
    """A tensor of the same shape and dtype whose values should not be read.

    >>> gt.empty_like(gt.asarray([1.5, 2.5])).shape
    (2,)
    """
    return _like(empty, x, dtype, device)


@kind_of_operand
def full_like(
    x: TensorLike,
    /,
    fill_value: TensorLike,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """One value everywhere, in the shape and dtype of another tensor.

    >>> gt.full_like(gt.asarray([1, 2]), 7).tolist()
    [7, 7]
    """
    return _like(full, x, dtype, device, fill_value)


def eye(
    n_rows: Count,
    n_cols: Count | None = None,
    /,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Ones on the k-th diagonal of a matrix of zeros.

    >>> gt.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    (rows, columns), dtype = _chosen(
        "eye", (n_rows, n_rows if n_cols is None else n_cols), dtype, device
    )
    return record(EYE, (), (rows, columns, as_integer("eye: k", k), dtype))


def arange(
    start: TensorLike,
    /,
    stop: TensorLike | None = None,
    step: TensorLike = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """Numbers from `start` up to but without `stop`, `step` apart; one argument counts from 0.

    >>> gt.arange(4).tolist()
    [0, 1, 2, 3]
    >>> gt.arange(1.0, 2.0, 0.25).tolist()
    [1.0, 1.25, 1.5, 1.75]
    """
    check_device("arange", device)
    if stop is None:
        start, stop = 0, start
    start, stop, step = (_number("arange", value) for value in (start, stop, step))
    if step == 0:
        raise ValueError("arange: step is 0, so the range never ends. Choose another step.")
    if dtype is None:
        exact = all(isinstance(value, int) for value in (start, stop, step))
        dtype = np.dtype(np.int64) if exact else default_dtype()
    return record(ARANGE, (), (start, stop, step, as_dtype(dtype)))


def _number(name: str, value: Any) -> Any:
    """The value as a Python int or float, because params of nodes are compared by value."""
    if type(value) in (int, float):
        return value + 0  # -0.0, which is equal to 0.0, becomes 0.0
    if hasattr(value, "shape") and value.shape == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, Followed):
        value = value.read()
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name}: {value!r} is not a real number. Pass an int or a float.")
    return value + 0


def linspace(
    start: TensorLike,
    stop: TensorLike,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers evenly spaced from `start` to `stop`; differentiable in tensor bounds.

    >>> gt.linspace(0.0, 1.0, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_device("linspace", device)
    count = as_integer("linspace: num", num)
    if count < 0:
        raise ValueError(f"linspace: num is {count}. Ask for 0 numbers or more.")
    if type(start) in SCALARS and type(stop) in SCALARS:
        is_complex = isinstance(start, complex) or isinstance(stop, complex)
        if dtype is None:
            dtype = COMPLEX_OF[default_dtype()] if is_complex else default_dtype()
        # Adding 0 turns a bool into an int.
        bounds: Any = (start, stop)
        first, last = (bound + 0 for bound in bounds)
        for bound in (first, last):
            if type(bound) is int:
                scalar_spec(bound, int, None)
        return record(LINSPACE, (), (first, last, count, bool(endpoint), as_dtype(dtype)))
    return _linspace_between(record_operand(start), record_operand(stop), count, endpoint, dtype)


def _linspace_between(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any) -> Any:
    """Weighted means of the two bounds, exact at both ends."""
    if start.shape or stop.shape:
        raise ShapeError(
            f"linspace: bounds of shapes {tuple(start.shape)} and {tuple(stop.shape)} are not 0-d. "
            "Pass one number each."
        )
    wide = np.result_type(start.dtype, stop.dtype, np.float32)
    weights = record(LINSPACE, (), (0.0, 1.0, num, bool(endpoint), default_dtype()))
    weights = cast(weights, COMPLEX_OF[wide] if wide.kind == "c" else wide)
    result = start * (1.0 - weights) + stop * weights
    return result if dtype is None else cast(result, as_dtype(dtype))


def constant_beside(like: Any, op: Op, params: tuple[Any, ...]) -> Any:
    """A constant to combine with `like`: a node if that is a node, otherwise a tensor."""
    return apply(op, (), params) if type(like) is Node else record(op, (), params)
