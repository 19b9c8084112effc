"""Values and handles: what is computed, and what users hold on it before and after.

A value is a NumPy array or a buffer of the runtime's pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gradtape.concurrency import new_lock
from gradtape.dtypes import Array, DType, DTypeLike, as_dtype, is_masked, masks_exist
from gradtape.errors import DtypeError, is_of_this_line
from gradtape.ir.node import Node
from gradtape.ir.spec import Shape, Spec, spec

if TYPE_CHECKING:
    from gradtape.trace.recording import Recording


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
    when it is read: most values of a training loop never are. `entry` is the stamp of
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


# The argument that users do not pass who call the class of tensors.
MISSING: Any = object()


class Handle:
    """The content of a tensor: a node of a recording while pending or tracked, then a value.

    Recording closures and the native recorder read these slots directly.
    """

    __slots__ = {
        "__weakref__": None,
        "computed": "The value, once it is computed; else None.",
        "node": "What computes it, in its recording.",
        "recording": "The recording that it belongs to, or None.",
    }

    # The class of the results of ops on this handle, of views of it, and of derivatives that are
    # zero but for some rows: called with indices, values and a spec.
    result_class: type[Handle]
    view_class: type[Handle]
    rows_class: Callable[[Any, Any, Spec], Handle]

    def __init__(
        self, node: Any, recording: Recording | None = MISSING, computed: Value | None = None
    ) -> None:
        if recording is MISSING:
            raise TypeError(f"{type(self).__name__}: make a tensor of data with gt.asarray.")
        # None once a value was computed that no tape tracks; a Node otherwise.
        self.node: Any = node
        self.recording = recording
        self.computed = computed

    def enter(self, recording: Recording) -> Node:
        """The node that stands for this handle in `recording`."""
        if self.recording is recording:
            return self.node
        if self.recording is None and recording.outer is None and not recording.capturing:
            computed = self.computed
            if computed is not None:
                return recording.enter_value(computed)
        return recording.enter_other(self)

    def materialize(self) -> None:
        """Give a handle that belongs to no recording its value; for classes that compute it."""
        raise AssertionError("this handle has neither a recording nor a value")


Handle.result_class = Handle.view_class = Handle


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
    if data is None:
        raise DtypeError("None is not a number, an array or a tensor. Is a `return` missing?")
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
