"""Floats to integers, with NumPy's results for floats that no integer of the dtype is near to.

C leaves those undefined, so NumPy's results are those of the machine's instructions. On x86-64
there is one instruction for int32 and one for int64, which give the lowest integer for a float out
of range and for NaN. The compilers of NumPy take the lower bits of a wider conversion for the other
dtypes. Other machines saturate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradtape.compiler.emit.writer import Typed, suffix
from gradtape.compiler.objects import llvm
from gradtape.dtypes import DType
from gradtape.ops.families.vector_code import Vector

if TYPE_CHECKING:
    from gradtape.compiler.emit.builder import Builder

_INT32, _INT64, _UINT64 = (np.dtype(name) for name in ("int32", "int64", "uint64"))


def to_integers(b: Builder, x: Vector, dtype: DType) -> Vector:
    """Floats truncated to integers of a dtype."""
    if llvm.host().machine != "x86_64":
        return _saturated(b, x, dtype)
    if dtype == _UINT64:
        return _unsigned(b, x)
    wide = _INT64 if dtype.itemsize == 8 or dtype == np.uint32 else _INT32
    found = _converted(b, x, wide)
    return found if dtype == wide else b.cast(found, dtype)


def _converted(b: Builder, x: Vector, dtype: DType) -> Vector:
    """The conversion of one instruction: the lowest integer stands for all that do not fit."""
    lowest = int(np.iinfo(dtype).min)
    limit = -float(lowest)
    # Only for int32 in float64 are there floats below the lowest integer that truncate to it.
    below = b.compare("oge", "ge", x, b.constant(-limit, x.dtype))
    if x.dtype.itemsize > dtype.itemsize:
        below = b.compare("ogt", "gt", x, b.constant(-limit - 1.0, x.dtype))
    fits = b.bits("and", below, b.compare("olt", "lt", x, b.constant(limit, x.dtype)))
    # LLVM leaves the conversion of a float out of range undefined.
    safe = b.select(fits, x, b.constant(0, x.dtype))
    source, target = b.vector_type(x.dtype), b.vector_type(dtype)
    found = b.written(f"fptosi {source} {safe.name} to {target}", dtype)
    return b.select(fits, found, b.constant(lowest, dtype))


def _unsigned(b: Builder, x: Vector) -> Vector:
    """As compilers write it: floats from 2**63 on are converted less 2**63."""
    half = b.constant(2.0**63, x.dtype)
    low = _converted(b, x, _INT64)
    high = _converted(b, b.arithmetic("fsub", "sub", x, half, contract=False), _INT64)
    high = b.bits("xor", high, b.constant(int(np.iinfo(_INT64).min), _INT64))
    return Vector(b.select(b.compare("oge", "ge", x, half), high, low).name, _UINT64)


def _saturated(b: Builder, x: Vector, dtype: DType) -> Vector:
    source, target = b.vector_type(x.dtype), b.vector_type(dtype)
    word = "fptosi" if dtype.kind == "i" else "fptoui"
    symbol = f"@llvm.{word}.sat.{suffix(target)}.{suffix(source)}"
    return Vector(b.r.call(target, symbol, Typed(x.name, source)), dtype)
