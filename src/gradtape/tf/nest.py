"""Nests of lists, tuples and dicts: `tf.nest`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.base import nest as _nest
from gradtape.tf.base.nest import *

__all__: list[str] = []
__all__ += _nest.__all__


_check_exports(globals(), __all__)
