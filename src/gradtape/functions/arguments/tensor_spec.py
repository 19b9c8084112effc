"""TensorSpec: the shape and dtype that an argument of a function must have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype, default_dtype
from gradtape.errors import DtypeError, ShapeError
from gradtape.graph.spec import Spec
from gradtape.pytree import flatten, flatten_up_to, leaf_names, unflatten
from gradtape.tensor.operators import Operators
from gradtape.tensor.tensor import asarray

__all__ = ["TensorSpec"]


class TensorSpec:
    """The shape and dtype that a tensor must have, for `gt.function(input_signature=...)`.

    >>> rows = gt.TensorSpec((None, 2), gt.float32)
    >>> rows
    TensorSpec(shape=(None, 2), dtype=float32)
    >>> rows.is_compatible_with(gt.zeros((5, 2), dtype=gt.float32))
    True

    A length of None is any length, and a shape of None any shape.
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(
        self, shape: Sequence[int | None] | int | None, dtype: Any = None, name: str | None = None
    ) -> None:
        if isinstance(shape, int):
            shape = (shape,)
        self.shape = None if shape is None else tuple(n if n is None else int(n) for n in shape)
        self.dtype = default_dtype() if dtype is None else as_dtype(dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """What a tensor is.

        >>> gt.TensorSpec.from_tensor(gt.asarray([1, 2]))
        TensorSpec(shape=(2,), dtype=int64)
        """
        return cls(tensor.shape, tensor.dtype, name)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor or another spec has this dtype and can have this shape.

        >>> gt.TensorSpec((3,)).is_compatible_with(gt.zeros(4))
        False
        """
        return as_dtype(other.dtype) == self.dtype and agrees(other.shape, self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.name

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype}{name})"


def is_spec(leaf: Any) -> bool:
    """Whether something says what a tensor must be, and is none: ours, or one that is like it."""
    described = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    return described and not isinstance(leaf, (Operators, np.ndarray, np.generic))


def agrees(shape: Any, wanted: Any) -> bool:
    """Whether a shape, in which lengths may be unknown, is one that is wanted."""
    lengths, allowed = _lengths(shape), _lengths(wanted)
    if lengths is None or allowed is None:
        return True
    return len(lengths) == len(allowed) and all(
        want is None or have is None or want == have
        for have, want in zip(lengths, allowed, strict=True)
    )


def _lengths(shape: Any) -> tuple[int | None, ...] | None:
    """A shape of any face: TensorFlow's says that it is unknown by its rank."""
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    return tuple(shape)


def checked(name: str, label: str, wanted: Any, given: Any) -> Any:
    """An argument, or a nest of them, as tensors that agree with the specs in their place."""
    if is_spec(wanted):
        return _checked_leaf(name, label, wanted, given)
    specs, structure = flatten(wanted)
    parts = flatten_up_to(structure, given, f"{name}: {label}")
    labels = leaf_names(structure, label)
    found = [
        _checked_leaf(name, *each) for each in zip(labels, specs, parts, strict=True)
    ]  # fmt: skip
    return unflatten(structure, found)


def _checked_leaf(name: str, label: str, wanted: Any, given: Any) -> Any:
    dtype = as_dtype(wanted.dtype)
    found = given
    if not isinstance(given, Operators):
        found = _converted(name, label, given, dtype)
    elif np.dtype(given.dtype) != dtype:
        raise DtypeError(
            f"{name}: {label} has dtype {given.dtype}, and input_signature asks for {dtype}. "
            "Cast it first."
        )
    if not agrees(found.shape, wanted.shape):
        raise ShapeError(
            f"{name}: {label} has shape {tuple(found.shape)}, and input_signature asks for "
            f"{tuple(wanted.shape)}. Pass such a shape, or declare None where any length will do."
        )
    return found


def _converted(name: str, label: str, given: Any, dtype: Any) -> Any:
    """Host memory in the dtype that is asked for."""
    try:
        found = asarray(given)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name}: {label} is {type(given).__name__}, and input_signature asks for a tensor "
            f"of {dtype}: {error}"
        ) from None
    if not np.can_cast(found.dtype, dtype, "same_kind"):
        raise DtypeError(
            f"{name}: {label} has dtype {found.dtype}, and input_signature asks for {dtype}. "
            "Convert it first."
        )
    return found if found.dtype == dtype else asarray(given, dtype=dtype)


def spec_of(leaf: Any) -> Any:
    """What stands for an argument where only its shape and dtype count."""
    if isinstance(leaf, (Operators, np.ndarray, np.generic)):
        return TensorSpec(leaf.shape, leaf.dtype)
    return TensorSpec(leaf.shape, leaf.dtype) if type(leaf) is Spec else leaf
