"""Small factorisations in compiled programs: element by element, for all matrices of a stack.

Each element of a factor or solution is an array over the stack, and the steps of the algorithm are
element-wise ops on such arrays, so that they become one fused loop. With 10,000 matrices of order 6
a Cholesky factor takes 0.7 ms in the place of 7, a triangular solution with 6 columns 0.8 of 5.5.
Whether a matrix is singular or not positive definite is tested by ops of this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gradtape.ir import Node, Op, Spec, Undefined, apply, constant, declare, spec
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.elementwise.unary import sqrt
from gradtape.ops.families import Sample, batching
from gradtape.ops.families.sparsity import dense
from gradtape.ops.matrices import lapack_calls
from gradtape.ops.matrices.contraction import entry

# Up to this order; the number of ops grows with its third power.
_LARGEST = 8
# Fewer matrices are computed faster than a loop begins; more columns fill vectors by themselves.
_FEWEST, _MOST_COLUMNS = 32, 32
_LATER = Undefined("tests of small matrices appear in compiled programs, after differentiation")

Kernel = Callable[..., np.ndarray]


def _test_op(name: str, kernel: Kernel, test: str, samples: Callable[[], Sequence[Sample]]) -> Op:
    """An op that gives its first operand, the diagonals of matrices, or raises a MatrixError."""

    def rule(diagonals: Spec, *others: Spec) -> Spec:
        return diagonals

    def batch(inputs: batching.Inputs, batched: batching.Flags, y: Node) -> Node:
        return apply(y.op, batching.spread_all(inputs, batched))

    return declare(
        Op(
            name,
            "library",
            spec=rule,
            numpy=kernel,
            jvp=_LATER,
            vjp=_LATER,
            batch=batch,
            sparsity=dense,
            expensive=True,
            may_fail=True,
            native=lapack_calls.tested(test),
            samples=samples,
        )
    )


def zero_test(name: str, error: Callable[[int], Exception]) -> Op:
    """The op that raises an error, given the position, where a diagonal has a 0."""

    def kernel(diagonals: np.ndarray) -> np.ndarray:
        zeros = np.any(diagonals == 0, axis=tuple(range(diagonals.ndim - 1)))
        if zeros.any():
            raise error(int(np.argmax(zeros)))
        return diagonals

    return _test_op(name, kernel, "une", lambda: [Sample((np.ones((3, 1, 2)),))])


def definiteness_test(name: str, factor: Kernel) -> Op:
    """The op that lets `factor` say what is wrong unless all diagonals of factors are positive."""

    def kernel(diagonals: np.ndarray, x: np.ndarray) -> np.ndarray:
        # Also false for NaN.
        if np.all(diagonals > 0):
            return diagonals
        found = np.diagonal(factor(x), axis1=-2, axis2=-1)
        return np.ascontiguousarray(found).reshape(diagonals.shape)

    return _test_op(
        name,
        kernel,
        "ogt",
        lambda: [Sample((np.ones((3, 1, 2)), np.ones((3, 1, 1)) * np.eye(2)))],
    )


def are_unrolled(x: Node) -> bool:
    """Whether matrices are small, and many."""
    return (
        x.ndim > 2
        and x.dtype.kind == "f"
        and 0 < x.shape[-1] <= _LARGEST
        and math.prod(x.shape[:-2]) >= _FEWEST
    )


def triangular_solution(
    a: Node, b: Node, lower: bool, unit_diagonal: bool, test: Op
) -> Node | None:
    """The x with a @ x = b for stacks of small triangular matrices; None for others."""
    if not are_unrolled(a) or b.dtype != a.dtype or a.shape[:-2] != b.shape[:-2]:
        return None
    if not 0 < b.shape[-1] <= _MOST_COLUMNS:
        return None
    n, row = a.shape[-1], b.ndim - 2
    tested = None if unit_diagonal else _tested(test, [_element(a, i, i) for i in range(n)])
    found: dict[int, Node] = {}
    for i in range(n) if lower else reversed(range(n)):
        value = entry(b, row, i)
        for j, known in found.items():
            value = value - _element(a, i, j) * known
        found[i] = value if tested is None else value / entry(tested, row + 1, i)
    return apply(CONCAT, tuple(found[i] for i in range(n)), (row,))


def cholesky_factor(x: Node, test: Op) -> Node | None:
    """The lower factors of stacks of small symmetric matrices; None for others."""
    if not are_unrolled(x):
        return None
    n, row = x.shape[-1], x.ndim - 2
    factor: dict[tuple[int, int], Node] = {}
    for j in range(n):
        for i in range(j, n):
            # The symmetric part, as everywhere.
            value = _element(x, i, j)
            value = value if i == j else (value + _element(x, j, i)) * 0.5
            for k in range(j):
                value = value - factor[i, k] * factor[j, k]
            factor[i, j] = sqrt(value) if i == j else value / factor[j, j]
    tested = _tested(test, [factor[j, j] for j in range(n)], x)
    zero = constant(0, spec((*x.shape[:-2], 1, 1), x.dtype))
    rows = []
    for i in range(n):
        below = [factor[i, j] for j in range(i)]
        parts = (*below, entry(tested, row + 1, i), *[zero] * (n - 1 - i))
        rows.append(apply(CONCAT, parts, (row + 1,)) if n > 1 else parts[0])
    return apply(CONCAT, tuple(rows), (row,)) if n > 1 else rows[0]


def cofactors(x: Node) -> Node | None:
    """The cofactors of matrices up to order 3; None for others."""
    n, row = x.shape[-1], x.ndim - 2
    if not x.size or not 1 < n < 4:
        return None

    def minor(i: int, j: int) -> Node:
        # Rows and columns in cyclic order have the sign of the cofactor already.
        a, b = ((i + 1) % n, (i + 2) % n), ((j + 1) % n, (j + 2) % n)
        if n == 2:
            found = _element(x, a[0], b[0])
            return found if i == j else -found
        product = _element(x, a[0], b[0]) * _element(x, a[1], b[1])
        return product - _element(x, a[0], b[1]) * _element(x, a[1], b[0])

    rows = [apply(CONCAT, tuple(minor(i, j) for j in range(n)), (row + 1,)) for i in range(n)]
    return apply(CONCAT, tuple(rows), (row,))


def _element(x: Node, i: int, j: int) -> Node:
    return entry(entry(x, x.ndim - 2, i), x.ndim - 1, j)


def _tested(test: Op, diagonal: Sequence[Node], *others: Node) -> Node:
    joined = (
        apply(CONCAT, tuple(diagonal), (diagonal[0].ndim - 1,)) if diagonal[1:] else diagonal[0]
    )
    return apply(test, (joined, *others))
