"""Spec: the shape and dtype of one value, interned so that equal specs are one object."""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from gradtape.dtypes import DType, of_scalar

Shape = tuple[int, ...]


class Spec:
    """Shape and dtype of a value. Make one with `spec(shape, dtype)`."""

    __slots__ = ("__weakref__", "dtype", "inexact", "ndim", "scalars", "shape", "size")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self.inexact = dtype.kind in "fc"
        self.size = math.prod(shape)
        # Spec of a Python scalar that meets a tensor of this spec, by the scalar's type.
        self.scalars: dict[type, Spec] = {}

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def scalar(self, kind: type) -> Spec:
        found = self.scalars.get(kind)
        if found is None:
            found = self.scalars[kind] = spec((), of_scalar(kind, self.dtype))
        return found

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def __reduce__(self) -> Any:
        return spec, (self.shape, self.dtype)


_interned: WeakValueDictionary[tuple[Shape, DType], Spec] = WeakValueDictionary()


def spec(shape: Shape, dtype: DType) -> Spec:
    """The one Spec with this shape and dtype."""
    key = (shape, dtype)
    found = _interned.get(key)
    if found is None:
        # Faces have shapes and dtypes of their own, which compare equal: here they are plain.
        shape, dtype = tuple(shape), np.dtype(dtype)
        key = (shape, dtype)
        # setdefault: of two threads that race here, both must end with the same object.
        found = _interned.setdefault(key, Spec(shape, dtype))
    return found
