"""The IR types of elements, in registers and in memory."""

from __future__ import annotations

import numpy as np

from gradtape.dtypes import DType
from gradtape.graph.math_function import NotLowered

_TYPES = {
    "b": "i1", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
    "u1": "i8", "u2": "i16", "u4": "i32", "u8": "i64", "f4": "float", "f8": "double",
    "c8": "float", "c16": "double",
}  # fmt: skip
BOOL = np.dtype(bool)
INDEX = np.dtype(np.int64)


def scalar_type(dtype: DType | str) -> str:
    """The IR type of one element in a register; for complex numbers, of one part.

    Booleans are single bits in registers.
    """
    dtype = np.dtype(dtype)
    found = _TYPES.get(dtype.kind if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}")
    if found is None:
        raise NotLowered(str(dtype))
    return found


def memory_type(dtype: DType | str) -> str:
    """The IR type of one element in memory, where booleans are bytes."""
    return "i8" if np.dtype(dtype).kind == "b" else scalar_type(dtype)
