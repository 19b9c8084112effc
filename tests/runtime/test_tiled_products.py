"""Sums of products by tiles: the numbers for operands in any order, and which products they are."""

from __future__ import annotations

import numpy as np
import pytest
from tests.runtime.slots import Slots

import gradtape as gt
from gradtape.compiler import thread_team as threads
from gradtape.compiler.emit.plans.gemm import GemmArguments, MatrixOperand
from gradtape.compiler.emit.plans.instructions import FIRST, Instructions
from gradtape.compiler.emit.plans.packing import shape_for
from gradtape.compiler.lower.products import blas
from gradtape.compiler.lower.products.tiled_products import (
    Contraction,
    LoopAxis,
    matrix_product,
)
from gradtape.compiler.objects import llvm
from gradtape.compiler.objects.llvm import Host
from gradtape.config import CACHE_LINE, PANEL_DEPTH, TURNED_COLUMNS

BITS = llvm.host().bits


@pytest.fixture(autouse=True, params=[1, 3])
def some_threads(request):
    before = threads.get_num_threads()
    threads.set_num_threads(request.param)
    yield
    threads.set_num_threads(before)


def operand(slot, values):
    return MatrixOperand(FIRST + slot, 0, values.shape, values.strides)


def run(instruction, *arrays):
    slots = Slots(*arrays)
    threads.run(Instructions([instruction]), slots.address)


def multiplied(a, b, room=0):
    """The product by tiles, and what they have left of the memory beside it."""
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    n = b.shape[-1]
    memory = np.full((*shape, a.shape[-2], n + room), 7.0, a.dtype)
    c = memory[..., :n]
    found = matrix_product(a.dtype, operand(0, a), operand(1, b), operand(2, c))
    run(found.instruction(), a, b, c)
    return c, memory[..., n:]


def lying(rng, shape, dtype):
    """Values that lie by rows, by columns, in steps, backwards, or with other axes in front."""
    whole = rng.standard_normal([3 * n for n in shape]).astype(dtype)
    part = whole[tuple(slice(n) for n in shape)]
    plain = np.ascontiguousarray(part)
    order = rng.permutation(len(shape))
    permuted = np.ascontiguousarray(plain.transpose(order)).transpose(np.argsort(order))
    steps = whole[tuple(slice(None, None, 3) for _ in shape)]
    ways = (plain, np.asfortranarray(plain), permuted, steps, plain[..., ::-1], plain[..., ::-1, :])
    return ways[rng.integers(len(ways))]


def close(found, a, b):
    tolerance = 2e-5 if a.dtype == np.float32 else 1e-13
    exact = np.matmul(a.astype("float64"), b.astype("float64"))
    room = np.matmul(np.abs(a.astype("float64")), np.abs(b.astype("float64")))
    assert np.all(np.abs(found - exact) <= tolerance * (room + 1))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(30))
def test_any_shape_and_any_order(seed, dtype):
    rng = np.random.default_rng(seed)
    m, n, k = (int(rng.integers(1, top)) for top in (70, 120, 3 * PANEL_DEPTH))
    a, b = lying(rng, (m, k), dtype), lying(rng, (k, n), dtype)
    found, rest = multiplied(a, b, room=int(rng.integers(3)))
    close(found, a, b)
    assert np.all(rest == 7.0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(8))
