"""Code that the ops on matrices share: shape checks, mask rules, errors on values, samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gradtape.errors import MatrixError, ShapeError
from gradtape.ir import Node, Shape, Spec, apply, outputs
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.creation import EYE, constant_beside
from gradtape.ops.families.samples import generator
from gradtape.ops.families.shapes import broadcast_to, reduce_to
from gradtape.ops.matrices.contraction import adjoint
from gradtape.ops.reductions.reduction import ANY

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import TensorOrNode

Found = TypeVar("Found")


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


def explained(name: str, problem: str, remedy: str, kernel: Callable[[], Found]) -> Found:
    """Run a LAPACK call; if it fails on values, raise an error with op, reason and remedy."""
    try:
        return kernel()
    except np.linalg.LinAlgError as error:
        raise MatrixError(f"{name}: {problem} ({error}). {remedy}") from None


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


def sample_matrices(name: str, shapes: tuple[Shape, ...], dtypes: tuple[str, ...]) -> list[Any]:
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
