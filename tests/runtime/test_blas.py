"""Products as plan instructions: every layout against NumPy, and whose thread count is touched."""

import ctypes
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.slots import Slots

import gradtape as gt
from gradtape.compiler import thread_team as threads
from gradtape.compiler.emit.plans import gemm
from gradtape.compiler.emit.plans.instructions import FIRST, Instructions
from gradtape.compiler.lower.products import blas
from gradtape.compiler.passes import optimize
from gradtape.ops.blas_lapack import library
from gradtape.runtime.compiled_plan import CompiledPlan

DTYPES = ["float32", "float64", "complex64", "complex128"]
SLOTS = Slots()
TOLERANCE = {"float32": 1e-4, "complex64": 1e-4, "float64": 1e-12, "complex128": 1e-12}


@pytest.fixture(autouse=True)
def library_only(monkeypatch):
    """Products that tiles would compute go to the library here; see test_tiled_products."""
    monkeypatch.setattr(blas, "matrix_product", lambda *_: None)


@pytest.fixture(autouse=True)
def two_threads():
    before = threads.get_num_threads()
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(before)


def operand(slot, values, conjugate=False):
    return gemm.MatrixOperand(FIRST + slot, 0, values.shape, values.strides, conjugate)


def run(instruction, *arrays):
    enclosing = [blas.hold_instruction(), instruction, blas.release_instruction()]
    plan = Instructions([each for each in enclosing if each is not None])
    slots = Slots(*arrays)
    threads.run(plan, slots.address)


def random(dtype, shape, seed=0):
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


def stored(dtype, outer, rows, columns, transposed, seed):
    if not transposed:
        return random(dtype, (*outer, rows, columns), seed)
    return random(dtype, (*outer, columns, rows), seed).swapaxes(-1, -2)


