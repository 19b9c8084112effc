"""Test cases that compare tensors, and derivatives by differences: `tf.test`."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.libraries import check_exports
from gradtape.pytree import flatten, map_leaves
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Array, TensorLike, UserFunction
from gradtape.tf.programs.tape import GradientTape

__all__ = [
    "TestCase",
    "compute_gradient",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_gpu_available",
    "main",
]


def compute_gradient(
    f: UserFunction, x: Sequence[TensorLike], delta: float | None = None
) -> tuple[list[Array], list[Array]]:
    """Jacobians of a function by its arguments: computed, and from differences.

    >>> computed, measured = tf.test.compute_gradient(tf.square, [tf.constant([1.0, 2.0])])
    >>> bool(np.allclose(computed[0], measured[0], atol=1e-2))
    True
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(f"compute_gradient: x has to be a list of tensors, not {type(x)}.")
    operands = [convert(each) for each in x]
    step = 1.0 / 1024 if delta is None else float(delta)
    with GradientTape(persistent=True) as tape:
        tape.watch(operands)
        y = f(*operands)
    computed, measured = [], []
    for position, operand in enumerate(operands):
        shape = (y.spec.size, operand.spec.size)
        result = tape.jacobian(y, operand, unconnected_gradients="zero")
        computed.append(result.numpy().reshape(shape))
        measured.append(_differences(f, operands, position, step).reshape(shape))
    return computed, measured


def _differences(f: UserFunction, operands: list[Tensor], position: int, step: float) -> Array:
    start = np.asarray(operands[position].read())
    columns = []
    for at in np.ndindex(*start.shape):
        ends = []
        for sign in (1.0, -1.0):
            moved = start.copy()
            moved[at] += sign * step
            near = [*operands[:position], convert(moved), *operands[position + 1 :]]
            ends.append(f(*near).numpy())
        columns.append(((ends[0] - ends[1]) / (2.0 * step)).reshape(-1))
    return np.stack(columns, axis=-1) if columns else np.zeros((0,), start.dtype)


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: object = None) -> bool:
    """False: there is one device, the CPU.

    >>> tf.test.is_gpu_available()
    False
    """
    return False


def is_built_with_cuda() -> bool:
    """False: there is one device, the CPU.

    >>> tf.test.is_built_with_cuda()
    False
    """
    return False


def gpu_device_name() -> str:
    """An empty name: there is no GPU.

    >>> tf.test.gpu_device_name()
    ''
    """
    return ""


def _plain(value: object) -> Any:
    """A nest with tensors replaced by NumPy arrays."""
    return map_leaves(lambda leaf: leaf.numpy() if hasattr(leaf, "numpy") else leaf, value)


class TestCase(unittest.TestCase):
    """A test case that compares tensors.

    >>> tf.test.TestCase().assertAllClose(tf.constant([1.0]), [1.0 + 1e-8])
    """

    # pytest must not collect this class itself.
    __test__ = False

    def evaluate(self, tensors: object) -> Any:
        """Values of tensors, as NumPy arrays."""
        return _plain(tensors)

    def assertAllClose(  # noqa: N802 - unittest's style
        self,
        a: TensorLike,
        b: TensorLike,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        msg: str | None = None,
    ) -> None:
        """Assert that nests of tensors are equal up to tolerances."""
        first, second = flatten(_plain(a))[0], flatten(_plain(b))[0]
        if len(first) != len(second):
            first, second = [np.asarray(_plain(a))], [np.asarray(_plain(b))]
        for x, y in zip(first, second, strict=True):
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=msg or "")

    def assertAllEqual(self, a: TensorLike, b: TensorLike, msg: str | None = None) -> None:  # noqa: N802
        """Assert that tensors are equal, element by element."""
        np.testing.assert_array_equal(np.asarray(_plain(a)), np.asarray(_plain(b)), msg or "")

    def assertShapeEqual(self, a: TensorLike, b: TensorLike, msg: str | None = None) -> None:  # noqa: N802
        """Assert that tensors have one shape."""
        first, second = (np.asarray(_plain(each)).shape for each in (a, b))
        if first != second:
            raise self.failureException(msg or f"shapes {first} and {second} differ.")


def main(*args: Any, **kwargs: Any) -> object:
    """Run the tests of the module that calls it, as unittest does.

    >>> callable(tf.test.main)
    True
    """
    return unittest.main(*args, **kwargs)


check_exports(globals(), __all__)
