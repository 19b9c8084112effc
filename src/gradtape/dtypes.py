"""Element types: their names, how they promote, and what a Python scalar becomes."""

from __future__ import annotations

import builtins
import sys
from array import array
from typing import Any, Protocol, TypeAlias

import numpy as np

from gradtape.errors import DtypeError, shown

__all__ = [
    "bool",
    "complex64",
    "complex128",
    "default_dtype",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "set_default_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

DType = np.dtype[Any]
Array = np.ndarray[Any, DType]


class HasDType(Protocol):
    """An object that stands for its dtype, such as `tf.float32`."""

    @property
    def dtype(self) -> DType: ...


# Arguments of `as_dtype`: gt.float32, "float32", float, np.float32.
DTypeLike: TypeAlias = DType | str | type | HasDType

bool = np.dtype(np.bool_)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
uint64 = np.dtype(np.uint64)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)

SUPPORTED = frozenset(
    (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
    + (float32, float64, complex64, complex128)
)
# The complex dtype of each real one, and back.
COMPLEX_OF: dict[DType, DType] = {
    float32: complex64,
    float64: complex128,
    complex64: complex64,
    complex128: complex128,
}
REAL_OF: dict[DType, DType] = {
    complex64: float32,
    complex128: float64,
    float32: float32,
    float64: float64,
}

_default = {"float": float64}


def default_dtype() -> DType:
    """The dtype that Python floats and bare creation functions get.

    >>> gt.default_dtype()
    dtype('float64')
    """
    return _default["float"]


class World:
    """Counts changes of settings that captured programs rely on, such as the default dtype."""

    # One word, which native code reads as well.
    number = array("q", [0])

    @classmethod
    def advance(cls) -> None:
        """Let no captured program be used any more."""
        cls.number[0] += 1


def set_default_dtype(dtype: DTypeLike) -> None:
    """Choose the default floating dtype, `float32` or `float64`.

    >>> gt.set_default_dtype("float32")
    >>> gt.asarray(1.0).dtype
    dtype('float32')
    >>> gt.set_default_dtype("float64")
    """
    chosen = as_dtype(dtype)
    if chosen not in (float32, float64):
        raise DtypeError(
            f"set_default_dtype: {chosen} is not float32 or float64. Choose one of them."
        )
    if _default["float"] != chosen:
        World.advance()
    _default["float"] = chosen


def as_dtype(dtype: DTypeLike) -> DType:
    """A dtype from any form that NumPy accepts, or an error if gradtape does not support it.

    >>> gt.libraries.as_dtype("float32")
    dtype('float32')
    """
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, RecursionError) as error:
        raise DtypeError(f"{shown(dtype)} is not a dtype. Use one such as gt.float64.") from error
    if found not in SUPPORTED:
        names = ", ".join(sorted(str(d) for d in SUPPORTED))
        raise DtypeError(f"dtype {found} is not supported. Convert to one of: {names}.")
    return found.newbyteorder("=")


def promote(*dtypes: DType) -> DType:
    """The common dtype of tensors, by NumPy's rules."""
    first = dtypes[0]
    if all(d == first for d in dtypes):
        return first
    found = np.result_type(*dtypes)
    return found if found in SUPPORTED else default_dtype()


def to_inexact(dtype: DType) -> DType:
    """The dtype itself if it is inexact, else the default float."""
    return dtype if dtype.kind in "fc" else default_dtype()


def of_scalar(kind: type, partner: DType | None) -> DType:
    """The dtype of a Python scalar beside a tensor of dtype `partner` (weak promotion)."""
    if partner is None:
        if kind is builtins.bool:
            return bool
        if issubclass(kind, int):
            return int64
        if issubclass(kind, float):
            return default_dtype()
        return COMPLEX_OF[default_dtype()]
    if kind is builtins.bool or partner.kind == "c":
        return partner
    if kind is int:
        return int64 if partner.kind == "b" else partner
    if kind is float:
        return to_inexact(partner)
    return COMPLEX_OF[to_inexact(partner)]


def masks_exist() -> builtins.bool:
    """Whether this process has masked arrays: that part of NumPy is loaded when it is first used.

    Asking NumPy for it would load it, which takes a tenth of the time of our import.
    """
    return "numpy.ma" in sys.modules


def is_masked(value: object) -> builtins.bool:
    """Whether a value is an array with masked entries."""
    if not masks_exist() or not isinstance(value, np.ma.MaskedArray):
        return False
    return builtins.bool(np.ma.is_masked(value))
