"""Products of little depth by kernels of our own: the numbers, and what stays with the library."""

from functools import lru_cache

import numpy as np
import pytest

import gradtape as gt
from gradtape.codegen import llvm
from gradtape.codegen.plans import panels
from gradtape.codegen.plans.gemm import Operand
from gradtape.codegen.plans.instructions import Instruction, Instructions
from gradtape.codegen.plans.panels import DEPTH, PanelArguments
from gradtape.runtime import blas as shallow
from gradtape.runtime import thread_team as threads
from gradtape.runtime.blas import gemm_instruction

BITS = llvm.host().bits
WIDE = pytest.mark.skipif(BITS != 512, reason="measured on vectors of 512 bits only")


@lru_cache
def kernel(size):
    shape = panels.shape_for(size, BITS)
    return shape, llvm.compile_ir(panels.panels_ir(shape)).address("panels")


def multiplied(a, b, room=0, parallel=False):
    """The product by the kernel, and what it has left of the memory beside it."""
    shape, function = kernel(a.itemsize)
    c = np.full((len(a), b.shape[1] + room), 7.0, a.dtype)
    slots = np.array([each.ctypes.data for each in (a, b, c)], np.int64)
    sizes = (*c[:, : b.shape[1]].shape, a.shape[1])
    words = PanelArguments(0, 0, 1, 0, 2, 0, *sizes, *a.strides, *b.strides, c.strides[0])
    count = -(-b.shape[1] // shape.width)
    plan = Instructions([Instruction(function, words, count, 1, parallel)])
    threads.run(plan, slots.ctypes.data)
    return c[:, : b.shape[1]], c[:, b.shape[1] :]


def matrices(rng, m, n, k, dtype):
    """Operands that lie by rows, by columns, or in steps."""
    found = []
    for rows, columns in ((m, k), (k, n)):
        whole = rng.standard_normal((2 * rows, 3 * columns)).astype(dtype)
        plain = np.ascontiguousarray(whole[:rows, :columns])
        ways = (plain, np.asfortranarray(plain), whole[::2, ::3])
        found.append(ways[rng.integers(3)])
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(40))
def test_any_shape_and_any_order(seed, dtype):
    rng = np.random.default_rng(seed)
    m, n, k = rng.integers(1, 40), rng.integers(1, 150), rng.integers(1, DEPTH + 1)
    a, b = matrices(rng, m, n, k, dtype)
    found, rest = multiplied(a, b, room=int(rng.integers(3)), parallel=bool(seed % 2))
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(found, a @ b, rtol=tolerance, atol=tolerance * k)
    assert np.all(rest == 7.0)


def test_not_a_number_goes_where_it_belongs():
    a, b = np.ones((9, 5)), np.ones((5, 30))
    a[3, 2], b[1, 29] = np.nan, np.inf
    found, _ = multiplied(a, b)
    np.testing.assert_array_equal(found, a @ b)


def asked(m, n, k, dtype="float32", transposed=False):
    """Whether a product goes to the kernel."""
    item = np.dtype(dtype).itemsize
    left = Operand(0, 0, (m, k), (k * item, item))
    right = Operand(1, 0, (k, n), (item, k * item) if transposed else (n * item, item))
    out = Operand(2, 0, (m, n), (n * item, item))
    found = gemm_instruction(np.dtype(dtype), left, right, out)
    return isinstance(found.arguments, PanelArguments)


@WIDE
def test_which_products():
    assert asked(512, 1024, 64)
    assert asked(512, 1024, 64, "float64")
    assert asked(512, 1024, 64, transposed=True)
    assert not asked(512, 1024, 64, "complex64")
    assert not asked(512, 1024, 300)
    assert not asked(16, 4096, 64)
    assert not asked(64, 1024, 64, transposed=True)
    assert not asked(512, 64, 64)
    assert not asked(64, 192, 16)


@WIDE
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_in_a_program(dtype):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(300, 60)).astype(dtype), rng.normal(size=(60, 500)).astype(dtype)
    f = gt.function(lambda a, b: gt.sum(gt.tanh(a @ b) ** 2))
    slope = gt.function(gt.grad(lambda a, b: gt.sum(gt.tanh(a @ b) ** 2), (0, 1)))
    for _ in range(3):
        value, (by_a, by_b) = f(gt.asarray(a), gt.asarray(b)), slope(gt.asarray(a), gt.asarray(b))
    y = np.tanh(a.astype("float64") @ b)
    g = 2 * y * (1 - y**2)
    tolerance = 1e-3 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(float(value), np.sum(y**2), rtol=tolerance)
    np.testing.assert_allclose(by_a.numpy(), g @ b.T, rtol=tolerance, atol=100 * tolerance)
    np.testing.assert_allclose(by_b.numpy(), a.T @ g, rtol=tolerance, atol=100 * tolerance)


def test_thresholds_are_within_the_panel():
    assert max(shallow.DEEPEST.values()) <= DEPTH
