"""The kernels of LU factors beside LAPACK's `getrf`, at every width of vectors."""

import ctypes
import gc
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import lapack

import gradtape as gt
from gradtape.codegen.llvm import compile_ir, free_code
from gradtape.codegen.plans.elements import lanes_for
from gradtape.codegen.plans.factors import FactorArguments, factors_ir, update_range
from gradtape.codegen.plans.panels import WIDTH, panel_bytes
from gradtape.graph.node import apply, outputs, placeholder
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import program
from gradtape.graph.spec import spec
from gradtape.recording.value import Value
from gradtape.runtime import native_matrices, thread_team
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.lowered_program import NumpyCall

KERNELS = {}


def kernels(size, bits):
    """The compiled kernels; wider vectors than the processor has are split by LLVM."""
    if (size, bits) not in KERNELS:
        KERNELS[size, bits] = compile_ir(factors_ir(lanes_for(size, bits)))
    return KERNELS[size, bits]


def factored(x, bits, parts=1):
    """Factors and pivots of a matrix that lies column after column.

    Each update runs in so many parts, the last one first: they must not depend on one another.
    """
    order, size = len(x), x.dtype.itemsize
    lanes, compiled = lanes_for(size, bits), kernels(size, bits)
    found, pivots = np.empty_like(x), np.empty(order, np.int32)
    panels = [np.empty(panel_bytes(lanes, order) + 64, np.uint8) for _ in range(2)]
    buffers = [each.ctypes.data for each in (x, found, pivots, *panels)]
    buffers[3:] = [-(-address // 64) * 64 for address in buffers[3:]]
    slots = (ctypes.c_void_p * 5)(*buffers)
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

    def run(name, first, total, cuts=1):
        number = first // WIDTH % 2
        width = min(WIDTH, order - first)
        places = (0, 0, 1, 0, 2, 0, 3 + number, 0, 4 - number, 0)
        words = FactorArguments(*places, order, first, width)
        memory = (ctypes.c_int64 * len(words))(*words)
        function = ctypes.CFUNCTYPE(None, *kinds)(compiled.address(name))
        bounds = [total * cut // cuts for cut in range(cuts + 1)]
        for low, high in reversed(list(itertools.pairwise(bounds))):
            function(ctypes.addressof(slots), ctypes.addressof(memory), low, high, 0)

    run("copy", 0, order)
    run("panel", 0, 1)
    for first in range(0, order - WIDTH, WIDTH):
        run("update", first, update_range(order - first - WIDTH), parts)
    run("interchange", 0, order, parts)
    return found, pivots


def residual(x, found, pivots):
    """The largest element of P A - L U, in units of the rounding error of the largest of A."""
    lower = np.tril(found.T, -1).astype("float64") + np.eye(len(x))
    product = lower @ np.triu(found.T).astype("float64")
    matrix = x.T.astype("float64")
    for row, other in enumerate(pivots):
        matrix[[row, other]] = matrix[[other, row]]
    return np.abs(product - matrix).max() / (np.finfo(x.dtype).eps * np.abs(x).max())


ORDERS = (1, 2, 3, 7, 8, 9, 31, 32, 33, 39, 40, 41, 63, 64, 65, 67, 96, 100, 113, 129, 200)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("order", ORDERS)
def test_factors_are_those_of_lapack(order, bits, dtype):
    x = np.random.default_rng(order).standard_normal((order, order)).astype(dtype)
    found, pivots = factored(x, bits)
    expected, other_pivots, _ = lapack.get_lapack_funcs("getrf", (x,))(x.T)
    np.testing.assert_array_equal(pivots, other_pivots)
    error = 500 * order * np.finfo(dtype).eps * np.abs(expected).max()
    np.testing.assert_allclose(found.T, expected, atol=error)
    assert residual(x, found, pivots) < 4 * order


@settings(max_examples=60, deadline=None)
@given(
    order=st.integers(33, 150),
    parts=st.integers(1, 5),
    seed=st.integers(0, 1000),
    bits=st.sampled_from([128, 256]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_parts_of_an_update_do_not_depend_on_one_another(order, parts, seed, bits, dtype):
    x = np.random.default_rng(seed).uniform(-1, 1, (order, order)).astype(dtype)
    whole, cut = factored(x, bits), factored(x, bits, parts)
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(one, other)
    assert residual(x, *whole) < 4 * order


@pytest.mark.parametrize("order", [5, 40, 70])
def test_columns_of_zeros_leave_a_zero_on_the_diagonal(order):
    x = np.random.default_rng(1).standard_normal((order, order))
    x[:, 3] = x[3] = 0.0
    found, pivots = factored(x, 256)
    assert np.isfinite(found).all()
    assert residual(x, found, pivots) < 4 * order
    assert (np.diagonal(found) == 0).any()


@pytest.mark.parametrize(("dtype", "scale"), [("float64", 1e-308), ("float32", 1e-38)])
def test_pivots_without_a_reciprocal_are_divided_by(dtype, scale):
    x = (np.random.default_rng(2).standard_normal((40, 40)) * scale).astype(dtype)
    found, _ = factored(x, 256)
    assert np.isfinite(found).all()
    assert np.abs(np.triu(found, 1)).max() <= 1.0  # L, in the order of memory


def test_a_nan_is_a_pivot_rather_than_lost():
    x = np.zeros((40, 40))
    x[0, 5] = np.nan
    _, pivots = factored(x, 256)
    assert pivots[0] == 5


def plan_of_factors(x):
    node = placeholder(spec(x.shape, x.dtype))
    return CompiledPlan(program(tuple(outputs(apply(REGISTRY["lu_factors"], (node,))))))


def plan_results(plan, x):
    results = zip(plan.run([x]), plan.program.outputs, strict=True)
    return [Value(content, node.spec).array for content, node in results]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_plans_factor_natively_on_any_number_of_threads(dtype, threads):
    x = np.random.default_rng(3).standard_normal((250, 250)).astype(dtype)
    before = thread_team.get_num_threads()
    gt.set_num_threads(threads)
    try:
        plan = plan_of_factors(x)
        assert not any(isinstance(step, NumpyCall) for step in plan.steps)
        found, pivots = plan_results(plan, x)
    finally:
        gt.set_num_threads(before)
    expected = factored(x, 256)
    np.testing.assert_array_equal(pivots, expected[1])
    np.testing.assert_allclose(found, expected[0], rtol=1e-2 if dtype == "float32" else 1e-9)


def test_matrices_larger_than_the_caches_are_factored_by_lapack(monkeypatch):
    monkeypatch.setattr(native_matrices, "LARGEST", 100)
    plan = plan_of_factors(np.eye(70))
    assert any(isinstance(step, NumpyCall) for step in plan.steps)


def test_instructions_hold_their_code():
    x = np.eye(70)
    plan = plan_of_factors(x)
    native_matrices._compiled.cache_clear()
    gc.collect()
    free_code()
    found, _ = plan_results(plan, x)
    np.testing.assert_array_equal(found, x)


def test_a_transposed_and_scaled_operand():
    x = np.random.default_rng(4).standard_normal((90, 90))
    f = gt.function(lambda a: gt.linalg.slogdet(gt.permute_dims(a, (1, 0)) * 2.0)[1])
    for _ in range(4):
        found = f(gt.asarray(x))
    np.testing.assert_allclose(found.numpy(), np.linalg.slogdet(2 * x.T)[1], rtol=1e-12)
