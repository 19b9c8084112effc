"""TensorShape, whose lengths may be unknown, and TensorSpec: the shape and dtype of a tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from gradtape.errors import ShapeError
from gradtape.libraries import broadcast_shapes, check_exports, shown
from gradtape.tf.base.dtypes import DType, as_dtype, float32
from gradtape.typing import Count

__all__ = ["TensorShape", "TensorSpec", "broadcast_static_shape"]

# None stands for a shape, or a length, that is not known.
Dims: TypeAlias = "Iterable[int | None] | int | None"


def _length(n: Any) -> int | None:
    if n is None or type(n) is int:
        return n
    try:
        found = None if isinstance(n, (bool, str, bytes)) else int(n)
    except (TypeError, ValueError, OverflowError, np.ma.MaskError):
        found = None
    if found is None or found != n:
        raise TypeError(f"TensorShape: {shown(n)} is not a length. Pass a whole number or None.")
    return found


# As in TensorFlow.
_MOST_AXES = 254


class TensorShape(tuple[Any, ...]):
    """The shape of a tensor: a tuple that also compares to lists, prints and adds as TensorFlow's.

    >>> shape = tf.zeros([2, 3]).shape
    >>> shape, shape == [2, 3], shape.as_list(), shape.rank, shape[1:]
    (TensorShape([2, 3]), True, [2, 3], 2, TensorShape([3]))
    >>> tf.TensorShape([None, 3]).is_fully_defined()
    False
    """

    _unknown = False

    def __new__(cls, dims: Dims = None) -> TensorShape:
        if type(dims) is TensorShape:
            return dims
        if dims is None:
            result = super().__new__(cls, ())
            result._unknown = True
            return result
        # An array without axes has `__iter__`, and is one length.
        several = hasattr(dims, "__iter__") and getattr(dims, "ndim", 1) != 0
        items: Iterable[Any] = dims if several else (dims,)  # type: ignore[assignment]
        return super().__new__(cls, map(_length, items))

    @property
    def rank(self) -> int | None:
        """The number of axes, None if it is not known."""
        return None if self._unknown else len(self)

    ndims = rank

    @property
    def dims(self) -> list[int | None] | None:
        """The lengths as a list, None if their number is not known."""
        return None if self._unknown else list(self)

    def as_list(self) -> list[int | None]:
        """The lengths as a list."""
        if self._unknown:
            raise ValueError("as_list: the number of axes of this shape is not known.")
        return list(self)

    def num_elements(self) -> int | None:
        """The number of elements, None if it is not known."""
        return math.prod(self) if self.is_fully_defined() else None

    def is_fully_defined(self) -> bool:
        """Whether every length is known."""
        return not self._unknown and None not in tuple(self)

    def assert_is_fully_defined(self) -> None:
        """Raise a ValueError unless every length is known."""
        if not self.is_fully_defined():
            raise ShapeError(f"shape {self} is not fully known. Give every length.")

    def is_compatible_with(self, other: Dims) -> bool:
        """Whether a tensor could have both shapes."""
        shape = TensorShape(other)
        if self._unknown or shape._unknown:
            return True
        return len(self) == len(shape) and all(
            a is None or b is None or a == b for a, b in zip(self, shape, strict=True)
        )

    def assert_is_compatible_with(self, other: Dims) -> None:
        """Raise a ValueError unless a tensor could have both shapes."""
        if not self.is_compatible_with(other):
            raise ShapeError(f"shapes {self} and {TensorShape(other)} are not compatible.")

    def merge_with(self, other: Dims) -> TensorShape:
        """The lengths known from either shape."""
        shape = TensorShape(other)
        self.assert_is_compatible_with(shape)
        if self._unknown or shape._unknown:
            return shape if self._unknown else self
        pairs = zip(self, shape, strict=True)
        return TensorShape([b if a is None else a for a, b in pairs])

    def concatenate(self, other: Dims) -> TensorShape:
        """The axes of this shape followed by those of another."""
        shape = TensorShape(other)
        if self._unknown or shape._unknown:
            return TensorShape(None)
        return TensorShape((*self, *shape))

    def with_rank(self, rank: Count) -> TensorShape:
        """This shape, if it can have this many axes."""
        if rank > _MOST_AXES:
            raise ShapeError(f"with_rank: rank={rank} is more than {_MOST_AXES}, the most axes.")
        return self.merge_with([None] * rank)

    def with_rank_at_least(self, rank: Count) -> TensorShape:
        """This shape, if it can have this many axes or more."""
        if not self._unknown and len(self) < rank:
            raise ShapeError(f"shape {self} has fewer than {rank} axes.")
        return self

    def with_rank_at_most(self, rank: Count) -> TensorShape:
        """This shape, if it can have this many axes or fewer."""
        if not self._unknown and len(self) > rank:
            raise ShapeError(f"shape {self} has more than {rank} axes.")
        return self

    def assert_has_rank(self, rank: Count) -> None:
        """Raise a ValueError unless it can have that many axes."""
        if self.rank not in (None, rank):
            raise ShapeError(f"shape {self} must have rank {rank}.")

    def assert_same_rank(self, other: Dims) -> None:
        """Raise a ValueError unless both can have the same number of axes."""
        shape = TensorShape(other)
        if not (self._unknown or shape._unknown) and len(self) != len(shape):
            raise ShapeError(f"shapes {self} and {shape} must have the same rank.")

    def most_specific_compatible_shape(self, other: Dims) -> TensorShape:
        """The lengths that both shapes share; None where they differ."""
        shape = TensorShape(other)
        if self._unknown or shape._unknown or len(self) != len(shape):
            return TensorShape(None)
        return TensorShape([a if a == b else None for a, b in zip(self, shape, strict=True)])

    def __add__(self, other: Dims) -> TensorShape:  # type: ignore[override]
        return self.concatenate(other)

    def __radd__(self, other: Dims) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __getitem__(self, key: Any) -> Any:
        try:
            result = super().__getitem__(key)
        except IndexError:
            raise IndexError(f"{self!r} has no axis {key}, it has {len(self)} axes.") from None
        if self._unknown:
            return TensorShape(None) if isinstance(key, slice) else None
        return TensorShape(result) if isinstance(key, slice) else result

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TensorShape):
            return self._unknown == other._unknown and tuple.__eq__(self, other)
        if isinstance(other, (tuple, list)):
            return not self._unknown and tuple.__eq__(self, tuple(other))
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __bool__(self) -> bool:
        return not self._unknown and len(self) > 0

    def __repr__(self) -> str:
        return f"TensorShape({None if self._unknown else list(self)})"

    def __str__(self) -> str:
        return "<unknown>" if self._unknown else tuple.__repr__(self)

    def __reduce__(self) -> tuple[object, ...]:
        return TensorShape, (None if self._unknown else list(self),)


class TensorSpec:
    """The shape and dtype that a tensor must have, for `tf.function(input_signature=...)`.

    >>> tf.TensorSpec([None, 2], tf.float32)
    TensorSpec(shape=(None, 2), dtype=tf.float32, name=None)
    >>> tf.TensorSpec([None, 2]).is_compatible_with(tf.zeros([5, 2]))
    True
    """

    def __init__(self, shape: Dims, dtype: object = float32, name: str | None = None) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self.name = name

    @property
    def shape(self) -> TensorShape:
        """The shape, in which lengths may be None."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """The spec of a tensor.

        >>> tf.TensorSpec.from_tensor(tf.constant([1, 2]))
        TensorSpec(shape=(2,), dtype=tf.int32, name=None)
        """
        return cls(tensor.shape, tensor.dtype, name)

    @classmethod
    def from_spec(cls, spec: TensorSpec, name: str | None = None) -> TensorSpec:
        """The same spec under another name."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a tensor or another spec has this dtype and can have this shape."""
        return self.dtype == spec_or_value.dtype and self.shape.is_compatible_with(
            spec_or_value.shape
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.name == other.name
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


def broadcast_static_shape(shape_x: Dims, shape_y: Dims) -> TensorShape:
    """The shape that two shapes broadcast to.

    >>> tf.broadcast_static_shape([2, 1], [3])
    TensorShape([2, 3])
    """
    shapes = [tuple(TensorShape(shape)) for shape in (shape_x, shape_y)]
    return TensorShape(broadcast_shapes("broadcast_static_shape", shapes))


check_exports(globals(), __all__)
