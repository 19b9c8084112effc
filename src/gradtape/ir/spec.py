"""Spec: the shape and dtype of one value, interned so that equal specs are one object."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gradtape.concurrency import WeakTable
from gradtape.dtypes import DType, of_scalar
from gradtape.errors import SizeError

Shape = tuple[int, ...]
# The most bytes that offsets of 64 bits can address.
MOST_BYTES = 2**63 - 1


class Spec:
    """Shape and dtype of a value. Make one with `spec(shape, dtype)`."""

    __slots__ = ("__weakref__", "dtype", "inexact", "nbytes", "ndim", "scalars", "shape", "size")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self.inexact = dtype.kind in "fc"
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        # The spec of a Python scalar beside a tensor of this spec, by the scalar's type.
        self.scalars: dict[type, Spec] = {}

    def scalar(self, kind: type) -> Spec:
        """The spec of a Python scalar of this type beside a tensor of this spec."""
        found = self.scalars.get(kind)
        if found is None:
            found = self.scalars[kind] = spec((), of_scalar(kind, self.dtype))
        return found

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[Callable[..., Spec], tuple[Shape, DType]]:
        return spec, (self.shape, self.dtype)


_interned: WeakTable[tuple[Shape, DType], Spec] = WeakTable()


def spec(shape: Shape, dtype: DType) -> Spec:
    """The one Spec with this shape and dtype.

    >>> gt.libraries.spec((2, 3), gt.float64)
    float64[2,3]
    """
    key = (shape, dtype)
    found = _interned.get(key)
    if found is None:
        # gradtape.tf has subclasses of tuple and dtype that compare equal: specs hold plain ones.
        # Python's integers: those of NumPy wrap around when they are multiplied.
        shape, dtype = tuple(map(int, shape)), np.dtype(dtype)
        # As in NumPy, axes of length 0 do not count. Kernels compute offsets in bytes as 64-bit
        # integers, and no value without a spec reaches them, so that none of these can overflow.
        nbytes = math.prod(filter(None, shape)) * dtype.itemsize
        if nbytes > MOST_BYTES:
            raise SizeError(
                f"shape {shape} of {dtype} takes {nbytes} bytes, more than 2**63 - 1. "
                "Choose smaller lengths."
            )
        key = (shape, dtype)
        # setdefault: two threads that race here must end with the same object.
        found = _interned.setdefault(key, Spec(shape, dtype))
    return found
