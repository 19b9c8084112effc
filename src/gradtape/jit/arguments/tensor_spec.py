"""TensorSpec: the shape and dtype that an argument of a function must have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype, default_dtype
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir.spec import Spec
from gradtape.pytree import flatten, flatten_up_to, leaf_names, unflatten
from gradtape.tensor.operators import Operators
from gradtape.tensor.tensor import Tensor, asarray

__all__ = ["TensorSpec"]

Shape = Iterable[int | None]


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

    def _parts(self) -> tuple[object, ...]:
        return self.shape, self.dtype, self.name

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype}{name})"


def is_spec(leaf: object) -> bool:
    """Whether a leaf is a spec: it has a shape and a dtype, and is not a tensor or an array."""
    described = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    return described and not isinstance(leaf, (Operators, np.ndarray, np.generic))


def agrees(shape: Shape | None, wanted: Shape | None) -> bool:
    """Whether two shapes, in which lengths may be unknown, can be the same."""
    lengths, allowed = _lengths(shape), _lengths(wanted)
    if lengths is None or allowed is None:
        return True
    return len(lengths) == len(allowed) and all(
        want is None or have is None or want == have
        for have, want in zip(lengths, allowed, strict=True)
    )


def _lengths(shape: Shape | None) -> tuple[int | None, ...] | None:
    """The lengths of a shape, None if it is unknown; TensorFlow's has a rank of None then."""
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    return tuple(shape)


def checked(name: str, label: str, wanted: Any, passed: Any) -> Any:
    """An argument, or a nest, as tensors that agree with the specs in the same places."""
    if is_spec(wanted):
        return _checked_leaf(name, label, wanted, passed)
    specs, structure = flatten(wanted)
    parts = flatten_up_to(structure, passed, f"{name}: {label}")
    labels = leaf_names(structure, label)
    found = [_checked_leaf(name, *each) for each in zip(labels, specs, parts, strict=True)]
    return unflatten(structure, found)


def _checked_leaf(name: str, label: str, wanted: Any, passed: Any) -> Any:
    dtype = as_dtype(wanted.dtype)
    found = passed
    if not isinstance(passed, Operators):
        found = _converted(name, label, passed, dtype)
    elif np.dtype(passed.dtype) != dtype:
        raise DtypeError(
            f"{name}: {label} has dtype {passed.dtype}, and input_signature asks for {dtype}. "
            "Cast it first."
        )
    if not agrees(found.shape, wanted.shape):
        raise ShapeError(
            f"{name}: {label} has shape {tuple(found.shape)}, and input_signature asks for "
            f"{tuple(wanted.shape)}. Pass such a shape, or declare None where any length will do."
        )
    return found


def _converted(name: str, label: str, passed: Any, dtype: np.dtype[Any]) -> Tensor:
    """Host data as a tensor of the dtype that is asked for."""
    try:
        found = asarray(passed)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name}: {label} is {type(passed).__name__}, and input_signature asks for a tensor "
            f"of {dtype}: {error}"
        ) from None
    if not np.can_cast(found.dtype, dtype, "same_kind"):
        raise DtypeError(
            f"{name}: {label} has dtype {found.dtype}, and input_signature asks for {dtype}. "
            "Convert it first."
        )
    return found if found.dtype == dtype else asarray(passed, dtype=dtype)


def spec_of(leaf: Any) -> Any:
    """The spec of a tensor or an array; other leaves as they are."""
    if isinstance(leaf, (Operators, np.ndarray, np.generic)):
        return TensorSpec(leaf.shape, leaf.dtype)
    return TensorSpec(leaf.shape, leaf.dtype) if type(leaf) is Spec else leaf
