"""Structured control flow: values and derivatives are those of a loop written in Python."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.growth import least_growth

import gradtape as gt
from gradtape.errors import UndefinedRuleError

RNG = np.random.default_rng(7)
W = RNG.normal(size=(3, 3)) * 0.5
START = RNG.normal(size=3)
INPUTS = RNG.normal(size=(6, 3))


def unrolled(f: Any, carry: Any, xs: Any, length: int | None = None, reverse: bool = False) -> Any:
    """What `gt.scan` stands for."""
    count = len(xs) if length is None else length
    order = list(range(count))[:: -1 if reverse else 1]
    rows = {}
    for t in order:
        carry, rows[t] = f(carry, None if xs is None else xs[t])
    return carry, gt.stack([rows[t] for t in range(count)])


def cell(w: Any) -> Any:
    def step(x: Any, u: Any) -> Any:
        x = gt.tanh(w @ x * 0.9 + u)
        return x, gt.sum(x * x) + u[0]

    return step


def loss(scan: Any, w: Any, start: Any, inputs: Any, **options: Any) -> Any:
    final, rows = scan(cell(w), start, inputs, **options)
    return gt.sum(final**2) + gt.sum(rows * np.arange(1.0, inputs.shape[0] + 1))


def close(got: Any, expected: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), tolerance, tolerance)


OPTIONS = [
    {},
    {"reverse": True},
    {"checkpoint": True},
    {"checkpoint": 4},
    {"checkpoint": 4, "reverse": True},
    {"checkpoint": 1},
    {"checkpoint": 100},
    {"unroll": 3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
class TestScan:
    def reference(self, options: Any) -> Any:
        kept = {key: value for key, value in options.items() if key == "reverse"}
        return lambda *args: loss(unrolled, *args, **kept)

    @pytest.mark.slow
    def test_value_and_gradient(self, options):
        arguments = tuple(gt.asarray(x) for x in (W, START, INPUTS))
        value, slopes = gt.value_and_grad(self.reference(options), (0, 1, 2))(*arguments)
        for _ in range(3):  # NumPy first, then compiled
            got, found = gt.value_and_grad(
                lambda *args: loss(gt.scan, *args, **options), (0, 1, 2)
            )(*arguments)
            close(got, value)
            for a, b in zip(found, slopes, strict=True):
                close(a, b)

    @pytest.mark.parametrize("mode", ["forward", "reverse"])
    def test_jacobian(self, options, mode):
        kept = {key: value for key, value in options.items() if key == "reverse"}

        def rows(scan: Any, given: Any) -> Any:
            return lambda x: scan(cell(W), x, INPUTS, **given)[1]

        expected = gt.jacobian(rows(unrolled, kept), mode=mode)(START)
        close(gt.jacobian(rows(gt.scan, options), mode=mode)(START), expected)

    def test_hessian(self, options):
        expected = gt.hessian(lambda x: self.reference(options)(W, x, INPUTS))(START)
        close(gt.hessian(lambda x: loss(gt.scan, W, x, INPUTS, **options))(START), expected)

    @pytest.mark.slow
    def test_products_with_the_hessian(self, options):
        vector = np.array([1.0, -2.0, 0.5])
        for product in (gt.hvp, gt.vhp):
            expected = product(lambda x: self.reference(options)(W, x, INPUTS), START, vector)
            got = product(lambda x: loss(gt.scan, W, x, INPUTS, **options), START, vector)
            close(got, expected)

    def test_forward_accumulator(self, options):
        w, direction = gt.asarray(W), gt.asarray(np.ones((3, 3)))
        found = []
        for f in (self.reference(options), lambda *args: loss(gt.scan, *args, **options)):
            with gt.ForwardAccumulator(w, direction) as accumulator:
                y = f(w, START, INPUTS)
            found.append(float(accumulator.jvp(y)))
        close(found[1], found[0])

    @pytest.mark.slow
    def test_vmap(self, options):
        starts = RNG.normal(size=(4, 3))
        one = gt.grad(lambda x: loss(gt.scan, W, x, INPUTS, **options))
        expected = np.stack([one(x).numpy() for x in starts])
        close(gt.vmap(one)(starts), expected)
        # The derivative of what is batched.
        total = gt.grad(
            lambda w: gt.sum(gt.vmap(lambda x: loss(gt.scan, w, x, INPUTS, **options))(starts))
        )(W)
        parts = [gt.grad(lambda w, x=x: self.reference(options)(w, x, INPUTS))(W) for x in starts]
        close(total, sum(part.numpy() for part in parts))

    def test_vmap_over_inputs_and_weights(self, options):
        inputs, weights = RNG.normal(size=(2, 6, 3)), RNG.normal(size=(2, 3, 3)) * 0.5
        got = gt.vmap(lambda w, u: loss(gt.scan, w, START, u, **options))(weights, inputs)
        expected = [
            float(self.reference(options)(gt.asarray(w), START, gt.asarray(u)))
            for w, u in zip(weights, inputs, strict=True)
        ]
        close(got, expected)


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


def test_carries_and_sequences_are_nests():
    def step(carry: Any, x: Any) -> Any:
        new = {"p": Pair(carry["p"].a + x[0], carry["p"].b * x[1]["k"]), "n": carry["n"] + 1}
        return new, Point(new["p"].a, [new["p"].b, None])

    start = {"p": Pair(0.0, 1.0), "n": 0}
    xs = (np.array([1.0, 2.0]), {"k": np.array([3.0, 4.0])})
    final, rows = gt.scan(step, start, xs)
    assert isinstance(final["p"], Pair)
    assert (float(final["p"].a), float(final["p"].b), int(final["n"])) == (3.0, 12.0, 2)
    assert isinstance(rows, Point)
    assert rows.x.tolist() == [1.0, 3.0]
    assert rows.y[0].tolist() == [3.0, 12.0]
    assert rows.y[1] is None


def test_no_steps():
    final, rows = gt.scan(cell(W), START, np.zeros((0, 3)))
    assert final.tolist() == START.tolist()
    assert rows.shape == (0,)
    slopes = gt.grad(lambda w, x: loss(gt.scan, w, x, gt.zeros((0, 3))), (0, 1))(W, START)
    assert not slopes[0].numpy().any()
    close(slopes[1], 2 * START)
    assert gt.fori_loop(3, 1, lambda i, x: x + 1.0, START).tolist() == START.tolist()
    assert gt.map(lambda x: x * 2.0, np.zeros((0, 2))).shape == (0, 2)


def test_closures_over_variables_and_tensors():
    v, scale = gt.Variable(2.0), gt.asarray(3.0)
    with gt.GradientTape() as tape:
        tape.watch(scale)
        final, _ = gt.scan(lambda x, _: (x * v + scale, None), 1.0, length=3)
    slope_v, slope_scale = tape.gradient(final, [v, scale])
    # 8 + 3 (4 + 2 + 1)
    assert float(final) == 29.0
    assert float(slope_v) == 3 * 4 + 3 * (4 + 1)
    assert float(slope_scale) == 7.0
    assert tape.watched_variables() == (v,)


def test_steps_of_training():
    v = gt.Variable(np.full((3, 3), 0.1))
    losses = []
    for _ in range(4):
        with gt.GradientTape() as tape:
            value = loss(gt.scan, v, START, INPUTS)
        v.assign_sub(0.01 * tape.gradient(value, v))
        losses.append(float(value))
    assert losses == sorted(losses, reverse=True)
    w = np.full((3, 3), 0.1)
    for expected in losses:
        value, slope = gt.value_and_grad(lambda w: loss(unrolled, w, START, INPUTS))(w)
        close(value, expected)
        w = w - 0.01 * slope.numpy()


def test_looking_at_the_loss_first_changes_nothing():
    w = gt.asarray(W)
    with gt.GradientTape() as tape:
        tape.watch(w)
        value = loss(gt.scan, w, START, INPUTS)
    float(value)
    close(tape.gradient(value, w), gt.grad(lambda w: loss(unrolled, w, START, INPUTS))(W))


def test_nested_scans():
    def table(scan: Any, a: Any) -> Any:
        def row(total: Any, x: Any) -> Any:
            inner, _ = scan(lambda c, y: (gt.sin(c * y) + a * x, c), total, INPUTS[:3, 0])
            return inner, inner * x

        final, rows = scan(row, a, INPUTS[:4, 1])
        return final + gt.sum(rows)

    for derivative in (lambda f: f, gt.grad, lambda f: gt.grad(gt.grad(f))):
        expected = derivative(lambda a: table(unrolled, a))(gt.asarray(0.3))
        for _ in range(2):
            close(derivative(lambda a: table(gt.scan, a))(gt.asarray(0.3)), expected)


def test_gradients_inside_a_body():
    def energy(x: Any) -> Any:
        return gt.sum(gt.cos(x) * x)

    def descend(scan: Any, x: Any) -> Any:
        return scan(lambda x, _: (x - 0.1 * gt.grad(energy)(x), energy(x)), x, None, length=5)

    def total(scan: Any) -> Any:
        return lambda x: gt.sum(descend(scan, x)[0]) + gt.sum(descend(scan, x)[1])

    x = gt.asarray(START)
    close(descend(gt.scan, x)[0], descend(unrolled, x)[0])
    close(gt.grad(total(gt.scan))(x), gt.grad(total(unrolled))(x))


def test_vmap_inside_a_body():
    def step(x: Any, u: Any) -> Any:
        return gt.vmap(lambda a: gt.tanh(a * gt.sum(u)))(x), None

    def total(x: Any) -> Any:
        return gt.sum(gt.scan(step, x, INPUTS)[0])

    expected = gt.grad(lambda x: gt.sum(unrolled(lambda x, u: (step(x, u)[0], x[0]), x, INPUTS)[0]))
    close(gt.grad(total)(START), expected(START))


@gt.custom_gradient
def doubled_slope(x: Any) -> Any:
    return gt.sin(x), lambda dy: 2.0 * dy * gt.cos(x)


@gt.custom_jvp
def tripled_slope(x: Any) -> Any:
    return gt.sin(x)


@tripled_slope.defjvp
def _tripled(primals: Any, tangents: Any) -> Any:
    return tripled_slope(primals[0]), 3.0 * gt.cos(primals[0]) * tangents[0]


@pytest.mark.parametrize(
    "function",
    [doubled_slope, tripled_slope, gt.checkpoint(lambda x: gt.tanh(gt.sin(x))),
     gt.grad_pass_through(gt.round)],
)  # fmt: skip
def test_derivatives_by_hand_inside_a_body(function):
    def total(scan: Any) -> Any:
        return lambda x: gt.sum(scan(lambda c, u: (function(c + u) * x, c[0]), x, INPUTS)[0])

    x = gt.asarray(START)
    close(total(gt.scan)(x), total(unrolled)(x))
    close(gt.grad(total(gt.scan))(x), gt.grad(total(unrolled))(x))
    got = gt.jvp(total(gt.scan), (x,), (np.ones(3),))[1]
    close(got, gt.jvp(total(unrolled), (x,), (np.ones(3),))[1])
    many = np.stack([START, 2 * START])
    rows = [gt.grad(total(unrolled))(gt.asarray(row)).numpy() for row in many]
    close(gt.vmap(gt.grad(total(gt.scan)))(many), rows)


def test_random_numbers_are_those_of_a_loop():
    for reverse in (False, True):
        one, other = gt.random.Generator(3), gt.random.Generator(3)

        def step(c: Any, x: Any, draw: Any = one.normal) -> Any:
            return c, draw((2,)) + x

        _, rows = gt.scan(step, 0.0, np.zeros(4), reverse=reverse)
        loop = [other.normal((2,)).numpy() for _ in range(4)]
        np.testing.assert_array_equal(rows.numpy(), loop[::-1] if reverse else loop)
        assert float(one.normal(())) == float(other.normal(()))


def test_random_numbers_under_vmap():
    generator = gt.random.Generator(4)
    got = gt.vmap(lambda x: gt.scan(lambda c, _: (c, generator.normal(()) + x), 0.0, length=3)[1])(
        np.zeros(2)
    )
    generator = gt.random.Generator(4)
    expected = [[float(generator.normal(())) for _ in range(3)] for _ in range(2)]
    np.testing.assert_array_equal(got.numpy(), expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 7), st.booleans(), st.sampled_from([None, True, 1, 2, 3]), st.integers(0, 99))
def test_any_scan_is_its_loop(length, reverse, checkpoint, seed):
    rng = np.random.default_rng(seed)
    inputs, start, w = rng.normal(size=(length, 2)), rng.normal(size=2), rng.normal(size=(2, 2))

    def total(scan: Any, **options: Any) -> Any:
        def f(w: Any, x: Any, u: Any) -> Any:
            def step(c: Any, u: Any) -> Any:
                c = gt.sin(w @ c) * u + c
                return c, c[0] * u[1]

            if scan is unrolled and not length:
                return gt.sum(x)
            final, rows = scan(step, x, u, reverse=reverse, **options)
            return gt.sum(final) + gt.sum(rows)

        return f

    expected = gt.grad(total(unrolled), (0, 1, 2))(w, start, inputs)
    got = gt.grad(total(gt.scan, checkpoint=checkpoint), (0, 1, 2))(w, start, inputs)
    for a, b in zip(got, expected, strict=True):
        close(a, b)


def test_patterns():
    def f(x: Any) -> Any:
        return gt.scan(lambda c, u: (c * 0.5 + u, c), x[0], x)[1]

    pattern = gt.sparsity_pattern(f, np.zeros(5)).toarray()
    expected = np.tril(np.ones((5, 5), bool), -1)
    expected[:, 0] = True
    np.testing.assert_array_equal(pattern, expected)
    diagonal = gt.sparsity_pattern(lambda x: gt.map(gt.sin, x), np.zeros(4)).toarray()
    np.testing.assert_array_equal(diagonal, np.eye(4, dtype=bool))
    chosen = gt.sparsity_pattern(
        lambda x: gt.cond(x[0] > 0, lambda x: x, lambda x: gt.flip(x), x), np.zeros(3)
    ).toarray()
    np.testing.assert_array_equal(chosen, np.eye(3, dtype=bool) | np.eye(3, dtype=bool)[::-1])
    jacobian = gt.jacobian(lambda x: gt.map(gt.sin, x), sparse=True)(np.zeros(4))
    np.testing.assert_array_equal(jacobian.toarray(), np.eye(4))


def test_complex_numbers():
    z = np.array([0.3 + 0.2j, -0.5 + 1j])

    def total(scan: Any) -> Any:
        def f(z: Any) -> Any:
            final, rows = scan(lambda c, x: (c * z[0] + gt.exp(x), c * c), z[1], z)
            return gt.real(final * gt.conj(gt.sum(rows)))

        return f

    close(gt.grad(total(gt.scan))(z), gt.grad(total(unrolled))(z))


def test_float32_stays():
    x = np.ones(3, np.float32)
    final, rows = gt.scan(lambda c, u: (c * 0.5 + u, gt.sum(c)), x, np.ones((4, 3), np.float32))
    assert final.dtype == rows.dtype == np.float32
    slope = gt.grad(lambda x: gt.sum(gt.scan(lambda c, _: (c * c, None), x, length=2)[0]))(x)
    assert slope.dtype == np.float32


def test_batch_jacobians_keep_examples_apart():
    x = gt.asarray(RNG.normal(size=(4, 5, 3)))

    def rows(x: Any) -> Any:
        moved = gt.moveaxis(x, 1, 0)
        _, found = gt.scan(lambda c, u: (gt.tanh(c @ W + u), gt.sum(c * u, axis=1)), x[:, 0], moved)
        return gt.moveaxis(found, 0, 1)

    with gt.GradientTape() as tape:
        tape.watch(x)
        y = rows(x)
    got = tape.batch_jacobian(y, x)
    full = gt.jacobian(rows)(x).numpy()
    close(got, np.stack([full[b, :, b] for b in range(4)]))
    with gt.GradientTape() as tape:
        tape.watch(x)
        _, y = gt.scan(lambda c, u: (c + u, c), gt.zeros((5, 3)), x)
    with pytest.raises(gt.errors.MixedExamplesError, match="scan mixes examples"):
        tape.batch_jacobian(y, x)


def test_eager_mode():
    with gt.eager():
        final, rows = gt.scan(cell(W), START, INPUTS, checkpoint=4)
        chosen = gt.cond(gt.sum(final) > 0.0, gt.sin, gt.cos, final)
    expected = gt.scan(cell(W), START, INPUTS)
    close(final, expected[0])
    close(rows, expected[1])
    assert chosen.shape == (3,)


def test_only_what_is_differentiated_needs_a_derivative():
    def step(c: Any, u: Any) -> Any:
        seen = gt.numpy_function(np.cumsum, [c], ((3,), np.float64))
        return gt.tanh(W @ c + u), seen

    with gt.GradientTape() as tape:
        x = gt.asarray(START)
        tape.watch(x)
        final, seen = gt.scan(step, x, INPUTS)
        loss = gt.sum(final)
    float(loss)  # what the way back needs is kept, without asking for every derivative
    slope = tape.gradient(loss, x)
    expected = gt.grad(lambda x: gt.sum(unrolled(cell_only, x, INPUTS)[0]))(START)
    close(slope, expected)
    assert seen.shape == (6, 3)
    with pytest.raises(UndefinedRuleError, match="numpy_function"):
        gt.grad(lambda x: gt.sum(gt.scan(step, x, INPUTS)[1]))(START)


def cell_only(x: Any, u: Any) -> Any:
    x = gt.tanh(W @ x + u)
    return x, x


def test_results_go_on_into_library_calls():
    a = gt.asarray(RNG.normal(size=(4, 3, 3)) * 0.1 + np.eye(3))

    def f(a: Any) -> Any:
        final, rows = gt.scan(lambda c, m: (c @ m, c), np.eye(3), a)
        return gt.sum(gt.linalg.solve(final, START) * gt.linalg.inv(rows[2])[0])

    def g(a: Any) -> Any:
        final, rows = unrolled(lambda c, m: (c @ m, c), gt.asarray(np.eye(3)), a)
        return gt.sum(gt.linalg.solve(final, START) * gt.linalg.inv(rows[2])[0])

    for _ in range(3):
        close(gt.grad(f)(a), gt.grad(g)(a))


def test_repeated_use_holds_on_to_nothing():
    def once() -> None:
        v = gt.asarray(W)
        gt.evaluate(gt.grad(lambda w: loss(gt.scan, w, START, INPUTS))(v))
        gt.while_loop(lambda x: x < 5.0, lambda x: x * 2.0, 1.0).numpy()
        gt.cond(gt.asarray(True), gt.sin, gt.cos, gt.asarray(1.0)).numpy()

    for _ in range(5):
        once()
    assert least_growth(once, 30, enough=10) <= 10
