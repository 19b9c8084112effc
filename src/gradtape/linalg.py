"""Linear algebra, under the names of the array API standard and a few more."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gradtape.argument_checks import check_exports as _check_exports
from gradtape.ops.arrays.movement import matrix_transpose
from gradtape.ops.families.signatures import show_signatures as _show_signatures
from gradtape.ops.matrices.contraction import matmul
from gradtape.ops.matrices.decompositions import QR, cholesky, qr
from gradtape.ops.matrices.linalg import (
    Slogdet,
    det,
    inv,
    matrix_power,
    slogdet,
    solve,
    triangular_solve,
)
from gradtape.ops.matrices.matrix_functions import (
    cross,
    diagonal,
    expm,
    lstsq,
    matrix_norm,
    matrix_rank,
    pinv,
    trace,
    vector_norm,
)
from gradtape.ops.matrices.products import outer, tensordot, vecdot
from gradtape.ops.matrices.sparse_solve import sparse_solve
from gradtape.ops.matrices.spectral import SVD, Eigh, eigh, eigvalsh, svd, svdvals
from gradtape.ops.reductions.norm import norm
from gradtape.suggestions import namespace as _namespace

__all__ = [
    "QR",
    "SVD",
    "Eigh",
    "Slogdet",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "sparse_solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "triangular_solve",
    "vecdot",
    "vector_norm",
]

# Products and transposes are called often, and check their own arguments.
_OFTEN_CALLED = ("contraction", "movement", "products")
_check_exports(
    globals(),
    [f for f in __all__ if globals()[f].__module__.rpartition(".")[2] not in _OFTEN_CALLED],
)

_show_signatures(
    globals(), "cholesky diagonal lstsq matrix_rank pinv qr svd tensordot trace vecdot"
)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
