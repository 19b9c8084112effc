"""Assertions about tensors: `tf.debugging`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.programs import assertions as _assertions
from gradtape.tf.programs.assertions import *

__all__: list[str] = []
__all__ += _assertions.__all__


_check_exports(globals(), __all__)
