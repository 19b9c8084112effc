"""Every op's samples through the compiled tier, against NumPy's kernel."""

import numpy as np
import pytest
from tests.ops.cases import at_samples

import gradtape as gt
from gradtape.compiler.lower import llvm_effort as efforts, native_stretches
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.lower.llvm_effort import Effort
from gradtape.compiler.passes import optimize
from gradtape.ir.node import apply, leaf
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.value import Value

# Rounded exactly by IEEE, so every tier gives the same bits; of real numbers.
EXACT = {
    "add", "subtract", "multiply", "divide", "sqrt", "negative", "abs", "where", "maximum",
    "minimum", "square", "reciprocal", "floor", "ceil", "trunc", "round", "cast", "relu", "sign",
    "identity", "positive", "copysign", "stop_gradient", "max", "min",
}  # fmt: skip
FAMILIES = ("elementwise", "reduction", "movement", "contraction")


def node_at(op, sample):
    leaves = [
        leaf(number, spec(np.shape(array), np.asarray(array).dtype))
        for number, array in enumerate(sample.inputs)
    ]
    return apply(op, tuple(leaves), tuple(sample.params[name] for name in op.params))


@at_samples(lambda case: case.op.family in FAMILIES)
def test_compiled_equals_numpy(cases, monkeypatch):
    for op, sample in ((case.op, case.sample) for case in cases):
        node = node_at(op, sample)
        if type(node.spec) is tuple:
            continue
        found = optimize(program([node]))
        values = [Value(np.array(sample.inputs[n.params[0]]), n.spec) for n in found.inputs]
        (expected,) = NumpyPlan(found).run(values)
        exact = op.name in EXACT and not any(n.dtype.kind == "c" for n in found.inputs)
        for effort in Effort:
            monkeypatch.setattr(
                native_stretches, "effort_for", lambda points, effort=effort: effort
            )
            (content,) = CompiledPlan(found).run(values)
            got = Value(content, node.spec).array
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape
            if expected.dtype.kind in "fc" and not exact:
                eps = np.finfo(expected.dtype).eps
                np.testing.assert_allclose(got, expected, rtol=64 * eps, atol=64 * eps)
            else:
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["sin", "exp", "add", "where", "sum", "max", "tanh", "less"])
def test_what_matters_is_fused(name):
    op = REGISTRY[name]
    assert fusible(node_at(op, op.samples()[0]))


def test_a_new_length_compiles_nothing():
    def f(n):
        x = gt.asarray(np.linspace(0.1, 1.0, n))
        return gt.grad(lambda x: gt.sum(gt.sin(x) * gt.exp(x)))(x).numpy()

    f(10), f(10)
    before = gt.counters().kernels_compiled
    for n in (11, 100, 1000, 31):
        f(n), f(n)
    assert gt.counters().kernels_compiled == before


def test_more_than_a_few_points_are_worth_optimised_code(monkeypatch):
    monkeypatch.setattr(efforts, "FEW_LOOP_POINTS", 256)
    monkeypatch.setattr(efforts, "SOME_LOOP_POINTS", 1024)
    monkeypatch.setattr(tiers, "MODE", "always")

    def f(n):
        before = gt.counters().kernels_compiled
        gt.tan(gt.cbrt(gt.asarray(np.linspace(0.1, 1.0, n)))).numpy()
        return gt.counters().kernels_compiled - before

    assert [f(n) for n in (10, 256, 257, 1024, 1025, 10_000, 10)] == [1, 0, 1, 0, 1, 0, 0]


def test_a_new_batch_size_compiles_nothing():
    w = gt.asarray(np.ones((4, 3)))

    def f(n):
        x = gt.asarray(np.ones((n, 4)))
        return gt.grad(lambda w: gt.mean(gt.tanh(x @ w) ** 2))(w).numpy()

    f(8), f(8)
    before = gt.counters().kernels_compiled
    for n in (9, 16, 33):
        f(n), f(n)
    assert gt.counters().kernels_compiled == before


def test_a_growing_loop_compiles_nothing_each_time():
    def f(rounds):
        y = x = gt.asarray([1.0, 2.0])
        for _ in range(rounds):
            y = gt.sin(y) + x
        return y.numpy()

    before = gt.counters().kernels_compiled
    for rounds in range(1, 30):
        f(rounds)
    assert gt.counters().kernels_compiled == before


def test_steady_training_allocates_nothing_new():
    w = gt.Variable(np.full((64, 64), 0.01))
    x = gt.asarray(np.ones((32, 64)))

    def step():
        with gt.GradientTape() as tape:
            loss = gt.mean(gt.tanh(x @ w) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))

    for _ in range(6):
        step()
    before = gt.counters().bytes_allocated
    for _ in range(50):
        step()
    assert gt.counters().bytes_allocated == before


def test_plans_and_kernels_can_be_read():
    x = gt.asarray(np.ones((3, 4)))
    y = gt.sum(gt.sin(x) @ np.ones((4, 2)), axis=0)
    text = gt.plan_of(y)
    assert "loop over (3, 4)" in text
    assert "call" in text
    assert "matmul" in text
    assert "define void @kernel_0" in gt.kernels_of(y)
    assert "BLAS" in gt.show_config()


def test_a_scalar_that_overflows_float32_is_infinite():
    x = gt.asarray(np.ones(3, np.float32))
    for _ in range(3):
        assert (x * 1e300).tolist() == [np.inf] * 3


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_whole_numbers_are_divided_as_numpy_does(dtype, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    limits = np.iinfo(dtype)
    small = [n for n in (-7, -3, -2, -1, 0, 1, 2, 3, 7) if n >= limits.min]
    some = np.array([limits.min, limits.min + 1, *small, limits.max - 1, limits.max], dtype)
    x, y = (side.reshape(-1) for side in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        expected = np.remainder(x, y), np.floor_divide(x, y)
    for got, want in zip((gt.asarray(x) % y, gt.asarray(x) // y), expected, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
        assert got.dtype == want.dtype
