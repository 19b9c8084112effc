"""Constants too large for a table that a plan keeps: computed in each run, from small tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.config import LARGEST_CONSTANT, RANGE_ROW
from gradtape.dtypes import DType
from gradtape.ir import REGISTRY, Node, apply, constant, spec

_INDEX, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)


def _op(name: str, *operands: Node, params: tuple[Any, ...] = ()) -> Node:
    return apply(REGISTRY[name], operands, params)


def _number(value: Any, dtype: DType) -> Node:
    return constant(value, spec((), dtype))


def _cast(x: Node, dtype: DType) -> Node:
    return x if x.dtype == dtype else _op("cast", x, params=(dtype,))


def _column(x: Node) -> Node:
    return _op("reshape", x, params=((x.size, 1),))


def _counted(count: int) -> Node:
    """The integers from 0 on: a table of rows and one of columns, added in a loop."""
    rows = -(-count // RANGE_ROW)
    starts = _op("arange", params=(0, rows * RANGE_ROW, RANGE_ROW, _INDEX))
    numbers = _op("add", _column(starts), _op("arange", params=(0, RANGE_ROW, 1, _INDEX)))
    flat = _op("reshape", numbers, params=((rows * RANGE_ROW,),))
    return _op("slice", flat, params=((0,), (count,), (1,), (count,)))


def _line(start: Any, step: Any, count: int, dtype: DType) -> Node:
    """start + step k, rounded as NumPy rounds."""
    steps = _op("multiply", _cast(_counted(count), dtype), _number(step, dtype))
    # A sum that is never joined with the product before it.
    return _op("shift" if dtype == _FLOAT else "add", _number(start, dtype), steps)


def arange(start: Any, stop: Any, step: Any, dtype: DType) -> Node | None:
    """A long range."""
    count = REGISTRY["arange"].spec(start=start, stop=stop, step=step, dtype=dtype).shape[0]
    if count * dtype.itemsize <= LARGEST_CONSTANT:
        return None
    exact = isinstance(start, int) and isinstance(step, int)
    return _cast(_line(start, step, count, _INDEX if exact else _FLOAT), dtype)


def linspace(start: float, stop: float, num: int, endpoint: bool, dtype: DType) -> Node | None:
    """Many numbers in equal distances."""
    if num * dtype.itemsize <= LARGEST_CONSTANT or dtype.kind != "f":
        return None
    parts = num - 1 if endpoint else num
    step = (float(stop) - float(start)) / parts
    # NumPy divides first if the step is too small for a float.
    if step == 0.0 or not np.isfinite(step):
        return None
    found = _line(float(start), step, num, _FLOAT)
    if endpoint:
        last = _op("equal", _counted(num), _number(num - 1, _INDEX))
        found = _op("where", last, _number(float(stop), _FLOAT), found)
    return _cast(found, dtype)


def compared(name: str, rows: int, columns: int, k: int) -> Node:
    """A comparison of the numbers of columns with those of rows plus k."""
    down = _column(_op("arange", params=(k, rows + k, 1, _INDEX)))
    return _op(name, _op("arange", params=(0, columns, 1, _INDEX)), down)


def eye(rows: int, columns: int, k: int, dtype: DType) -> Node | None:
    """A large matrix with ones on a diagonal."""
    if rows * columns * dtype.itemsize <= LARGEST_CONSTANT:
        return None
    return _cast(compared("equal", rows, columns, k), dtype)
