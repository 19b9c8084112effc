"""LU factors that several ops share.

The derivative of a solution solves again with the transposed matrix, and that of a determinant
needs the inverse. In a compiled program `solve`, `inv`, `slogdet` and `det` are compositions, so
that a matrix is factored once; their ops appear there only, after differentiation. The kernels here
are for plans whose native code has failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gradtape.dtypes import REAL_OF, Array, as_dtype
from gradtape.errors import MatrixError
from gradtape.ir import Node, Op, Rule, Shape, Spec, Undefined, apply, outputs, spec
from gradtape.ops.arrays.movement import PERMUTE_DIMS
from gradtape.ops.blas_lapack import LETTERS
from gradtape.ops.elementwise.unary import exp
from gradtape.ops.families import Sample, batching, cast
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to
from gradtape.ops.families.sparsity import dense, matrices
from gradtape.ops.matrices import checks, lapack_calls, operation_counts
from gradtape.ops.matrices.contraction import conjugate

_LATER = Undefined("factors of matrices appear in compiled programs, after differentiation")


def _routine(name: str, x: Array) -> Any:
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, (x,))


def _factor_kernel(x: Array) -> tuple[Array, Array]:
    # Of the matrix itself, as NumPy does it, and not of its transpose, which has other pivots: of a
    # triangular matrix one of the two has nothing to eliminate. Columns lie in memory one by one.
    factors, pivots, _ = _routine("getrf", x)(x)
    return factors.T, pivots.astype(np.int64) + 1


def _checked(name: str, factors: Array) -> Array:
    if not np.all(np.diagonal(factors)):
        raise MatrixError(
            f"{name}: a matrix is singular (Singular matrix). "
            "Add a multiple of the identity, or use gt.linalg.pinv."
        )
    return factors.T


def _solve_kernel(factors: Array, pivots: Array, b: Array, transposed: bool) -> Array:
    stored = _checked("solve", factors)
    found: Array = _routine("getrs", b)(stored, pivots - 1, b, trans=transposed)[0]
    return found


def _inverse_kernel(factors: Array, pivots: Array) -> Array:
    found: Array = _routine("getri", factors)(_checked("inv", factors), pivots - 1)[0]
    return found


def _slogdet_kernel(factors: Array, pivots: Array) -> tuple[Array, Array]:
    diagonal = np.diagonal(factors)
    swaps = np.count_nonzero(pivots != np.arange(1, len(pivots) + 1))
    size = np.abs(diagonal)
    with np.errstate(divide="ignore", invalid="ignore"):
        sign = np.prod(np.where(size == 0, 0, diagonal / size)) * (-1) ** swaps
        logarithm = np.sum(np.log(size))
    return np.asarray(sign, factors.dtype), np.asarray(logarithm, REAL_OF[factors.dtype])


def _sample_factors() -> list[Any]:
    return [_factor_kernel(x) for x in checks.sample_matrices("lu_factors", ((3, 3), (1, 1)))]


def _solve_spec(factors: Spec, pivots: Spec, b: Spec, transposed: bool) -> Spec:
    batch = broadcast_shapes("lu_solve", [factors.shape[:-2], b.shape[:-2]])
    return spec(batch + b.shape[-2:], b.dtype)


def _slogdet_spec(factors: Spec, pivots: Spec) -> tuple[Spec, Spec]:
    batch = factors.shape[:-2]
    return spec(batch, factors.dtype), spec(batch, as_dtype(REAL_OF[factors.dtype]))


def _op(name: str, of: Rule, kernel: Callable[..., Any], cores: str, **rules: Any) -> Op:
    """Declare an op on factors from its kernel of one matrix; `cores` are the axes of one."""

    def stacks(*arrays: Array, **params: Any) -> Any:
        specs = of(*(spec(x.shape, x.dtype) for x in arrays), **params)
        dtypes = [one.dtype for one in (specs if type(specs) is tuple else (specs,))]
        return np.vectorize(partial(kernel, **params), dtypes, signature=cores)(*arrays)

    undefined = {"jvp": _LATER, "vjp": _LATER, "promote": None, "sparsity": dense}
    return checks.of_matrices(name, of, stacks, batch=_spread_all, **(undefined | rules))


def _spread_all(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    return apply(y.op, batching.spread_all(inputs, batched), y.params)


# The factors of the matrix, column after column, and LAPACK's pivots, which count from 1.
LU_FACTORS = _op(
    "lu_factors",
    lambda x: (x, spec(x.shape[:-1], np.dtype(np.int64))),
    _factor_kernel,
    "(n,n)->(n,n),(n)",
    sparsity=matrices,
    flops=operation_counts.of_matrices(operation_counts.lu),
    solves=True,
    native=lapack_calls.lu_factors,
    samples=lambda: [Sample((f,)) for f, _ in _sample_factors()],
)
LU_SOLVE = _op(
    "lu_solve",
    _solve_spec,
    _solve_kernel,
    "(n,n),(n),(n,k)->(n,k)",
    params=("transposed",),
    flops=operation_counts.of_systems(lambda n: 2.0 * n * n),
    solves=True,
    may_fail=True,
    native=lapack_calls.lu_solve,
    samples=lambda: [
        Sample((f, p, f[:, :1].copy()), {"transposed": turned})
        for f, p in _sample_factors()
        for turned in (False, True)
    ],
)
LU_INVERSE = _op(
    "lu_inverse",
    lambda factors, pivots: factors,
    _inverse_kernel,
    "(n,n),(n)->(n,n)",
    solves=True,
    may_fail=True,
    flops=operation_counts.of_matrices(operation_counts.lu_inverse),
    native=lapack_calls.lu_inverse,
    samples=lambda: [Sample(pair) for pair in _sample_factors()],
)
LU_SLOGDET = _op(
    "lu_slogdet",
    _slogdet_spec,
    _slogdet_kernel,
    "(n,n),(n)->(),()",
    flops=operation_counts.of_matrices(lambda n, _: float(n)),
    native=lapack_calls.lu_slogdet,
    samples=lambda: [Sample(pair) for pair in _sample_factors()],
)


def _has_factors(a: Node) -> bool:
    return a.size > 0 and a.dtype.name in LETTERS


def _factors_of(a: Node) -> tuple[Node, Node]:
    factors, pivots = outputs(apply(LU_FACTORS, (a,)))
    return factors, pivots


def _is_transpose(x: Node) -> bool:
    last = x.ndim - 1
    return x.op is PERMUTE_DIMS and x.params == ((*range(last - 1), last, last - 1),)


def solve_by_factors(a: Node, b: Node) -> Node | None:
    """The solution of systems, by factors that others share, such as those of its derivative."""
    if not b.size or not _has_factors(a):
        return None
    transposed = conjugated = False
    while _is_transpose(a) or a.op.name == "conj":
        if _is_transpose(a):
            transposed = not transposed
        else:
            conjugated = not conjugated
        a = a.inputs[0]
    batch = broadcast_shapes("solve", [a.shape[:-2], b.shape[:-2]])
    # From conj(A) x = b follows A conj(x) = conj(b).
    right = spread(conjugate(b) if conjugated else b, batch, 2)
    factors, pivots = _factors_of(a)
    operands = (spread(factors, batch, 2), spread(pivots, batch, 1), right)
    found = apply(LU_SOLVE, operands, (transposed,))
    return conjugate(found) if conjugated else found


def spread(x: Node, batch: Shape, core: int) -> Node:
    """A stack as routines take it: one matrix for all, or one for each item of the result."""
    cut = x.ndim - core
    if math.prod(x.shape[:cut]) in (1, math.prod(batch)):
        return x
    return broadcast_to(x, batch + x.shape[cut:])


def inverse_by_factors(x: Node) -> Node | None:
    """The inverse of matrices, by factors that others share."""
    return apply(LU_INVERSE, _factors_of(x)) if _has_factors(x) else None


def slogdet_by_factors(x: Node) -> tuple[Node, ...] | None:
    """Sign and logarithm of the determinant of matrices, by factors that others share."""
    return tuple(outputs(apply(LU_SLOGDET, _factors_of(x)))) if _has_factors(x) else None


def det_by_factors(x: Node) -> Node | None:
    """The determinant of matrices, by factors that others share."""
    return determinant(x) if _has_factors(x) else None


def determinant(x: Node) -> Node:
    """The determinant as NumPy computes it: products of some diagonal elements may overflow."""
    sign, logarithm = outputs(apply(LU_SLOGDET, _factors_of(x)))
    return sign * cast(exp(logarithm), x.dtype)
