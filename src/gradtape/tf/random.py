"""Random numbers: `tf.random`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.ops import random_numbers as _random_numbers
from gradtape.tf.ops.random_numbers import *

__all__: list[str] = []
__all__ += _random_numbers.__all__


_check_exports(globals(), __all__)
