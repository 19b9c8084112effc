"""Eigenvalues of symmetric matrices, and singular values, with their vectors.

Derivative rules are written for forward mode; reverse mode transposes them. Vectors are unique only
up to sign or phase, and the rules hold this choice constant: a function that does not depend on it
has an exact derivative. If eigenvalues or singular values are equal up to rounding, their vectors
have no derivative, and `jvp` leaves the terms of such a pair out. A function that treats both
alike, such as V f(w) Vᵀ, has one: `autodiff.modes` adds the limit of these terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradtape.dtypes import REAL_OF, as_dtype
from gradtape.ir import Node, Spec, Undefined, apply, spec
from gradtape.ir.op_facts import Spectrum
from gradtape.ops.arrays.creation import ARANGE
from gradtape.ops.arrays.triangles import diagonal
from gradtape.ops.elementwise.arithmetic import (
    equal,
    less_equal,
    record_operand,
    stop_gradient,
    where,
)
from gradtape.ops.elementwise.complexes import abs, real
from gradtape.ops.families import Sample, broadcast_to, cast
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand
from gradtape.ops.matrices import lapack_calls, operation_counts
from gradtape.ops.matrices.checks import (
    NOT_CONVERGED,
    SQUARE,
    TALL_AND_WIDE,
    as_column,
    as_row,
    batch_mask,
    identity_like,
    of_matrices,
    outputs_of,
    require_matrix,
    require_square,
    sample_matrices,
    symmetric_part,
)
from gradtape.ops.matrices.contraction import adjoint, conjugate, matmul
from gradtape.ops.reductions.reduction import max, sum
from gradtape.records import described
from gradtape.trace.record import record

__all__ = ["Eigh", "SVD", "eigh", "eigvalsh", "svd", "svdvals"]

# Values that differ by this many units of rounding of the largest one count as equal.
TIE = 16


def _direction(values: Node) -> Node:
    """1, 2, 3, …: along it no two values, nor a value and minus another, stay equal."""
    n = values.shape[-1]
    return broadcast_to(apply(ARANGE, (), (1, n + 1, 1, values.dtype)), values.shape)


class _Poles:
    """1 / p for a pole p of a derivative, without its share at ties; or that share's limit."""

    def __init__(self, values: Node, power: int = 0) -> None:
        self.power = power
        self.values = values
        self.slopes = _direction(values)
        largest = max(abs(values), axis=-1, keepdims=True) if values.shape[-1] else values
        unit = float(np.finfo(values.dtype).eps) * TIE * (values.shape[-1] or 1)
        self.tolerance = stop_gradient(largest * unit)

    def of(self, pole: Node, slope: Node, tolerance: Node) -> Node:
        tie = less_equal(abs(pole), tolerance)
        if not self.power:
            return where(tie, 0.0, 1.0 / where(tie, 1.0, pole))
        flat = equal(slope, 0)
        unit = where(flat, 0.0, 1.0 / where(flat, 1.0, slope))
        limit = unit
        for _ in range(self.power - 1):
            limit = limit * unit * pole
        return where(tie, limit, 0.0)

    def differences(self) -> Node:
        """For each pair: of the column's value less the row's."""
        w, t = self.values, self.slopes
        pole, slope = as_row(w) - as_column(w), as_row(t) - as_column(t)
        return self.of(pole, slope, as_row(self.tolerance))

    def sums(self) -> Node:
        """For each pair of different values: of their sum."""
        w, t = self.values, self.slopes
        found = self.of(as_row(w) + as_column(w), as_row(t) + as_column(t), as_row(self.tolerance))
        return found * (1.0 - identity_like(found))

    def single(self) -> Node:
        """For each value: of itself."""
        return self.of(self.values, self.slopes, self.tolerance)


