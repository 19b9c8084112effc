"""Mathematical functions: `tf.math`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.ops import (
    elementwise as _elementwise,
    gamma as _gamma,
    reductions as _reductions,
    segments as _segments,
    special,
)
from gradtape.tf.ops.elementwise import *
from gradtape.tf.ops.gamma import *
from gradtape.tf.ops.neural import log_softmax, softmax
from gradtape.tf.ops.products import l2_normalize
from gradtape.tf.ops.reductions import *
from gradtape.tf.ops.segments import *
from gradtape.tf.ops.sorting import (
    bincount,
    confusion_matrix,
    in_top_k,
    invert_permutation,
    top_k,
)
from gradtape.tf.ops.special import bessel_i0e, bessel_i1e

__all__ = [
    "bessel_i0e",
    "bessel_i1e",
    "bincount",
    "confusion_matrix",
    "in_top_k",
    "invert_permutation",
    "l2_normalize",
    "log_softmax",
    "softmax",
    "special",
    "top_k",
]
__all__ += _elementwise.__all__
__all__ += _gamma.__all__
__all__ += _reductions.__all__
__all__ += _segments.__all__


_check_exports(globals(), __all__)
