"""Nests: the shapes of loop that a kernel without reductions can have (see Kernel.layout)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.codegen.kernels.loops import Emitter

# A longer body is emitted once, always masked, instead of once full and once for the tail.
LONG_BODY = 48


def emit(e: Emitter) -> None:
    """Fill the emitter with its kernel's loops."""
    if e.kernel.reductions:
        from gradtape.codegen.kernels import reductions

        reductions.emit(e)
    elif e.kernel.layout == "scatter":
        _scatter(e)
    else:
        _map(e)


def _entries(e: Emitter) -> int:
    return len(e.bases)


def outer_loops(e: Emitter, count: int, body: Callable[[list[str]], None]) -> None:
    """Loops over the first `count` axes; the outermost runs over [lo, hi)."""

    def nest(indices: list[str]) -> None:
        axis = len(indices)
        if axis == count:
            body(indices)
            return
        low, high = ("%lo", "%hi") if axis == 0 else ("0", e.sizes[axis])
        e.loop(low, high, "1", lambda i: nest([*indices, i]))

    nest([])


def _vectors(e: Emitter, low: str, high: str, body: Callable[[str, str | None], None]) -> None:
    """One body per vector of points from low to high, the last one masked."""
    step = str(e.lanes)
    if len(e.kernel.body) > LONG_BODY:
        e.loop(low, high, step, lambda i: body(i, e.mask(i, high)))
        return
    count = e.b.let(f"sub nsw i64 {high}, {low}")
    rest = e.b.let(f"and i64 {count}, {e.lanes - 1}")
    full = e.b.let(f"sub nsw i64 {high}, {rest}")
    e.loop(low, full, step, lambda i: body(i, None))
    e.loop(full, high, step, lambda i: body(i, e.mask(i, high)))


def _map(e: Emitter) -> None:
    inner = e.kernel.axes - 1

    def row(outer: list[str]) -> None:
        rows = e.moved([e.row(outer, entry) for entry in range(_entries(e))])
        same = e.same_in_row(rows)
        low, high = ("%lo", "%hi") if inner == 0 else ("0", e.sizes[inner])
        _vectors(e, low, high, lambda i, mask: _ignore(e.point(rows, i, inner, mask, same)))

    outer_loops(e, inner, row)


def _scatter(e: Emitter) -> None:
    """Threads divide the innermost axis, so that each meets all that is written to its part."""
    inner = e.kernel.axes - 1

    def nest(indices: list[str]) -> None:
        axis = len(indices)
        if axis < inner:
            e.loop("0", e.sizes[axis], "1", lambda i: nest([*indices, i]))
            return
        rows = e.moved([e.row(indices, entry) for entry in range(_entries(e))])
        same = e.same_in_row(rows)
        _vectors(e, "%lo", "%hi", lambda i, mask: _ignore(e.point(rows, i, inner, mask, same)))

    nest([])


def _ignore(values: Any) -> None:
    return None
