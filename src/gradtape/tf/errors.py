"""Exceptions under TensorFlow's names: `tf.errors`."""

from gradtape.tf.base import errors as _errors
from gradtape.tf.base.errors import *

__all__: list[str] = []
__all__ += _errors.__all__
