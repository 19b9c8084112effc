"""Values: computed contents, as NumPy arrays or buffers of the runtime's pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype
from gradtape.errors import DtypeError
from gradtape.graph.node import Node
from gradtape.graph.spec import Spec, spec
from gradtape.recording.hooks import hooks


class Value:
    """A computed value. `entry` remembers under which leaf the latest recording knows it.

    `content` is a NumPy array, or a buffer of the runtime's pool that becomes one when somebody
    looks: most values of a training loop are never looked at.
    """

    __slots__ = ("_address", "content", "entry", "spec")

    def __init__(self, content: Any, of: Spec) -> None:
        self.content = content
        self.spec = of
        self._address = 0
        # One tuple, so that threads that share a value never see half of an update.
        self.entry: tuple[int, Node | None] = (0, None)

    @property
    def array(self) -> Any:
        """The value as a NumPy array."""
        content = self.content
        if isinstance(content, np.ndarray):
            return content
        return hooks.array_over(content, self.spec.shape, self.spec.dtype)

    @property
    def address(self) -> int:
        """Where the elements lie, one after the other."""
        if not self._address:
            content = self.content
            if isinstance(content, np.ndarray):
                if not content.flags.c_contiguous:
                    content = self.content = np.ascontiguousarray(content)
                self._address = content.ctypes.data
            else:
                self._address = content.address
        return self._address


class _Unentered:
    """What operands that always enter through their own method have for a value."""

    entry = (-1, None)


UNENTERED = _Unentered()


def host_value(data: Any, dtype: Any = None) -> Value:
    """Copy host memory into a frozen value: later changes to `data` change nothing here."""
    try:
        array = np.array(
            data, dtype=None if dtype is None else as_dtype(dtype), copy=True, order="C"
        )
    except (ValueError, TypeError) as error:
        raise type(error)(
            f"asarray: cannot make a tensor of {type(data).__name__}: {error}"
        ) from None
    if dtype is None and array.dtype.kind not in "biufc":
        raise DtypeError(
            f"asarray: {type(data).__name__} of dtype {array.dtype} holds no numbers. "
            "Pass numbers, an array of numbers or a tensor."
        )
    array = array.astype(as_dtype(array.dtype), copy=False)
    array.flags.writeable = False
    return Value(array, spec(array.shape, array.dtype))
