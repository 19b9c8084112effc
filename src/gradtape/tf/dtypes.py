"""Element types and casts: `tf.dtypes`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.base import casting as _casting, dtypes as _dtypes
from gradtape.tf.base.casting import *
from gradtape.tf.base.dtypes import *

__all__: list[str] = []
__all__ += _casting.__all__
__all__ += _dtypes.__all__


_check_exports(globals(), __all__)
