"""gt.function inside and around everything else: tapes, transforms, loops and other functions."""

import numpy as np
import pytest
from tests.growth import least_growth
from tests.jit.agreement import agrees, counted, stateless, tensors

import gradtape as gt

A = gt.asarray


def f(x):
    return gt.sin(x) * x if gt.sum(x) > 0.0 else -x


class TestInsideOthers:
    def test_a_tape(self):
        compiled = gt.function(f)
        x = gt.Variable(1.5)
        for _ in range(3):
            with gt.GradientTape() as tape:
                y = compiled(x)
            assert float(tape.gradient(y, x)) == pytest.approx(np.cos(1.5) * 1.5 + np.sin(1.5))
        compiled(x)

    def test_second_order_by_nested_tapes(self):
        compiled = gt.function(lambda x: x**4)
        x = gt.Variable(2.0)
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                y = compiled(x)
            slope = inner.gradient(y, x)
        assert float(outer.gradient(slope, x)) == 48.0

    @pytest.mark.parametrize(
        "transform",
        [
            lambda g: gt.grad(lambda x: gt.sum(g(x))),
            lambda g: gt.jacobian(g),
            lambda g: gt.jacfwd(g),
            lambda g: gt.hessian(lambda x: gt.sum(g(x))),
            lambda g: lambda x: gt.jvp(g, (x,), (gt.ones(3),)),
            lambda g: lambda x: gt.vmap(g)(gt.stack([x, x])),
            lambda g: lambda x: gt.scan(lambda c, _: (g(c), None), x, length=2)[0],
            lambda g: lambda x: gt.checkpoint(g)(x),
            lambda g: lambda x: gt.jacobian(g, sparse=True)(x).toarray(),
        ],
        ids=[
            "grad",
            "jacobian",
            "jacfwd",
            "hessian",
            "jvp",
            "vmap",
            "scan",
            "checkpoint",
            "sparse",
        ],
    )
    def test_transforms(self, transform):
        def smooth(x):
            return gt.sin(x) * x

        x = A([0.5, 1.0, 2.0])
        expected = gt.pytree.flatten(transform(smooth)(x))[0]
        for _ in range(2):
            found = gt.pytree.flatten(transform(gt.function(smooth))(x))[0]
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)

    def test_forward_accumulators(self):
        compiled = gt.function(lambda x: x**3)
        x = A(2.0)
        with gt.ForwardAccumulator(x, A(1.0)) as accumulator:
            y = compiled(x)
        assert float(accumulator.jvp(y)) == 12.0

    def test_modes(self):
        compiled = gt.function(lambda x: gt.log(x) * 2.0)
        with gt.eager():
            assert float(compiled(A(1.0))) == 0.0
        with gt.debug_nans(), pytest.raises(gt.errors.NonFiniteError, match="log"):
            compiled(A(-1.0))


