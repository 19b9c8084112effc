"""Linear algebra: `tf.linalg`."""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.ops import diagonals as _diagonals, factors as _factors, matrices as _matrices
from gradtape.tf.ops.creation import eye
from gradtape.tf.ops.diagonals import *
from gradtape.tf.ops.factors import *
from gradtape.tf.ops.matrices import *
from gradtape.tf.ops.products import (
    einsum,
    global_norm,
    l2_normalize,
    matmul,
    matvec,
    norm,
    tensordot,
)

__all__ = [
    "einsum",
    "eye",
    "global_norm",
    "l2_normalize",
    "matmul",
    "matvec",
    "norm",
    "tensordot",
]
__all__ += _diagonals.__all__
__all__ += _factors.__all__
__all__ += _matrices.__all__


_check_exports(globals(), __all__)
