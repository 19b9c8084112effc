"""The op that solves a linear system whose matrix is never formed, only a linear map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.graph import Node, Op, Spec, apply, declare
from gradtape.ops.arrays.movement import matrix_transpose, reshape_node
from gradtape.ops.families import batching, examples
from gradtape.ops.families.reads import dense
from gradtape.ops.families.samples import Sample
from gradtape.ops.matrices.checks import sample_matrices
from gradtape.ops.matrices.contraction import adjoint, conjugate, matmul

# `system` is an object of an upper room; systems that compute the same are equal. Methods:
#   solve(b, others)               the solution for arrays; rows of `b` are right-hand sides
#   adjoint()                      the system of the adjoint map
#   push(x, others, tangents)      the tangent of A x, for a constant x
#   pull(index, g, x, others)      the cotangent of others[index], from the cotangent g of A x


def _spec(b: Spec, *others: Spec, system: Any) -> Spec:
    return b


def _kernel(b: np.ndarray, *others: np.ndarray, system: Any) -> np.ndarray:
    return np.asarray(system.solve(b, others), b.dtype).reshape(b.shape)


def _jvp(tangents: Any, y: Node, inputs: tuple[Node, ...], system: Any) -> Node | None:
    """From A y = b follows A dy = db - dA y."""
    right = tangents[0]
    if any(tangent is not None for tangent in tangents[1:]):
        moved = system.push(y, inputs[1:], tangents[1:])
        if moved is not None:
            right = -moved if right is None else right - moved
    return None if right is None else apply(SYSTEM, (right, *inputs[1:]), (system,))


def _vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], system: Any) -> Node | None:
    back = apply(SYSTEM, (g, *inputs[1:]), (system.adjoint(),))
    return back if index == 0 else system.pull(index - 1, -back, y, inputs[1:])


def _batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, system: Any) -> Node:
    """A map that all examples share solves for all their right-hand sides together."""
    if any(batched[1:]):
        return batching.one_by_one(inputs, batched, y, system=system)
    return apply(SYSTEM, inputs, (system,))


@dataclass(frozen=True)
class MatrixSystem:
    """The system of a matrix that is an operand; the generated tests use it."""

    turned: bool = False

    def _matrix(self, others: tuple[Node, ...]) -> Node:
        return adjoint(others[0]) if self.turned else others[0]

    def solve(self, b: np.ndarray, others: tuple[np.ndarray, ...]) -> np.ndarray:
        matrix = np.conj(others[0].T) if self.turned else others[0]
        return np.linalg.solve(matrix, b.reshape(-1, b.shape[-1]).T).T

    def adjoint(self) -> MatrixSystem:
        return MatrixSystem(not self.turned)

    def push(self, x: Node, others: tuple[Node, ...], tangents: tuple[Node, ...]) -> Node:
        return matmul(x, _transposed(self._matrix(tangents)))

    def pull(self, index: int, g: Node, x: Node, others: tuple[Node, ...]) -> Node:
        rows, columns = (_as_rows(part) for part in (g, x))
        found = matmul(_transposed(rows), conjugate(columns))
        return adjoint(found) if self.turned else found


def _transposed(node: Node) -> Node:
    return matrix_transpose(node)


def _as_rows(node: Node) -> Node:
    return reshape_node(node, (node.size // node.shape[-1], node.shape[-1]))


def _samples() -> list[Sample]:
    found = []
    for dtype in ("float64", "complex128", "float32"):
        (matrix,) = sample_matrices("solve_system", ((3, 3),), (dtype,))
        (sides,) = sample_matrices("solve_system right", ((2, 3),), (dtype,))
        for right in (sides[0], sides):
            for turned in (False, True):
                found.append(Sample((right, matrix), {"system": MatrixSystem(turned)}))
    return found


SYSTEM = declare(Op(
    "solve_system", "library", params=("system",), spec=_spec, numpy=_kernel, jvp=_jvp, vjp=_vjp,
    batch=_batch, examples=examples.matrices, sparsity=dense, expensive=True, may_fail=True,
    samples=_samples,
))  # fmt: skip
