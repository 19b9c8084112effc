"""The frequencies that belong to a Fourier transform, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype, default_dtype
from gradtape.errors import DtypeError
from gradtape.ops.arrays.creation import check_device
from gradtape.ops.arrays.movement import roll
from gradtape.ops.elementwise.arithmetic import identity, record_operand
from gradtape.ops.families.shapes import normalize_axis
from gradtape.ops.families.signatures import DTypeLike, Tensor, TensorLike, kind_of_operand
from gradtape.ops.matrices.fft import require_points

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequencies of `fft`, for n points a distance d apart.

    >>> gt.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequencies of `rfft`, for n points a distance d apart.

    >>> gt.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype, device)


def _frequencies(name: str, of: Any, n: int, d: float, dtype: Any, device: Any) -> Any:
    check_device(name, device)
    dtype = default_dtype() if dtype is None else as_dtype(dtype)
    if dtype.kind != "f":
        raise DtypeError(
            f"{name}: frequencies are real numbers, not {dtype}. Choose a float dtype."
        )
    return identity(of(require_points(name, n), float(d)).astype(dtype))


@kind_of_operand
def fftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency 0 moved to the middle, along all axes by default.

    >>> gt.fft.fftshift(gt.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    x = record_operand(x)
    order = _shifted_axes("fftshift", x, axes)
    return roll(x, tuple(x.shape[axis] // 2 for axis in order), axis=order)


@kind_of_operand
def ifftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency 0 moved from the middle back to the front.

    >>> gt.fft.ifftshift([-0.5, -0.25, 0.0, 0.25]).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    x = record_operand(x)
    order = _shifted_axes("ifftshift", x, axes)
    return roll(x, tuple(-(x.shape[axis] // 2) for axis in order), axis=order)


def _shifted_axes(name: str, x: Any, axes: Any) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(x.ndim))
    listed = axes if isinstance(axes, (tuple, list)) else (axes,)
    return tuple(normalize_axis(name, axis, x.ndim) for axis in listed)
