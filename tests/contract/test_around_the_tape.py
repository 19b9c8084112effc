"""CONTRACT: what stands around the tape."""

import threading

import numpy as np
import pytest

import gradtape as gt


class TestGradientsFunction:
    def test_needs_a_recording(self):
        x = gt.asarray(2.0)
        with pytest.raises(RuntimeError, match="GradientTape"):
            gt.gradients(x * x, x)

    def test_stop_gradients_and_weights(self):
        x = gt.asarray(2.0)
        with gt.GradientTape():
            y = x * x
            z = y * x
            assert float(gt.gradients(z, x)[0]) == 12.0
            assert float(gt.gradients(z, x, stop_gradients=[y])[0]) == 4.0
            assert float(gt.gradients(z, x, grad_ys=gt.asarray(10.0))[0]) == 120.0
            other = gt.asarray(1.0)
            assert gt.gradients(z, other, unconnected_gradients="none")[0] is None
            assert float(gt.gradients(z, other, unconnected_gradients="zero")[0]) == 0.0


class TestForwardAccumulator:
    def test_jvp(self):
        x, y = gt.asarray(2.0), gt.asarray(3.0)
        with gt.ForwardAccumulator([x, y], [gt.asarray(1.0), gt.asarray(10.0)]) as acc:
            z = x * y
        assert float(acc.jvp(z)) == 23.0

    def test_variables_and_unconnected(self):
        v = gt.Variable(2.0)
        with gt.ForwardAccumulator(v, gt.asarray(1.0)) as acc:
            y = v * v
            k = gt.asarray(1.0) * 2.0
        assert float(acc.jvp(y)) == 4.0
        assert acc.jvp(k) is None
        assert float(acc.jvp(k, unconnected_gradients="zero")) == 0.0

    def test_wrong_counts(self):
        with pytest.raises(ValueError, match=r"expected 2.*got 1"):
            gt.ForwardAccumulator([gt.asarray(1.0), gt.asarray(1.0)], [gt.asarray(1.0)])


class TestStopCheckpointAndPassThrough:
    def test_stop_gradient(self):
        x = gt.asarray(3.0)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = gt.stop_gradient(x * x) * x
            k = gt.stop_gradient(x)
        assert float(tape.gradient(y, x)) == 9.0
        assert tape.gradient(k, x, unconnected_gradients="none") is None

    def test_grad_pass_through(self):
        assert float(gt.grad(gt.grad_pass_through(gt.floor))(1.7)) == 1.0

    def test_checkpoint_same_values_any_order(self):
        def f(x):
            return gt.sum(gt.tanh(gt.sin(x) * 2.0) * x)

        x = gt.asarray([0.3, -0.7])
        g = gt.checkpoint(f)
        np.testing.assert_allclose(gt.grad(g)(x).numpy(), gt.grad(f)(x).numpy())
        second = gt.grad(lambda x: gt.sum(gt.grad(g)(x)))(x)
        np.testing.assert_allclose(
            second.numpy(), gt.grad(lambda x: gt.sum(gt.grad(f)(x)))(x).numpy()
        )
        _, forward = gt.jvp(g, (x,), (gt.asarray([1.0, 2.0]),))
        np.testing.assert_allclose(
            float(forward), float(gt.jvp(f, (x,), (gt.asarray([1.0, 2.0]),))[1])
        )

    def test_checkpoint_recomputes_and_keeps_nothing_inside(self):
        v = gt.Variable(np.full((4, 4), 0.1))

        def block(x):
            return gt.tanh(x @ v) @ v

        def kept(f):
            x = gt.asarray(np.ones((4, 4)))
            with gt.GradientTape(persistent=True) as tape:
                tape.watch(x)
                loss = gt.sum(f(f(x)))
            float(loss)
            count = len(tape._recording.values)
            g = tape.gradient(loss, [x, v])
            return count, [t.numpy() for t in g]

        plain, wanted = kept(block)
        fewer, got = kept(gt.checkpoint(block))
        assert fewer < plain
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b)


class TestCallbacks:
    def test_numpy_function(self):
        calls = []

        def f(a, b):
            calls.append((type(a), a.flags.writeable))
            return np.cumsum(a) + b

        y = gt.numpy_function(f, [gt.asarray([1.0, 2.0]), 1.0], ((2,), gt.float64))
        assert y.tolist() == [2.0, 4.0]
        assert calls == [(np.ndarray, True)]

    def test_numpy_function_with_a_bare_dtype_and_several_results(self):
        y, z = gt.numpy_function(
            lambda a: (a + 1, a.sum()), [gt.asarray([1.0, 2.0])], [gt.float64, gt.float64]
        )
        assert y.tolist() == [2.0, 3.0]
        assert float(z) == 3.0

    def test_a_result_that_was_not_declared(self):
        with pytest.raises(ValueError, match="declared"):
            gt.numpy_function(lambda a: a[:1], [gt.asarray([1.0, 2.0])], ((2,), gt.float64))

    def test_an_exception_in_a_callback_is_the_users(self):
        def f(a):
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            gt.numpy_function(f, [gt.asarray(1.0)], ((), gt.float64))
        assert float(gt.asarray(1.0) + 1.0) == 2.0

    def test_py_function_is_differentiable_to_any_order(self):
        def f(x):
            y = gt.py_function(lambda x: x**3 if x > 0.0 else -x, [x], ((), gt.float64))
            return y * 2.0

        assert float(gt.grad(f)(2.0)) == 24.0
        assert float(gt.grad(f)(-2.0)) == -2.0
        assert float(gt.grad(gt.grad(f))(2.0)) == 24.0
        assert float(gt.jvp(f, (2.0,), (1.0,))[1]) == 24.0

    def test_py_function_with_a_gradient(self):
        def f(x):
            return gt.py_function(
                lambda x: x * x, [x], ((), gt.float64), gradient=lambda x, dy: 100.0 * dy
            )

        assert float(gt.grad(f)(2.0)) == 100.0


def test_evaluate():
    x = gt.asarray([1.0, 2.0])
    y, z = gt.evaluate({"y": x * 2.0}, [x + 1.0])
    assert y["y"].computed is not None
    assert z[0].computed is not None
    assert gt.evaluate(y) is y


def test_threads_have_their_own_tapes():
    x = gt.asarray(3.0)
    found = []

    def other():
        y = x * x
        found.append(float(y))

    with gt.GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        y = x * x * x
    assert found == [9.0]
    assert float(tape.gradient(y, x)) == 27.0


def test_modes_belong_to_their_thread():
    found = []

    def other():
        found.append(gt.is_deterministic())
        y = gt.asarray(2.0) * 3.0
        found.append(y.computed is None)

    with gt.deterministic(), gt.eager():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [False, True]
