"""Rules written by hand: how they are given, and what they return."""

import functools

import numpy as np
import pytest

import gradtape as gt


def with_rule(f, rule, **options):
    made = gt.custom_jvp(f, **options)
    made.defjvp(rule)
    return made


class TestHowRulesAreGiven:
    def test_one_for_each_argument(self):
        f = gt.custom_jvp(lambda x, y: gt.sin(x) * y)
        f.defjvps(lambda t, _, x, y: gt.cos(x) * t * y, lambda t, _, x, y: gt.sin(x) * t)
        found = gt.grad(f, (0, 1))(2.0, 5.0)
        np.testing.assert_allclose([float(g) for g in found], [5 * np.cos(2.0), np.sin(2.0)])
        second = gt.grad(gt.grad(f))(2.0, 5.0)
        np.testing.assert_allclose(float(second), -5 * np.sin(2.0))

    def test_none_of_them_is_zero(self):
        f = gt.custom_jvp(lambda x, y: x * y)
        f.defjvps(None, None)
        assert [float(g) for g in gt.grad(f, (0, 1))(2.0, 5.0)] == [0.0, 0.0]

    def test_too_few_of_them(self):
        f = gt.custom_jvp(lambda x, y: x * y)
        f.defjvps(lambda t, _, x, y: t * y)
        with pytest.raises(ValueError, match="expected 2 derivatives"):
            gt.grad(f)(2.0, 5.0)

    def test_arguments_that_are_no_numbers_come_first(self):
        @functools.partial(gt.custom_jvp, nondiff_argnums=(0, 2))
        def applied(f, x, power):
            return f(x) ** power

        @applied.defjvp
        def rule(f, power, primals, tangents):
            (x,), (t,) = primals, tangents
            return applied(f, x, power), t * power

        assert float(gt.grad(lambda x: applied(gt.sin, x, 3))(1.0)) == 3.0
        assert float(gt.jvp(lambda x: applied(gt.sin, x, 3), (1.0,), (2.0,))[1]) == 6.0
        twice = gt.function(lambda x: gt.grad(lambda x: applied(gt.exp, x, 2))(x))
        assert [float(twice(gt.asarray(x))) for x in (1.0, 2.0)] == [2.0, 2.0]

    def test_a_rule_that_is_a_method(self):
        class Scaled:
            def __init__(self, factor):
                self.factor = factor

            @gt.custom_jvp
            def apply(self, x):
                return x * self.factor

            @apply.defjvp
            def apply_rule(self, primals, tangents):
                return self.apply(*primals), tangents[0] * (10.0 * self.factor)

        assert float(gt.grad(Scaled(3.0).apply)(1.0)) == 30.0
        assert gt.vmap(gt.grad(Scaled(2.0).apply))(gt.ones(2)).tolist() == [20.0, 20.0]

    @pytest.mark.parametrize("decorator", [gt.custom_gradient, gt.custom_jvp])
    def test_only_functions_are_decorated(self, decorator):
        with pytest.raises(TypeError, match="3 is not callable"):
            decorator(3)


class TestWhatTheyReturn:
    def test_a_tangent_of_another_shape(self):
        f = with_rule(lambda x: 2.0 * x, lambda primals, tangents: (f(*primals), gt.ones(3)))
        for derive in (gt.grad(f), lambda x: gt.jvp(f, (x,), (1.0,))):
            with pytest.raises(ValueError, match=r"tangent 0 has shape \(3,\), its value \(\)"):
                derive(1.0)

    @pytest.mark.parametrize("dtype", [np.float32, np.complex64])
    def test_gradients_have_the_dtype_of_their_arguments(self, dtype):
        wide = gt.complex128 if dtype is np.complex64 else gt.float64
        reverse = gt.custom_gradient(lambda x: (2.0 * x, lambda dy: 2.0 * gt.cast(dy, wide)))
        forward = with_rule(
            lambda x: 2.0 * x, lambda p, t: (forward(*p), 2.0 * gt.cast(t[0], wide))
        )
        x = gt.asarray(np.ones(2, dtype))
        for f in (reverse, forward):
            found = gt.grad(lambda x, f=f: gt.real(gt.sum(f(x))))(x)
            assert found.dtype == dtype
            assert found.tolist() == [2.0, 2.0]
            assert gt.jvp(f, (x,), (x,))[1].dtype == dtype

    def test_a_real_argument_has_a_real_gradient(self):
        f = gt.custom_gradient(lambda x: (x * 1j, lambda dy: dy * -1j))
        found = gt.grad(lambda x: gt.imag(f(x)))(2.0)
        assert found.dtype == np.float64
        assert float(found) == 1.0


@gt.custom_gradient
def by_cotangent(x):
    return x * x, lambda dy: dy * 3.0 * x


by_tangent = with_rule(lambda x: x * x, lambda p, t: (p[0] * p[0], 3.0 * p[0] * t[0]))


class TestEager:
    @pytest.mark.parametrize("f", [by_cotangent, by_tangent, gt.grad_pass_through(gt.square)])
    @pytest.mark.parametrize(
        "x", [0.5, 2, np.float32(0.5), np.array([0.5, 2.0]), gt.asarray(0.5), gt.Variable(0.5)]
    )
    def test_values_and_derivatives_are_those_of_the_lazy_mode(self, f, x):
        def found():
            point = np.asarray(x, float)
            once = gt.grad(lambda x: gt.sum(f(x)))(point)
            return f(x), once, gt.jacobian(f)(point), gt.jvp(f, (point,), (point,))[1]

        expected = found()
        with gt.eager():
            eager = found()
        for one, other in zip(eager, expected, strict=True):
            assert np.asarray(one).dtype == np.asarray(other).dtype
            np.testing.assert_array_equal(one, other)
