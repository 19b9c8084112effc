"""The array API standard: its functions of dtypes and devices, and the versions supported."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gradtape import dtypes
from gradtape.dtypes import COMPLEX_OF, SUPPORTED, DType, as_dtype, default_dtype
from gradtape.errors import DtypeError
from gradtape.ops.arrays.creation import check_device
from gradtape.ops.elementwise.arithmetic import identity, record_operand
from gradtape.ops.families.casting import cast
from gradtape.records import dataclass
from gradtape.trace.followed_number import plain
from gradtape.trace.record import SCALARS

if TYPE_CHECKING:
    from gradtape.dtypes import DTypeLike
    from gradtape.tensor.tensor import Tensor
    from gradtape.tensor.tensor_like import TensorLike
    from gradtape.tensor.variable import Variable

    _Kind: TypeAlias = DTypeLike | tuple["_Kind", ...]
    # A dtype, or something that has one.
    _Typed: TypeAlias = DTypeLike | Tensor | Variable | np.ndarray

__all__ = [
    "__array_namespace_info__",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def check_version(api_version: str | None = None) -> ModuleType:
    """The namespace that implements a version of the standard.

    >>> gt.asarray(1.0).__array_namespace__(api_version="2024.12") is gt
    True
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"__array_namespace__: version {api_version!r} of the array API is not supported. "
            f"Ask for one of: {', '.join(VERSIONS)}."
        )
    return sys.modules["gradtape"]


@dataclass(frozen=True)
class FloatLimits:
    """The limits of a floating dtype; those of a complex dtype are the limits of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerLimits:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(thing: _Typed) -> DType:
    if isinstance(thing, (np.dtype, type, str)) or not hasattr(thing, "dtype"):
        return as_dtype(thing)
    return as_dtype(thing.dtype)


def finfo(type: _Typed, /) -> FloatLimits:
    """The limits of a floating dtype, or of a tensor's.

    >>> gt.finfo(gt.float32).bits
    32
    """
    dtype = _dtype_of(type)
    if dtype.kind not in "fc":
        raise DtypeError(f"finfo: {dtype} is not a floating dtype. Use iinfo for integers.")
    found = np.finfo(dtype)
    return FloatLimits(
        int(found.bits),
        float(found.eps),
        float(found.max),
        float(found.min),
        float(found.smallest_normal),
        found.dtype,
    )


def iinfo(type: _Typed, /) -> IntegerLimits:
    """The limits of an integer dtype, or of a tensor's.

    >>> gt.iinfo(gt.int8).max
    127
    """
    dtype = _dtype_of(type)
    if dtype.kind not in "iu":
        raise DtypeError(f"iinfo: {dtype} is not an integer dtype. Use finfo for floats.")
    found = np.iinfo(dtype)
    return IntegerLimits(int(found.bits), int(found.max), int(found.min), dtype)


KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: DTypeLike, kind: _Kind) -> bool:
    """Whether a dtype is another, or of a kind such as "integral", or of any of several.

    >>> gt.isdtype(gt.float32, "real floating")
    True
    >>> gt.isdtype(gt.int8, (gt.float64, "integral"))
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype: {kind!r} is not a kind. Use one of: {', '.join(KINDS)}.")
        return as_dtype(dtype).kind in KINDS[kind]
    return as_dtype(dtype) == as_dtype(kind)


def result_type(*arrays_and_dtypes: _Typed | complex) -> DType:
    """The dtype that operands have in common; Python scalars adapt to the rest.

    >>> gt.result_type(gt.float32, gt.asarray([1], dtype=gt.int8), 2.0)
    dtype('float32')
    """
    found = None
    for thing in arrays_and_dtypes:
        if type(thing) not in SCALARS:
            dtype = _dtype_of(thing)  # type: ignore[arg-type]  # no scalar
            found = dtype if found is None else dtypes.promote(found, dtype)
    for thing in arrays_and_dtypes:
        if type(thing) in SCALARS:
            found = dtypes.of_scalar(type(plain(thing)), found)
    if found is None:
        raise ValueError("result_type: nothing was given. Pass tensors, dtypes or numbers.")
    return found


def can_cast(from_: _Typed, to: DTypeLike, /) -> bool:
    """Whether a dtype, or a tensor's, can become another without loss by promotion.

    >>> gt.can_cast(gt.int8, gt.float32)
    True
    """
    return bool(np.can_cast(_dtype_of(from_), as_dtype(to)))


def astype(
    x: TensorLike, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None
) -> Tensor:
    """Convert to another dtype; differentiable between floating dtypes.

    >>> gt.astype(gt.asarray([1.5, 2.5]), gt.int64).tolist()
    [1, 2]
    """
    check_device("astype", device)
    operand: Tensor = record_operand(x)
    if operand.dtype != as_dtype(dtype):
        return cast(operand, dtype)
    return identity(operand) if copy else operand


class __array_namespace_info__:  # noqa: N801 - the standard's name
    """The array API standard's information about capabilities, devices and dtypes.

    >>> gt.__array_namespace_info__().default_device()
    'cpu'
    """

    def capabilities(self) -> dict[str, bool | int]:
        """Shapes of results may depend on values, and boolean indexing works."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The only device."""
        return "cpu"

    def devices(self) -> list[str]:
        """All devices."""
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes that Python scalars and creation functions get."""
        check_device("default_dtypes", device)
        return {
            "real floating": default_dtype(),
            "complex floating": COMPLEX_OF[default_dtype()],
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: str | None = None, kind: _Kind | None = None) -> dict[str, DType]:
        """Dtypes by name, all of them or those of a kind."""
        check_device("dtypes", device)
        wanted = [d for d in SUPPORTED if kind is None or isdtype(d, kind)]
        return {str(dtype): dtype for dtype in sorted(wanted, key=str)}
