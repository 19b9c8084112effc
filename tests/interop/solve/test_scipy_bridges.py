"""Objects that SciPy's solvers take as they are."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import solve_ivp
from scipy.optimize import (
    LinearConstraint,
    curve_fit,
    least_squares,
    minimize,
    root,
    rosen,
    rosen_der,
    rosen_hess,
)

import gradtape as gt


def rosenbrock(x):
    return gt.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def built(before, after):
    """What had to be made between two snapshots of the counters."""
    return (
        after.plans_built - before.plans_built,
        after.kernels_compiled - before.kernels_compiled,
        after.derivatives_built - before.derivatives_built,
    )


# Objectives.


def test_objective_equals_the_formulas_in_any_order():
    p = gt.objective(rosenbrock)
    rng = np.random.default_rng(0)
    questions = {
        "fun": lambda x, v: (p.fun(x), rosen(x)),
        "jac": lambda x, v: (p.jac(x), rosen_der(x)),
        "hess": lambda x, v: (p.hess(x), rosen_hess(x)),
        "hessp": lambda x, v: (p.hessp(x, v), rosen_hess(x) @ v),
        "both": lambda x, v: (p(x)[1], rosen_der(x)),
    }
    for _ in range(20):
        x, v = rng.normal(size=(2, 5))
        for name in rng.permutation(list(questions)):
            found, expected = questions[name](x, v)
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize(
    ("method", "extra"),
    [
        ("BFGS", ()), ("CG", ()), ("L-BFGS-B", ()), ("TNC", ()), ("SLSQP", ()),
        ("Newton-CG", ("hessp",)), ("trust-ncg", ("hessp",)), ("trust-krylov", ("hessp",)),
        ("trust-ncg", ("hess",)), ("trust-exact", ("hess",)), ("trust-constr", ("hess",)),
    ],
)  # fmt: skip
def test_minimize_takes_it(method, extra):
    p = gt.objective(rosenbrock)
    given = {name: getattr(p, name) for name in extra}
    found = minimize(p.fun, np.full(5, 0.5), jac=p.jac, method=method, tol=1e-8, **given)
    # Truncated Newton stops by its own rule.
    np.testing.assert_allclose(found.x, 1.0, atol=2e-2 if method in ("TNC", "Newton-CG") else 1e-4)


def test_value_and_gradient_in_one():
    p = gt.objective(rosenbrock)
    value, slope = p(np.full(5, 0.5))
    assert type(value) is float
    assert slope.dtype == np.float64
    found = minimize(p, np.full(5, 0.5), jac=True, method="L-BFGS-B", tol=1e-10)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)


def test_extra_arguments_are_passed_on():
    p = gt.objective(lambda x, a, b: gt.sum((x - a) ** 2) + b)
    found = minimize(p.fun, np.zeros(3), args=(np.array([1.0, 2.0, 3.0]), 4.0), jac=p.jac)
    np.testing.assert_allclose(found.x, [1.0, 2.0, 3.0], atol=1e-6)
    assert found.fun == pytest.approx(4.0)


def test_sparse_hessian():
    p = gt.objective(rosenbrock, sparse=True)
    x = np.linspace(0.0, 1.0, 300)
    found = p.hess(x)
    assert sp.issparse(found)
    assert found.nnz == 3 * 300 - 2
    np.testing.assert_allclose(found.toarray(), rosen_hess(x), rtol=1e-12, atol=1e-12)
    assert isinstance(gt.objective(rosenbrock, sparse="auto").hess(x[:5]), np.ndarray)
    assert sp.issparse(gt.objective(rosenbrock, sparse="auto").hess(x))
    constraint = LinearConstraint(np.ones((1, 300)), -np.inf, np.inf)
    result = minimize(
        p.fun, x, jac=p.jac, hess=p.hess, method="trust-constr", constraints=[constraint],
        options={"maxiter": 5},
    )  # fmt: skip
    assert result.fun < rosen(x)


def test_nests_of_arguments():
    def f(x):
        return gt.sum((x["m"] - np.arange(4.0).reshape(2, 2)) ** 2) + (x["s"] - 5.0) ** 2

    example = {"m": np.zeros((2, 2)), "s": 0.0}
    p = gt.objective(f, example)
    found = minimize(p.fun, p.ravel(example), jac=p.jac)
    solution = p.unravel(found.x)
    np.testing.assert_allclose(solution["m"], [[0.0, 1.0], [2.0, 3.0]], atol=1e-6)
    assert solution["s"] == pytest.approx(5.0)
    with pytest.raises(ValueError, match="got 3 numbers, the example has 5"):
        p.fun(np.zeros(3))
    with pytest.raises(gt.errors.ShapeError, match="ravel"):
        p.ravel({"m": np.zeros((2, 3)), "s": 0.0})
    with pytest.raises(ValueError, match="Pass one like"):
        gt.objective(f).ravel(example)


def test_matrix_arguments():
    p = gt.objective(lambda x: gt.sum((x @ x - 4.0 * np.eye(2)) ** 2), np.eye(2))
    found = minimize(p.fun, np.eye(2).ravel(), jac=p.jac)
    np.testing.assert_allclose(found.x.reshape(2, 2), 2.0 * np.eye(2), atol=1e-4)


def test_steady_state_builds_nothing():
    p = gt.objective(rosenbrock)
    rng = np.random.default_rng(1)

    def step():
        x, v = rng.normal(size=(2, 6))
        p.fun(x), p.jac(x), p.hess(x), p.hessp(x, v), p.hessp(x, -v), p(x)

    for _ in range(3):
        step()
    before = gt.counters()
    for _ in range(5):
        step()
    assert built(before, gt.counters()) == (0, 0, 0)


def test_one_recording_serves_all_questions_about_a_point():
    calls = []

    def f(x):
        calls.append(1)
        return rosenbrock(x)

    p = gt.objective(f)
    x = np.arange(4.0)
    p.fun(x), p.jac(x), p.hess(x)
    for _ in range(5):
        p.hessp(x, x)
    assert len(calls) == 1
    # SciPy moves its vectors in place.
    x += 1.0
    np.testing.assert_allclose(p.jac(x), rosen_der(x))
    assert len(calls) == 2
    # The same question again is a new evaluation: f may read something that has changed.
    p.jac(x)
    assert len(calls) == 3


def test_what_the_function_closes_over_may_change():
    v = gt.Variable(2.0)
    p = gt.objective(lambda x: v * gt.sum(x**2))
    x = np.ones(3)
    assert p.fun(x) == 6.0
    v.assign(3.0)
    assert p.fun(x) == 9.0
    np.testing.assert_array_equal(p.jac(x), 6.0)
    data = np.ones(3)
    q = gt.objective(lambda x, d: gt.sum(d * x))
    assert q.fun(x, data) == 3.0
    data *= 2.0
    np.testing.assert_array_equal(q.jac(x, data), 2.0)


def test_results_are_the_callers_own():
    p = gt.objective(rosenbrock)
    x = np.arange(3.0)
    slope = p.jac(x)
    slope[:] = 0.0
    np.testing.assert_allclose(p.jac(x), rosen_der(x))
    r = gt.residuals(lambda x: x**2)
    value = r(x)
    value += 1.0
    np.testing.assert_allclose(r(x), x**2)


def test_a_users_tape_goes_on_untouched():
    p = gt.objective(rosenbrock)
    a = gt.asarray(3.0)
    with gt.GradientTape() as tape:
        tape.watch(a)
        y = a * a
        p.fun(np.arange(3.0))
        p.jac(np.arange(3.0))
        z = y * a
    assert float(tape.gradient(z, a)) == 27.0
    # Pending work that the function reads is computed, and can be used afterwards.
    pending = gt.asarray([1.0, 2.0]) * 2.0
    q = gt.objective(lambda x: gt.sum(x * pending))
    np.testing.assert_array_equal(q.jac(np.ones(2)), [2.0, 4.0])
    assert (pending + 1.0).tolist() == [3.0, 5.0]


def test_objective_must_be_a_number():
    with pytest.raises(gt.errors.ShapeError, match="objective: the function returned 3 numbers"):
        gt.objective(lambda x: x).fun(np.zeros(3))
    assert gt.objective(lambda x: gt.sum(x, keepdims=True)).fun(np.ones(3)) == 3.0
    with pytest.raises(ValueError, match="sparse='yes' is unknown"):
        gt.objective(rosenbrock, sparse="yes")
    with pytest.raises(gt.errors.DtypeError, match="no derivative"):
        gt.objective(lambda x: gt.argmax(x)).fun(np.ones(3))


def test_repr():
    assert repr(gt.objective(rosenbrock)) == "Objective(rosenbrock)"
    assert repr(gt.residuals(rosenbrock)) == "Residuals(rosenbrock)"
    assert repr(gt.ode(rosenbrock)) == "Ode(rosenbrock)"


# Residuals.


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares_takes_it(method):
    t = np.linspace(0.0, 2.0, 30)
    y = 2.5 * np.exp(-1.3 * t) + 0.5
    r = gt.residuals(lambda x, t, y: x[0] * gt.exp(x[1] * t) + x[2] - y)
    found = least_squares(r, np.array([1.0, -1.0, 0.0]), jac=r.jac, args=(t, y), method=method)
    np.testing.assert_allclose(found.x, [2.5, -1.3, 0.5], rtol=1e-6)


def test_sparse_residuals():
    n = 400
    target = np.linspace(1.0, 2.0, n)

    def f(x):
        return [x - target, 10.0 * (x[1:] * x[:-1] - target[1:] * target[:-1])]

    x0 = np.ones(n)
    r = gt.residuals(f, x0)
    assert r.jac_sparsity.shape == (2 * n - 1, n)
    assert r.jac_sparsity.nnz == n + 2 * (n - 1)
    found = least_squares(r, x0, jac=r.jac, jac_sparsity=r.jac_sparsity)
    np.testing.assert_allclose(found.x, target, atol=1e-6)
    jacobian = r.jac(x0)
    assert jacobian.format == "csr"
    np.testing.assert_allclose(jacobian.toarray(), gt.residuals(f, sparse=False).jac(x0))
    # Without an example it is known after the first evaluation.
    r = gt.residuals(f)
    assert r.jac_sparsity is None
    r(x0)
    assert r.jac_sparsity.nnz == n + 2 * (n - 1)
    assert gt.residuals(f, x0, sparse=False).jac_sparsity is None


def test_small_jacobians_are_arrays():
    r = gt.residuals(lambda x: x**2)
    assert isinstance(r.jac(np.ones(5)), np.ndarray)
    assert sp.issparse(gt.residuals(lambda x: x**2, sparse=True).jac(np.ones(5)))


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_root_takes_it(method):
    r = gt.residuals(
        lambda x: [x[0] + 0.5 * (x[0] - x[1]) ** 3 - 1.0, 0.5 * (x[1] - x[0]) ** 3 + x[1]]
    )
    found = root(r, [0.0, 0.0], jac=r.jac, method=method)
    np.testing.assert_allclose(found.x, [0.8411639, 0.1588361], atol=1e-7)


def test_curve_fit_takes_a_jacobian():
    t = np.linspace(0.0, 1.0, 20)
    y = 3.0 * np.sin(2.0 * t)
    r = gt.residuals(lambda x, t: x[0] * gt.sin(x[1] * t))
    found, _ = curve_fit(
        lambda t, a, b: r([a, b], t), t, y, p0=[1.0, 1.5], jac=lambda t, a, b: r.jac([a, b], t)
    )
    np.testing.assert_allclose(found, [3.0, 2.0], rtol=1e-8)


def test_residuals_of_any_shape_are_flattened():
    r = gt.residuals(lambda x: {"a": gt.reshape(x, (2, 2)), "b": [x[0], 2.0]})
    assert r(np.arange(4.0)).tolist() == [0.0, 1.0, 2.0, 3.0, 0.0, 2.0]
    assert r.jac(np.arange(4.0)).shape == (6, 4)


def test_residuals_steady_state_builds_nothing():
    for sparse in (True, False):
        r = gt.residuals(lambda x: gt.sin(x[1:]) * x[:-1], sparse=sparse)
        rng = np.random.default_rng(0)
        for _ in range(3):
            x = rng.normal(size=50)
            r(x), r.jac(x), r.jac(x + 1.0)
        before = gt.counters()
        for _ in range(5):
            x = rng.normal(size=50)
            r(x), r.jac(x), r.jac(x + 1.0)
        assert built(before, gt.counters()) == (0, 0, 0)


# Differential equations.


@pytest.mark.slow
@pytest.mark.parametrize("method", ["BDF", "Radau", "LSODA"])
def test_solve_ivp_takes_it(method):
    # Robertson's problem, stiff, and with a conserved sum.
    def f(t, y, k):
        a = 0.04 * y[0]
        b = k * y[1] * y[2]
        c = 3e7 * y[1] ** 2
        return [b - a, a - b - c, c]

    o = gt.ode(f)
    found = solve_ivp(
        o, (0.0, 40.0), [1.0, 0.0, 0.0], method=method, jac=o.jac, args=(1e4,), rtol=1e-8,
        atol=1e-12,
    )  # fmt: skip
    assert found.success
    np.testing.assert_allclose(found.y[:, -1], [0.7158, 9.185e-6, 0.2842], rtol=2e-4)
    np.testing.assert_allclose(found.y.sum(0), 1.0, rtol=1e-9)


def test_time_is_an_argument():
    o = gt.ode(lambda t, y: y * gt.cos(t))
    found = solve_ivp(o, (0.0, 2.0), [1.0], jac=o.jac, method="BDF", rtol=1e-8, atol=1e-10)
    assert found.y[0, -1] == pytest.approx(np.exp(np.sin(2.0)), rel=1e-6)


def test_ode_without_tensors_in_the_result():
    o = gt.ode(lambda t, y: [1.0, t])
    assert o(2.0, np.zeros(2)).tolist() == [1.0, 2.0]
    assert o.jac(2.0, np.zeros(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_large_systems_have_sparse_jacobians():
    n = 200
    o = gt.ode(lambda t, y: 100.0 * (gt.roll(y, 1) - 2.0 * y + gt.roll(y, -1)))
    y = np.sin(2 * np.pi * np.arange(n) / n)
    jacobian = o.jac(0.0, y)
    assert jacobian.format == "csc"
    assert jacobian.nnz == 3 * n
    found = solve_ivp(o, (0.0, 1.0), y, method="BDF", jac=o.jac, rtol=1e-8, atol=1e-10)
    decay = np.exp(-100.0 * (2.0 - 2.0 * np.cos(2 * np.pi / n)))
    np.testing.assert_allclose(found.y[:, -1], decay * y, atol=1e-6)


def test_ode_steady_state_builds_nothing():
    o = gt.ode(lambda t, y: gt.sin(y) * t)
    for t in (0.0, 0.5, 1.0):
        o(t, np.ones(5)), o.jac(t, np.ones(5)), o.jac(t, np.zeros(5))
    before = gt.counters()
    for t in (1.5, 2.0, 2.5):
        o(t, np.ones(5)), o.jac(t, np.ones(5)), o.jac(t, np.zeros(5))
    assert built(before, gt.counters()) == (0, 0, 0)


def test_threads_share_a_bridge():
    p = gt.objective(rosenbrock)
    points = np.random.default_rng(0).normal(size=(40, 5))

    def both(x):
        return p.fun(x), p.jac(x)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(both, points))
    for (value, slope), x in zip(found, points, strict=True):
        assert value == pytest.approx(rosen(x))
        np.testing.assert_allclose(slope, rosen_der(x), rtol=1e-10, atol=1e-10)
