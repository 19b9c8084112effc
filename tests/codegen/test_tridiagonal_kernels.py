"""The kernels of the tridiagonal form and of its reflectors beside LAPACK's, at every width."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.instruction_runs import node_of, plan_of, plan_results, run

import gradtape as gt
from gradtape.codegen.plans.elements import lanes_for
from gradtape.codegen.plans.tridiagonal import scratch_for
from gradtape.graph.op import REGISTRY
from gradtape.runtime import native_matrices, thread_team
from gradtape.runtime.lowered_program import NumpyCall

TRIDIAGONAL, REFLECTED = REGISTRY["tridiagonal"], REGISTRY["tridiagonal_reflected"]
HALVES = REGISTRY["tridiagonal_halves"]
BITS = (128, 256, 512)


def reduced(x, bits, parts=1):
    return run(native_matrices.NativeTridiagonal, TRIDIAGONAL, [x], bits, parts)


def reflected(reflectors, tau, vectors, bits, parts=1):
    operands = [reflectors, tau, vectors]
    return run(native_matrices.NativeReflected, REFLECTED, operands, bits, parts)[0]


def halves(diagonal, beside, bits, parts=1):
    return run(native_matrices.NativeHalves, HALVES, [diagonal, beside], bits, parts)


def symmetric(n, dtype="float64", seed=0):
    x = np.random.default_rng(seed + n).standard_normal((n, n))
    return ((x + x.T) / 2).astype(dtype)


def basis(form):
    """The product of reflectors, in float64."""
    reflectors, _, _, tau = (each.astype("float64") for each in form)
    found = np.eye(len(reflectors))
    for k in range(len(tau)):
        v = np.concatenate([np.zeros(k + 1), [1.0], reflectors[k, k + 2 :]])
        found -= tau[k] * np.outer(found @ v, v)
    return found


def check(x, form):
    """Q T Qᵀ is the matrix, and Q is orthogonal, both up to rounding."""
    order = len(x)
    unit = np.finfo(x.dtype).eps * (order + 10)
    reflectors, diagonal, beside, _ = form
    q = basis(form)
    assert np.abs(q.T @ q - np.eye(order)).max() < unit
    middle = np.diag(diagonal.astype("float64")) + np.diag(beside, 1) + np.diag(beside, -1)
    norm = np.linalg.norm(x.astype("float64"))
    assert np.abs(q @ middle @ q.T - x).max() <= unit * norm
    np.testing.assert_array_equal(np.diagonal(reflectors), diagonal)
    np.testing.assert_array_equal(np.diagonal(reflectors, 1), beside)
    np.testing.assert_array_equal(np.tril(reflectors, -1), 0)


ORDERS = (2, 3, 7, 8, 9, 15, 16, 17, 18, 31, 32, 33, 34, 47, 48, 49, 64, 65, 97, 181, 200)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("order", ORDERS)
def test_the_form_is_that_of_lapack(order, bits, dtype):
    x = symmetric(order, dtype)
    found, expected = reduced(x, bits), TRIDIAGONAL.numpy(x)
    check(x, found)
    check(x, expected)
    # Forms of a matrix that is nearly reduced differ by more than rounding; these are not.
    largest = np.abs(expected[0]).max()
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=1e5 * np.finfo(dtype).eps * largest)


@pytest.mark.parametrize("bits", BITS)
def test_the_symmetric_part_is_taken(bits):
    x = np.random.default_rng(1).standard_normal((37, 37))
    for one, other in zip(reduced(x, bits), reduced((x + x.T) * 0.5, bits), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    order=st.integers(2, 210),
    parts=st.integers(1, 5),
    seed=st.integers(0, 1000),
    bits=st.sampled_from(BITS),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_parts_of_an_instruction_do_not_depend_on_one_another(order, parts, seed, bits, dtype):
    x = symmetric(order, dtype, seed)
    whole, cut = reduced(x, bits), reduced(x, bits, parts)
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(one, other)
    check(x, whole)
    operands = (whole[0], whole[3], x)
    found = reflected(*operands, bits, parts)
    np.testing.assert_array_equal(found, reflected(*operands, bits))
    unit = np.finfo(dtype).eps * (order + 10)
    np.testing.assert_allclose(found, basis(whole) @ x.T, atol=unit * np.linalg.norm(x))


def special(kind, dtype):
    rng = np.random.default_rng(5)
    x = symmetric(45)
    if kind == "zeros":
        x[:] = 0
    elif kind == "ones":
        x[:] = 1
    elif kind == "low rank":
        factor = rng.standard_normal((45, 3))
        x = factor @ factor.T
    elif kind == "zero rows and columns":
        x[:, [0, 5, 20, 44]] = 0
        x[[0, 5, 20, 44]] = 0
    elif kind == "diagonal":
        x = np.diag(np.diagonal(x))
    elif kind == "tridiagonal already":
        x = np.triu(np.tril(x, 1), -1)
    elif kind == "one pair":
        x[:] = 0
        x[30, 20] = x[20, 30] = 2
    elif kind.startswith("graded"):
        scales = np.logspace(0, -15, 45)
        scales = scales[::-1] if kind.endswith("upwards") else scales
        x = x * scales * scales[:, None]
    return x.astype(dtype)


SPECIAL = (
    "zeros", "ones", "low rank", "zero rows and columns", "diagonal", "tridiagonal already",
    "one pair", "graded downwards", "graded upwards",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("kind", SPECIAL)
def test_special_matrices(kind, bits, dtype):
    x = special(kind, dtype)
    form = reduced(x, bits)
    check(x, form)
    q = reflected(form[0], form[3], np.eye(45, dtype=dtype), bits)
    np.testing.assert_allclose(q, basis(form), atol=60 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("dtype", "tiny"),
    [("float64", (1e-160, 1e-161, 1e-200, 1e-300)), ("float32", (1e-20, 1e-22, 1e-30, 1e-37))],
)
@pytest.mark.parametrize("which", ["first", "last"])
def test_reflectors_of_tiny_numbers_are_orthogonal(dtype, tiny, which):
    # The squares of these numbers are lost, or have lost most of their bits.
    for scale in tiny:
        x = symmetric(40)
        chosen = slice(0, 20) if which == "first" else slice(20, 40)
        x[chosen] *= scale
        x[:, chosen] = x[chosen].T
        x = x.astype(dtype)
        found = reduced(x, 256)
        assert all(np.isfinite(each).all() for each in found)
        check(x, found)


@pytest.mark.parametrize(("dtype", "huge"), [("float64", 1e150), ("float32", 1e18)])
def test_reflectors_of_huge_numbers(dtype, huge):
    x = symmetric(40, dtype)
    found, expected = reduced(x * np.asarray(huge, dtype), 256), reduced(x, 256)
    tolerance = 5e-3 if dtype == "float32" else 1e-9
    for one, other in zip(found[1:3], expected[1:3], strict=True):
        np.testing.assert_allclose(one / np.asarray(huge, dtype), other, rtol=tolerance)
    # Scales of reflectors do not depend on the scale of the matrix.
    np.testing.assert_allclose(found[3], expected[3], rtol=tolerance)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("order", [20, 40])
def test_an_element_that_is_not_finite_is_never_lost(order, value):
    last = order - 1
    for place in [(0, 0), (0, last), (last, 0), (last, last), (7, 7), (5, 18), (18, 5), (17, 17)]:
        for start in (symmetric(order), np.zeros((order, order)), np.eye(order)):
            bad = start.copy()
            bad[place] = value
            _, diagonal, beside, _ = reduced(bad, 256)
            assert not np.isfinite(diagonal).all() or not np.isfinite(beside).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("order", ORDERS)
def test_reflected_vectors_are_those_of_lapack(order, bits, dtype):
    reflectors, _, _, tau = TRIDIAGONAL.numpy(symmetric(order, dtype))
    vectors = np.random.default_rng(order).standard_normal((order, order)).astype(dtype)
    found = reflected(reflectors, tau, vectors, bits)
    (expected,) = REFLECTED.numpy(reflectors, tau, vectors)
    np.testing.assert_allclose(found, expected, atol=20 * order * np.finfo(dtype).eps)


@pytest.mark.slow
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("idle", [slice(None), slice(30, 70), slice(0, 5)])
def test_reflectors_without_a_scale_change_nothing(bits, idle):
    reflectors, _, _, tau = TRIDIAGONAL.numpy(symmetric(100))
    tau = tau.copy()
    tau[idle] = 0
    vectors = symmetric(100, seed=1)
    (expected,) = REFLECTED.numpy(reflectors, tau, vectors)
    # They may hold anything: NumPy's own vectors take this way too.
    reflectors = reflectors.copy()
    reflectors[:-1][tau == 0] = np.nan
    found = reflected(reflectors, tau, vectors, bits)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(REFLECTED.numpy(reflectors, tau, vectors)[0], expected)
    if idle == slice(None):
        np.testing.assert_array_equal(found, vectors.T)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("order", [2, 3, 4, 9, 50, 51, 131])
def test_vectors_of_halves_are_those_of_lapack(order, bits, dtype):
    _, diagonal, beside, _ = TRIDIAGONAL.numpy(symmetric(order, dtype))
    expected = HALVES.numpy(diagonal, beside)
    for parts in (1, 2):
        values, vectors, failures = halves(diagonal, beside, bits, parts)
        assert not failures.any()
        unit = np.finfo(dtype).eps * order
        np.testing.assert_allclose(values, expected[0], atol=10 * unit * np.abs(values).max())
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(order), atol=10 * unit)
        # What is left of the matrix when the halves are taken from it has one row.
        whole = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        rest = whole - (vectors.T * values) @ vectors
        cut = order // 2
        corner = np.zeros((order, order), dtype)
        corner[cut - 1 : cut + 1, cut - 1 : cut + 1] = np.abs(beside[cut - 1])
        corner[cut - 1, cut] = corner[cut, cut - 1] = beside[cut - 1]
        np.testing.assert_allclose(rest, corner, atol=20 * unit * np.abs(whole).max())


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 4, 5, 9])
def test_lapack_is_not_asked_about_halves_that_are_not_finite(place, value):
    _, diagonal, beside, _ = TRIDIAGONAL.numpy(symmetric(10))
    bad = diagonal.copy()
    bad[place] = value
    for found in (halves(bad, beside, 256), HALVES.numpy(bad, beside)):
        assert found[2].tolist() == [int(place < 5), int(place >= 5)]
    bad = beside.copy()
    bad[min(place, 8)] = value
    for found in (halves(diagonal, bad, 256), HALVES.numpy(diagonal, bad)):
        assert found[2].any()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_plans_give_the_same_bits_on_any_number_of_threads(dtype):
    x = symmetric(330, dtype)
    before, runs = thread_team.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            gt.set_num_threads(threads)
            plan = plan_of(TRIDIAGONAL, [x], range(4))
            form = plan_results(plan, x)
            other = plan_of(REFLECTED, [form[0], form[3], x], [0])
            vectors = plan_results(other, form[0], form[3], x)
            divided = plan_of(HALVES, form[1:3], range(3))
            of_halves = plan_results(divided, *form[1:3])
            steps = [*plan.steps, *other.steps, *divided.steps]
            assert not any(isinstance(step, NumpyCall) for step in steps)
            runs.append([*form, *vectors, *of_halves])
    finally:
        gt.set_num_threads(before)
    check(x, runs[0][:4])
    for others in runs[1:]:
        for one, other in zip(runs[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_reflectors_that_nobody_reads_are_not_written():
    x = symmetric(70)
    native = native_matrices.NativeTridiagonal(node_of(TRIDIAGONAL, x))

    def kernels(*wanted):
        places = {number: (number, 0) for number in wanted}
        made = native.instructions([(9, 0)], places, lambda nbytes: (8, 0))
        return {prepared.instruction.function for prepared in made}

    assert len(kernels(0, 1, 2, 3)) == len(kernels(1, 2)) + 1
    short, whole = (plan_results(plan_of(TRIDIAGONAL, [x], n), x) for n in ((1, 2), range(4)))
    for one, other in zip(short, whole[1:3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_slices_have_memory_of_their_own():
    lanes = lanes_for(8, 256)
    for order in (64, 500, 513, 1024, 1448):
        scratch = scratch_for(lanes, order)
        slices = native_matrices.slices_of(order)
        assert scratch.pairs - scratch.products >= slices * scratch.leading
        assert scratch.leading // 64 % 2 == 1
        assert scratch.leading >= 8 * order
