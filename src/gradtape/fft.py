"""Discrete Fourier transforms, under the names of the array API standard."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gradtape.argument_checks import check_exports as _check_exports
from gradtape.ops.families.signatures import show_signatures as _show_signatures
from gradtape.ops.matrices.fft import (
    fft,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftfreq,
    rfftn,
)
from gradtape.suggestions import namespace as _namespace

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_check_exports(globals(), __all__)

_show_signatures(globals(), " ".join(__all__))

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
