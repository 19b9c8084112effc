"""The public switch of native code that works on CPython's objects."""

from __future__ import annotations

from typing import Literal

from gradtape.compiler.cpython import switch
from gradtape.jit.function import Function
from gradtape.jit.native.call_slot import follow_switch

__all__ = ["set_recorder"]


def set_recorder(recorder: Literal["auto", "python", "native"]) -> None:
    """Choose whether ops are recorded, and functions called, in Python or in native code.

    >>> gt.set_recorder("python")
    >>> "recorder           Python" in gt.show_config()
    True
    >>> gt.set_recorder("auto")

    With `"python"` neither native recording nor native calls of a `gt.function` happen from now
    on. `"native"` compiles and installs the native recorder now, and raises a RuntimeError where
    it cannot be used. `"auto"` lets the native code in when it is likely to pay. Results are the
    same. The choice holds for all threads; the environment variable `GRADTAPE_RECORDER` makes it
    before the first call.
    """
    switch.set_mode(recorder)
    follow_switch(Function)
