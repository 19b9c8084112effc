"""CONTRACT: derivatives written by hand."""

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
