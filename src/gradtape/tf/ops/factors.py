"""Factors and functions of matrices that SciPy and NumPy compute: LU, eigenvalues, roots."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import gradtape as gt
from gradtape import linalg as core
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import common, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.dtypes import as_dtype, int32
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Array, DTypeLike, Name, TensorLike
from gradtape.tf.ops.custom import custom_gradient, numpy_function

__all__ = [
    "eig",
    "eigvals",
    "logm",
    "lu",
    "lu_matrix_inverse",
    "lu_reconstruct",
    "lu_solve",
    "sqrtm",
]


class Lu(NamedTuple):
    """The result of `lu`."""

    lu: Tensor
    p: Tensor


def _square(name: str, operand: TensorLike) -> Tensor:
    x = convert(operand)
    if x.ndim < 2 or x.spec.shape[-1] != x.spec.shape[-2]:
        raise ShapeError(f"{name}: expected square matrices, got shape {x.shape}.")
    return x


def _one_by_one(function: Callable[[Array], Array], x: Array) -> Array:
    """A function of one matrix, applied to each of a stack."""
    if x.ndim == 2:
        return function(x)
    parts = [function(each) for each in x.reshape(-1, *x.shape[-2:])]
    return np.stack(parts).reshape(x.shape) if parts else x


@operation
def lu(input: TensorLike, output_idx_type: DTypeLike = int32, name: Name = None) -> Lu:
    """Lower and upper factor in one matrix, and the permutation of the rows; no derivative.

    >>> tf.linalg.lu([[0.0, 2.0], [1.0, 3.0]]).p.numpy().tolist()
    [1, 0]
    """
    x = _square("lu", input)
    kind = as_dtype(output_idx_type)

    def factors(a: Array) -> tuple[Array, Array]:
        # A late import: scipy.linalg takes longer to load than gradtape.
        from scipy.linalg import lu_factor

        packed, order = np.empty_like(a), np.empty(a.shape[:-1], kind.dtype)
        for item in np.ndindex(*a.shape[:-2]):
            packed[item], swaps = lu_factor(a[item])
            rows = np.arange(a.shape[-1])
            for at, other in enumerate(swaps):
                rows[[at, other]] = rows[[other, at]]
            order[item] = rows
        return packed, order

    specs = [TensorSpec(x.shape, x.dtype), TensorSpec(x.shape[:-1], kind)]
    return Lu(*numpy_function(factors, [x], specs))


def _parts(packed: Tensor) -> tuple[Tensor, Tensor]:
    ones = convert(np.eye(packed.spec.shape[-1], dtype=packed.spec.dtype))
    return gt.tril(packed, k=-1) + ones, gt.triu(packed, k=0)


def _permuted(x: Tensor, order: TensorLike, inverse: bool) -> Tensor:
    rows = np.asarray(convert(order).read())
    rows = np.argsort(rows, axis=-1) if inverse else rows
    batch = np.ix_(*(np.arange(n) for n in (*rows.shape[:-1], 1)))[:-1]
    return x[(*batch, rows)]


@operation
def lu_reconstruct(
    lower_upper: TensorLike, perm: TensorLike, validate_args: bool = False, name: Name = None
) -> Tensor:
    """The matrix with these factors.

    >>> tf.linalg.lu_reconstruct(*tf.linalg.lu([[0.0, 2.0], [1.0, 3.0]])).numpy().tolist()
    [[0.0, 2.0], [1.0, 3.0]]
    """
    lower, upper = _parts(_square("lu_reconstruct", lower_upper))
    return _permuted(lower @ upper, perm, True)


@operation
def lu_solve(
    lower_upper: TensorLike,
    perm: TensorLike,
    rhs: TensorLike,
    validate_args: bool = False,
    name: Name = None,
) -> Tensor:
    """The solution of linear systems, given the factors of their matrices.

    >>> tf.linalg.lu_solve(*tf.linalg.lu([[0.0, 2.0], [1.0, 3.0]]), [[4.0], [7.0]]).numpy().tolist()
    [[1.0], [2.0]]
    """
    packed, right = common([lower_upper, rhs], "lu_solve")
    lower, upper = _parts(_square("lu_solve", packed))
    between = core.triangular_solve(
        lower, _permuted(right, perm, False), lower=True, unit_diagonal=True
    )
    return core.triangular_solve(upper, between, lower=False)


@operation
def lu_matrix_inverse(
    lower_upper: TensorLike, perm: TensorLike, validate_args: bool = False, name: Name = None
) -> Tensor:
    """The inverse of matrices, given their factors.

    >>> tf.linalg.lu_matrix_inverse(*tf.linalg.lu([[0.0, 2.0], [1.0, 0.0]])).numpy().tolist()
    [[0.0, 1.0], [0.5, 0.0]]
    """
    packed = _square("lu_matrix_inverse", lower_upper)
    ones = np.broadcast_to(np.eye(packed.spec.shape[-1]), packed.spec.shape)
    return lu_solve(packed, perm, ones.astype(packed.spec.dtype))


@operation
def eig(tensor: TensorLike, name: Name = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of any square matrices, as complex numbers; no derivative.

    >>> tf.linalg.eig([[0.0, 1.0], [-1.0, 0.0]])[0].numpy().imag.tolist()
    [1.0, -1.0]
    """
    x = _square("eig", tensor)
    wide = as_dtype(np.result_type(x.spec.dtype, np.complex64))

    def pairs(a: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eig(a)
        return values.astype(wide.dtype), vectors.astype(wide.dtype)

    specs = [TensorSpec(x.shape[:-1], wide), TensorSpec(x.shape, wide)]
    values, vectors = numpy_function(pairs, [x], specs)
    return values, vectors


@operation
def eigvals(tensor: TensorLike, name: Name = None) -> Tensor:
    """Eigenvalues of any square matrices, as complex numbers; no derivative.

    >>> tf.linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]]).numpy().imag.tolist()
    [1.0, -1.0]
    """
    return eig(tensor)[0]


@operation
def sqrtm(input: TensorLike, name: Name = None) -> Tensor:
    """The square root of square matrices.

    >>> tf.linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]).numpy().tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    x = _square("sqrtm", input)

    def root(a: Array) -> Array:
        # A late import: scipy.linalg takes longer to load than gradtape.
        from scipy.linalg import sqrtm as of_one

        result = _one_by_one(of_one, a)
        if a.dtype.kind != "c" and np.iscomplexobj(result):
            return np.full_like(a, np.nan)
        return result.astype(a.dtype)

    @custom_gradient
    def recorded(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        y = numpy_function(root, [x], TensorSpec(x.shape, x.dtype))

        def slope(dy: Tensor) -> Tensor:
            # Solve yᴴ S + S yᴴ = dy for S, as one linear system for all its elements.
            size = x.spec.shape[-1]
            ones = convert(np.eye(size, dtype=x.spec.dtype))
            flipped = gt.conj(gt.matrix_transpose(y))
            system = _kronecker(flipped, ones) + _kronecker(ones, gt.conj(y))
            flat = dy.reshape(*dy.spec.shape[:-2], size * size, 1)
            return core.solve(system, flat).reshape(*dy.spec.shape)

        return y, slope

    return recorded(x)


def _kronecker(a: Tensor, b: Tensor) -> Tensor:
    """The Kronecker product a ⊗ b of each pair of matrices."""
    result = a[..., :, None, :, None] * b[..., None, :, None, :]
    rows = a.spec.shape[-1] * b.spec.shape[-1]
    return result.reshape(*result.spec.shape[:-4], rows, rows)


@operation
def logm(input: TensorLike, name: Name = None) -> Tensor:
    """The logarithm of complex square matrices; no derivative.

    >>> round(tf.linalg.logm([[1.0 + 0j]]).numpy().real.item(), 6)
    0.0
    """
    x = _square("logm", input)

    def logarithm(a: Array) -> Array:
        # A late import: scipy.linalg takes longer to load than gradtape.
        from scipy.linalg import logm as of_one

        return _one_by_one(of_one, a).astype(a.dtype)

    return numpy_function(logarithm, [x], TensorSpec(x.shape, x.dtype))


check_exports(globals(), __all__)
