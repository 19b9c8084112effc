"""Eigenvalues and eigenvectors of one large symmetric matrix by its tridiagonal form.

In compiled programs, the reduction to tridiagonal form and the product of its reflectors with the
vectors of the tridiagonal matrix are ops of their own, so native code can compute them on all
threads, and `eigh` and `eigvalsh` of one matrix share the form. LAPACK computes the rest. Where the
elements of a matrix are so large or small that their squares could be lost, or not all are finite,
NumPy does all of it. These ops appear after differentiation only.
"""

from __future__ import annotations

import numpy as np

from gradtape.dtypes import Array
from gradtape.graph import Node, Op, Spec, Undefined, apply, declare, outputs, spec
from gradtape.graph.hooks import hooks
from gradtape.ops.families import Sample
from gradtape.ops.families.reads import dense, matrices
from gradtape.ops.matrices import lapack, operation_counts
from gradtape.ops.matrices.bidiagonal import LARGEST, converged, is_safe
from gradtape.ops.matrices.checks import sample_matrices, symmetric_part
from gradtape.ops.matrices.stacks import batch_all, over_stacks

# On one thread, `eigh` of order 128 takes as long either way, and `eigvalsh` of order 90.
_SMALLEST = 128
_LATER = Undefined("tridiagonal forms appear in compiled programs, after differentiation")


def _reduce_kernel(x: Array) -> tuple[Array, ...]:
    order = len(x)
    # Of a symmetric matrix, rows are columns.
    reduced = symmetric_part(np.ascontiguousarray(x))
    diagonal = np.zeros(order, x.dtype)
    beside, tau = np.zeros(order - 1, x.dtype), np.zeros(order - 1, x.dtype)
    length = order * lapack.BLOCK
    work = np.empty(length, x.dtype)
    vectors = (diagonal, beside, tau)
    lapack.call("sytrd", x.dtype, "L", order, reduced, order, *vectors, work, length)
    return np.triu(reduced), *vectors


def _values_kernel(diagonal: Array, beside: Array, x: Array) -> Array:
    if is_safe(diagonal, beside):
        values = diagonal.copy()
        if not lapack.call("sterf", x.dtype, len(values), values, beside.copy()):
            return values
    return converged("eigvalsh", lambda: np.linalg.eigvalsh(symmetric_part(x)))


def _halves_kernel(diagonal: Array, beside: Array) -> tuple[Array, Array, Array]:
    order, dtype = len(diagonal), diagonal.dtype
    values, vectors = diagonal.copy(), np.zeros((order, order), dtype)
    failures = np.ones(2, np.int32)
    cut = order // 2
    values[cut - 1 : cut + 1] -= abs(beside[cut - 1])
    for number, part in enumerate((slice(0, cut), slice(cut, order))):
        own, between = values[part].copy(), beside[part][: part.stop - part.start - 1].copy()
        # LAPACK is not asked about numbers that are not finite.
        if np.isfinite(own).all() and np.isfinite(between).all():
            failures[number], vectors[part, part] = _divided(own, between)
            values[part] = own
    return values, vectors, failures


def _divided(values: Array, beside: Array) -> tuple[int, Array]:
    """The eigenvectors of a tridiagonal matrix as rows; eigenvalues take its diagonal's place."""
    order, dtype = len(values), values.dtype
    vectors = np.empty((order, order), dtype)
    length, count = 1 + 4 * order + order**2, 3 + 5 * order
    work, numbers = np.empty(length, dtype), np.empty(count, np.int32)
    arrays = (values, beside, vectors, order, work, length, numbers, count)
    return lapack.call("stedc", dtype, "I", order, *arrays), vectors


