"""Exceptions under TensorFlow's names: `tf.errors`."""

from gradtape.tf.base import errors as _errors
from gradtape.tf.base.errors import *
from gradtape.tf.base.suggestions import attribute_finder

__all__: list[str] = []
__all__ += _errors.__all__

__getattr__ = attribute_finder(__name__, globals())
