"""Discrete Fourier transforms: `tf.signal`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.ops import fourier as _fourier
from gradtape.tf.ops.fourier import *

__all__: list[str] = []
__all__ += _fourier.__all__


_check_exports(globals(), __all__)
