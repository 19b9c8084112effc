"""Random numbers: `tf.random`."""

from gradtape.tf.ops import random_numbers as _random_numbers
from gradtape.tf.ops.random_numbers import *

__all__: list[str] = []
__all__ += _random_numbers.__all__
