"""Values: computed contents, as NumPy arrays or buffers of the runtime's pool."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from gradtape.concurrency import new_lock
from gradtape.dtypes import Array, DType, DTypeLike, as_dtype, is_masked, masks_exist
from gradtape.errors import DtypeError, is_of_this_line
from gradtape.ir.node import Node
from gradtape.ir.spec import Shape, Spec, spec


class PoolBuffer(Protocol):
    """Memory of the runtime's pool: see gradtape.runtime.buffer_pool."""

    @property
    def address(self) -> int: ...

    def array(self, shape: Shape, dtype: DType) -> Array: ...


Content = Array | PoolBuffer


_copying = new_lock()


class Value:
    """A computed value.

    `content` is a NumPy array, or a buffer of the runtime's pool, over which an array is made only
    when somebody looks: most values of a training loop are never looked at. `entry` is the stamp of
    the latest recording that this value entered, with its leaf there: entering again is one
    comparison.
    """

    __slots__ = ("_address", "content", "entry", "spec")

    def __init__(self, content: Content, of: Spec) -> None:
        self.content = content
        self.spec = of
        self._address = 0
        # One tuple, so that threads that share a value never see half of an update.
        self.entry: tuple[int, Node | None] = (0, None)

    @property
    def array(self) -> Array:
        """The value as a NumPy array."""
        content = self.content
        if isinstance(content, np.ndarray):
            return content
        return content.array(self.spec.shape, self.spec.dtype)

    @property
    def address(self) -> int:
        """The address of the elements, which are contiguous."""
        if not self._address:
            content = self.content
            if isinstance(content, np.ndarray):
                if not content.flags.c_contiguous:
                    content = self._contiguous()
                self._address = content.ctypes.data
            else:
                self._address = content.address
        return self._address

    def _contiguous(self) -> Array:
        """Exchange the content for a contiguous copy, once: others may run on its address."""
        with _copying:
            content: Any = self.content
            if not content.flags.c_contiguous:
                content = self.content = np.ascontiguousarray(content)
            return content


class _Unentered:
    """The `computed` of operands, such as variables, that must enter by their own method.

    Its stamp is that of no recording, so the shortcut of the recording closures never takes it.
    """

    entry = (-1, None)


UNENTERED = _Unentered()

# A leaf of a recording; None in a trace, where leaves may have no value.
LeafValue = Value | bool | int | float | complex | None


def refuse_masked(data: Array) -> None:
    """Raise if entries of an array are masked: a tensor would show what the mask hides."""
    if is_masked(data):
        raise TypeError(
            f"asarray: {np.ma.count_masked(data)} entries of an array are masked, and tensors have "
            "no masks. Fill them with .filled(value), or pass .compressed()."
        )


def host_value(data: object, dtype: DTypeLike | None = None) -> Value:
    """Copy host memory into a frozen value: later changes to `data` change nothing here."""
    if masks_exist() and isinstance(data, np.ma.MaskedArray):
        refuse_masked(data)
    try:
        array = np.array(
            data, dtype=None if dtype is None else as_dtype(dtype), copy=True, order="C"
        )
    except DtypeError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        if not is_of_this_line(error):  # a method such as `__array__` raised it
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"asarray: cannot make a tensor of {type(data).__name__}: {error}") from None
    if dtype is None and array.dtype.kind not in "biufc":
        raise DtypeError(
            f"asarray: {type(data).__name__} of dtype {array.dtype} holds no numbers. "
            "Pass numbers, an array of numbers or a tensor."
        )
    array = array.astype(as_dtype(array.dtype), copy=False)
    array.flags.writeable = False
    return Value(array, spec(array.shape, array.dtype))
