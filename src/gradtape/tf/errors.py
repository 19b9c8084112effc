"""Exceptions under TensorFlow's names: `tf.errors`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.base import errors as _errors
from gradtape.tf.base.errors import *

__all__: list[str] = []
__all__ += _errors.__all__


_check_exports(globals(), __all__)
