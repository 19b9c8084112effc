"""Discrete Fourier transforms: `tf.signal`."""

from gradtape.tf.ops import fourier as _fourier
from gradtape.tf.ops.fourier import *

__all__: list[str] = []
__all__ += _fourier.__all__
