"""Layout: a nest of arrays as one flat vector, which SciPy's solvers take, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.dtypes import DType
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir.spec import Shape
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.families.casting import cast
from gradtape.pytree import LEAF, Structure, flatten, unflatten
from gradtape.records import dataclass
from gradtape.tensor.tensor import Tensor, asarray


@dataclass(frozen=True)
class Layout:
    """Where the leaves of a nest lie in a flat vector."""

    structure: Structure
    shapes: tuple[Shape, ...]
    dtypes: tuple[DType, ...]

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(map(math.prod, self.shapes))

    @property
    def dtype(self) -> DType:
        """The dtype of the vector, which holds every leaf."""
        return np.result_type(*self.dtypes) if self.dtypes else np.dtype(np.float64)

    @property
    def is_vector(self) -> bool:
        """Whether the nest is a flat vector itself."""
        return self.structure.kind is None and len(self.shapes[0]) == 1

    def ravel(self, tree: object) -> np.ndarray:
        """The vector of a nest like the one this was made from, as a NumPy array."""
        leaves, structure = flatten(tree)
        arrays = [_host(leaf) for leaf in leaves]
        if structure != self.structure or tuple(a.shape for a in arrays) != self.shapes:
            raise ShapeError(
                f"ravel: leaves of shapes {[a.shape for a in arrays]} do not fit a nest of "
                f"shapes {list(self.shapes)}. Pass a nest like the example."
            )
        return np.concatenate([a.reshape(-1) for a in arrays], dtype=self.dtype)

    def unravel(self, flat: Tensor | np.ndarray) -> Any:
        """The nest of a vector: of tensors if it is one, of arrays if it is an array."""
        on_tensors = isinstance(flat, Tensor)
        if len(self.shapes) == 1:
            part = _shaped(flat, self.shapes[0], self.dtypes[0], on_tensors)
            return unflatten(self.structure, [part])
        parts = []
        start = 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            stop = start + math.prod(shape)
            parts.append(_shaped(flat[start:stop], shape, dtype, on_tensors))
            start = stop
        return unflatten(self.structure, parts)


def layout_of(tree: object, name: str) -> Layout:
    """The layout of nests like this one; `name` is who asks, for the error."""
    leaves, structure = flatten(tree)
    # Of tensors only shape and dtype are read: they may have no values yet.
    arrays = [leaf if isinstance(leaf, Tensor) else _host(leaf) for leaf in leaves]
    dtypes = tuple(a.dtype if a.dtype.kind in "fc" else np.dtype(np.float64) for a in arrays)
    for array in arrays:
        if array.dtype.kind not in "biufc":
            raise DtypeError(
                f"{name}: a leaf has dtype {array.dtype}, not numbers. Pass arrays of floats."
            )
    return Layout(structure, tuple(a.shape for a in arrays), dtypes)


def vector_layout(size: int, dtype: DType | None = None) -> Layout:
    """The layout of a flat vector, of float64 by default: `ravel` and `unravel` keep it."""
    return Layout(LEAF, ((size,),), (np.dtype(np.float64) if dtype is None else dtype,))


def join(tree: object) -> Tensor:
    """A nest of tensors and numbers as one flat tensor."""
    leaves, _ = flatten(tree)
    parts = [asarray(leaf) for leaf in leaves]
    parts = [part if part.ndim == 1 else reshape(part, (-1,)) for part in parts]
    return parts[0] if len(parts) == 1 else concat(parts)


def _host(leaf: Any) -> np.ndarray:
    return np.asarray(leaf.numpy() if hasattr(leaf, "numpy") else leaf)


def _shaped(
    part: Tensor | np.ndarray, shape: Shape, dtype: DType, on_tensors: bool
) -> Tensor | np.ndarray:
    if part.shape != shape:
        part = reshape(part, shape) if on_tensors else part.reshape(shape)
    if part.dtype == dtype:
        return part
    return cast(part, dtype) if on_tensors else part.astype(dtype)