def check(dtype, a, b, c, *, conjugate_a=False, conjugate_b=False, accumulate=False):
    expected = (a.conj() if conjugate_a else a) @ (b.conj() if conjugate_b else b)
    if accumulate:
        expected = expected + c
    else:
        # What was there before must not matter, not even times zero.
        c[...] = np.nan
    instruction = blas.gemm_instruction(
        dtype,
        operand(0, a, conjugate_a),
        operand(1, b, conjugate_b),
        operand(2, c),
        accumulate=accumulate,
    )
    assert instruction is not None
    run(instruction, a, b, c)
    np.testing.assert_allclose(c, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    return instruction


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("outer", [(), (3,), (2, 3)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_every_layout(dtype, outer, accumulate):
    sizes = itertools.product((0, 1, 3, 40), (0, 1, 5), (0, 1, 4, 70))
    for m, k, n in sizes:
        for transposed in itertools.product((False, True), repeat=3):
            a = stored(dtype, outer, m, k, transposed[0], 1)
            b = stored(dtype, outer, k, n, transposed[1], 2)
            c = stored(dtype, outer, m, n, transposed[2], 3)
            check(dtype, a, b, c, accumulate=accumulate)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(("m", "k", "n"), [(3, 4, 5), (1, 4, 5), (3, 4, 1), (3, 1, 5), (1, 4, 1)])
def test_conjugate_transposes(dtype, m, k, n):
    for first, second in ((True, False), (False, True), (True, True)):
        a = stored(dtype, (), m, k, first, 1)
        b = stored(dtype, (), k, n, second, 2)
        c = random(dtype, (m, n))
        check(dtype, a, b, c, conjugate_a=first, conjugate_b=second)


def test_conjugate_that_is_not_transposed_is_refused():
    a, b, c = (random("complex64", (4, 4), seed) for seed in range(3))
    found = blas.gemm_instruction("complex64", operand(0, a, True), operand(1, b), operand(2, c))
    assert found is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_windows_of_larger_matrices(dtype):
    a = random(dtype, (20, 30))[2:12, 3:23]
    b = random(dtype, (40, 50))[5:25, 7:19]
    c = random(dtype, (30, 40))[3:13, 1:13]
    around = c.base.copy()
    check(dtype, a, b, c)
    changed = around != c.base
    changed[3:13, 1:13] = False
    assert not changed.any()


def test_vectors_with_steps():
    matrix = random("float64", (6, 8))
    check("float64", matrix, random("float64", (8, 3))[:, 1:2], np.zeros((6, 4))[:, 2:3])
    check("float64", random("float64", (6, 3))[:, 1:2].T, matrix, np.zeros((1, 8)))


def test_offsets_are_bytes():
    memory = random("float32", (64,))
    a, b, c = memory[4:10].reshape(2, 3), memory[20:32].reshape(3, 4), memory[40:48].reshape(2, 4)
    expected = a @ b
    operands = [
        gemm.MatrixOperand(FIRST, 4 * start, each.shape, each.strides)
        for start, each in ((4, a), (20, b), (40, c))
    ]
    run(blas.gemm_instruction("float32", *operands), memory)
    np.testing.assert_allclose(c, expected, rtol=1e-5)


def test_broadcast_batches():
    a, b = random("float64", (5, 3, 4)), random("float64", (4, 6))
    instruction = check("float64", a, b, np.empty((5, 3, 6)))
    # One product of all rows.
    words = gemm.GemmArguments(*instruction.arguments)
    assert (words.m, words.batch) == (15, 1)
    check("float64", random("float64", (3, 4)), random("float64", (5, 4, 6)), np.empty((5, 3, 6)))
    check(
        "float64", random("float64", (1, 3, 4)), random("float64", (5, 4, 6)), np.empty((5, 3, 6))
    )


def test_batch_axes_that_do_not_merge_are_refused():
    a, b, c = np.zeros((2, 1, 3, 4)), np.zeros((1, 5, 4, 6)), np.zeros((2, 5, 3, 6))
    assert blas.gemm_instruction("float64", operand(0, a), operand(1, b), operand(2, c)) is None


@pytest.mark.parametrize("step", [slice(None, None, 2), slice(None, None, -1)])
def test_memory_that_blas_cannot_read_is_refused(step):
    a, b, c = np.zeros((8, 8))[step, step], np.zeros((8, 8)), np.zeros((8, 8))
    b, c = b[: a.shape[1]], c[: a.shape[0]]
    assert blas.gemm_instruction("float64", operand(0, a), operand(1, b), operand(2, c)) is None


def test_sizes_beyond_the_librarys_integers_are_refused():
    long = 2**31
    a = gemm.MatrixOperand(0, 0, (1, long), (4 * long, 4))
    b = gemm.MatrixOperand(1, 0, (long, 1), (4, 4))
    c = gemm.MatrixOperand(2, 0, (1, 1), (4, 4))
    assert blas.gemm_instruction("float32", a, b, c) is None


def cut(m, k, n, outer=()):
    a, b, c = np.empty((*outer, m, k)), np.empty((*outer, k, n)), np.empty((*outer, m, n))
    found = blas.gemm_instruction("float64", operand(0, a), operand(1, b), operand(2, c))
    return found, gemm.GemmArguments(*found.arguments).split


def test_where_products_are_cut():
    assert not cut(4, 4, 4)[0].parallel
    found, split = cut(2000, 64, 64)
    assert (found.parallel, found.total, split) == (True, 2000, gemm.SPLIT_ROWS)
    found, split = cut(64, 512, 2000)
    assert (found.parallel, found.total, split) == (True, 2000, gemm.SPLIT_COLUMNS)
    found, split = cut(64, 64, 64, (40,))
    assert (found.parallel, found.total, split) == (True, 40, gemm.SPLIT_BATCH)
    # Three items leave one of two threads idle a quarter of the time.
    assert cut(256, 64, 256, (3,))[1] != gemm.SPLIT_BATCH


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 3])
def test_parts_make_the_whole(dtype, count):
    threads.set_num_threads(count)
    single: tuple[int, ...] = ()
    for m, k, n, outer in (
        (201, 50, 67, single),
        (67, 50, 201, single),
        (501, 501, 1, single),
        (1, 501, 501, single),
        (20, 50, 30, (14,)),
    ):
        a, b = random(dtype, (*outer, m, k), 1), random(dtype, (*outer, k, n), 2)
        shared = threads.team_counts().shared
        instruction = check(dtype, a, b, np.empty((*outer, m, n), dtype))
        assert instruction.parallel
        assert threads.team_counts().shared == shared + 1


def openblas_threads():
    found = library()
    if not found.set_threads:
        pytest.skip("the library counts no threads per process")
    return (
        ctypes.CFUNCTYPE(ctypes.c_int)(found.get_threads),
        ctypes.CFUNCTYPE(None, ctypes.c_int)(found.set_threads),
    )


def test_library_is_held_to_one_thread_in_between():
    get, put = openblas_threads()
    hold, release = blas.hold_instruction(), blas.release_instruction()
    before = get()
    put(2)
    try:
        threads.run(Instructions([hold]), SLOTS.address)
        assert get() == 1
        # Plans overlap: the last to end gives the count back.
        threads.run(Instructions([hold, release]), SLOTS.address)
        assert get() == 1
        threads.run(Instructions([release]), SLOTS.address)
        assert get() == 2
    finally:
        put(before)


def script(body, **environment):
    source = str(Path(blas.__file__).resolve().parents[4])
    return subprocess.run(
        [sys.executable, "-c", body],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": source, **environment},
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_between_hold_and_release():
    openblas_threads()
    body = """
import ctypes, os
from gradtape.compiler.emit.plans.instructions import Instructions
from gradtape.ops.blas_lapack import library
from gradtape.compiler.lower.products import blas
from gradtape.compiler import thread_team as threads
status = ctypes.c_int64(0)
slots = (ctypes.c_void_p * 3)(0, 0, ctypes.addressof(status))
hold, release = blas.hold_instruction(), blas.release_instruction()
get = ctypes.CFUNCTYPE(ctypes.c_int)(library().get_threads)
ctypes.CFUNCTYPE(None, ctypes.c_int)(library().set_threads)(2)
threads.run(Instructions([hold]), ctypes.addressof(slots))
child = os.fork()
if child == 0:
    before = get()
    threads.run(Instructions([hold]), ctypes.addressof(slots))
    during = get()
    threads.run(Instructions([release]), ctypes.addressof(slots))
    os._exit(0 if (before, during, get()) == (2, 1, 2) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert get() == 1
threads.run(Instructions([release]), ctypes.addressof(slots))
assert get() == 2
"""
    done = script(body, PYTHONWARNINGS="ignore", GRADTAPE_BLAS="openblas")
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_imported_before_the_first_product():
    body = """
import sys
from gradtape.compiler.passes import optimize
from gradtape.compiler.lower.products import blas
from gradtape.compiler import thread_team as threads
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime import buffer_pool as buffers
assert "scipy.linalg" not in sys.modules
assert "llvmlite" not in sys.modules
"""
    done = script(body)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_product_and_a_small_kernel_are_one_run():
    rng = np.random.default_rng(0)
    y = gt.asarray(rng.standard_normal((256, 256)))
    w = gt.asarray(rng.standard_normal((256, 256)) / 16)

    def step(y):
        return gt.tanh(y @ w) + 0.5

    compiled = CompiledPlan(optimize(gt.program_of(step(y))))
    assert compiled.layout is not None, compiled.lowered.items
    for _ in range(10):
        y = gt.evaluate(step(y))
        gt.wait_for_compiler()
    before = gt.counters()
    for _ in range(50):
        y = gt.evaluate(step(y))
    after = gt.counters()
    assert after.plans_run - before.plans_run == 50
    assert after.bytes_allocated == before.bytes_allocated
