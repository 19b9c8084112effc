"""Discrete Fourier transforms, under the names of the array API standard."""

from __future__ import annotations

from gradtape.ops.matrices.fft import (
    fft,
    fftn,
    hfft,
    ifft,
    ifftn,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)
from gradtape.ops.matrices.frequencies import fftfreq, fftshift, ifftshift, rfftfreq

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip
