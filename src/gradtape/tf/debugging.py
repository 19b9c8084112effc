"""Assertions about tensors: `tf.debugging`."""

from gradtape.tf.programs import assertions as _assertions
from gradtape.tf.programs.assertions import *

__all__: list[str] = []
__all__ += _assertions.__all__
