"""Loops and branches in native code: the same values as NumPy's, and nothing in Python per step."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as gt
from gradtape.compiler.counts import COUNTS
from gradtape.compiler.passes import optimize
from gradtape.ir.node import outputs, placeholder
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import closed, program
from gradtape.ir.spec import spec
from gradtape.ops.control import bodies
from gradtape.ops.control.scan import SCAN, scan_node
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan

FLOAT = np.dtype("float64")
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def always_compiled(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")


@pytest.fixture
def no_python(monkeypatch):
    """Fail if a body is run node by node."""

    def fail(*_: Any) -> Any:
        raise AssertionError("a body was run in Python")

    monkeypatch.setattr(bodies, "run", fail)


def in_numpy(f: Any, *args: Any) -> Any:
    """The value of a function by NumPy's kernels."""
    before, tiers.MODE = tiers.MODE, "off"
    try:
        gt.clear_plans()
        return [np.array(leaf.numpy()) for leaf in gt.pytree.flatten(f(*args))[0]]
    finally:
        tiers.MODE = before
        gt.clear_plans()


def natively(f: Any, *args: Any) -> Any:
    return [np.array(leaf.numpy()) for leaf in gt.pytree.flatten(f(*args))[0]]


def agree(f: Any, *args: Any, tolerance: float = 1e-12) -> None:
    for got, expected in zip(natively(f, *args), in_numpy(f, *args), strict=True):
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(got, expected, tolerance, tolerance)


def recurrence(x: Any, us: Any, w: Any) -> Any:
    return gt.scan(lambda x, u: (gt.tanh(w @ x + u), gt.sum(x * u)), x, us)


START, WEIGHTS = gt.asarray(RNG.normal(size=4)), gt.asarray(RNG.normal(size=(4, 4)))


def inputs(length: int) -> Any:
    return gt.asarray(np.random.default_rng(length).normal(size=(length, 4)))


@pytest.mark.usefixtures("no_python")
class TestNothingInPython:
    def test_scan(self):
        natively(recurrence, START, inputs(20), WEIGHTS)

    def test_gradient(self):
        def total(w: Any) -> Any:
            final, rows = recurrence(START, inputs(20), w)
            return gt.sum(final) + gt.sum(rows)

        natively(gt.grad(total), WEIGHTS)
        natively(gt.hessian(lambda x: total(x * WEIGHTS)), gt.asarray(0.5))

    def test_while(self):
        natively(lambda a: gt.while_loop(lambda x: x * x < a, lambda x: x + 1.0, 0.0), 80.0)

    def test_branches_inside_a_loop(self):
        def step(x: Any, n: Any) -> Any:
            return gt.cond(n % 2 == 0, lambda x: x * 2.0, lambda x: x - 1.0, x), None

        natively(lambda x: gt.scan(step, x, np.arange(5))[0], START)

    def test_loops_inside_a_loop(self):
        def step(x: Any, u: Any) -> Any:
            return gt.fori_loop(0, 3, lambda i, y: gt.sin(y) * u + i, x), gt.sum(x)

        natively(lambda x: gt.scan(step, x, inputs(5)), START)

    def test_segments(self):
        def total(w: Any) -> Any:
            final, _ = gt.scan(
                lambda x, u: (gt.tanh(w @ x + u), None), START, inputs(10), checkpoint=True
            )
            return gt.sum(final)

        natively(gt.grad(total), WEIGHTS)

    def test_derivatives_and_batch_rules_by_hand(self):
        f = gt.custom_gradient(lambda x: (gt.sin(x), lambda dy: dy * gt.cos(x)))
        g = gt.custom_vmap(lambda x: gt.cos(x))
        g.def_vmap(lambda n, b, x: (gt.cos(x) * 2.0, True))

        def total(x: Any) -> Any:
            return gt.sum(gt.scan(lambda c, u: (f(c) + g(u), None), x, inputs(10))[0])

        natively(total, START)
        natively(gt.grad(total), START)
        natively(gt.vmap(total), gt.asarray(RNG.normal(size=(3, 4))))

    def test_batches(self):
        many = gt.asarray(RNG.normal(size=(3, 4)))
        natively(gt.vmap(lambda x: recurrence(x, inputs(5), WEIGHTS)), many)


def test_one_plan_and_no_compiling_the_second_time():
    def step() -> Any:
        with gt.GradientTape() as tape:
            tape.watch(WEIGHTS)
            final, rows = recurrence(START, inputs(12), WEIGHTS)
            loss = gt.sum(final) + gt.sum(rows)
        return gt.evaluate(tape.gradient(loss, WEIGHTS))

    step()
    before = gt.counters()
    step()
    after = gt.counters()
    assert after.plans_run - before.plans_run == 1
    assert after.plans_built == before.plans_built
    assert after.kernels_compiled == before.kernels_compiled
    assert after.derivatives_built == before.derivatives_built


