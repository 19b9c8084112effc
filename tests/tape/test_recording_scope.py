"""Windows: a tape differentiates the applications that it recorded, whatever equal ones exist."""

import threading

import numpy as np
import pytest

import gradtape as gt

X = np.array([0.5, 0.7])


def square(x):
    return x * x


def by_function(x):
    gt.function(lambda x: square(x))(x)


def by_callback(x):
    gt.pure_callback(lambda a: square(gt.asarray(a)).numpy(), x, x.numpy()).numpy()


def by_thread(x):
    thread = threading.Thread(target=lambda: square(x).numpy())
    thread.start()
    thread.join()


def by_gradient(x):
    gt.grad(lambda x: gt.sum(square(x)))(x)


def by_solver(x):
    gt.root(lambda y: square(y) - square(x), X)


def by_saved_values(x):
    gt.saved_for_backward(square, x)


BETWEEN = [by_function, by_callback, by_thread, by_gradient, by_solver, by_saved_values]


@pytest.mark.parametrize("between", BETWEEN)
def test_an_equal_computation_elsewhere_does_not_hide_one_of_the_tape(between):
    x = gt.asarray(X)
    before = square(x)
    between(x)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = square(x)
        between(x)
        z = square(x)
    after = square(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * X)
    np.testing.assert_allclose(tape.gradient(z, x).numpy(), 2 * X)
    assert tape.gradient(z, y, unconnected_gradients="none") is None
    assert tape.gradient(before, x, unconnected_gradients="none") is None
    assert tape.gradient(after, x, unconnected_gradients="none") is None


def custom(x):
    @gt.custom_gradient
    def f(a):
        return a * a, lambda dy: dy * 2.0 * a

    return f(x)


WAYS = {
    "plain": square,
    "vmap": lambda x: gt.vmap(square)(x),
    "map": lambda x: gt.map(square, x),
    "scan": lambda x: gt.scan(lambda c, a: (c, a * a), x[0], x)[1],
    "cond": lambda x: gt.cond(gt.asarray(True), square, lambda a: a, x),
    "custom": custom,
    "checkpoint": lambda x: gt.checkpoint(square)(x),
    "function": lambda x: gt.function(lambda a: a * a)(x),
    "grad": lambda x: gt.grad(lambda a: gt.sum(a**3) / 3)(x),
    "rows": lambda x: gt.grad(lambda a: gt.sum(gt.take(a, gt.asarray([0, 1]), axis=0) * x * x))(x),
    "hessian": lambda x: gt.hessian(lambda a: gt.sum(a**4) / 12)(x) @ gt.ones(2),
    "hvp": lambda x: gt.hvp(lambda a: gt.sum(a**4) / 12, x, gt.ones(2)),
    "jvp": lambda x: gt.jvp(lambda a: a**3 / 3, (x,), (gt.ones(2),))[1],
    "vmap of grad": lambda x: gt.vmap(gt.grad(lambda a: a**3 / 3))(x),
    "root": lambda x: gt.root(lambda y, a: y - a * a, x, x),
}


@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_what_the_tape_did_not_record_is_a_constant(way, look):
    x = gt.asarray(X)
    before = WAYS[way](x)
    if look:
        np.asarray(before)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        early = before * x
        with tape.stop_recording():
            stopped = WAYS[way](x)
        late = stopped * x
        whole = WAYS[way](x) * x
    np.testing.assert_allclose(tape.gradient(early, x).numpy(), X**2)
    np.testing.assert_allclose(tape.gradient(late, x).numpy(), X**2)
    np.testing.assert_allclose(tape.gradient(whole, x).numpy(), 3 * X**2)


def test_a_derivative_that_equals_a_tensor_is_not_that_tensor():
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = square(x)
        z = x + 1.0
    passed = tape.gradient(z, x, output_gradients=y)
    np.testing.assert_allclose(passed.numpy(), X**2)
    # The derivative was asked for outside the tape; what it equals was computed inside.
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * X)
    assert tape.gradient(passed, x, unconnected_gradients="none") is None


def test_rows_asked_for_before_a_tape_are_constants():
    table, w = gt.asarray(np.eye(3)), gt.asarray(2.0)
    with gt.GradientTape() as first:
        first.watch(table)
        y = gt.sum(gt.take(table, gt.asarray([1, 2]), axis=0)) * w
    rows = first.gradient(y, table)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(w)
        z = gt.sum(rows.values) * w
    assert float(tape.gradient(z, w)) == 12.0


def test_rows_that_were_looked_at_are_still_tracked():
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        rows = WAYS["rows"](x)
        rows.dense().numpy()
        with tape.stop_recording():
            np.asarray(rows)
        y = rows * x
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 3 * X**2)


