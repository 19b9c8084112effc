"""CONTRACT: Python inside programs."""

import numpy as np
import pytest

import gradtape as gt

X = np.array([3.0, 1.0, 2.0])
XX = np.arange(6.0).reshape(2, 3)[:, ::-1].copy()


class TestPureCallback:
    def test_nests_in_and_out(self):
        def f(p, *, k):
            return {"s": p["a"] + k, "t": (p["b"].sum(),)}

        specs = {"s": ((3,), "float64"), "t": (((), gt.float64),)}
        got = gt.pure_callback(f, specs, {"a": X, "b": XX}, k=X)
        np.testing.assert_array_equal(got["s"].numpy(), 2 * X)
        assert float(got["t"][0]) == XX.sum()

    def test_the_function_gets_arrays_of_its_own(self):
        def clobber(a):
            assert type(a) is np.ndarray
            a[:] = 0.0
            return a

        x = gt.asarray(X)
        gt.pure_callback(clobber, x, x).numpy()
        np.testing.assert_array_equal(x.numpy(), X)

    @pytest.mark.parametrize(
        ("method", "shapes"),
        [
            ("sequential", [((3,), (3,))] * 2),
            ("expand_dims", [((2, 3), (1, 3))]),
            ("broadcast_all", [((2, 3), (2, 3))]),
        ],
    )
    def test_vmap_methods(self, method, shapes):
        seen = []

        def f(a, b):
            seen.append((a.shape, b.shape))
            return a + b

        def one(a):
            return gt.pure_callback(f, a, a, X, vmap_method=method)

        np.testing.assert_array_equal(gt.vmap(one)(XX).numpy(), XX + X)
        assert seen == shapes
        nested = gt.vmap(lambda s: gt.vmap(lambda a: one(a * s))(XX))(np.array([1.0, 2.0]))
        np.testing.assert_array_equal(nested.numpy(), np.stack([XX + X, 2 * XX + X]))

    def test_shared_and_left_out(self):
        calls = []

        def f(a):
            calls.append(1)
            return a

        g = gt.function(lambda x: gt.pure_callback(f, x, x) + gt.pure_callback(f, x, x))
        g(gt.asarray(X)), g(gt.asarray(X))
        assert len(calls) == 2

    def test_no_derivative_without_a_rule(self):
        for ask in (
            lambda: gt.grad(lambda x: gt.sum(gt.pure_callback(np.sin, x, x)))(X),
            lambda: gt.jvp(lambda x: gt.pure_callback(np.sin, x, x), (X,), (X,)),
            lambda: gt.function(gt.grad(lambda x: gt.sum(gt.pure_callback(np.sin, x, x))))(X),
        ):
            with pytest.raises(LookupError, match="custom_jvp or custom_gradient"):
                ask()

    @pytest.mark.parametrize("mode", ["gradient", "jvp"])
    def test_with_a_rule_everything_works(self, mode):
        if mode == "gradient":

            @gt.custom_gradient
            def sine(x):
                return gt.pure_callback(np.sin, x, x), lambda dy: dy * cosine(x)

            @gt.custom_gradient
            def cosine(x):
                return gt.pure_callback(np.cos, x, x), lambda dy: -dy * sine(x)
        else:
            sine = gt.custom_jvp(lambda x: gt.pure_callback(np.sin, x, x))
            cosine = gt.custom_jvp(lambda x: gt.pure_callback(np.cos, x, x))
            sine.defjvp(lambda p, t: (sine(*p), t[0] * cosine(*p)))
            cosine.defjvp(lambda p, t: (cosine(*p), -t[0] * sine(*p)))
        x = gt.asarray(X)
        assert float(gt.grad(sine)(1.0)) == pytest.approx(np.cos(1.0))
        assert float(gt.grad(gt.grad(gt.grad(sine)))(1.0)) == pytest.approx(-np.cos(1.0))
        assert float(gt.jvp(sine, (1.0,), (2.0,))[1]) == pytest.approx(2 * np.cos(1.0))
        np.testing.assert_allclose(gt.vmap(gt.grad(sine))(x).numpy(), np.cos(X))
        np.testing.assert_allclose(gt.jacobian(sine)(x).numpy(), np.diag(np.cos(X)), atol=1e-15)
        step = gt.function(gt.grad(sine))
        for value in (0.5, 1.5, 2.5):
            assert float(step(gt.asarray(value))) == pytest.approx(np.cos(value))

        def total(x):
            return gt.scan(lambda c, a: (c + sine(a), c), gt.asarray(0.0), x)[0]

        np.testing.assert_allclose(gt.grad(total)(x).numpy(), np.cos(X))

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: gt.pure_callback(lambda a: a[:2], X, X), ValueError, r"\(2,\)"),
            (lambda: gt.pure_callback(np.sin, gt.float64, X), TypeError, "shape and dtype"),
            (lambda: gt.pure_callback(np.sin, X, X, vmap_method="fast"), ValueError, "sequential"),
            (lambda: gt.pure_callback(None, X, X), TypeError, "callback: None is not callable"),
            (lambda: gt.pure_callback(np.sin, [X, X], X), ValueError, "expected 2 parts"),
        ],
    )
    def test_errors(self, call, error, message):
        with pytest.raises(error, match=message):
            call()

    def test_no_arguments(self):
        assert float(gt.pure_callback(lambda: np.float64(3.0), ((), gt.float64))) == 3.0