def test_another_length_compiles_nothing():
    def run(length: int) -> Any:
        return gt.evaluate(
            gt.grad(lambda x: gt.sum(recurrence(x, inputs(length), WEIGHTS)[0]))(START)
        )

    run(30)
    before = COUNTS.kernels_compiled
    for length in (31, 40, 57):
        run(length)
    assert COUNTS.kernels_compiled == before


def test_another_number_in_the_body_is_the_same_program():
    def run(k: float) -> Any:
        return gt.evaluate(gt.scan(lambda x, u: (x * k + u, None), START, inputs(6))[0])

    run(0.5)
    before = gt.counters()
    run(0.25)
    assert gt.counters().plans_built == before.plans_built


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64", "int32", "bool"])
def test_dtypes(dtype):
    x = RNG.integers(0, 3, (7, 3)).astype(dtype)

    def f(x: Any) -> Any:
        if x.dtype.kind == "b":
            return gt.scan(lambda c, u: (c | u, c & u), x[0], x)
        return gt.scan(lambda c, u: (c * u + u, c - u), x[0], x, reverse=True)

    agree(f, gt.asarray(x), tolerance=1e-6)


@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_what_is_carried_changes_places(length):
    agree(lambda: gt.scan(lambda c, _: ((c[1], c[0] + c[1]), c), (0.0, 1.0), length=length))
    agree(lambda: gt.scan(lambda c, _: ((c[1], c[2], c[0]), c[0]), (START, START * 2, START * 3),
                          length=length))  # fmt: skip


def test_views_constants_and_repetitions_as_results():
    def step(c: Any, u: Any) -> Any:
        turned = gt.matrix_transpose(u)
        return turned, (u, turned, turned, gt.ones((2,)), c[0], gt.arange(3), c)

    agree(lambda x: gt.scan(step, x[0], x), gt.asarray(RNG.normal(size=(5, 2, 2))))


def test_operands_that_do_not_lie_in_order():
    x = gt.asarray(RNG.normal(size=(4, 6, 3)))

    def f(x: Any) -> Any:
        moved = gt.moveaxis(x, 1, 0)
        return gt.scan(lambda c, u: (c + u[::2], gt.sum(u)), gt.zeros((2, 3)), moved)

    agree(f, x)
    agree(lambda x: gt.scan(lambda c, u: (c + u, c), x[0, 0, 0], gt.flip(x[0, :, 0])), x)
    agree(lambda x: gt.scan(lambda c, u: (c + u, c), 0.0, gt.broadcast_to(x[0, 0, 0], (5,))), x)


def test_products_of_what_blas_cannot_read():
    x = gt.asarray(RNG.normal(size=(5, 3, 4, 2)))

    def step(c: Any, u: Any) -> Any:
        v = gt.permute_dims(u, (2, 1, 0))
        return c + gt.sum(v @ gt.broadcast_to(c[:3], (2, 3, 3))[:, :, ::2]), v @ u[:, 0, :][None]

    agree(lambda x: gt.scan(step, gt.ones((3,)), x), x)


def test_library_calls_in_a_body_run_in_numpy():
    a = gt.asarray(RNG.normal(size=(3, 2, 2)) + 3 * np.eye(2))
    agree(lambda a: gt.scan(lambda c, m: (gt.linalg.solve(m, c), c), np.ones(2), a), a)
    slope = gt.grad(lambda a: gt.sum(gt.scan(lambda c, m: (gt.linalg.solve(m, c), None),
                                             np.ones(2), a)[0]))  # fmt: skip
    agree(slope, a)


def test_empty_elements():
    agree(lambda: gt.scan(lambda c, u: (c + u, c), np.zeros((0, 2)), np.zeros((3, 0, 2))))
    agree(lambda: gt.scan(lambda c, u: (c + u, c), np.zeros(2), np.zeros((0, 2))))


@pytest.mark.parametrize("maximum", [None, 0, 1, 2, 5])
def test_while(maximum):
    def f(x: Any) -> Any:
        return gt.while_loop(
            lambda s: gt.sum(s[0]) < 30.0, lambda s: (s[1], s[0] + s[1], s[2] + 1),
            (x, x + 1.0, 0), maximum,
        )  # fmt: skip

    agree(f, START * START)
    agree(f, START * 0.0 + 100.0)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3])
def test_branches(index):
    agree(
        lambda x, i: gt.switch(i, [gt.sin, lambda x: x[::-1], lambda x: WEIGHTS @ x], x),
        START,
        gt.asarray(index),
    )


