"""Cholesky and QR: a matrix as a product of triangular and orthonormal factors.

Derivative rules are written for forward mode; reverse mode transposes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradtape.ir import Node, Spec, Undefined, spec
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.arrays.triangles import tril
from gradtape.ops.elementwise.complexes import imag
from gradtape.ops.families import Sample, cast
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand
from gradtape.ops.matrices import checks, lapack_calls, operation_counts
from gradtape.ops.matrices.contraction import adjoint, matmul, own
from gradtape.ops.matrices.linalg import TRIANGULAR_SOLVE
from gradtape.records import described
from gradtape.trace.record import record


def _solve_lower(factor: Node, right: Node) -> Node:
    return record(TRIANGULAR_SOLVE, (factor, right), (True, False))


def _cholesky_jvp(tangents: tuple[Node, ...], y: Node, inputs: tuple[Node, ...]) -> Node:
    # L⁻¹ dA L⁻ᴴ = L⁻¹ dL + (L⁻¹ dL)ᴴ: its lower triangle with half the diagonal is L⁻¹ dL.
    inner = _solve_lower(y, adjoint(_solve_lower(y, checks.symmetric_part(tangents[0]))))
    halved = tril(inner) - inner * (checks.identity_like(inner) * 0.5)
    return matmul(y, halved)


def _positive_samples() -> list[Sample]:
    return [
        Sample((x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1], dtype=x.dtype),))
        for x in checks.sample_matrices("cholesky", checks.SQUARE)
    ]


CHOLESKY = checks.of_matrices(
    "cholesky",
    checks.square_spec("cholesky"),
    lambda x: np.linalg.cholesky(checks.symmetric_part(x)),
    failure="a matrix is not positive definite ({}). Add a small multiple of the identity.",
    jvp=_cholesky_jvp,
    mask=checks.batch_mask(2),
    solves=True,
    flops=operation_counts.of_matrices(operation_counts.cholesky),
    native=lapack_calls.cholesky,
    samples=_positive_samples,
)


@kind_of_operand
def cholesky(x: TensorLike, /, upper: bool = False) -> Tensor:
    """The lower triangular L with L @ Lᴴ = x, or its conjugate transpose.

    >>> gt.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).tolist()
    [[2.0, 0.0], [1.0, 1.0]]

    x counts as symmetric (Hermitian): of a matrix that is not, the symmetric part is taken.
    """
    found = record(CHOLESKY, (x,))
    return own(adjoint(found)) if upper else found


@described(Q="The orthonormal columns.", R="The upper triangle.")
class QR(NamedTuple):
    """Orthonormal columns and the upper triangle that give the matrix.

    >>> gt.linalg.qr([[2.0, 0.0], [0.0, 3.0]]).R.shape
    (2, 2)
    """

    Q: Tensor
    R: Tensor


def _qr_spec(x: Spec, complete: bool) -> tuple[Spec, Spec]:
    checks.require_matrix("qr", x)
    *batch, rows, columns = x.shape
    inner = rows if complete else min(rows, columns)
    return spec((*batch, rows, inner), x.dtype), spec((*batch, inner, columns), x.dtype)


def _qr_jvp(
    tangents: tuple[Node, ...], y: tuple[Node, ...], inputs: tuple[Node, ...], complete: bool
) -> tuple[Node, Node]:
    (q, r), (x,), (dx,) = y, inputs, tangents
    rows, columns = x.shape[-2:]
    if complete and rows > columns:
        Undefined(
            "the columns of Q past those of the matrix are arbitrary. Use mode='reduced'"
        ).refuse("qr", "the derivative")
    square, moved = r, dx
    if columns > rows:
        # Q and the first columns of R depend on the first columns of the matrix only.
        square = along_axis(r, r.ndim - 1, 0, rows)
        moved = along_axis(dx, dx.ndim - 1, 0, rows)
    # dx R⁻¹ is computed by a solve with the lower triangle Rᴴ.
    scaled = adjoint(_solve_lower(adjoint(square), adjoint(moved)))
    inner = matmul(adjoint(q), scaled)
    below = tril(inner, k=-1)
    rotation = below - adjoint(below)
    if inner.dtype.kind == "c":
        # R keeps a real diagonal, so the phase of each column turns with it.
        rotation = rotation + cast(imag(inner), inner.dtype) * (checks.identity_like(inner) * 1j)
    dq = scaled + matmul(q, rotation - inner)
    return dq, matmul(adjoint(q), dx - matmul(dq, r))


QR_OP = checks.of_matrices(
    "qr",
    _qr_spec,
    lambda x, complete: tuple(np.linalg.qr(x, "complete" if complete else "reduced")),
    params=("complete",),
    jvp=_qr_jvp,
    flops=operation_counts.qr_flops,
    native=lapack_calls.qr,
    samples=lambda: [
        Sample((x,), {"complete": complete}, order=0 if complete else 2)
        for complete in (False, True)
        for x in checks.sample_matrices("qr", checks.TALL_AND_WIDE)
    ],
)


def qr(x: TensorLike, /, mode: str = "reduced") -> QR:
    """Orthonormal Q and upper triangular R with Q @ R = x.

    >>> q, r = gt.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> np.allclose(gt.matmul(q, r), [[3.0, 1.0], [4.0, 2.0]])
    True

    Differentiable in mode "reduced" where the leading columns are independent; in mode "complete"
    where the matrix has no more rows than columns.
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode {mode!r} is not known. Use 'reduced' or 'complete'.")
    return QR(*checks.outputs_of(record(QR_OP, (x,), (mode == "complete",))))
