"""Parts shared by the ops on matrices: their family, shape checks, mask rules, errors, samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.errors import MatrixError, ShapeError
from gradtape.ir import Node, Op, Rule, Shape, Spec, apply, declare, outputs
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.creation import EYE, constant_beside
from gradtape.ops.families import batching, independence, promotion
from gradtape.ops.families.samples import Sample, generator
from gradtape.ops.families.shapes import broadcast_to, reduce_to
from gradtape.ops.families.sparsity import matrices
from gradtape.ops.matrices.contraction import adjoint
from gradtape.ops.reductions.reduction import ANY

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import TensorOrNode

SQUARE: tuple[Shape, ...] = ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2))
TALL_AND_WIDE: tuple[Shape, ...] = ((3, 2), (2, 3), (2, 2), (2, 3, 2), (1, 1), (2, 0), (0, 2, 2))
DTYPES = ("float64", "complex128", "float32")
SINGULAR = "a matrix is singular ({}). Add a multiple of the identity, or use gt.linalg.pinv."
NOT_CONVERGED = "LAPACK did not converge ({}). Check the matrix for NaN and inf."


def of_matrices(
    name: str,
    spec: Rule,
    numpy: Rule,
    *,
    shapes: tuple[Shape, ...] = SQUARE,
    failure: str | None = None,
    **rules: Any,
) -> Op:
    """Declare an op on a stack of matrices, which a call of a library computes one by one.

    Samples are matrices of `shapes`. `failure` says what is wrong with values that the call
    refuses, and the remedy. `rules` are further fields of Op.
    """
    if failure is not None:
        rules |= {"numpy": explained(name, failure, numpy), "may_fail": True}
    defaults: dict[str, Any] = {
        "numpy": numpy,
        "promote": promotion(name, "float", "inexact"),
        "batch": batching.leading,
        "examples": independence.matrices,
        "sparsity": matrices,
        "expensive": True,
        "samples": lambda: [Sample((x,)) for x in sample_matrices(name, shapes)],
    }
    return declare(Op(name, "library", spec=spec, **(defaults | rules)))


def square_spec(name: str) -> Callable[[Spec], Spec]:
    """The rule `spec` of an op whose result is like the square matrices it is given."""

    def rule(x: Spec) -> Spec:
        require_square(name, x)
        return x

    return rule


def require_matrix(name: str, x: Spec) -> None:
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: shape {x.shape} is not a matrix or a stack of them. "
            "Reshape it to two axes or more."
        )


def require_square(name: str, x: Spec) -> None:
    require_matrix(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name}: shape {x.shape} is not square (axis {x.ndim - 2}: {x.shape[-2]}, "
            f"axis {x.ndim - 1}: {x.shape[-1]}). Pass square matrices."
        )


def batch_mask(core: int) -> Callable[..., Node]:
    """Make a mask rule with one bit per matrix: a library call mixes all elements of a matrix.

    `core` is the number of axes of the result that belong to one matrix.
    """

    def mask_rule(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
        axes = tuple(range(mask.ndim - core, mask.ndim))
        bits = apply(ANY, (mask,), (axes, False)) if axes else mask
        shape = inputs[index].shape
        bits = reduce_to(bits, shape[:-2], "any")
        return broadcast_to(movement.reshape(bits, (*shape[:-2], 1, 1)), shape)

    return mask_rule


def explained(name: str, failure: str, kernel: Rule) -> Rule:
    """A kernel that calls LAPACK; if it fails on values, the error has op, reason and remedy."""

    def run(*arrays: np.ndarray, **params: Any) -> Any:
        try:
            return kernel(*arrays, **params)
        except np.linalg.LinAlgError as error:
            raise MatrixError(f"{name}: {failure.format(error)}") from None

    return run


def outputs_of(found: Any) -> tuple[Any, ...]:
    """The outputs of an op with several outputs, whether it was recorded or applied to nodes."""
    return outputs(found) if type(found) is Node else found


def symmetric_part(x: Any) -> Any:
    """(x + xᴴ) / 2, of a node, a tensor or an array."""
    if isinstance(x, np.ndarray):
        turned = np.swapaxes(x, -1, -2)
        # The conjugate of real numbers would be a copy.
        total: np.ndarray = x + (np.conj(turned) if x.dtype.kind == "c" else turned)
        total *= x.dtype.type(0.5)
        return total
    return (x + adjoint(x)) * 0.5


def identity_like(x: TensorOrNode) -> TensorOrNode:
    """The identity matrix of the same size as a square matrix."""
    n = x.shape[-1]
    return constant_beside(x, EYE, (n, n, 0, x.dtype))


def as_row(x: TensorOrNode) -> TensorOrNode:
    """Each vector of a stack as a matrix of one row."""
    return movement.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def as_column(x: TensorOrNode) -> TensorOrNode:
    """Each vector of a stack as a matrix of one column."""
    return movement.reshape(x, (*x.shape, 1))


def sample_matrices(
    name: str, shapes: tuple[Shape, ...], dtypes: tuple[str, ...] = DTYPES
) -> list[Any]:
    """Well-conditioned random matrices: a large diagonal keeps them away from singular ones."""
    rng = generator(name)
    found = []
    for dtype in dtypes:
        for shape in shapes:
            values = rng.uniform(-1.0, 1.0, shape)
            if np.dtype(dtype).kind == "c":
                values = values + 1j * rng.uniform(-1.0, 1.0, shape)
            # The diagonal is distinct, so that eigenvalues and singular values are far apart.
            count = min(shape[-2:])
            values[..., range(count), range(count)] += 2.0 + 1.5 * np.arange(count)
            found.append(values.astype(dtype))
    return found
