"""How kernels combine two partial results of a reduction or a scan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradtape.dtypes import DType
from gradtape.graph.facts import Accumulation
from gradtape.graph.vector_code import Builder, Combination, Vector
from gradtape.ops.families import lowering


def add(b: Builder, x: Vector, y: Vector) -> Vector:
    """x + y, never contracted to a fused multiply-add, which would round differently from NumPy."""
    return b.arithmetic("fadd", "add", x, y, contract=False)


def _multiply(b: Builder, x: Vector, y: Vector) -> Vector:
    return b.arithmetic("fmul", "mul", x, y, contract=False)


def _recurrence_step(b: Builder, state: Vector, factor: Vector, term: Vector) -> Vector:
    """factor * state + term, where a state of 0 adds nothing even if the factor is infinite."""
    zero = b.constant(0, state.dtype)
    grown = _multiply(b, factor, state)
    return add(b, b.select(b.compare("oeq", "eq", state, zero), zero, grown), term)


def _lowest(dtype: DType) -> float:
    return -np.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


def _highest(dtype: DType) -> float:
    return np.inf if dtype.kind == "f" else int(np.iinfo(dtype).max)


def _always(value: int) -> Callable[[DType], int]:
    return lambda dtype: value


COMBINATIONS: dict[Accumulation, Combination] = {
    Accumulation.SUM: Combination(_always(0), add),
    Accumulation.PROD: Combination(_always(1), _multiply),
    Accumulation.ANY: Combination(_always(False), lowering.bits("or")),
    Accumulation.ALL: Combination(_always(True), lowering.bits("and")),
    # Kernels do not take booleans (no `b` in kinds): they are rare enough to be left to NumPy.
    Accumulation.MAX: Combination(_lowest, lowering.larger, kinds="iuf"),
    Accumulation.MIN: Combination(_highest, lowering.smaller, kinds="iuf"),
    Accumulation.ARGMAX: Combination(_lowest, lowering.larger, kinds="iuf", better="gt"),
    Accumulation.ARGMIN: Combination(_highest, lowering.smaller, kinds="iuf", better="lt"),
    Accumulation.RECURRENCE: Combination(_always(0), add, step=_recurrence_step),
}