class TestOthersInside:
    @pytest.mark.parametrize(
        "f",
        [
            lambda x: gt.grad(lambda a: gt.sum(gt.sin(a) * a))(x),
            lambda x: gt.value_and_grad(lambda a: gt.sum(gt.sin(a) * a))(x),
            lambda x: gt.jacobian(lambda a: gt.sin(a) * gt.sum(a))(x),
            lambda x: gt.hessian(lambda a: gt.sum(gt.sin(a) * gt.sum(a)))(x),
            lambda x: gt.jvp(lambda a: gt.sin(a) * 2.0, (x,), (x,)),
            lambda x: gt.vjp(lambda a: gt.sin(a) * 2.0, x)[1](x),
            lambda x: gt.vmap(gt.grad(lambda a: gt.sin(a) * a))(x),
            lambda x: gt.vmap(lambda a: a * 2.0 + x)(x),
            lambda x: gt.checkpoint(lambda a: gt.sin(a) * a)(x),
            lambda x: gt.hvp(lambda a: gt.sum(a**3), x, x),
            lambda x: gt.numpy_function(lambda a: a * 2.0, [x], ((3,), gt.float64)) + 1.0,
            lambda x: gt.py_function(lambda a: a * 2.0, [x], ((3,), gt.float64)) + 1.0,
            lambda x: gt.linalg.solve(gt.eye(3) + gt.outer(x, x), x),
            lambda x: gt.sort(x)[::-1] + gt.cumulative_sum(x),
            lambda x: gt.associative_scan(gt.add, x),
        ],
    )
    def test_transforms(self, f):
        calls = [(A(values),) for values in ([1.0, 2.0, 0.5], [3.0, 4.0, 0.1], [0.2, 0.3, 7.0])]
        # A first run that finds no derivative in the table may record others.
        assert agrees(stateless(f), calls).runs in (2, 3)

    @pytest.mark.parametrize("persistent", [False, True])
    def test_tapes(self, persistent):
        v = gt.Variable([1.0, 2.0])

        def f(x):
            with gt.GradientTape(persistent=persistent) as tape:
                tape.watch(x)
                y = gt.sum(v * x * x)
            if persistent:
                return tape.gradient(y, x), tape.gradient(y, v)
            return tape.gradient(y, {"x": x, "v": v})

        calls = [(A(values),) for values in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])]
        assert agrees(stateless(f), calls).runs == 2

    def test_tape_jacobians(self):
        def f(x):
            with gt.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = x**3
            return tape.jacobian(y, x), tape.batch_jacobian(y, x)

        calls = [(A(values),) for values in ([1.0, 2.0], [3.0, 4.0])]
        assert agrees(stateless(f), calls).runs == 2

    def test_gradients_of_branches_taken(self):
        def f(x):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = x * x if x > 1.0 else x * 5.0
            return tape.gradient(y, x)

        assert agrees(stateless(f), tensors(2.0, 0.5, 3.0, 0.1)).runs == 4

    def test_row_sparse_gradients_pass_in_and_out(self):
        table = gt.Variable(np.arange(12.0).reshape(4, 3))

        def f(rows):
            with gt.GradientTape() as tape:
                y = gt.sum(gt.gather(table, rows) ** 2)
            return tape.gradient(y, table)

        compiled = gt.function(f)
        for rows in ([0, 2], [1, 1], [3, 0]):
            expected = f(A(rows)).numpy()
            np.testing.assert_array_equal(compiled(A(rows)).numpy(), expected)

    def test_functions_call_functions(self):
        inner, runs = counted(lambda x: x * x if x > 0.0 else x)
        inner = gt.function(inner)
        found = agrees(stateless(lambda x: inner(x) + inner(-2.0 * x)), tensors(1.0, -2.0, 3.0))
        assert found.runs == 4
        # The undecorated run asks the inner function, too, which captures for itself.
        # The undecorated function calls it nine times, of which two for each of its paths run.
        assert len(runs) == 2 * 4 + 4

    def test_functions_made_inside_functions(self):
        def f(x):
            @gt.function
            def inner(a, n):
                return a * n

            return inner(x, 2.0) + inner(x, 3.0)

        assert agrees(stateless(f), tensors(1.0, 2.0)).runs == 2

    def test_recursion_through_the_decorator(self):
        @gt.function
        def factorial(x):
            return x * factorial(x - 1.0) if x > 1.0 else x

        assert [float(factorial(A(n))) for n in (5.0, 4.0, 5.0)] == [120.0, 24.0, 120.0]


