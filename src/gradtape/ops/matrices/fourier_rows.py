"""Fourier transforms in compiled programs: of contiguous rows, with a table of roots of unity.

The transforms of `fft.py` have compositions of this op and of permutations, so that native code
needs one memory layout. The table is a constant of the plan.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from gradtape.config import LARGEST_FOURIER_TABLE
from gradtape.dtypes import COMPLEX_OF, REAL_OF
from gradtape.ir import Node, Op, Spec, Undefined, apply, declare, spec
from gradtape.ops.arrays.movement import PERMUTE_DIMS
from gradtape.ops.families import batching
from gradtape.ops.families.native_code import NativeCall
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.sparsity import dense, nothing
from gradtape.ops.matrices.fourier_plans import RowPlan
from gradtape.ops.matrices.operation_counts import transform

_LATER = Undefined("rows of transforms appear in compiled programs, after differentiation")
# The dtype names of real numbers in LLVM.
_REALS = {"float64": "double", "float32": "float"}


FOURIER_TABLE = declare(
    Op(
        "fourier_table",
        "creation",
        params=("kind", "length", "dtype"),
        spec=lambda kind, length, dtype: spec((RowPlan(kind, length).table_size(),), dtype),
        numpy=lambda kind, length, dtype: RowPlan(kind, length).table(dtype),
        jvp=_LATER,
        vjp=_LATER,
        batch=_LATER,
        sparsity=nothing,
        samples=lambda: [
            Sample((), {"kind": kind, "length": length, "dtype": np.dtype(np.float64)})
            for kind, length in (("complex", 64), ("to_half", 12), ("from_half", 17))
        ],
    )
)


def _rows_spec(x: Spec, table: Spec, kind: str, length: int, inverse: bool, norm: str) -> Spec:
    if kind == "to_half":
        return spec((*x.shape[:-1], length // 2 + 1), COMPLEX_OF[x.dtype])
    return spec((*x.shape[:-1], length), REAL_OF[x.dtype]) if kind == "from_half" else x


def _rows_numpy(
    x: np.ndarray, table: np.ndarray, kind: str, length: int, inverse: bool, norm: Any
) -> np.ndarray:
    if kind == "to_half":
        return np.fft.rfft(x, norm=norm)
    if kind == "from_half":
        return np.fft.irfft(x, length, norm=norm)
    return (np.fft.ifft if inverse else np.fft.fft)(x, norm=norm)


def _factor(length: int, inverse: bool, norm: str) -> float:
    """The factor of a transform."""
    if norm == "ortho":
        return 1 / math.sqrt(length)
    return 1 / length if (norm == "backward") is inverse else 1.0


def _rows_flops(y: Node) -> float:
    kind, length = y.keywords["kind"], y.keywords["length"]
    rows = math.prod(y.shape[:-1])
    return transform(rows * length, length, 5.0 if kind == "complex" else 2.5)


def _rows_natively(y: Node) -> NativeCall | None:
    kind, length, inverse, norm = y.params
    table = y.inputs[1]
    real = _REALS.get(table.dtype.name)
    if real is None:
        return None
    (factor,) = struct.unpack("<q", struct.pack("<d", _factor(length, inverse, norm)))
    direction = "inverse" if inverse else "forward"
    scratch = RowPlan(kind, length).scratch(table.dtype.itemsize)
    work = int(_rows_flops(y)) // 2 + 4 * y.size
    total = math.prod(y.shape[:-1])
    options = (kind, direction, real, str(length))
    return NativeCall("transform_rows", options, (factor,), total, work, scratch)


def _rows_samples() -> list[Sample]:
    rng = generator("fourier_rows")
    found = []
    cases = (
        ("complex", 6, False, "backward"),
        ("complex", 17, True, "ortho"),
        ("to_half", 8, False, "forward"),
        ("to_half", 5, False, "backward"),
        ("from_half", 8, True, "backward"),
        ("from_half", 7, True, "forward"),
    )
    for kind, length, inverse, norm in cases:
        points = length // 2 + 1 if kind == "from_half" else length
        x = uniform(rng, (-1.0, 1.0), (2, points), "float64" if kind == "to_half" else "complex128")
        table = RowPlan(kind, length).table(np.float64)
        params = {"kind": kind, "length": length, "inverse": inverse, "norm": norm}
        found.append(Sample((x, table), params))
    return found


def _rows_batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    """Leading axes are rows; examples with tables of their own are transformed one by one."""
    return (batching.by_scan if batched[1] else batching.leading)(inputs, batched, y, **params)


FOURIER_ROWS = declare(
    Op(
        "fourier_rows",
        "library",
        params=("kind", "length", "inverse", "norm"),
        spec=_rows_spec,
        numpy=_rows_numpy,
        jvp=_LATER,
        vjp=_LATER,
        batch=_rows_batch,
        sparsity=dense,
        expensive=True,
        flops=_rows_flops,
        native=_rows_natively,
        samples=_rows_samples,
    )
)


def _along(x: Node, axis: int, kind: str, length: int, inverse: bool, norm: str) -> Node | None:
    """The transform along an axis; None if NumPy computes it."""
    real = x.dtype if x.dtype.kind == "f" else REAL_OF[x.dtype]
    if not x.size or real.name not in _REALS:
        return None
    if RowPlan(kind, length).table_size() * real.itemsize > LARGEST_FOURIER_TABLE:
        return None
    last = x.ndim - 1
    order = tuple(at for at in range(last + 1) if at != axis) + (axis,)
    moved = x if axis == last else apply(PERMUTE_DIMS, (x,), (order,))
    table = apply(FOURIER_TABLE, (), (kind, length, real))
    found = apply(FOURIER_ROWS, (moved, table), (kind, length, inverse, norm))
    back = (*range(axis), last, *range(axis, last))
    return found if axis == last else apply(PERMUTE_DIMS, (found,), (back,))


def compose_complex(x: Node, axes: tuple[int, ...], inverse: bool, norm: str) -> Node | None:
    """The composition of a complex transform: one axis after the other."""
    found: Node | None = x
    for axis in axes[::-1]:
        if found is not None:
            found = _along(found, axis, "complex", x.shape[axis], inverse, norm)
    return found


def compose_real(x: Node, axis: int, norm: str) -> Node | None:
    """The composition of a transform of real signals."""
    return _along(x, axis, "to_half", x.shape[axis], False, norm)


def compose_half(x: Node, axis: int, length: int, norm: str) -> Node | None:
    """The composition of a transform to real signals."""
    return _along(x, axis, "from_half", length, True, norm)
