"""The public switch of native code that works on CPython's objects."""

from __future__ import annotations

from typing import Literal

from gradtape.codegen.cpython import switch
from gradtape.functions.function import Function

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
    # Late: it loads the writer of native calls, which few processes need.
    from gradtape.functions import call_slot

    call_slot.follow_switch(Function)
