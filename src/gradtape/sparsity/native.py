"""Native: where the greedy loops run, in Python or compiled.

This folder may not import the compiler, so whoever may installs it here. Without one, and for small
graphs, the loops run as the Python they are written in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.sparsity import greedy

Compiler = Callable[[Sequence[Callable[..., int]]], dict[str, Callable[..., int]] | None]

# Steps of an inner loop from which compiling pays, and from which calling compiled code does.
WORTH_COMPILING = 500_000
WORTH_CALLING = 1_000

_NEEDS: dict[Callable[..., int], tuple[Callable[..., int], ...]] = {
    greedy.order_smallest_last: (greedy.put, greedy.take),
    greedy.eliminate_lines: (greedy.put, greedy.take),
    greedy.colour_stars: (greedy.forbid_neighbours,),
    greedy.colour_trees: (greedy.root_of,),
}
_compilers: list[Compiler] = []
_compiled: dict[str, Callable[..., int]] = {}
_lock = threading.Lock()


def install(compiler: Compiler) -> None:
    """Use this compiler for long loops; it may answer None to leave them to Python."""
    _compilers[:] = [compiler]
    _compiled.clear()


def run(
    function: Callable[..., int],
    count: int,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    work: float,
) -> int:
    """Call a loop on `count`, then input arrays, then arrays it writes to."""
    fast = _native(function, work)
    if fast is not None:
        given = [np.ascontiguousarray(array, np.int64) for array in inputs]
        return fast(count, *given, *outputs)
    # Lists, because Python reads their elements several times faster.
    lists = [array.tolist() for array in outputs]
    result = function(count, *[array.tolist() for array in inputs], *lists)
    for array, found in zip(outputs, lists, strict=True):
        array[:] = found
    return result


def _native(function: Callable[..., int], work: float) -> Callable[..., int] | None:
    name = function.__name__
    found = _compiled.get(name)
    if found is not None:
        return found if work >= WORTH_CALLING else None
    if work < WORTH_COMPILING or not _compilers:
        return None
    with _lock:
        if name not in _compiled:
            compiled = _compilers[0]((*_NEEDS.get(function, ()), function))
            if compiled is None:
                return None
            _compiled[name] = compiled[name]
        return _compiled[name]