def test_left_operands_that_are_turned(seed, dtype):
    """Transposed left operands of several blocks, whose tiles are turned before panels pass."""
    rng = np.random.default_rng(seed)
    m, k = int(rng.integers(1, 400)), int(rng.integers(1, 3 * PANEL_DEPTH))
    n = TURNED_COLUMNS + int(rng.integers(60))
    wide = max(m, CACHE_LINE // 4)
    a = rng.standard_normal((k, wide)).astype(dtype)[:, :m].T
    b = lying(rng, (k, n), dtype)
    c = np.empty((m, n), dtype)
    found = matrix_product(dtype, operand(0, a), operand(1, b), operand(2, c)).instruction()
    assert found.arguments.turns == (k > 1)
    close(multiplied(a, b)[0], a, b)


def test_turned_tiles_of_outer_rows_and_depth():
    """Rows and depth of two axes each, of which the outer ones are outside the tables."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 70, 5, 50)), rng.standard_normal((4, 70, 300))
    c = np.zeros((5, 50, 300))
    contraction = Contraction(
        "float64",
        (FIRST, 0),
        (FIRST + 1, 0),
        (FIRST + 2, 0),
        rows=[
            LoopAxis(5, a=a.strides[2], c=c.strides[0]),
            LoopAxis(50, a=a.strides[3], c=c.strides[1]),
        ],
        columns=[LoopAxis(300, b=b.strides[2], c=c.strides[2])],
        depth=[
            LoopAxis(4, a=a.strides[0], b=b.strides[0]),
            LoopAxis(70, a=a.strides[1], b=b.strides[1]),
        ],
    )
    found = contraction.instruction()
    assert (found.arguments.outer_rows, found.arguments.outer_depth) == (5, 4)
    assert found.arguments.turns
    run(found, a, b, c)
    np.testing.assert_allclose(c, np.einsum("pqab,pqx->abx", a, b), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("seed", range(12))
def test_batches(seed):
    """Leading axes that broadcast, merge or do neither."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(each) for each in rng.integers(1, 20, 3))
    outer = tuple(int(each) for each in rng.integers(1, 5, int(rng.integers(1, 4))))
    left, right = (
        tuple(1 if rng.integers(3) == 0 else each for each in outer)[int(rng.integers(2)) :]
        for _ in range(2)
    )
    a, b = lying(rng, (*left, m, k), "float32"), lying(rng, (*right, k, n), "float32")
    close(multiplied(a, b)[0], a, b)


def test_not_a_number_goes_where_it_belongs():
    a, b = np.ones((9, 5)), np.ones((5, 30))
    a[3, 2], b[1, 29] = np.nan, np.inf
    found, _ = multiplied(a, b)
    np.testing.assert_array_equal(found, a @ b)
    # The rows that fill up the last tile and the columns that fill up the last panel leave no NaN.
    a[8, 0], b[0, 0] = np.inf, 0.0
    with np.errstate(invalid="ignore"):
        expected = a @ b
    np.testing.assert_array_equal(multiplied(a, b)[0], expected)


def test_many_axes_of_each_kind():
    """Rows, columns and depth of several axes, in an order that no strides express."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 7, 4, 5)), rng.standard_normal((5, 6, 7, 2))
    c = np.zeros((3, 4, 6, 2))
    contraction = Contraction(
        "float64",
        (FIRST, 0),
        (FIRST + 1, 0),
        (FIRST + 2, 0),
        rows=[
            LoopAxis(3, a=a.strides[0], c=c.strides[0]),
            LoopAxis(4, a=a.strides[2], c=c.strides[1]),
        ],
        columns=[
            LoopAxis(6, b=b.strides[1], c=c.strides[2]),
            LoopAxis(2, b=b.strides[3], c=c.strides[3]),
        ],
        depth=[
            LoopAxis(7, a=a.strides[1], b=b.strides[2]),
            LoopAxis(5, a=a.strides[3], b=b.strides[0]),
        ],
    )
    run(contraction.instruction(), a, b, c)
    np.testing.assert_allclose(c, np.einsum("apbq,qxpy->abxy", a, b), rtol=1e-12)


def test_a_width_leaves_few_lanes_empty():
    for bits in (128, 256, 512):
        for columns in range(1, 200):
            shape = shape_for(4, bits, columns)
            needed = -(-columns // shape.lanes)
            taken = -(-columns // shape.width) * shape.vectors
            assert taken - needed <= (0 if needed < 4 else 1)


HOSTS = {
    "AVX2": Host("x86_64", 256, True, True, has_512=False, in_halves=False),
    "AVX-512 limited to 256 bits": Host("x86_64", 256, True, True, has_512=True, in_halves=False),
    "AVX-512 in halves": Host("x86_64", 512, True, True, has_512=True, in_halves=True),
    "AVX-512": Host("x86_64", 512, True, True, has_512=True, in_halves=False),
}


@pytest.fixture
def asked(monkeypatch):
    """A function: whether tiles are taken to be faster for a product, on some processor."""

    def ask(host, m, k, n, dtype="float32", outer=(), transposed=""):
        monkeypatch.setattr(llvm, "host", lambda: HOSTS[host])
        a, b, c = (np.empty((*outer, *shape), dtype) for shape in ((m, k), (k, n), (m, n)))
        if "a" in transposed:
            a = np.empty((k, m), dtype).T
        if "b" in transposed:
            b = np.empty((n, k), dtype).T
        return matrix_product(dtype, operand(0, a), operand(1, b), operand(2, c)).is_faster()

    return ask


@pytest.mark.parametrize("host", ["AVX2", "AVX-512 limited to 256 bits", "AVX-512 in halves"])
def test_which_products(asked, host):
    assert asked(host, 512, 64, 1024)
    assert asked(host, 32, 128, 512)
    assert not asked(host, 2048, 2048, 2048)
    # Few columns at any depth, and a left operand of half a million bytes.
    assert asked(host, 256, 10_000, 64)
    assert asked(host, 128, 784, 512)
    assert not asked(host, 128, 784, 512, "float64")
    # Few rows at any depth, in float32.
    assert asked(host, 64, 3200, 512, transposed="a")
    assert not asked(host, 256, 3200, 512)
    assert not asked(host, 64, 3200, 512, "float64")
    assert not asked(host, 512, 512, 1)
    assert not asked(host, 1, 512, 512)
    assert asked(host, 512, 512, 512) == (host == "AVX-512 in halves")


@pytest.mark.parametrize("host", HOSTS)
def test_small_products(asked, host):
    """OpenBLAS packs small ones without AVX-512, and with it those with a transposed operand."""
    assert asked(host, 64, 64, 64, "float64") == (host == "AVX2")
    assert asked(host, 128, 128, 32, outer=(64,)) == (host == "AVX2")
    assert asked(host, 10, 128, 512) == (host == "AVX2")
    assert asked(host, 64, 64, 64, transposed="b") == (host != "AVX-512")
    assert not asked(host, 32, 784, 1, transposed="b")


def test_which_products_with_vectors_of_512_bits(asked):
    assert asked("AVX-512", 512, 64, 1024)
    assert not asked("AVX-512", 512, 300, 1024)
    assert not asked("AVX-512", 16, 64, 4096)
    assert not asked("AVX-512", 512, 64, 64)


def test_products_of_complex_numbers_are_left_to_blas():
    a, b, c = (np.empty(shape, "complex64") for shape in ((512, 64), (64, 1024), (512, 1024)))
    found = blas.gemm_instruction("complex64", operand(0, a), operand(1, b), operand(2, c))
    assert isinstance(found.arguments, GemmArguments)


def test_empty_and_endless_products_are_refused():
    empty = [
        MatrixOperand(slot, 0, shape, (8, 8)) for slot, shape in enumerate(((3, 0), (0, 4), (3, 4)))
    ]
    assert matrix_product("float64", *empty) is None
    long = 1 << 40
    endless = MatrixOperand(0, 0, (long, 4), (16, 4)), MatrixOperand(1, 0, (4, 8), (32, 4))
    assert matrix_product("float32", *endless, MatrixOperand(2, 0, (long, 8), (32, 4))) is None


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


def test_heads_of_attention_are_not_copied():
    """Permuted stacks of matrices are one instruction: no loop copies them."""
    rng = np.random.default_rng(1)
    q, k = rng.normal(size=(2, 2, 5, 3, 8))

    @gt.function
    def scores(q, k):
        return gt.matmul(gt.permute_dims(q, (0, 2, 1, 3)), gt.permute_dims(k, (0, 2, 3, 1)))

    for _ in range(3):
        before = gt.counters()
        found = scores(gt.asarray(q), gt.asarray(k)).numpy()
        after = gt.counters()
        kernels = ("kernels_compiled", "kernels_loaded", "kernels_reused")
        assert all(getattr(after, name) == getattr(before, name) for name in kernels)
    np.testing.assert_allclose(found, np.einsum("bshd,bthd->bhst", q, k), rtol=1e-12)