CALLBACKS = {
    "pure_callback": lambda a: gt.pure_callback(np.sin, a, a),
    "numpy_function": lambda a: gt.numpy_function(np.sin, [a], (a.shape, a.dtype)),
    "py_function": lambda a: gt.py_function(gt.sin, [a], (a.shape, a.dtype)),
}


@pytest.mark.parametrize("sine", CALLBACKS.values(), ids=CALLBACKS)
class TestEverywhere:
    def test_inside_function(self, sine):
        f = gt.function(lambda x: sine(x * 2.0) + 1.0)
        for scale in (1.0, 2.0, 3.0):
            got = f(gt.asarray(scale * X)).numpy()
            np.testing.assert_allclose(got, np.sin(2 * scale * X) + 1)

    def test_inside_loops_and_branches(self, sine):
        def looped(x):
            carry, _ = gt.scan(lambda c, a: (c + sine(a), c), gt.asarray(0.0), x)
            return gt.cond(carry > 0.0, lambda c: sine(c), lambda c: c, carry)

        expected = np.sin(np.sin(X).sum())
        assert float(looped(gt.asarray(X))) == pytest.approx(expected)
        step = gt.function(looped)
        for _ in range(3):
            assert float(step(gt.asarray(X))) == pytest.approx(expected)
        np.testing.assert_allclose(gt.vmap(looped)(np.stack([X, X])).numpy(), [expected] * 2)

    def test_inside_vmap_inside_function(self, sine):
        f = gt.function(gt.vmap(lambda a: sine(a) * 2.0))
        for _ in range(2):
            np.testing.assert_allclose(f(gt.asarray(XX)).numpy(), 2 * np.sin(XX))


def test_effects_happen_in_every_call_of_a_function():
    seen = []

    @gt.function
    def f(x):
        gt.numpy_function(lambda v: (seen.append(float(v)), v)[1], [x], ((), gt.float64))
        return x * 2.0

    for value in (1.0, 2.0, 3.0):
        f(gt.asarray(value))
    assert seen == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("call", [gt.numpy_function, gt.py_function])
class TestOneCall:
    def test_finding_the_shape_takes_no_call_of_its_own(self, call):
        seen = []

        def twice(v):
            seen.append(float(v))
            return v * 2.0

        assert float(call(twice, [gt.asarray(1.0)], gt.float64)) == 2.0
        assert seen == [1.0]
        f = gt.function(lambda x: call(twice, [x + 1.0], gt.float64) * 3.0)
        with pytest.warns(UserWarning, match="runs in Python"):
            assert [float(f(gt.asarray(x))) for x in (1.0, 2.0)] == [12.0, 18.0]
        assert seen == [1.0, 2.0, 3.0]

    def test_arguments(self, call):
        with pytest.raises(TypeError, match=r"args is Tensor, not a list .* Pass \[x\]"):
            call(np.sin, gt.ones(2), gt.float64)
        with pytest.raises(TypeError, match="f: 3 is not callable"):
            call(3, [gt.ones(2)], gt.float64)
        with pytest.raises(ValueError, match="returned 2 values, 1 were declared"):
            call(lambda x: (x, x), [gt.ones(2)], gt.float64)


def test_gradients_of_py_function_are_one_for_each_argument():
    def squared(slopes):
        def f(x, y):
            found = gt.py_function(lambda x, y: x * y, [x, y], ((), gt.float64), gradient=slopes)
            return found * 2.0

        return f

    f = squared(lambda x, y, dy: (dy * 5.0, None))
    assert [float(g) for g in gt.grad(f, (0, 1))(1.0, 2.0)] == [10.0, 0.0]
    with pytest.raises(ValueError, match="gradient returned 1 cotangents for 2 arguments"):
        float(gt.grad(squared(lambda x, y, dy: dy))(1.0, 2.0))
    with pytest.raises(ValueError, match="the gradient of py_function: result 0"):
        float(gt.grad(squared(lambda x, y, dy: (gt.ones(3), dy)))(1.0, 2.0))
    with pytest.raises(TypeError, match="gradient: 3 is not callable"):
        squared(3)(1.0, 2.0)
