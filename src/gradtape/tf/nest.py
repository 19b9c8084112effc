"""Nests of lists, tuples and dicts: `tf.nest`."""

from gradtape.tf.base import nest as _nest
from gradtape.tf.base.nest import *
from gradtape.tf.base.suggestions import attribute_finder

__all__: list[str] = []
__all__ += _nest.__all__

__getattr__ = attribute_finder(__name__, globals())
