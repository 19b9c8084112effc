"""Derivatives by differences, and test cases that compare tensors: `tf.test`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.programs import testing as _testing
from gradtape.tf.programs.testing import *

__all__: list[str] = []
__all__ += _testing.__all__


_check_exports(globals(), __all__)
