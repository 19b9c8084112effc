"""Solutions of equations and their derivatives, against formulas and against each other."""

import contextlib
import itertools

import numpy as np
import pytest
from tests.interop.solve.equations import WAYS, A, differences, ring, ring_solution, square_root

import gradtape as gt
from gradtape.autodiff.batch import batch
from gradtape.ir.node import placeholder
from gradtape.ir.spec import spec
from gradtape.trace.recording import state


def test_root_of_a_scalar_at_orders_one_to_four():
    derivative = square_root
    expected, power = 1.0, 0.5
    for _ in range(4):
        derivative = gt.grad(derivative)
        expected, power = expected * power, power - 1.0
        assert float(derivative(4.0)) == pytest.approx(expected * 4.0**power, rel=1e-12)


def test_forward_mode_at_orders_one_to_three():
    derivative = square_root
    for expected in (0.25, -1 / 32, 3 / 256):
        derivative = gt.jacfwd(derivative)
        assert float(derivative(4.0)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("modes", list(itertools.product([gt.jacfwd, gt.jacrev], repeat=3)))
def test_modes_mixed_to_order_three(modes):
    derivative = square_root
    for mode in modes:
        derivative = mode(derivative)
    assert float(derivative(4.0)) == pytest.approx(3 / 256, rel=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_jacobian_equals_the_formula(way):
    solution = ring_solution(**WAYS[way])
    b = gt.asarray(0.7)
    x = solution(A, b).numpy()
    by_x = gt.jacobian(lambda x: ring(x, {"a": A, "b": b}))(x).numpy()
    by_a = gt.jacobian(lambda a: ring(x, {"a": a, "b": b}))(A).numpy()
    expected = -np.linalg.solve(by_x, by_a)
    for mode in ("forward", "reverse"):
        found = gt.jacobian(lambda a: solution(a, b), mode=mode)(A).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("modes", list(itertools.product([gt.jacfwd, gt.jacrev], repeat=2)))
def test_second_derivatives_in_every_mode(way, modes):
    solution = ring_solution(**WAYS[way])

    def loss(a):
        return gt.sum(gt.sin(solution(a, gt.asarray(0.7))) * np.arange(5.0))

    expected = differences(lambda a: gt.grad(loss)(a).numpy(), A)
    found = modes[0](modes[1](loss))(A).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("way", ["dense", "sparse", "gmres"])
def test_third_derivatives(way):
    solution = ring_solution(**WAYS[way])

    def loss(b):
        return gt.sum(solution(A, b) ** 2)

    third = gt.grad(gt.grad(gt.grad(loss)))
    expected = differences(lambda b: gt.grad(gt.grad(loss))(b[0]).numpy(), np.array([0.7]))[0]
    assert float(third(0.7)) == pytest.approx(float(expected), rel=1e-6)


def test_several_arguments_in_a_nest_and_their_mixed_derivatives():
    def loss(a, b):
        return gt.sum(ring_solution()(a, b) ** 2)

    found = gt.hessian(loss, argnums=(0, 1))(A, 0.7)
    expected = differences(lambda a: gt.grad(loss, argnums=1)(a, 0.7).numpy(), A)
    np.testing.assert_allclose(found[1][0].numpy(), expected, rtol=1e-7)
    np.testing.assert_allclose(found[0][1].numpy(), expected, rtol=1e-7)


def test_unknowns_in_a_nest():
    def f(x, a):
        return {"one": x["v"] @ x["v"] - a, "two": x["v"] * x["s"] - gt.asarray([3.0, 4.0])}

    # v is along (3, 4) with |v|^2 = a, and s = 5 / |v|.
    def solve(a):
        return gt.root(f, {"s": 1.0, "v": np.array([1.0, 1.5])}, a)

    x = solve(4.0)
    assert set(x) == {"s", "v"}
    np.testing.assert_allclose(x["v"].numpy(), [1.2, 1.6], rtol=1e-12)
    assert float(gt.grad(lambda a: solve(a)["s"])(4.0)) == pytest.approx(-5 / 2 * 4.0**-1.5)
    assert float(gt.grad(gt.grad(lambda a: solve(a)["s"]))(4.0)) == pytest.approx(
        15 / 4 * 4.0**-2.5
    )


def test_matrices_keep_their_shape():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    x = gt.root(lambda x, a: x @ x - a, np.eye(2) * 2.0, a)
    assert x.shape == (2, 2)
    np.testing.assert_allclose((x @ x).numpy(), a, rtol=1e-12)
    jacobian = gt.jacobian(lambda a: gt.root(lambda x, a: x @ x - a, np.eye(2) * 2.0, a))(a)
    n = np.kron(x.numpy(), np.eye(2)) + np.kron(np.eye(2), x.numpy().T)
    np.testing.assert_allclose(jacobian.numpy().reshape(4, 4), np.linalg.inv(n), rtol=1e-10)


def test_variables_and_tensors_that_the_function_closes_over():
    v = gt.Variable(3.0)
    w = gt.asarray(2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(w)
        scale = w * w
        x = gt.root(lambda x: x**2 - v * scale, 1.0)
    assert float(x) == pytest.approx(np.sqrt(12.0))
    assert tape.watched_variables() == (v,)
    assert float(tape.gradient(x, v)) == pytest.approx(0.5 * 2.0 / np.sqrt(3.0))
    assert float(tape.gradient(x, w)) == pytest.approx(np.sqrt(3.0))
    # Also by what lies between.
    assert float(tape.gradient(x, scale)) == pytest.approx(0.5 * np.sqrt(3.0) / 2.0)


def test_what_the_equation_reads_may_depend_on_each_other():
    # Both a and exp(a) are read: neither path may be counted twice.
    def solve(a):
        e = gt.exp(a)
        return gt.root(lambda x: x**3 + x * a - e, 1.0)

    x = float(solve(0.5))
    expected = -(x - np.exp(0.5)) / (3 * x**2 + 0.5)
    assert float(gt.grad(solve)(0.5)) == pytest.approx(expected, rel=1e-12)
    assert float(gt.jvp(solve, (0.5,), (1.0,))[1]) == pytest.approx(expected, rel=1e-12)


def test_forward_accumulator_and_nested_tapes():
    a = gt.asarray(4.0)
    with gt.ForwardAccumulator(a, gt.asarray(1.0)) as forward:
        x = square_root(a)
    assert float(forward.jvp(x)) == pytest.approx(0.25)
    with gt.GradientTape() as outer:
        outer.watch(a)
        with gt.GradientTape() as inner:
            inner.watch(a)
            x = square_root(a)
        slope = inner.gradient(x, a)
    assert float(outer.gradient(slope, a)) == pytest.approx(-1 / 32)
    with gt.ForwardAccumulator(a, gt.asarray(1.0)) as forward, gt.GradientTape() as tape:
        tape.watch(a)
        slope = tape.gradient(square_root(a), a)
    assert float(forward.jvp(slope)) == pytest.approx(-1 / 32)


def test_control_flow_on_values_follows_each_point():
    def f(x, a):
        if x > 1.0:
            return x**2 - a
        return x - a

    assert float(gt.grad(lambda a: gt.root(f, 3.0, a))(4.0)) == pytest.approx(0.25)
    assert float(gt.grad(lambda a: gt.root(f, 0.5, a))(0.25)) == pytest.approx(1.0)


def test_hand_written_derivatives_inside():
    @gt.custom_gradient
    def cube(x):
        return x**3, lambda dy: dy * 3.0 * x * x

    @gt.custom_jvp
    def double(x):
        return 2.0 * x

    @double.defjvp
    def double_jvp(primals, tangents):
        return double(*primals), 2.0 * tangents[0]

    plain = [gt.grad(lambda a: gt.root(lambda x: x**3 + 2.0 * x - a, 1.0, method="newton"))]
    by_hand = [gt.grad(lambda a: gt.root(lambda x: cube(x) + double(x) - a, 1.0))]
    again = [
        gt.grad(lambda a: gt.root(lambda x: gt.checkpoint(lambda x: x**3 + 2.0 * x)(x) - a, 1.0))
    ]
    for found in (plain, by_hand, again):
        found.append(gt.grad(found[0]))
        found.append(gt.jacfwd(found[1]))
    for number in range(3):
        expected = float(plain[number](12.5))
        assert float(by_hand[number](12.5)) == pytest.approx(expected, rel=1e-10)
        assert float(again[number](12.5)) == pytest.approx(expected, rel=1e-10)


def test_hand_written_derivatives_inside_other_solvers():
    @gt.custom_gradient
    def wave(x):
        return gt.sin(x), lambda dy: dy * gt.cos(x)

    def solve(f, **ways):
        return lambda a: gt.sum(gt.root(lambda x: f(x) + 3.0 * x - a, np.ones(2), **ways))

    a = np.array([3.0, 4.0])
    plain = solve(lambda x: gt.sin(gt.sin(x)))
    for way in ("dense", "sparse", "gmres"):
        by_hand = solve(lambda x: wave(wave(x)), **WAYS[way])
        np.testing.assert_allclose(gt.grad(by_hand)(a).numpy(), gt.grad(plain)(a).numpy())
        if way == "dense":
            found = gt.hessian(by_hand)(a).numpy()
            np.testing.assert_allclose(found, gt.hessian(plain)(a).numpy())
        else:
            with pytest.raises(gt.errors.UndefinedRuleError, match="Use the dense solver"):
                gt.hessian(by_hand)(a)


def test_a_solution_is_not_batched_silently():
    # The solver saw the numbers of one example: they are not those of the others.
    a = gt.asarray(4.0)
    with gt.GradientTape() as tape:
        tape.watch(a)
        x = square_root(a)
        recording = state.recording
        source, target = a.enter(recording), x.enter(recording)
        with pytest.raises(gt.errors.UndefinedRuleError, match=r"root: vmap cannot .* in a loop"):
            batch([target], {source: placeholder(spec((3,), source.dtype))})


@pytest.mark.slow
@pytest.mark.parametrize("inner", ["dense", "sparse", "gmres"])
@pytest.mark.parametrize("outer", ["dense", "sparse", "gmres"])
def test_a_root_inside_a_root(inner, outer):
    # y² = x·a inside, and y + x = 6·a outside: x = a (13 - 5) / 2 = 4 a, y = 2 a.
    def f(x, a):
        y = gt.root(lambda y, b: y**2 - b, np.ones(1), x * a, **WAYS[inner])
        return y + x - 6.0 * a

    def solve(a):
        return gt.root(f, np.ones(1), a, **WAYS[outer])[0]

    # x(a): sqrt(x a) + x = 6 a is solved by x = 4 a.
    assert float(solve(2.0)) == pytest.approx(8.0)
    assert float(gt.grad(solve)(2.0)) == pytest.approx(4.0)
    assert float(gt.grad(gt.grad(solve))(2.0)) == pytest.approx(0.0, abs=1e-9)
    assert float(gt.jvp(solve, (2.0,), (1.0,))[1]) == pytest.approx(4.0)


def test_float32_stays_float32():
    x = gt.root(lambda x, a: x**2 - a, np.float32(1.0), gt.asarray(2.0, dtype=gt.float32))
    assert x.dtype == np.float32
    slope = gt.grad(lambda a: gt.root(lambda x, a: x**2 - a, np.float32(1.0), a))
    found = slope(gt.asarray(4.0, dtype=gt.float32))
    assert found.dtype == np.float32
    assert float(found) == pytest.approx(0.25, rel=1e-5)


@pytest.mark.parametrize("start", [1.0, 1e-9, 0.0])
def test_a_solution_that_is_zero(start):
    for method in ("newton", "hybr"):
        assert float(gt.root(lambda x: gt.sin(x) + x, start, method=method)) == pytest.approx(0.0)
    for method in ("iteration", "anderson", "newton"):
        found = gt.fixed_point(lambda x: 0.5 * gt.sin(x), start, method=method)
        assert float(found) == pytest.approx(0.0, abs=1e-10)


def test_a_solution_that_is_small():
    found = gt.fixed_point(lambda x: 0.5 * x + 1e-12, 0.0)
    assert float(found) == pytest.approx(2e-12, rel=1e-9)
    assert float(gt.root(lambda x: x**2 - 1e-20, 1e-9)) == pytest.approx(1e-10, rel=1e-9)


def test_no_unknowns():
    x = gt.root(lambda x, a: x * a, np.zeros(0), 2.0, method="newton")
    assert x.shape == (0,)


# What goes wrong is said, and nothing is lost.


@pytest.mark.parametrize("way", [{}, {"method": "newton"}, {"method": "lm"}, {"solver": "gmres"}])
def test_no_solution_raises_with_all_that_was_found(way):
    a = gt.asarray(1.0)
    with gt.GradientTape() as tape:
        tape.watch(a)
        y = a * 3.0
        with pytest.raises(gt.errors.ConvergenceError) as caught:
            gt.root(lambda x: x["x"] ** 2 + a, {"x": np.array([0.5])}, **way)
        z = y * a
    error = caught.value
    assert "found no solution" in str(error) or "was not solved" in str(error)
    assert error.residual > 0.5 or way.get("solver")
    assert float(tape.gradient(z, a)) == 6.0
    if not way.get("solver"):
        assert error.x["x"].shape == (1,)
        assert error.iterations > 0
        assert f"{error.residual:.3e}" in str(error)


@pytest.mark.slow
def test_minimize_that_has_no_minimum():
    with pytest.raises(gt.errors.ConvergenceError, match="minimize: BFGS"):
        gt.minimize(lambda x: gt.sum(gt.exp(-x)) - 1e3 * gt.sum(x), np.zeros(2))


def test_fixed_point_that_runs_away():
    for method in ("iteration", "anderson"):
        with pytest.raises(gt.errors.ConvergenceError, match=method):
            gt.fixed_point(
                lambda x: x**2 + 1.0, np.array([2.0]), method=method, options={"maxiter": 30}
            )


def test_maxiter_is_an_option():
    with pytest.raises(gt.errors.ConvergenceError) as caught:
        gt.root(lambda x: gt.exp(x) - 100.0, 0.0, method="newton", options={"maxiter": 2})
    assert caught.value.iterations == 2


def test_wrong_calls_say_what_is_right():
    with pytest.raises(gt.errors.ShapeError, match="2 unknowns and 1 equations"):
        gt.root(lambda x: x[0] - 1.0, np.zeros(2))
    with pytest.raises(gt.errors.ShapeError, match="returned 2 numbers"):
        gt.minimize(lambda x: x, np.zeros(2))
    with pytest.raises(ValueError, match=r"solver 'lu' is unknown\. Use one of direct, gmres"):
        gt.root(lambda x: x, 1.0, solver="lu")
    with pytest.raises(ValueError, match="needs no matrix"):
        gt.root(lambda x: x, 1.0, solver="gmres", sparse=True)
    with pytest.raises(ValueError, match="method 'secant' is unknown"):
        gt.fixed_point(lambda x: x, 1.0, method="secant")
    with pytest.raises(gt.errors.DtypeError, match="x0 is complex"):
        gt.root(lambda x: x, 1j)
    with pytest.raises(ValueError, match="not positive"):
        gt.fixed_point(gt.cos, 1.0, tol=0.0)


def test_a_singular_jacobian_is_an_error_not_a_number():
    # x = 0 solves x³ = a at a = 0, but is not differentiable there.
    solve = gt.grad(lambda a: gt.root(lambda x: x**3 - a, 0.0))
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        float(solve(0.0))


# What a repeated call costs.


@pytest.mark.parametrize("way", ["dense", "sparse", "gmres"])
def test_repeated_derivatives_build_nothing(way):
    solution = ring_solution(**WAYS[way])

    def loss(a):
        return gt.sum(solution(a, gt.asarray(0.7)) ** 2)

    for _ in range(3):
        gt.grad(loss)(A).numpy()
        gt.hvp(loss, A, A).numpy()
    before = gt.counters()
    gt.grad(loss)(A * 1.01).numpy()
    gt.hvp(loss, A * 1.02, A).numpy()
    after = gt.counters()
    assert after.plans_built == before.plans_built
    assert after.kernels_compiled == before.kernels_compiled
    assert after.derivatives_built == before.derivatives_built


def test_without_a_tape_nothing_is_recorded():
    calls = []

    def f(x):
        calls.append(1)
        return x**2 - 2.0

    gt.root(f, 1.0)
    plain = len(calls)
    calls.clear()
    a = gt.asarray(1.0)
    with gt.GradientTape() as tape:
        tape.watch(a)
        gt.root(f, a)
    assert len(calls) == plain + 1


def test_a_large_sparse_system():
    n = 2000
    h = 1.0 / (n + 1)

    def f(u, c):
        padded = gt.concat([gt.zeros(1), u, gt.zeros(1)])
        return (padded[2:] - 2.0 * u + padded[:-2]) / h**2 + c * gt.exp(u)

    def middle(c):
        return gt.root(f, np.zeros(n), c, sparse=True)[n // 2]

    # Bratu's problem: u(1/2) = 2 log cosh(t/4) where t = sqrt(2 c) cosh(t/4).
    def exact(c):
        t = gt.fixed_point(lambda t, c: gt.sqrt(2.0 * c) * gt.cosh(t / 4.0), 1.5, c)
        return 2.0 * gt.log(gt.cosh(t / 4.0))

    found, expected = middle, exact
    for tolerance in (1e-5, 1e-5, 1e-4):
        assert float(found(1.0)) == pytest.approx(float(expected(1.0)), rel=tolerance)
        found, expected = gt.grad(found), gt.grad(expected)


@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize(
    "search",
    [
        lambda a: gt.root(lambda x, a: x**3 + x - gt.sin(a), np.zeros(2), a),
        lambda a: gt.fixed_point(lambda x, a: 0.5 * x + a, np.zeros(2), a),
    ],
)
def test_complex_values_of_a_real_unknown_are_refused_in_every_mode(search, taped):
    a = gt.Variable(np.zeros(2, "complex128"))
    with (
        gt.GradientTape() if taped else contextlib.nullcontext(),
        pytest.raises(gt.errors.DtypeError, match="gives complex values, and x0 is real"),
    ):
        search(a)