class TestValuesOfOneCall:
    """What was computed with the values of one call must not serve another."""

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: gt.grad(
                lambda a: gt.while_loop(lambda v: v < 50.0, lambda v: v * (1.1 + a * a), a)
            )(x),
            lambda x: gt.jacobian(lambda y: gt.sort(gt.stack([y, 1.0 / y])) ** 2)(x),
            lambda x: gt.stack([x, 2.0])[gt.cast(x > 1.0, gt.int64)],
        ],
    )
    def test_compiled(self, f):
        assert agrees(stateless(f), tensors(0.5, 2.0, 0.9, 3.0)).runs == 2

    @pytest.mark.parametrize("operation", ["take", "scatter"])
    def test_jacobians_whose_pattern_is_an_argument(self, operation):
        def f(x, i):
            if operation == "take":
                return gt.jacobian(lambda y: gt.take(y, i, axis=0) ** 2)(x)
            return gt.jacobian(lambda y: gt.scatter_add(gt.zeros(4), i, y[:2]) ** 2)(x)

        x = A([1.0, 2.0, 3.0, 4.0])
        calls = [(x, A(i)) for i in ([0, 1], [2, 3], [3, 3])]
        assert agrees(stateless(f), calls).runs == 2

    @pytest.mark.parametrize(
        "f",
        [
            lambda a: gt.fixed_point(lambda x, a: gt.cos(x) * a, 1.0, a),
            lambda a: gt.root(lambda x, a: x * x - a, 1.0, a),
            lambda a: gt.grad(lambda b: gt.root(lambda x, c: x * x - c, 1.0, b))(a),
            lambda a: gt.minimize(lambda x: gt.sum((x - a) ** 2), gt.zeros(2)),
        ],
        ids=["fixed point", "root", "slope of a root", "minimum"],
    )
    def test_solvers_run_in_python(self, f):
        compiled = gt.function(f)
        with pytest.warns(UserWarning, match="runs in Python.*test_nested.py"):
            found = [compiled(A(value)) for value in (0.9, 0.5)]
        for one, value in zip(found, (0.9, 0.5), strict=True):
            np.testing.assert_allclose(one.numpy(), f(A(value)).numpy(), rtol=1e-9)

    def test_solvers_that_read_variables(self):
        v = gt.Variable(4.0)
        f = gt.function(lambda x: x * gt.root(lambda y: y * y - v, 1.0))
        with pytest.warns(UserWarning, match="a solver computes with values of this call"):
            assert float(f(A(1.0))) == pytest.approx(2.0)
        v.assign(9.0)
        assert float(f(A(1.0))) == pytest.approx(3.0)

    def test_copies(self):
        import copy

        def make():
            v = gt.Variable(1.0)

            def f(x):
                w = copy.deepcopy(v)
                w.assign_add(copy.deepcopy(x) * copy.copy(x))
                v.assign_add(1.0)
                return w * 1.0

            return f, [v]

        assert agrees(make, tensors(1.0, 2.0, 3.0)).runs == 2


def test_pending_arguments_and_results():
    compiled = gt.function(lambda x: x + 1.0)
    x = A(1.0)
    for n in range(5):
        y = compiled(x * 2.0) * 3.0
        assert float(y) == (2.0 * (n + 1.0) + 1.0) * 3.0
        x = x + 1.0


def test_calls_between_recorded_ops_and_variable_updates():
    v = gt.Variable(1.0)
    compiled = gt.function(lambda x: v.assign_add(x).value)
    for n in range(4):
        pending = v * 10.0
        compiled(A(1.0))
        v.assign_add(1.0)
        assert float(pending) == 10.0 * (1.0 + 2.0 * n)
    assert float(v) == 9.0


def test_deepcopy_and_pickle_of_results():
    import copy
    import pickle

    compiled = gt.function(lambda x: {"y": x * 2.0})
    found = compiled(A([1.0]))
    assert copy.deepcopy(found)["y"].tolist() == [2.0]
    assert pickle.loads(pickle.dumps(found))["y"].tolist() == [2.0]


def test_results_of_calls_hold_no_old_calls():
    compiled = gt.function(lambda x: x if gt.sum(x) < 0.0 else x * 2.0)
    x = A(np.ones(100))
    for _ in range(50):
        compiled(x)
    assert least_growth(lambda: compiled(x), 50, enough=10) <= 10
