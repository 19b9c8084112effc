"""Sample inputs for the generated tests."""

from __future__ import annotations

import zlib
from dataclasses import field
from typing import Any

import numpy as np

from gradtape.records import dataclass


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
