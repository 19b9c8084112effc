"""Runs greedy loops as the Python that they are written in or, if they are long, compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from gradtape.autodiff.sparse import greedy
from gradtape.config import WORTH_CALLING_LOOP, WORTH_COMPILING_LOOP
from gradtape.dtypes import Array
from gradtape.runtime import tiers

Loop = Callable[..., int]


_compiled: dict[str, Loop] = {}
_lock = threading.Lock()


def run(
    function: Loop, count: int, inputs: Sequence[Array], outputs: Sequence[Array], work: float
) -> int:
    """Call a loop on `count`, then input arrays, then arrays it writes to."""
    fast = _machine_code(function, work)
    if fast is not None:
        contiguous = [np.ascontiguousarray(array, np.int64) for array in inputs]
        return fast(count, *contiguous, *outputs)
    # Python reads the elements of a list several times faster than those of an array.
    lists = [array.tolist() for array in outputs]
    result = function(count, *[array.tolist() for array in inputs], *lists)
    for array, found in zip(outputs, lists, strict=True):
        array[:] = found
    return result


def _machine_code(function: Loop, work: float) -> Loop | None:
    name = function.__name__
    found = _compiled.get(name)
    if found is not None:
        return found if work >= WORTH_CALLING_LOOP else None
    if work < WORTH_COMPILING_LOOP:
        return None
    with _lock:
        if name not in _compiled:
            compiled = _compiled_loops((*greedy.LOOPS[function], function))
            if compiled is None:
                return None
            _compiled[name] = compiled[name]
        return _compiled[name]


def _compiled_loops(functions: Sequence[Loop]) -> dict[str, Loop] | None:
    """Compile greedy loops, unless the compiler is switched off."""
    if tiers.MODE == "off":
        return None
    from gradtape.compiler.emit.integer_loops import compile_integers  # loads the compiler

    try:
        return compile_integers(functions)
    except OSError:  # the library was installed without its source text
        return None
