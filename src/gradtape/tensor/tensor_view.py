"""TensorView: the result of indexing or reshaping a tensor, which refuses in-place writes.

Values never change, so a write to a view would not reach the tensor that it was taken from, as it
would in NumPy. Such a write raises InPlaceError instead of being lost.
"""

from __future__ import annotations

import opcode
import sys
from types import FrameType
from typing import NoReturn

from gradtape.errors import InPlaceError
from gradtape.tensor.tensor import Tensor


class TensorView(Tensor):
    """A tensor made by indexing or reshaping another: in-place writes to it are refused."""

    __slots__ = ()

    def __setitem__(self, key: object, value: object) -> None:
        self._refuse("x[i][j] = v", "write x[i, j] = v")

    def _in_place(self, new: Tensor, what: str) -> Tensor:
        # `x[i] += v` reads a view, adds, and stores the sum by x[i] = ...: x itself is written to.
        # Python does not say so, but the instruction that follows in the caller's frame does.
        if _stores_item(sys._getframe(2)):
            return new
        self._refuse(what, "write to the tensor it came from, as in x[i] += v")

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise InPlaceError(
            f"{what}: this tensor was made by indexing or viewing another, which would not change. "
            f"Instead {remedy}, or make a copy with .copy() first."
        )


Tensor.view_class = TensorView.view_class = TensorView

# From Python 3.12 on plain slices are stored by an instruction of their own.
_STORES = {opcode.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opcode.opmap}
_BETWEEN = {
    opcode.opmap[name]
    for name in ("CACHE", "SWAP", "COPY", "NOP", "EXTENDED_ARG")
    if name in opcode.opmap
}


def _stores_item(frame: FrameType) -> bool:
    """Whether the in-place operator running in this frame is part of `x[i] op= v`."""
    code = frame.f_code.co_code
    position = frame.f_lasti + 2
    while position < len(code) and code[position] in _BETWEEN:
        position += 2
    return position < len(code) and code[position] in _STORES
