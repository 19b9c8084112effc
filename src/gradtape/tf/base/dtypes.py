"""Element types under TensorFlow's names: `tf.float32` and the like."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from gradtape import dtypes as core
from gradtape.errors import DtypeError
from gradtape.libraries import check_exports, shown

__all__ = [
    "DType",
    "as_dtype",
    "bool",
    "complex64",
    "complex128",
    "double",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


class DType:
    """An element type, as `tensor.dtype` gives it; NumPy takes it wherever it takes its own.

    >>> tf.float32, tf.float32.as_numpy_dtype is np.float32, np.zeros(2, tf.float32).dtype
    (tf.float32, True, dtype('float32'))
    """

    __slots__ = {
        "_hash": None,
        "char": "The letter of NumPy for it.",
        "dtype": "The dtype of NumPy.",
        "itemsize": "Bytes of an element.",
        "kind": "The letter of its kind, as in NumPy.",
        "name": "The name, such as `float32`.",
        "size": "Bytes of an element.",
        "type": "The scalar type of NumPy.",
    }

    def __init__(self, dtype: type[np.generic] | str) -> None:
        # NumPy reads `dtype`; gradtape's ops read the other attributes as those of np.dtype.
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.name = self.dtype.name
        self.kind = self.dtype.kind
        self.char = self.dtype.char
        self.type = self.dtype.type
        self.itemsize = self.size = self.dtype.itemsize
        self._hash = hash(self.dtype)

    @property
    def as_numpy_dtype(self) -> type[np.generic]:
        """The NumPy scalar type."""
        return self.type

    @property
    def base_dtype(self) -> DType:
        """Itself: there are no reference types."""
        return self

    @property
    def real_dtype(self) -> DType:
        """The type of the real part."""
        return of_numpy(core.REAL_OF.get(self.dtype, self.dtype))

    @property
    def is_floating(self) -> builtins.bool:
        """Whether it is a real floating-point type."""
        return self.kind == "f"

    @property
    def is_integer(self) -> builtins.bool:
        """Whether it is an integer type."""
        return self.kind in "iu"

    @property
    def is_complex(self) -> builtins.bool:
        """Whether it is a complex type."""
        return self.kind == "c"

    @property
    def is_bool(self) -> builtins.bool:
        """Whether it is the boolean type."""
        return self.kind == "b"

    @property
    def is_unsigned(self) -> builtins.bool:
        """Whether it is an unsigned integer type."""
        return self.kind == "u"

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and highest intensity of an image: 0 and 1 for floats."""
        return (0, 1) if self.kind == "f" else (self.min, self.max)

    @property
    def is_numpy_compatible(self) -> builtins.bool:
        """Always true here."""
        return True

    @property
    def min(self) -> float:
        """The lowest finite value."""
        return self._bound("min")

    @property
    def max(self) -> float:
        """The highest finite value."""
        return self._bound("max")

    def _bound(self, name: str) -> Any:
        if self.kind == "b":
            return name == "max"
        if self.kind == "c":
            raise TypeError(f"{self!r} has no {name}: complex numbers have no order.")
        return getattr(np.finfo(self.dtype) if self.kind == "f" else np.iinfo(self.dtype), name)

    def is_compatible_with(self, other: object) -> builtins.bool:
        """Whether another type is the same."""
        return self == other

    def __eq__(self, other: object) -> builtins.bool:
        if other is self:
            return True
        if other is None or type(other) is DType:
            return False
        if other is float:
            return self is float32
        try:
            return self.dtype == np.dtype(other)  # type: ignore[call-overload]
        except TypeError:
            return False

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> tuple[object, ...]:
        return of_numpy, (self.dtype,)


bool = DType(np.bool_)
int8, int16, int32, int64 = (DType(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{bits}") for bits in (8, 16, 32, 64))
float32, float64 = DType(np.float32), DType(np.float64)
complex64, complex128 = DType(np.complex64), DType(np.complex128)
double = float64

_known: dict[np.dtype[Any], DType] = {
    each.dtype: each
    for each in (
        bool,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
        float32,
        float64,
        complex64,
        complex128,
    )
}
# Python's types have TensorFlow's widths.
_python: dict[type, DType] = {
    builtins.bool: bool,
    int: int32,
    float: float32,
    builtins.complex: complex128,
}


def of_numpy(dtype: np.dtype[Any]) -> DType:
    """The element type for a dtype of NumPy's."""
    return _known[dtype]


def as_dtype(type_value: Any) -> DType:
    """The element type for a name, a NumPy dtype or a Python type.

    >>> tf.as_dtype("float64"), tf.as_dtype(np.int32), tf.as_dtype(float)
    (tf.float64, tf.int32, tf.float32)
    """
    if type(type_value) is DType:
        return type_value
    if isinstance(type_value, type) and type_value in _python:
        return _python[type_value]
    if not isinstance(type_value, (str, type, np.dtype)) and not hasattr(type_value, "dtype"):
        raise DtypeError(f"{shown(type_value)} is not a dtype. Use one such as tf.float32.")
    name = "bool" if isinstance(type_value, str) and type_value == "bool" else type_value
    try:
        result = np.dtype("float64" if name == "double" else name)
    except (TypeError, ValueError):
        raise DtypeError(
            f"{shown(type_value)} is not a dtype. Use one such as tf.float32."
        ) from None
    if result not in _known:
        raise DtypeError(
            f"dtype {result} is not computed with here. Use one of: "
            f"{', '.join(sorted(each.name for each in _known.values()))}."
        )
    return _known[result]


check_exports(globals(), __all__)
