"""CONTRACT: derivatives written by hand."""

import numpy as np
import pytest

import gradtape as gt


class TestCustomGradient:
    def test_value_and_rule(self):
        @gt.custom_gradient
        def f(x, y):
            return x * y, lambda dz: (dz * 100.0, dz * 200.0)

        a, b = gt.grad(f, argnums=(0, 1))(2.0, 3.0)
        assert (float(a), float(b)) == (100.0, 200.0)

    def test_wrong_count_says_expected_and_got(self):
        @gt.custom_gradient
        def f(x, y):
            return x * y, lambda dz: dz

        with pytest.raises(ValueError, match=r"expected 2.*got 1"):
            gt.grad(f)(2.0, 3.0)

    def test_wrong_shape(self):
        f = gt.custom_gradient(lambda x: (gt.sum(x), lambda dy: dy))
        with pytest.raises(ValueError, match=r"shape \(\)"):
            gt.grad(f)(gt.asarray([1.0, 2.0]))

    def test_must_return_a_pair(self):
        with pytest.raises(ValueError, match="grad_fn"):
            gt.custom_gradient(lambda x: x)(gt.asarray(1.0))

    def test_with_variables(self):
        v = gt.Variable(3.0)

        @gt.custom_gradient
        def f(x):
            def grad_fn(dy, variables=None):
                assert variables[0] is v
                return dy * 7.0, [dy * 11.0]

            return x * v, grad_fn

        x = gt.asarray(2.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        gx, gv = tape.gradient(y, [x, v])
        assert (float(gx), float(gv)) == (7.0, 11.0)

    def test_variables_without_the_keyword(self):
        v = gt.Variable(3.0)
        f = gt.custom_gradient(lambda x: (x * v, lambda dy: dy))
        with pytest.raises(TypeError, match="variables="):
            f(gt.asarray(1.0))

    def test_called_each_time_with_its_own_closure(self):
        calls = []

        def step(scale):
            @gt.custom_gradient
            def f(x):
                return x * scale, lambda dy: (calls.append(scale), dy * scale)[1]

            return float(gt.grad(f)(1.0))

        assert [step(2.0), step(3.0)] == [2.0, 3.0]
        assert calls == [2.0, 3.0]

    def test_several_outputs_methods_and_second_order(self):
        class Model:
            @gt.custom_gradient
            def pair(self, x):
                return (x * x, x * 3.0), lambda da, db: 2.0 * x * da + 3.0 * db

        def f(x):
            a, b = Model().pair(x)
            return a * b

        assert float(gt.grad(f)(2.0)) == 36.0
        assert float(gt.grad(gt.grad(f))(2.0)) == 36.0
        assert float(gt.jvp(f, (2.0,), (1.0,))[1]) == 36.0

    def test_custom_jvp_gives_both_modes(self):
        @gt.custom_jvp
        def f(x, y):
            return x * y

        @f.defjvp
        def rule(primals, tangents):
            (x, y), (tx, ty) = primals, tangents
            return f(x, y), 10.0 * tx + x * ty

        assert float(gt.jvp(f, (2.0, 3.0), (1.0, 1.0))[1]) == 12.0
        a, b = gt.grad(f, argnums=(0, 1))(2.0, 3.0)
        assert (float(a), float(b)) == (10.0, 2.0)
        assert float(gt.grad(gt.grad(f, argnums=1))(2.0, 3.0)) == 1.0

    def test_custom_jvp_without_a_rule(self):
        with pytest.raises(ValueError, match="defjvp"):
            gt.custom_jvp(lambda x: x)(gt.asarray(1.0))


X = np.array([0.3, 1.2, -0.4])


@gt.custom_gradient
def by_gradient(x):
    e = gt.exp(x)
    return gt.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))


@gt.custom_jvp
def by_jvp(x):
    return gt.log(1.0 + gt.exp(x))


@by_jvp.defjvp
def by_jvp_rule(primals, tangents):
    return by_jvp(*primals), tangents[0] / (1.0 + gt.exp(-primals[0]))


@pytest.mark.parametrize("f", [by_gradient, by_jvp], ids=["gradient", "jvp"])
class TestEverywhere:
    """Wherever a function with its own derivative is used, it is like one without."""

    def test_any_order(self, f):
        g, plain = f, gt.softplus
        for _ in range(4):
            g, plain = gt.grad(g), gt.grad(plain)
            assert float(g(0.7)) == pytest.approx(float(plain(0.7)), rel=1e-9)

    def test_mixed_modes(self, f):
        def total(x):
            return gt.sum(f(x) * x)

        def plain(x):
            return gt.sum(gt.softplus(x) * x)

        for operator in (gt.hessian, lambda h: lambda x: gt.hvp(h, x, X)):
            got, expected = operator(total)(gt.asarray(X)), operator(plain)(gt.asarray(X))
            np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-12)
        gt.testing.check_gradients(total, X, order=2)

    def test_inside_function(self, f):
        step = gt.function(gt.value_and_grad(lambda x: gt.sum(f(x) * x)))
        plain = gt.value_and_grad(lambda x: gt.sum(gt.softplus(x) * x))
        for scale in (1.0, 2.0, 3.0):
            for got, expected in zip(step(gt.asarray(X * scale)), plain(X * scale), strict=True):
                np.testing.assert_allclose(got.numpy(), expected.numpy())
        before = gt.counters().plans_built
        step(gt.asarray(X))
        assert gt.counters().plans_built == before

    def test_inside_and_around_vmap(self, f):
        expected = gt.vmap(gt.grad(gt.grad(lambda a: gt.softplus(a) * a)))(X).numpy()
        second = gt.grad(gt.grad(lambda a: f(a) * a))
        np.testing.assert_allclose(gt.vmap(second)(X).numpy(), expected)
        np.testing.assert_allclose(gt.function(gt.vmap(second))(gt.asarray(X)).numpy(), expected)
        nested = gt.vmap(gt.vmap(second))(np.stack([X, X])).numpy()
        np.testing.assert_allclose(nested, np.stack([expected] * 2))

    def test_nested_in_another(self, f):
        @gt.custom_gradient
        def twice(x):
            return 2.0 * f(x), lambda dy: dy * 2.0 * gt.grad(f)(x)

        assert float(gt.grad(gt.grad(twice))(0.7)) == pytest.approx(
            2.0 * float(gt.grad(gt.grad(gt.softplus))(0.7))
        )

    def test_inside_loops(self, f):
        def total(x, function):
            return gt.scan(lambda c, a: (c + function(a) * c, c), gt.asarray(1.0), x)[0]

        got = gt.grad(lambda x: total(x, f))(X).numpy()
        np.testing.assert_allclose(got, gt.grad(lambda x: total(x, gt.softplus))(X).numpy())


