"""Sample inputs for the generated tests."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.dtypes import Array
from gradtape.ir import Rule, Shape

# One dtype of each kind that ops distinguish.
DTYPES = ("float64", "float32", "complex128", "int32", "uint8", "bool")


@dataclass(frozen=True)
class Sample:
    """One valid call of an op: arrays, params, and whether derivatives can be checked there.

    >>> gt.extend.Sample((np.array([1.0, 2.0]),), {"axis": 0}, order=1).order
    1
    """

    inputs: tuple[Any, ...]
    params: dict[str, Any] = field(default_factory=dict)
    # Highest order of derivative that finite differences can confirm at this point.
    order: int = 2


def generator(name: str) -> np.random.Generator:
    """A random generator seeded by the op's name, so that every run draws the same numbers."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def uniform(rng: np.random.Generator, domain: tuple[float, float], shape: Any, dtype: Any) -> Any:
    """Random numbers of any dtype in a domain, which limits the real part of complex ones."""
    dtype = np.dtype(dtype)
    low, high = domain
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        least = max(low, 0) if dtype.kind == "u" else low
        return rng.integers(int(least), int(high + 1), shape).astype(dtype)
    real = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        return (real + 1j * rng.uniform(-0.5, 0.5, shape)).astype(dtype)
    return real.astype(dtype)


def distinct_values(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    """Values without accidental ties, so that extrema and orders can be differentiated."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.integers(0, 2, shape) > 0)
    if kind in "iu":
        return np.asarray(rng.integers(1, 6, shape), dtype)
    values = np.asarray(rng.permutation(math.prod(shape)).reshape(shape) * 0.3 + 0.4)
    return (values + 0.2j * values).astype(dtype) if kind == "c" else values.astype(dtype)


def drawn(
    name: str,
    params: tuple[str, ...],
    *rows: tuple[Any, ...],
    dtypes: Sequence[str] = ("float64", "int32"),
    **more: Any,
) -> Rule:
    """Samples of one operand with distinct values: rows of its shape and params, in each dtype."""

    def samples() -> list[Sample]:
        rng = generator(name)
        return [
            Sample(
                (distinct_values(rng, shape, dtype),),
                {**dict(zip(params, values, strict=True)), **more},
            )
            for dtype in dtypes
            for shape, *values in rows
        ]

    return samples
