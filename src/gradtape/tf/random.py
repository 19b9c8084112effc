"""Random numbers: `tf.random`."""

from gradtape.tf.base.suggestions import attribute_finder
from gradtape.tf.ops import random_numbers as _random_numbers
from gradtape.tf.ops.random_numbers import *

__all__: list[str] = []
__all__ += _random_numbers.__all__

__getattr__ = attribute_finder(__name__, globals())
