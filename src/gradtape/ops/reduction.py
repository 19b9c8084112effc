"""Reductions: sums, products, extrema, moments, norms, cumulative and logical ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype
from gradtape.graph.node import Node
from gradtape.graph.op import Op, Undefined, declare
from gradtape.graph.recording import record
from gradtape.graph.spec import Shape, Spec, spec
from gradtape.ops.arithmetic import record_operand
from gradtape.ops.casting import cast
from gradtape.ops.linear import expand_reduced, linear, mask_reduced
from gradtape.ops.samples import Sample, generator
from gradtape.ops.shapes import normalize_axes


def reduced_shape(shape: Shape, axis: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape that is left after reducing over `axis`."""
    if keepdims:
        return tuple(1 if position in axis else n for position, n in enumerate(shape))
    return tuple(n for position, n in enumerate(shape) if position not in axis)


def reduction_samples(name: str, dtypes: tuple[str, ...] = ("float64",)) -> Any:
    """Every kind of axis, kept or not, on 2-d, 3-d, 0-d and empty operands."""

    def samples() -> list[Sample]:
        rng = generator(name)
        cases: list[tuple[Shape, tuple[int, ...], bool]] = [
            ((2, 3), (0,), False),
            ((2, 3), (1,), True),
            ((2, 3), (0, 1), False),
            ((2, 2, 3), (0, 2), False),
            ((), (), False),
            ((0, 3), (1,), False),
            ((3,), (), False),
        ]
        return [
            Sample((_values(rng, shape, dtype),), {"axis": axis, "keepdims": keepdims})
            for dtype in dtypes
            for shape, axis, keepdims in cases
        ]

    return samples


def _values(rng: np.random.Generator, shape: Shape, dtype: str) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape) > 0)
    if kind in "iu":
        return np.asarray(rng.integers(1, 6, shape), dtype)
    # Distinct by construction, so that extrema have no accidental ties.
    values = np.asarray(rng.permutation(int(np.prod(shape))).reshape(shape) * 0.3 + 0.4)
    return (values + 0.2j * values).astype(dtype) if kind == "c" else values.astype(dtype)


def accumulator(dtype: Any) -> Any:
    """Sums of small integers and booleans are wide ones, as in NumPy."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def _sum_spec(x: Spec, axis: tuple[int, ...], keepdims: bool) -> Spec:
    return spec(reduced_shape(x.shape, axis, keepdims), accumulator(x.dtype))


SUM = linear(
    "sum",
    "reduction",
    spec=_sum_spec,
    numpy=lambda x, axis, keepdims: np.sum(x, axis=axis, keepdims=keepdims),
    transpose=lambda g, x, axis, keepdims: expand_reduced(g, x.shape, axis),
    params=("axis", "keepdims"),
    samples=reduction_samples("sum", ("float64", "float32", "complex128", "int32", "bool")),
    mask=mask_reduced,
    expensive=True,
)


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Sum over axes, all by default.

    >>> gt.sum(gt.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]
    """
    x = record_operand(x)
    if dtype is not None:
        x = cast(x, as_dtype(dtype))
    return record(SUM, (x,), (normalize_axes("sum", axis, x.ndim), bool(keepdims)))


def _logical(name: str, kernel: Any) -> Op:
    return declare(
        Op(
            name,
            "reduction",
            spec=lambda x, axis, keepdims: spec(
                reduced_shape(x.shape, axis, keepdims), np.dtype(bool)
            ),
            numpy=lambda x, axis, keepdims: kernel(x, axis=axis, keepdims=keepdims),
            jvp=Undefined(f"{name} gives booleans"),
            vjp=Undefined(f"{name} gives booleans"),
            params=("axis", "keepdims"),
            samples=reduction_samples(name, ("bool", "float64", "int32")),
            expensive=True,
        )
    )


ANY = _logical("any", np.any)
ALL = _logical("all", np.all)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element is nonzero.

    >>> bool(gt.any(gt.asarray([0, 1])))
    True
    """
    x = record_operand(x)
    return record(ANY, (x,), (normalize_axes("any", axis, x.ndim), bool(keepdims)))


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether every element is nonzero.

    >>> bool(gt.all(gt.asarray([0, 1])))
    False
    """
    x = record_operand(x)
    return record(ALL, (x,), (normalize_axes("all", axis, x.ndim), bool(keepdims)))


def count(x: Node, axis: tuple[int, ...]) -> int:
    """How many elements a reduction over `axis` combines."""
    return int(np.prod([x.shape[position] for position in axis], dtype=np.int64))