@pytest.mark.parametrize("look", [False, True])
def test_a_derivative_asked_for_in_another_recording_has_constants_of_the_first(look):
    x = gt.asarray(0.5)
    with gt.GradientTape(persistent=True) as first:
        first.watch(x)
        inner = square(x)
        y = gt.exp(inner)
    if look:
        y.numpy()
    gt.sin(x).numpy()
    with gt.GradientTape(persistent=True) as second:
        second.watch([x, y])
        slope = first.gradient(y, x)  # y * (x + x), where only x is new to the second tape
    value = np.exp(0.25)
    assert float(slope) == pytest.approx(value)
    assert float(second.gradient(slope, x)) == pytest.approx(2 * value)
    assert float(second.gradient(slope, y)) == pytest.approx(1.0)


class TestEnteringAgain:
    """A finished persistent tape goes on inside another one."""

    def test_both_tapes_see_what_they_recorded(self):
        x = gt.asarray(2.0)
        with gt.GradientTape(persistent=True) as first:
            first.watch(x)
            y = x * x * x
        gt.sin(x).numpy()
        with gt.GradientTape(persistent=True) as second:
            second.watch(x)
            w = x * x
            with first:
                q = y * x
                s = w * x
            r = y * w
            slope = first.gradient(q, x)  # y + x * y'
        assert float(first.gradient(q, x)) == 32.0
        assert float(first.gradient(s, x)) == 4.0
        assert float(first.gradient(y, x)) == 12.0
        assert first.gradient(r, x, unconnected_gradients="none") is None
        assert float(second.gradient(q, x)) == 8.0
        assert float(second.gradient(s, x)) == 12.0
        assert float(second.gradient(r, x)) == 32.0
        # In x * (x * x + x * (x + x)) only x * x of the first recording is a constant.
        assert float(second.gradient(slope, x)) == 28.0

    @pytest.mark.parametrize("way", sorted(set(WAYS).difference(["custom", "checkpoint"])))
    def test_whatever_the_first_tape_recorded(self, way):
        x = gt.asarray(X)
        with gt.GradientTape(persistent=True) as first:
            first.watch(x)
            y = WAYS[way](x)
        np.asarray(y)
        with gt.GradientTape() as second:
            second.watch(x)
            with first:
                z = y * x
        np.testing.assert_allclose(first.gradient(z, x).numpy(), 3 * X**2)
        np.testing.assert_allclose(second.gradient(z, x).numpy(), X**2)

    def test_variables_stay_sources(self):
        v = gt.Variable(3.0)
        with gt.GradientTape(persistent=True) as first:
            y = v * v
        y.numpy()
        with gt.GradientTape(persistent=True) as second, first:
            z = y * v
        assert float(first.gradient(z, v)) == 27.0
        assert float(second.gradient(z, v)) == 9.0

    def test_accumulators_go_on_too(self):
        x = gt.asarray(2.0)
        with gt.ForwardAccumulator(x, 1.0) as first:
            y = x * x
        y.numpy()
        with gt.GradientTape() as tape:
            tape.watch(x)
            with first:
                z = y * x
        assert float(first.jvp(z)) == 12.0
        assert float(tape.gradient(z, x)) == 4.0

    def test_two_tapes_of_one_recording(self):
        x = gt.asarray(2.0)
        with gt.GradientTape(persistent=True) as first, gt.GradientTape(persistent=True) as second:
            first.watch(x)
            second.watch(x)
            y = x * x
        y.numpy()
        with gt.GradientTape() as third:
            third.watch(x)
            with first:
                a = y * x
            with second:
                b = y * a
            c = a * b
        assert [float(first.gradient(each, x)) for each in (y, a)] == [4.0, 12.0]
        assert first.gradient(b, x, unconnected_gradients="none") is None
        assert [float(second.gradient(each, x)) for each in (y, b)] == [4.0, 32.0]
        assert float(third.gradient(c, x)) == 4.0 * 32.0 + 8.0 * 16.0

    @pytest.mark.parametrize("way", ["custom", "checkpoint"])
    def test_derivatives_in_python_are_refused(self, way):
        x = gt.asarray(X)
        with gt.GradientTape(persistent=True) as first:
            first.watch(x)
            y = WAYS[way](x)
        np.asarray(y)
        with (
            gt.GradientTape(),
            pytest.raises(RuntimeError, match="cannot be entered again inside"),
            first,
        ):
            pass
        np.testing.assert_allclose(first.gradient(y, x).numpy(), 2 * X)

    def test_tensors_that_the_other_tape_has_used_are_refused(self):
        x = gt.asarray(2.0)
        with gt.GradientTape(persistent=True) as first:
            first.watch(x)
            y = x * x
        y.numpy()
        with gt.GradientTape() as second:
            second.watch(y)
            with pytest.raises(RuntimeError, match="cannot be entered again inside"):
                first.__enter__()
            z = y * 3.0
        assert float(second.gradient(z, y)) == 3.0
        assert float(first.gradient(y, x)) == 4.0
