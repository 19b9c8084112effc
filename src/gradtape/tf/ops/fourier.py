"""Discrete Fourier transforms along the last axes: `tf.signal`. Most are rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt
from gradtape import fft as core
from gradtape.errors import DtypeError
from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import as_axes, as_shape, convert
from gradtape.tf.base.dispatch import documented, named_in, operation
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import Axis, Name, ShapeLike, TensorLike

__all__ = [
    "fft",
    "fft2d",
    "fft3d",
    "fftshift",
    "ifft",
    "ifft2d",
    "ifft3d",
    "ifftshift",
    "irfft",
    "irfft2d",
    "irfft3d",
    "rfft",
    "rfft2d",
    "rfft3d",
]


def _checked(name: str, x: TensorLike, kind: str) -> Tensor:
    x = convert(x)
    if x.spec.dtype.kind != kind:
        wanted = "complex64" if kind == "c" else "float32"
        raise DtypeError(
            f"{name}: a tensor of dtype {x.dtype.name} is not accepted. Use tf.cast to {wanted}."
        )
    return x


_AXES = {1: "the last axis", 2: "the last two axes", 3: "the last three axes"}


def _complex(
    function: Callable[..., Any], count: int, sentence: str, example: str
) -> Callable[..., Tensor]:
    """A row for a transform of complex signals along some number of axes."""
    own = named_in(example)

    def transform(input: TensorLike, name: Name = None) -> Tensor:
        x = _checked(own, input, "c")
        # Nothing is transformed to nothing.
        return function(x, axes=tuple(range(-count, 0))) if x.spec.size else gt.identity(x)

    sentence = f"{sentence} along {_AXES[count]}."
    return operation(documented(transform, __name__, sentence, example, "TensorShape([4, 4, 4])"))


def _real(
    function: Callable[..., Any], count: int, kind: str, sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a transform of real signals, or (kind "c") back to them."""
    own = named_in(example)

    def transform(
        input_tensor: TensorLike, fft_length: ShapeLike | None = None, name: Name = None
    ) -> Tensor:
        x = _checked(own, input_tensor, kind)
        length = None if fft_length is None else as_shape(fft_length)
        lengths = x.spec.shape[-count:] if length is None else length
        if 0 in lengths and (length is None or kind == "c"):
            other = np.float32 if kind == "c" else np.complex64
            wanted = np.result_type(other, np.zeros(0, x.spec.dtype).real.dtype)
            return adopt(gt.zeros((*x.spec.shape[: x.ndim - count], *lengths), dtype=wanted))
        return function(x, s=length, axes=tuple(range(-count, 0)))

    sentence = f"{sentence} along {_AXES[count]}."
    return operation(documented(transform, __name__, sentence, example, result))


_FORWARD, _BACK = "Discrete Fourier transform", "Inverse discrete Fourier transform"
_CUBE = "(tf.zeros([4, 4, 4], tf.complex64)).shape"
fft = _complex(core.fftn, 1, _FORWARD, f"tf.signal.fft{_CUBE}")
fft2d = _complex(core.fftn, 2, _FORWARD, f"tf.signal.fft2d{_CUBE}")
fft3d = _complex(core.fftn, 3, _FORWARD, f"tf.signal.fft3d{_CUBE}")
ifft = _complex(core.ifftn, 1, _BACK, f"tf.signal.ifft{_CUBE}")
ifft2d = _complex(core.ifftn, 2, _BACK, f"tf.signal.ifft2d{_CUBE}")
ifft3d = _complex(core.ifftn, 3, _BACK, f"tf.signal.ifft3d{_CUBE}")

_HALVED = "Fourier transform of a real signal, of which half is kept,"
_WHOLE, _HALF = "(tf.zeros([4, 4, 4])).shape", "TensorShape([4, 4, 3])"
rfft = _real(core.rfftn, 1, "f", _HALVED, f"tf.signal.rfft{_WHOLE}", _HALF)
rfft2d = _real(core.rfftn, 2, "f", _HALVED, f"tf.signal.rfft2d{_WHOLE}", _HALF)
rfft3d = _real(core.rfftn, 3, "f", _HALVED, f"tf.signal.rfft3d{_WHOLE}", _HALF)

_DOUBLED = "Inverse Fourier transform to a real signal, from the half that rfft keeps,"
_KEPT, _SIGNAL = "(tf.zeros([4, 4, 3], tf.complex64)).shape", "TensorShape([4, 4, 4])"
irfft = _real(core.irfftn, 1, "c", _DOUBLED, f"tf.signal.irfft{_KEPT}", _SIGNAL)
irfft2d = _real(core.irfftn, 2, "c", _DOUBLED, f"tf.signal.irfft2d{_KEPT}", _SIGNAL)
irfft3d = _real(core.irfftn, 3, "c", _DOUBLED, f"tf.signal.irfft3d{_KEPT}", _SIGNAL)


@operation
def fftshift(x: TensorLike, axes: Axis = None, name: Name = None) -> Tensor:
    """Frequency 0 moved to the middle.

    >>> tf.signal.fftshift([0.0, 1.0, -2.0, -1.0]).numpy().tolist()
    [-2.0, -1.0, 0.0, 1.0]
    """
    return core.fftshift(convert(x), axes=as_axes(axes))


@operation
def ifftshift(x: TensorLike, axes: Axis = None, name: Name = None) -> Tensor:
    """Frequency 0 moved back from the middle.

    >>> tf.signal.ifftshift([-2.0, -1.0, 0.0, 1.0]).numpy().tolist()
    [0.0, 1.0, -2.0, -1.0]
    """
    return core.ifftshift(convert(x), axes=as_axes(axes))


check_exports(globals(), __all__)
