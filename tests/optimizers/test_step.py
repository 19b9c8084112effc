"""A step is one plan, derivatives pass through it, and its state can be saved."""

import copy

import numpy as np
import pytest

import gradtape as gt
from gradtape import optimizers
from gradtape.optimizers import schedules

WARM = 6

MAKERS = {
    "sgd": lambda: optimizers.SGD(0.01),
    "momentum": lambda: optimizers.SGD(0.01, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda: optimizers.Adam(0.01),
    "adam scheduled": lambda: optimizers.Adam(
        schedules.CosineDecay(0.0, 50, warmup_target=0.01, warmup_steps=3), global_clipnorm=1.0
    ),
    "adamw": lambda: optimizers.AdamW(0.01, clipnorm=1.0),
    "rmsprop": lambda: optimizers.RMSprop(0.01, momentum=0.5, centered=True, clipvalue=1.0),
    "adagrad": lambda: optimizers.Adagrad(0.01),
}


def differences(before):
    after = gt.counters()
    return {name: getattr(after, name) - getattr(before, name) for name in vars(after)}


class Perceptron:
    """A small network in single precision, and its training step."""

    def __init__(self, optimizer):
        rng = np.random.default_rng(0)
        self.optimizer = optimizer
        self.weights = [
            gt.Variable(rng.normal(size=shape).astype("float32"))
            for shape in ((20, 16), (16,), (16, 3))
        ]
        self.x = gt.asarray(rng.normal(size=(8, 20)).astype("float32"))

    def step(self):
        w, b, v = self.weights
        with gt.GradientTape() as tape:
            loss = gt.mean(gt.square(gt.tanh(self.x @ w + b) @ v))
        gradients = tape.gradient(loss, self.weights)
        self.optimizer.apply_gradients(zip(gradients, self.weights, strict=True))
        return loss


@pytest.mark.parametrize("kind", MAKERS)
def test_one_plan_per_step(kind):
    model = Perceptron(MAKERS[kind]())
    for _ in range(WARM):
        model.step()
    scheduled = kind == "adam scheduled"
    for number in range(6):
        before = gt.counters()
        if not scheduled:
            model.optimizer.learning_rate = 0.01 / (number + 1)
        model.step()
        counts = differences(before)
        assert counts["plans_run"] == 1
        assert counts["plans_built"] == 0
        assert counts["kernels_compiled"] == 0
        assert counts["bytes_allocated"] == 0
        assert counts["derivatives_built"] == 0


def test_printing_the_loss_needs_no_other_plan():
    model = Perceptron(optimizers.Adam())
    for number in range(12):
        loss = model.step()
        if number % 3 == 2:
            float(loss)
    before = gt.counters()
    for number in range(6):
        loss = model.step()
        if number % 3 == 2:
            float(loss)
    counts = differences(before)
    assert counts["plans_built"] == counts["kernels_compiled"] == 0
    assert counts["plans_run"] == 6


def test_the_step_count_is_a_variable_that_can_be_set():
    w = gt.Variable(1.0)
    optimizer = optimizers.Adam(0.1)
    optimizer.iterations.assign(9)
    optimizer.apply_gradients([(1.0, w)])
    assert int(optimizer.iterations) == 10
    alpha = 0.1 * np.sqrt(1 - 0.999**10) / (1 - 0.9**10)
    np.testing.assert_allclose(float(w), 1 - alpha * 0.1 / (np.sqrt(0.001) + 1e-7), rtol=1e-12)


class TestDerivatives:
    def test_by_weight_and_learning_rate(self):
        w, rate = gt.Variable(1.0), gt.Variable(0.1)
        optimizer = optimizers.SGD(rate)
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                loss = (w - 3.0) ** 2
            optimizer.apply_gradients([(inner.gradient(loss, w), w)])
            final = (w - 3.0) ** 2
        by_w, by_rate = outer.gradient(final, [w, rate])
        # w' = w - 2r (w - 3), so w' - 3 = (1 - 2r) (w - 3).
        assert float(by_w) == pytest.approx(2 * (1 - 0.2) ** 2 * -2.0)
        assert float(by_rate) == pytest.approx(2 * (1 - 0.2) * -2.0 * -2.0 * -2.0)

    @pytest.mark.parametrize(
        "kind", ["sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "adam scheduled"]
    )
    def test_by_weight_against_differences(self, kind):
        target = np.array([0.3, -2.0, 0.7])

        def after_two_steps(start):
            w = gt.Variable(np.ones(3))
            optimizer = MAKERS[kind]()
            w.assign(start)
            for _ in range(2):
                with gt.GradientTape() as inner:
                    loss = gt.sum(gt.sin(w - target) * w)
                optimizer.apply_gradients([(inner.gradient(loss, w), w)])
            return gt.sum(gt.square(w.value))

        start = np.array([1.0, 2.0, -1.0])
        x = gt.asarray(start)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = after_two_steps(x)
        slope = tape.gradient(y, x).numpy()
        for position in range(3):
            shift = np.zeros(3)
            shift[position] = 1e-6
            above, below = (float(after_two_steps(start + sign * shift)) for sign in (1, -1))
            assert slope[position] == pytest.approx((above - below) / 2e-6, rel=1e-5, abs=1e-7)

    @pytest.mark.parametrize("options", [{}, {"clipnorm": 1.0}, {"global_clipnorm": 1.0}])
    def test_no_nan_where_the_gradient_is_zero(self, options):
        w = gt.Variable([1.0, 0.0])
        optimizer = optimizers.Adam(0.1, epsilon=1e-3, **options)
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                loss = gt.sum(w**2) * 0.0 if options else gt.sum(w**2)
            optimizer.apply_gradients([(inner.gradient(loss, w), w)])
            final = gt.sum(w.value)
        assert np.isfinite(outer.gradient(final, w).numpy()).all()

    def test_through_rows(self):
        table = gt.Variable(np.arange(6.0).reshape(3, 2))
        rows = gt.asarray([1, 1, 2])

        def loss_of(w):
            return gt.sum(gt.square(gt.take(w, rows, axis=0)))

        optimizer = optimizers.Adagrad(0.1)
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                loss = loss_of(table)
            optimizer.apply_gradients([(inner.gradient(loss, table), table)])
            final = gt.sum(gt.square(table.value))
        slope = outer.gradient(final, table).numpy()

        def reference(w):
            g = 2 * w * np.array([[0.0], [2.0], [1.0]])
            return np.sum((w - 0.1 * g / np.sqrt(0.1 + g**2 + 1e-7)) ** 2)

        start = np.arange(6.0).reshape(3, 2)
        for index in np.ndindex(3, 2):
            shift = np.zeros((3, 2))
            shift[index] = 1e-6
            expected = (reference(start + shift) - reference(start - shift)) / 2e-6
            assert slope[index] == pytest.approx(expected, rel=1e-6, abs=1e-8)


class TestState:
    @pytest.mark.parametrize("kind", MAKERS)
    def test_going_on_from_saved_state(self, kind):
        first, second = Perceptron(MAKERS[kind]()), Perceptron(MAKERS[kind]())
        for _ in range(3):
            first.step()
        saved = first.optimizer.state_dict()
        second.optimizer.build(second.weights)
        second.optimizer.load_state_dict(saved)
        for w, v in zip(first.weights, second.weights, strict=True):
            v.assign(w.numpy())
        for model in (first, second):
            for _ in range(2):
                model.step()
        for w, v in zip(first.weights, second.weights, strict=True):
            # The tiers may differ in the last bits.
            np.testing.assert_allclose(w.numpy(), v.numpy(), rtol=1e-5, atol=1e-7)
        assert int(second.optimizer.iterations) == 5

    def test_saved_state_does_not_change(self):
        model = Perceptron(optimizers.Adam())
        model.step()
        saved = model.optimizer.state_dict()
        before = copy.deepcopy(saved)
        model.step()
        for name, array in saved.items():
            np.testing.assert_array_equal(array, before[name])

    def test_names(self):
        optimizer = optimizers.Adam(amsgrad=True)
        optimizer.build([gt.Variable(1.0), gt.Variable([1.0, 2.0])])
        slots = ["momentum", "velocity", "velocity_hat"]
        expected = ["iterations", "learning_rate"]
        expected += [f"{slot}.{position}" for position in range(2) for slot in slots]
        assert list(optimizer.state_dict()) == expected
        assert len(optimizer.variables) == len(expected)
        assert optimizer.variables[0] is optimizer.iterations

    def test_errors_name_what_differs(self):
        optimizer = optimizers.SGD(0.1, momentum=0.9)
        saved = {"iterations": 1, "learning_rate": 0.1, "momentum.0": np.zeros(3)}
        with pytest.raises(
            ValueError, match=r"unexpected: momentum\.0\. Nothing was loaded\. Call build"
        ):
            optimizer.load_state_dict(saved)
        optimizer.build([gt.Variable([1.0, 2.0]), gt.Variable(1.0)])
        with pytest.raises(ValueError, match=r"missing: momentum\.1; momentum\.0 has shape \(3,\)"):
            optimizer.load_state_dict(saved)
        assert int(optimizer.iterations) == 0

    def test_variables_may_come_later(self):
        a, b = gt.Variable(1.0), gt.Variable(1.0)
        optimizer = optimizers.SGD(0.1, momentum=0.9)
        optimizer.apply_gradients([(1.0, a)])
        optimizer.apply_gradients([(1.0, b), (1.0, a)])
        np.testing.assert_allclose([float(a), float(b)], [1 - 0.1 - 0.19, 0.9])