@described(
    eigenvalues="The eigenvalues in ascending order.", eigenvectors="The eigenvectors, as columns."
)
class Eigh(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns.

    >>> gt.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


def _eigvalsh_spec(name: str, x: Spec) -> Spec:
    require_square(name, x)
    return spec(x.shape[:-1], as_dtype(REAL_OF[x.dtype]))


def _turned(tangent: Node, y: tuple[Node, ...], power: int) -> tuple[Node, Node]:
    """The tangent in the basis of the vectors, and the tangent of the vectors."""
    w, v = y
    inner = matmul(adjoint(v), matmul(symmetric_part(tangent), v))
    return inner, matmul(v, inner * cast(_Poles(w, power).differences(), inner.dtype))


def _eigh_jvp(
    tangents: tuple[Node, ...], y: tuple[Node, ...], inputs: tuple[Node, ...]
) -> tuple[Node, Node]:
    inner, dv = _turned(tangents[0], y, 0)
    return real(diagonal(inner)), dv


EIGH = of_matrices(
    "eigh",
    lambda x: (_eigvalsh_spec("eigh", x), x),
    lambda x: tuple(np.linalg.eigh(symmetric_part(x))),
    failure=NOT_CONVERGED,
    jvp=_eigh_jvp,
    spectrum=Spectrum(
        "eigenvalues",
        0,
        _direction,
        lambda tangent, y, power: (None, _turned(tangent, y, power)[1]),
    ),
    flops=operation_counts.of_matrices(operation_counts.eigenvectors),
    native=lapack_calls.eigh,
    # LAPACK chooses the phase of complex eigenvectors, so finite differences cannot check them.
    samples=lambda: [
        Sample((x,), order=0 if x.dtype.kind == "c" else 2) for x in sample_matrices("eigh", SQUARE)
    ],
)


def _eigvalsh_jvp(tangents: tuple[Node, ...], y: Node, inputs: tuple[Node, ...]) -> Node:
    _, v = outputs_of(record(EIGH, inputs))
    return real(sum(conjugate(v) * matmul(symmetric_part(tangents[0]), v), axis=-2))


EIGVALSH = of_matrices(
    "eigvalsh",
    lambda x: _eigvalsh_spec("eigvalsh", x),
    lambda x: np.linalg.eigvalsh(symmetric_part(x)),
    failure=NOT_CONVERGED,
    jvp=_eigvalsh_jvp,
    spectrum=Spectrum("eigenvalues", 0, _direction),
    mask=batch_mask(1),
    flops=operation_counts.of_matrices(operation_counts.eigenvalues),
    native=lapack_calls.eigvalsh,
)


def eigh(x: TensorLike, /) -> Eigh:
    """Eigenvalues and eigenvectors of symmetric (Hermitian) matrices.

    >>> w, v = gt.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> [round(value, 6) for value in w.tolist()]
    [1.0, 3.0]

    Of a matrix that is not symmetric, the symmetric part is taken. Where eigenvalues are equal,
    their eigenvectors have no derivative; functions that treat them alike, such as v f(w) vᵀ, have.
    """
    return Eigh(*outputs_of(record(EIGH, (x,))))


@kind_of_operand
def eigvalsh(x: TensorLike, /) -> Tensor:
    """Eigenvalues of symmetric (Hermitian) matrices, in ascending order.

    >>> gt.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return record(EIGVALSH, (x,))


@described(
    U="The left singular vectors, as columns.",
    S="The singular values in descending order.",
    Vh="The right singular vectors, as rows.",
)
class SVD(NamedTuple):
    """Left singular vectors, singular values in descending order, and right vectors as rows.

    >>> gt.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S.tolist()
    [4.0, 3.0]
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


def _svd_spec(x: Spec, full_matrices: bool) -> tuple[Spec, Spec, Spec]:
    require_matrix("svd", x)
    *batch, rows, columns = x.shape
    inner = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (inner, inner)
    return (
        spec((*batch, rows, left), x.dtype),
        spec((*batch, inner), as_dtype(REAL_OF[x.dtype])),
        spec((*batch, right, columns), x.dtype),
    )


def _svd_jvp(
    tangents: tuple[Node, ...], y: tuple[Node, ...], inputs: tuple[Node, ...], full_matrices: bool
) -> tuple[Node, Node, Node]:
    (u, _, vh), (x,), (dx,) = y, inputs, tangents
    rows, columns = x.shape[-2:]
    if full_matrices and rows != columns:
        Undefined(
            "the vectors of a full basis past the singular ones are arbitrary. "
            "Use full_matrices=False"
        ).refuse("svd", "the derivative")
    ds = real(diagonal(matmul(adjoint(u), matmul(dx, adjoint(vh)))))
    du, dvh = _turned_bases(dx, y, 0)
    return du, ds, dvh


def _turned_bases(dx: Node, y: tuple[Node, ...], power: int) -> tuple[Node, Node]:
    u, s, vh = y
    v = adjoint(vh)
    moved = matmul(dx, v)
    inner = matmul(adjoint(u), moved)
    poles = _Poles(s, power)
    single = cast(poles.single(), inner.dtype)
    # A change that is symmetric in this basis turns both bases alike, an antisymmetric one apart.
    alike = symmetric_part(inner) * cast(poles.differences(), inner.dtype)
    apart = (inner - adjoint(inner)) * 0.5 * cast(poles.sums(), inner.dtype)
    turn = alike + apart
    if inner.dtype.kind == "c":
        # The phases of a left and a right vector change together; U takes the whole change.
        turn = turn + (inner - adjoint(inner)) * 0.5 * (identity_like(inner) * as_row(single))
    du, dv = matmul(u, turn), matmul(v, alike - apart)
    if u.shape[-2] > u.shape[-1]:
        du = du + (moved - matmul(u, inner)) * as_row(single)
    if v.shape[-2] > v.shape[-1]:
        back = matmul(adjoint(dx), u)
        dv = dv + (back - matmul(v, adjoint(inner))) * as_row(single)
    return du, adjoint(dv)


def _svd_poles(tangent: Node, y: tuple[Node, ...], power: int) -> tuple[Node, None, Node]:
    du, dvh = _turned_bases(tangent, y, power)
    return du, None, dvh


SVD_OP = of_matrices(
    "svd",
    _svd_spec,
    lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
    failure=NOT_CONVERGED,
    params=("full_matrices",),
    jvp=_svd_jvp,
    spectrum=Spectrum("singular values", 1, _direction, _svd_poles),
    flops=operation_counts.svd_flops,
    native=lapack_calls.svd,
    samples=lambda: [
        # LAPACK chooses the phases of complex vectors, so finite differences cannot check them.
        Sample((x,), {"full_matrices": full}, order=0 if full or x.dtype.kind == "c" else 2)
        for full in (False, True)
        for x in sample_matrices("svd", TALL_AND_WIDE)
    ],
)


def _svdvals_jvp(tangents: tuple[Node, ...], y: Node, inputs: tuple[Node, ...]) -> Node:
    u, _, vh = outputs_of(record(SVD_OP, inputs, (False,)))
    return real(sum(conjugate(u) * matmul(tangents[0], adjoint(vh)), axis=-2))


SVDVALS = of_matrices(
    "svdvals",
    lambda x: _svd_spec(x, False)[1],
    lambda x: np.linalg.svd(x, compute_uv=False),
    shapes=TALL_AND_WIDE,
    failure=NOT_CONVERGED,
    jvp=_svdvals_jvp,
    spectrum=Spectrum("singular values", 0, _direction),
    mask=batch_mask(1),
    flops=operation_counts.of_matrices(operation_counts.singular_values),
    native=lapack_calls.svdvals,
)


def svd(x: TensorLike, /, full_matrices: bool = True) -> SVD:
    """Singular value decomposition: x = U @ diag(S) @ Vh.

    >>> u, s, vh = gt.linalg.svd([[0.0, 2.0], [1.0, 0.0]], full_matrices=False)
    >>> s.tolist()
    [2.0, 1.0]

    Differentiable for square matrices, or with full_matrices=False. Where singular values are equal
    or 0, their vectors have no derivative; functions that treat them alike have, such as u @ vh.
    """
    x = record_operand(x)
    full = bool(full_matrices) and x.ndim >= 2 and x.shape[-1] != x.shape[-2]
    return SVD(*outputs_of(record(SVD_OP, (x,), (full,))))


@kind_of_operand
def svdvals(x: TensorLike, /) -> Tensor:
    """Singular values, in descending order.

    >>> gt.linalg.svdvals([[3.0, 0.0], [0.0, 4.0]]).tolist()
    [4.0, 3.0]
    """
    return record(SVDVALS, (x,))