class TestMethodsAndVariables:
    class Model:
        def __init__(self):
            self.w = gt.Variable(3.0)
            self.scale = 2.0

        @gt.custom_gradient
        def apply(self, x):
            def grad_fn(dy, variables=None):
                assert variables == [self.w]
                return dy * self.w * self.scale, [dy * x * self.scale]

            return x * self.w * self.scale, grad_fn

        @gt.custom_jvp
        def push(self, x):
            return x * self.scale

        @push.defjvp
        def push_rule(primals, tangents):  # noqa: N805 - a rule, not a method
            self, x = primals
            return self.push(x), tangents[1] * 7.0

        @gt.function
        def step(self, x):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = self.apply(x) * x
            return tape.gradient(y, [x, self.w])

    def test_both_are_methods(self):
        model = self.Model()
        assert float(gt.grad(model.apply)(2.0)) == 6.0
        assert float(gt.grad(model.push)(2.0)) == 7.0
        assert float(gt.jvp(model.push, (2.0,), (3.0,))[1]) == 21.0
        np.testing.assert_allclose(gt.vmap(gt.grad(model.push))(X).numpy(), np.full(3, 7.0))

    def test_variables_of_a_captured_method(self):
        model = self.Model()
        for x in (2.0, 3.0, 4.0):
            by_x, by_w = model.step(gt.asarray(x))
            assert (float(by_x), float(by_w)) == (12.0 * x, 2.0 * x * x)
        model.w.assign(1.0)
        assert float(model.step(gt.asarray(2.0))[0]) == 8.0

    def test_variables_inside_and_around_vmap(self):
        model = self.Model()
        with gt.GradientTape() as tape:
            y = gt.sum(gt.vmap(model.apply)(X))
        assert float(tape.gradient(y, model.w)) == pytest.approx(2.0 * X.sum())

        def each(x):
            with gt.GradientTape() as inner:
                y = model.apply(x)
            return inner.gradient(y, model.w)

        np.testing.assert_allclose(gt.vmap(each)(X).numpy(), 2.0 * X)


class TestArguments:
    def test_gradients_as_nests(self):
        p = {"a": gt.asarray(1.0), "b": gt.asarray(2.0)}
        f = gt.custom_gradient(
            lambda p: (p["a"] * p["b"], lambda dy: {"b": dy * 7.0, "a": dy * 5.0})
        )
        slopes = gt.grad(f)(p)
        assert (float(slopes["a"]), float(slopes["b"])) == (5.0, 7.0)
        g = gt.custom_gradient(
            lambda p, q: (p["a"] * q, lambda dy: ({"a": None, "b": dy * 7.0}, dy * 9.0))
        )
        slopes, by_q = gt.grad(g, argnums=(0, 1))(p, 3.0)
        assert (float(slopes["a"]), float(slopes["b"]), float(by_q)) == (0.0, 7.0, 9.0)

    def test_arguments_that_are_no_tensors_may_have_none(self):
        for slopes in (lambda dy: (dy * 3.0, None), lambda dy: dy * 3.0):
            f = gt.custom_gradient(lambda x, n, slopes=slopes: (x * n, slopes))
            assert float(gt.grad(lambda x, f=f: f(x, 3))(2.0)) == 3.0

    def test_a_black_box_with_a_forward_derivative(self):
        @gt.custom_jvp
        def f(x):
            return gt.numpy_function(np.sin, [x], (x.shape, x.dtype))

        f.defjvp(lambda primals, tangents: (f(*primals), gt.cos(primals[0]) * tangents[0]))
        assert float(gt.jvp(f, (1.0,), (2.0,))[1]) == pytest.approx(2 * np.cos(1.0))
        assert float(gt.grad(gt.grad(f))(1.0)) == pytest.approx(-np.sin(1.0))
        np.testing.assert_allclose(gt.jacobian(f)(gt.asarray(X)).numpy(), np.diag(np.cos(X)))

    def test_decorators_on_decorated_functions(self):
        f = gt.custom_jvp(by_jvp)
        f.defjvp(lambda primals, tangents: (by_jvp(*primals), tangents[0] * 5.0))
        assert float(gt.grad(f)(1.0)) == 5.0
        assert float(gt.grad(by_jvp)(0.0)) == 0.5