def _vectors_kernel(
    halves: Array, of_halves: Array, failures: Array, diagonal: Array, beside: Array, tau: Array,
    x: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    if not failures.any() and is_safe(diagonal, beside):
        found = _joined(halves, of_halves, diagonal, beside)
        if found is not None:
            return *found, tau
    values, vectors = converged("eigh", lambda: np.linalg.eigh(symmetric_part(x)))
    # These are the vectors of the matrix itself: no reflector is to change them.
    return values, np.ascontiguousarray(vectors.T), np.zeros_like(tau)


def _joined(
    halves: Array, of_halves: Array, diagonal: Array, beside: Array
) -> tuple[Array, Array] | None:
    """The values and vectors of a tridiagonal matrix from those of its halves."""
    order, dtype = len(halves), halves.dtype
    cut = order // 2
    # LAPACK's bounds for what is negligible are meant for matrices whose largest element is 1.
    _, exponent = np.frexp(max(np.abs(diagonal).max(), np.abs(beside).max()))
    values, vectors = np.ldexp(halves, -exponent), np.array(of_halves, order="C")
    corner = np.ldexp(beside[cut - 1 : cut], -exponent)
    ranks = np.concatenate([np.arange(1, cut + 1), np.arange(1, order - cut + 1)]).astype(np.int32)
    work, numbers = np.empty(4 * order + order**2, dtype), np.empty(4 * order, np.int32)
    arrays = (values, vectors, order, ranks, corner, cut, work, numbers)
    with hooks.blas_held():
        failed = lapack.call("laed1", dtype, order, *arrays)
    if failed:
        return None
    # Of equal values, the ranks that LAPACK leaves may interchange some by rounding.
    ascending = np.argsort(values, kind="stable")
    return np.ldexp(values[ascending], exponent), vectors[ascending]


def _reflect_kernel(reduced: Array, tau: Array, vectors: Array) -> tuple[Array]:
    order, dtype = len(reduced), reduced.dtype
    # Both lie column after column. A reflector that changes nothing may not be finite.
    idle = np.concatenate([tau == 0, [True]])
    reflectors = np.where(idle[:, None], dtype.type(0), reduced)
    result = np.array(vectors, order="C")
    length = order * lapack.BLOCK
    work, scales = np.empty(length, dtype), np.ascontiguousarray(tau)
    arrays = (reflectors, order, scales, result, order, work, length)
    lapack.call("ormtr", dtype, "L", "L", "N", order, order, *arrays)
    return (np.ascontiguousarray(result.T),)


def _reduce_spec(x: Spec) -> tuple[Spec, ...]:
    *batch, order, _ = x.shape
    beside = spec((*batch, order - 1), x.dtype)
    return x, spec((*batch, order), x.dtype), beside, beside


def _values_spec(diagonal: Spec, beside: Spec, x: Spec) -> Spec:
    return diagonal


def _halves_spec(diagonal: Spec, beside: Spec) -> tuple[Spec, ...]:
    *batch, order = diagonal.shape
    matrix = spec((*batch, order, order), diagonal.dtype)
    return diagonal, matrix, spec((*batch, 2), np.dtype(np.int32))


def _vectors_spec(
    halves: Spec, of_halves: Spec, failures: Spec, diagonal: Spec, beside: Spec, tau: Spec, x: Spec
) -> tuple[Spec, ...]:
    return diagonal, x, tau


def _reflect_spec(reduced: Spec, tau: Spec, vectors: Spec) -> tuple[Spec]:
    return (reduced,)


def _matrices() -> list[Array]:
    return sample_matrices("tridiagonal", ((3, 3), (4, 4), (2, 2)), ("float64", "float32"))


def _samples(*picked: int) -> list[Sample]:
    """The reduced forms of some matrices: the results that an op reads, then the matrix."""
    return [Sample((*(_reduce_kernel(x)[number] for number in picked), x)) for x in _matrices()]


def _halves_samples() -> list[Sample]:
    return [Sample(_reduce_kernel(x)[1:3]) for x in _matrices()]


def _vectors_samples() -> list[Sample]:
    forms = [_reduce_kernel(x)[1:] for x in _matrices()]
    return [
        Sample((*_halves_kernel(*form[:2]), *form, x))
        for form, x in zip(forms, _matrices(), strict=True)
    ]


def _reflect_samples() -> list[Sample]:
    pairs = zip(_matrices(), _vectors_samples(), strict=True)
    return [
        Sample((_reduce_kernel(x)[0], sample.inputs[-2], _vectors_kernel(*sample.inputs)[1]))
        for x, sample in pairs
    ]


# The results are those of LAPACK's `sytrd` for the lower triangle of the symmetric part: the
# reflectors, column after column; the diagonal and the one beside it; and the scales of reflectors.
TRIDIAGONAL = declare(Op(
    "tridiagonal", "library", spec=_reduce_spec,
    numpy=over_stacks(_reduce_kernel, _reduce_spec, 2), jvp=_LATER, vjp=_LATER, batch=batch_all,
    sparsity=matrices, solves=True, expensive=True,
    flops=operation_counts.of_matrices(operation_counts.eigenvalues), samples=_samples,
))  # fmt: skip
TRIDIAGONAL_VALUES = declare(Op(
    "tridiagonal_values", "library", spec=_values_spec,
    numpy=over_stacks(_values_kernel, _values_spec, 1, 1, 2), jvp=_LATER, vjp=_LATER,
    batch=batch_all, sparsity=dense, expensive=True, may_fail=True,
    samples=lambda: _samples(1, 2),
))  # fmt: skip
# Values and vectors of both halves, the vectors as rows of blocks on the diagonal, and whether
# LAPACK failed. The halves are those that are left when |b| is subtracted from the elements on the
# diagonal beside b, the element between them.
TRIDIAGONAL_HALVES = declare(Op(
    "tridiagonal_halves", "library", spec=_halves_spec,
    numpy=over_stacks(_halves_kernel, _halves_spec, 1, 1), jvp=_LATER, vjp=_LATER,
    batch=batch_all, sparsity=dense, expensive=True, samples=_halves_samples,
))  # fmt: skip
# Values; vectors of the tridiagonal matrix as rows; and the scales of reflectors still to apply.
TRIDIAGONAL_VECTORS = declare(Op(
    "tridiagonal_vectors", "library", spec=_vectors_spec,
    numpy=over_stacks(_vectors_kernel, _vectors_spec, 1, 2, 1, 1, 1, 1, 2), jvp=_LATER, vjp=_LATER,
    batch=batch_all, sparsity=dense, expensive=True, may_fail=True, samples=_vectors_samples,
))  # fmt: skip
# The product of all reflectors with vectors that are rows; the results are columns.
REFLECTED = declare(Op(
    "tridiagonal_reflected", "library", spec=_reflect_spec,
    numpy=over_stacks(_reflect_kernel, _reflect_spec, 2, 1, 2), jvp=_LATER, vjp=_LATER,
    batch=batch_all, sparsity=dense, solves=True, expensive=True,
    flops=operation_counts.of_matrices(operation_counts.reflected), samples=_reflect_samples,
))  # fmt: skip


def _form(x: Node) -> tuple[Node, ...] | None:
    """The tridiagonal form of one large real matrix."""
    if x.ndim != 2 or x.dtype.name not in lapack.LETTERS or x.spec.nbytes > LARGEST:
        return None
    if x.shape[0] < _SMALLEST:
        return None
    lapack.load()
    return tuple(outputs(apply(TRIDIAGONAL, (x,))))


def values_by_tridiagonal(x: Node) -> Node | None:
    """The eigenvalues of one large real matrix, by its tridiagonal form."""
    form = _form(x)
    return None if form is None else apply(TRIDIAGONAL_VALUES, (*form[1:3], x))


def eigh_by_tridiagonal(x: Node) -> tuple[Node, ...] | None:
    """The eigenvalues and eigenvectors of one large real matrix, by its tridiagonal form."""
    form = _form(x)
    if form is None:
        return None
    reduced, *short = form
    halves = outputs(apply(TRIDIAGONAL_HALVES, tuple(short[:2])))
    values, vectors, tau = outputs(apply(TRIDIAGONAL_VECTORS, (*halves, *short, x)))
    return values, *outputs(apply(REFLECTED, (reduced, tau, vectors)))
