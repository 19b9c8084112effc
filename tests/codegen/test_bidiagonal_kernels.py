"""The kernels of the bidiagonal form beside LAPACK's `gebrd`, at every width of vectors."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.instruction_runs import node_of, plan_of, plan_results, run

import gradtape as gt
from gradtape.codegen.llvm import free_code
from gradtape.codegen.plans.bidiagonal import scratch_for
from gradtape.codegen.plans.elements import lanes_for
from gradtape.graph.op import REGISTRY
from gradtape.runtime import native_matrices, thread_team
from gradtape.runtime.lowered_program import NumpyCall

BIDIAGONAL = REGISTRY["bidiagonal"]


def reduced(x, bits, parts=1):
    return run(native_matrices.NativeBidiagonal, BIDIAGONAL, [x], bits, parts)


def bases(x, form):
    """Both products of reflectors, in float64."""
    rows, columns = x.shape
    reflectors, _, _, tauq, taup = (each.astype("float64") for each in form)
    left, right = np.eye(rows), np.eye(columns)
    for k in range(columns):
        v = np.concatenate([np.zeros(k), [1.0], reflectors[k, k + 1 :]])
        left -= tauq[k] * np.outer(left @ v, v)
        if k < columns - 1:
            u = np.concatenate([np.zeros(k + 1), [1.0], reflectors[k + 2 :, k]])
            right -= taup[k] * np.outer(right @ u, u)
    return left, right


def check(x, form):
    """Q B Pᵀ is the matrix, and Q and P are orthogonal, both up to rounding."""
    rows, columns = x.shape
    unit = np.finfo(x.dtype).eps * (rows + 10)
    left, right = bases(x, form)
    assert np.abs(left.T @ left - np.eye(rows)).max() < unit
    assert np.abs(right.T @ right - np.eye(columns)).max() < unit
    middle = np.zeros((rows, columns))
    reflectors, diagonal, beside, _, taup = form
    middle[:columns] = np.diag(diagonal) + np.diag(beside, 1)
    norm = np.linalg.norm(x.astype("float64"))
    assert np.abs(left @ middle @ right.T - x).max() <= unit * norm
    np.testing.assert_array_equal(np.diagonal(reflectors), diagonal)
    np.testing.assert_array_equal(np.diagonal(reflectors[1:]), beside)
    assert taup[-1] == 0


SHAPES = (
    (1, 1), (2, 1), (2, 2), (3, 3), (9, 5), (15, 15), (16, 16), (17, 17), (18, 16), (31, 31),
    (32, 32), (33, 33), (40, 17), (48, 48), (50, 49), (64, 64), (65, 65), (100, 67), (97, 97),
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_form_is_that_of_lapack(shape, bits, dtype):
    x = np.random.default_rng(shape[0]).standard_normal(shape).astype(dtype)
    found = reduced(x, bits)
    check(x, found)
    # Forms of a matrix that is nearly reduced differ by more than rounding; these are not.
    expected = BIDIAGONAL.numpy(x)
    largest = np.abs(expected[0]).max()
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=5e4 * np.finfo(dtype).eps * largest)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    columns=st.integers(2, 90),
    more=st.integers(0, 30),
    parts=st.integers(1, 5),
    seed=st.integers(0, 1000),
    bits=st.sampled_from([128, 256, 512]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_parts_of_an_instruction_do_not_depend_on_one_another(
    columns, more, parts, seed, bits, dtype
):
    x = np.random.default_rng(seed).uniform(-1, 1, (columns + more, columns)).astype(dtype)
    whole, cut = reduced(x, bits), reduced(x, bits, parts)
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(one, other)
    check(x, whole)


def special(kind, dtype):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((45, 37)).astype(dtype)
    if kind == "zeros":
        x[:] = 0
    elif kind == "low rank":
        x = (rng.standard_normal((45, 3)) @ rng.standard_normal((3, 37))).astype(dtype)
    elif kind == "zero rows and columns":
        x[:, [0, 5, 20, 36]] = 0
        x[[0, 7, 17, 44]] = 0
    elif kind == "diagonal":
        x = np.eye(45, 37, dtype=dtype) * x[:, :1]
    elif kind == "bidiagonal already":
        x = np.triu(np.tril(x, 1))
    elif kind == "one element":
        x[:] = 0
        x[30, 20] = 2
    return x


KINDS_OF_MATRICES = (
    "zeros", "low rank", "zero rows and columns", "diagonal", "bidiagonal already", "one element",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS_OF_MATRICES)
def test_special_matrices(kind, dtype):
    x = special(kind, dtype)
    check(x, reduced(x, 256))


@pytest.mark.parametrize(
    ("dtype", "tiny"),
    [("float64", (1e-160, 1e-161, 1e-200, 1e-300)), ("float32", (1e-20, 1e-22, 1e-30, 1e-37))],
)
@pytest.mark.parametrize("which", ["columns", "rows", "first column"])
def test_reflectors_of_tiny_numbers_are_orthogonal(dtype, tiny, which):
    # The squares of these numbers are lost, or have lost most of their bits.
    for scale in tiny:
        x = np.random.default_rng(6).standard_normal((40, 40)).astype(dtype)
        chosen = {"columns": np.s_[:, :20], "rows": np.s_[:20], "first column": np.s_[:, 0]}
        x[chosen[which]] *= np.asarray(scale, dtype)
        found = reduced(x, 256)
        assert all(np.isfinite(each).all() for each in found)
        check(x, found)


@pytest.mark.parametrize(("dtype", "huge"), [("float64", 1e160), ("float32", 1e22)])
def test_reflectors_of_huge_numbers(dtype, huge):
    x = np.random.default_rng(7).standard_normal((40, 40)).astype(dtype)
    found, expected = reduced(x * np.asarray(huge, dtype), 256), reduced(x, 256)
    tolerance = 5e-3 if dtype == "float32" else 1e-9
    for one, other in zip(found[1:3], expected[1:3], strict=True):
        np.testing.assert_allclose(one / np.asarray(huge, dtype), other, rtol=tolerance)
    # Scales of reflectors do not depend on the scale of the matrix.
    for one, other in zip(found[3:], expected[3:], strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(20, 20), (40, 33)])
def test_an_element_that_is_not_finite_is_never_lost(shape, value):
    x = np.random.default_rng(8).standard_normal(shape)
    corners = [(0, 0), (0, shape[1] - 1), (shape[0] - 1, 0), (shape[0] - 1, shape[1] - 1)]
    for place in [*corners, (7, 7), (5, 18), (18, 5), (17, 17)]:
        for start in (x, np.zeros(shape), np.eye(*shape)):
            bad = start.copy()
            bad[place] = value
            _, diagonal, beside, _, _ = reduced(bad, 256)
            assert not np.isfinite(diagonal).all() or not np.isfinite(beside).all()


def plan_of_form(x, *wanted):
    return plan_of(BIDIAGONAL, [x], wanted)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_plans_reduce_natively_on_any_number_of_threads(dtype, threads):
    x = np.random.default_rng(3).standard_normal((260, 230)).astype(dtype)
    before = thread_team.get_num_threads()
    gt.set_num_threads(threads)
    try:
        plan = plan_of_form(x, 0, 1, 2, 3, 4)
        assert not any(isinstance(step, NumpyCall) for step in plan.steps)
        found = plan_results(plan, x)
    finally:
        gt.set_num_threads(before)
    check(x, found)


def test_reflectors_that_nobody_reads_are_not_written():
    x = np.random.default_rng(4).standard_normal((70, 70))
    native = native_matrices.NativeBidiagonal(node_of(BIDIAGONAL, x))

    def kernels(*wanted):
        places = {number: (number, 0) for number in wanted}
        made = native.instructions([(9, 0)], places, lambda nbytes: (8, 0))
        return {prepared.instruction.function for prepared in made}

    assert len(kernels(0, 1, 2, 3, 4)) == len(kernels(1, 2)) + 1
    short, whole = (plan_results(plan_of_form(x, *n), x) for n in ((1, 2), (0, 1, 2, 3, 4)))
    for one, other in zip(short, whole[1:3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_forms_of_matrices_larger_than_the_caches_are_those_of_lapack(monkeypatch):
    monkeypatch.setattr(native_matrices, "LARGEST", 100)
    plan = plan_of_form(np.eye(70), 0)
    assert any(isinstance(step, NumpyCall) for step in plan.steps)


def test_instructions_hold_their_code():
    x = np.eye(70)
    plan = plan_of_form(x, 1)
    native_matrices._compiled.cache_clear()
    gc.collect()
    free_code()
    np.testing.assert_array_equal(plan_results(plan, x)[0], np.ones(70))


def test_columns_of_the_copy_share_no_cache_set():
    lanes = lanes_for(8, 256)
    for order in (64, 500, 511, 512, 513, 1024):
        scratch = scratch_for(lanes, order, order)
        assert scratch.leading % 64 == 0
        assert scratch.leading // 64 % 2 == 1
        assert scratch.leading >= 8 * order