def test_threads_share_a_plan():
    def f(x: Any) -> Any:
        return recurrence(x, inputs(200), WEIGHTS)[0]

    starts = [RNG.normal(size=4) for _ in range(4)]
    expected = [natively(f, gt.asarray(x))[0] for x in starts]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            if not np.array_equal(natively(f, gt.asarray(starts[number]))[0], expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_large_steps_are_shared_by_the_team():
    big = gt.asarray(RNG.normal(size=(3, 400, 300)))
    w = gt.asarray(RNG.normal(size=(300, 300)) / 20)
    agree(lambda x: gt.scan(lambda c, u: (gt.tanh(c @ w + u), gt.sum(c)), x[0], x), big)
    for count in (1, 3):
        before = gt.get_num_threads()
        gt.set_num_threads(count)
        try:
            agree(lambda x: gt.scan(lambda c, u: (gt.tanh(c @ w + u), gt.sum(c)), x[0], x), big)
        finally:
            gt.set_num_threads(before)


UNARY = ["sin", "tanh", "negative", "square", "exp"]
BINARY = ["add", "subtract", "multiply", "maximum"]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_body(data):
    """Random bodies over vectors, numbers and a matrix, with results of every kind."""
    vector, number, matrix = spec((3,), FLOAT), spec((), FLOAT), spec((3, 3), FLOAT)
    constants = [placeholder(of) for of in (matrix, number)]
    carries = [placeholder(of) for of in (vector, number)]
    elements = [placeholder(of) for of in (vector, number)]
    nodes = [*constants, *carries, *elements]
    for _ in range(data.draw(st.integers(1, 8))):
        kind = data.draw(st.sampled_from(["unary", "binary", "product", "sum", "slice"]))
        vectors = [n for n in nodes if n.ndim < 2]
        if kind == "unary":
            op = REGISTRY[data.draw(st.sampled_from(UNARY))]
            nodes.append(_made(op, (data.draw(st.sampled_from(vectors)),)))
        elif kind == "binary":
            op = REGISTRY[data.draw(st.sampled_from(BINARY))]
            pair = [data.draw(st.sampled_from(vectors)) for _ in range(2)]
            nodes.append(_made(op, tuple(pair)))
        else:
            of = data.draw(st.sampled_from([n for n in nodes if n.ndim == 1]))
            if kind == "product":
                nodes.append(_made(REGISTRY["matmul"], (constants[0], of)))
            elif kind == "sum":
                nodes.append(_made(REGISTRY["sum"], (of,), ((0,), False)))
            else:
                part = ((2,), (3,), (-1,), (3,))
                nodes.append(_made(REGISTRY["slice"], (of,), part))
    new = [data.draw(st.sampled_from([n for n in nodes if n.spec is of.spec])) for of in carries]
    rows = data.draw(st.lists(st.sampled_from(nodes), max_size=4))
    body = closed([*constants, *carries, *elements], [*new, *rows])
    length = data.draw(st.integers(1, 4))
    operands = [placeholder(of) for of in (matrix, number, vector, number)]
    operands += [placeholder(spec((length, *n.shape), FLOAT)) for n in elements]
    node = scan_node(
        body, operands[:2], operands[2:4], operands[4:], length, reverse=data.draw(st.booleans())
    )
    chosen = data.draw(st.sets(st.sampled_from(range(len(node.spec))), min_size=1))
    picked = [outputs(node)[position] for position in sorted(chosen)]
    whole = program(picked)
    rng = np.random.default_rng(0)
    values = {n: rng.uniform(-0.5, 0.5, n.shape) for n in operands}
    given = [values[n] for n in whole.inputs]
    with np.errstate(all="ignore"):
        expected = NumpyPlan(whole).run(given)
        small = optimize(whole)
        results = [
            NumpyPlan(small).run([values[n] for n in small.inputs]),
            _compiled(whole, given),
            _compiled(small, [values[n] for n in small.inputs]),
        ]
    for found in results:
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want, 1e-9, 1e-9)


def _made(op: Any, inputs: Any, params: Any = ()) -> Any:
    from gradtape.ir.node import apply

    return apply(op, inputs, params)


def _compiled(written: Any, given: Any) -> list[Any]:
    plan = CompiledPlan(written)
    if any(node.op.name == "scan" for node in plan.program.nodes):
        assert plan.lowered.natives, "the loop is not native"
    found = plan.run(given)
    return [
        np.array(one if isinstance(one, np.ndarray) else control_array(one, node))
        for one, node in zip(found, plan.program.outputs, strict=True)
    ]


def control_array(buffer: Any, node: Any) -> Any:
    return buffer.array(node.shape, node.dtype)


def test_a_loop_is_one_instruction():
    found = optimize(gt.program_of(*recurrence(START, inputs(5), WEIGHTS)))
    plan = CompiledPlan(found)
    assert len(plan.lowered.natives) == 1
    assert next(iter(plan.lowered.natives)).op is SCAN
