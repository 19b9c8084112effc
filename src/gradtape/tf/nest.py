"""Nests of lists, tuples and dicts: `tf.nest`."""

from gradtape.tf.base import nest as _nest
from gradtape.tf.base.nest import *

__all__: list[str] = []
__all__ += _nest.__all__
