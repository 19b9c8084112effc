"""Neural-network functions: `tf.nn`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.ops import convolution as _convolution, neural as _neural, windows as _windows
from gradtape.tf.ops.convolution import *
from gradtape.tf.ops.elementwise import sigmoid, softplus, softsign, tanh
from gradtape.tf.ops.neural import *
from gradtape.tf.ops.products import l2_normalize
from gradtape.tf.ops.rearranging import depth_to_space, space_to_depth
from gradtape.tf.ops.reductions import zero_fraction
from gradtape.tf.ops.sorting import in_top_k, top_k
from gradtape.tf.ops.windows import *

__all__ = [
    "depth_to_space",
    "in_top_k",
    "l2_normalize",
    "sigmoid",
    "softplus",
    "softsign",
    "space_to_depth",
    "tanh",
    "top_k",
    "zero_fraction",
]
__all__ += _convolution.__all__
__all__ += _neural.__all__
__all__ += _windows.__all__


_check_exports(globals(), __all__)
