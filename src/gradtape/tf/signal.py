"""Discrete Fourier transforms: `tf.signal`. They work along the last axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape import fft as core
from gradtape.errors import DtypeError
from gradtape.tf.conversion import as_shape, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tensor import Tensor

__all__ = [
    "fft", "fft2d", "fft3d", "fftshift", "ifft", "ifft2d", "ifft3d", "ifftshift", "irfft",
    "irfft2d", "irfft3d", "rfft", "rfft2d", "rfft3d",
]  # fmt: skip


def _checked(name: str, x: Any, kind: str) -> Tensor:
    x = convert(x)
    if x.spec.dtype.kind != kind:
        wanted = "complex64" if kind == "c" else "float32"
        raise DtypeError(
            f"{name}: a tensor of dtype {x.dtype.name} is not accepted. Use tf.cast to {wanted}."
        )
    return x


def _axes(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))


def _complex(name: str, function: Any, axes: int, doc: str, example: str) -> Any:
    @operation
    def transform(input: Any, name: str | None = None) -> Tensor:
        return function(_checked(transform.__name__, input, "c"), axes=_axes(axes))

    return _documented(transform, name, doc, example)


def _real(name: str, function: Any, axes: int, kind: str, doc: str, example: str) -> Any:
    @operation
    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = _checked(transform.__name__, input_tensor, kind)
        length = None if fft_length is None else as_shape(fft_length)
        return function(x, s=length, axes=_axes(axes))

    return _documented(transform, name, doc, example)


def _documented(transform: Any, name: str, doc: str, example: str) -> Any:
    transform.__name__ = transform.__qualname__ = name
    transform.__module__ = __name__
    transform.__doc__ = f"{doc}\n\n    {example}\n    "
    return transform


def _shape_example(name: str, argument: str, result: str) -> str:
    return f">>> tf.signal.{name}({argument}).shape\n    TensorShape({result})"


_COMPLEX = "tf.zeros([4, 4, 4], tf.complex64)"
_REAL = "tf.zeros([4, 4, 4])"
_LAST = {1: "the last axis", 2: "the last two axes", 3: "the last three axes"}
_SUFFIX = {1: "", 2: "2d", 3: "3d"}


def _family(name: str, make: Any) -> list[Any]:
    """The transform along one, two and three axes."""
    return [make(f"{name}{_SUFFIX[count]}", count) for count in (1, 2, 3)]


fft, fft2d, fft3d = _family("fft", lambda name, count: _complex(
    name, core.fftn, count, f"Discrete Fourier transform along {_LAST[count]}.",
    _shape_example(name, _COMPLEX, "[4, 4, 4]"),
))  # fmt: skip
ifft, ifft2d, ifft3d = _family("ifft", lambda name, count: _complex(
    name, core.ifftn, count, f"Inverse of `{name[1:]}`, along {_LAST[count]}.",
    _shape_example(name, _COMPLEX, "[4, 4, 4]"),
))  # fmt: skip
rfft, rfft2d, rfft3d = _family("rfft", lambda name, count: _real(
    name, core.rfftn, count, "f",
    f"Fourier transform of a real signal along {_LAST[count]}; the last is halved.",
    _shape_example(name, _REAL, "[4, 4, 3]"),
))  # fmt: skip
irfft, irfft2d, irfft3d = _family("irfft", lambda name, count: _real(
    name, core.irfftn, count, "c", f"Inverse of `{name[1:]}`, along {_LAST[count]}.",
    _shape_example(name, _COMPLEX.replace("4]", "3]"), "[4, 4, 4]"),
))  # fmt: skip


@operation
def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Frequency 0 moved to the middle.

    >>> tf.signal.fftshift([0.0, 1.0, -2.0, -1.0]).numpy().tolist()
    [-2.0, -1.0, 0.0, 1.0]
    """
    return core.fftshift(convert(x), axes=_given(axes))


@operation
def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Frequency 0 moved back from the middle.

    >>> tf.signal.ifftshift([-2.0, -1.0, 0.0, 1.0]).numpy().tolist()
    [0.0, 1.0, -2.0, -1.0]
    """
    return core.ifftshift(convert(x), axes=_given(axes))


def _given(axes: Any) -> Any:
    return None if axes is None else tuple(np.atleast_1d(np.asarray(axes)).tolist())


__getattr__ = attribute_finder(__name__, globals())
