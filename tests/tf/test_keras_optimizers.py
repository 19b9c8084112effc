"""Three steps of every optimizer of Keras. Numbers are those of Keras 3 on TensorFlow 2.21."""

import inspect

import numpy as np
import pytest

import gradtape.tf as tf

O = tf.keras.optimizers  # noqa: E741
GRADIENTS = [[0.5, -1.0], [1.0, 0.25], [-0.3, 2.0]]
FTRL = {
    "learning_rate_power": -0.4, "l1_regularization_strength": 0.1,
    "l2_regularization_strength": 0.2, "l2_shrinkage_regularization_strength": 0.1, "beta": 0.1,
}  # fmt: skip
RESTARTS = tf.keras.optimizers.schedules.CosineDecayRestarts(0.1, 1, t_mul=2.0, m_mul=0.5)

STEPS = [
    (lambda: O.SGD(0.1), [0.88, -2.125]),
    (lambda: O.SGD(0.1, momentum=0.9), [0.7045, -1.9765]),
    (lambda: O.SGD(0.1, momentum=0.9, nesterov=True), [0.61405, -2.10385]),
    (lambda: O.SGD(0.1, weight_decay=0.5), [0.74725, -1.84825]),
    (lambda: O.SGD(0.1, clipnorm=0.5), [0.936549, -2.016852]),
    (lambda: O.SGD(0.1, clipvalue=0.4), [0.95, -2.025]),
    (lambda: O.SGD(0.1, global_clipnorm=0.5), [0.936549, -2.016852]),
    (lambda: O.Adam(0.1), [0.747993, -1.893237]),
    (lambda: O.Adam(0.1, beta_1=0.5, beta_2=0.9, epsilon=0.01), [0.777839, -1.959206]),
    (lambda: O.Adam(0.1, amsgrad=True), [0.747993, -1.893237]),
    (lambda: O.Adam(0.1, weight_decay=0.5), [0.619943, -1.620084]),
    (lambda: O.AdamW(0.1, weight_decay=0.5), [0.619943, -1.620084]),
    (lambda: O.RMSprop(0.1), [0.484933, -2.051058]),
    (lambda: O.RMSprop(0.1, rho=0.5, momentum=0.9, centered=True), [0.05449, -1.728216]),
    (lambda: O.Adagrad(0.1), [0.854418, -2.015864]),
    (lambda: O.Adadelta(1.0, rho=0.8, epsilon=0.001), [0.877573, -2.047175]),
    (lambda: O.Adamax(0.1, beta_1=0.8, beta_2=0.9), [0.784882, -1.898017]),
    (lambda: O.Nadam(0.1, beta_1=0.8, beta_2=0.9), [0.801686, -2.007322]),
    (lambda: O.Ftrl(0.1, **FTRL), [0.163051, -1.052034]),
    (lambda: O.Lion(0.1, beta_1=0.8), [0.9, -2.1]),
    (lambda: O.SGD(RESTARTS), [0.9075, -1.9625]),
    (lambda: O.SGD(lambda: 0.1), [0.88, -2.125]),
    (
        lambda: O.SGD(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
        [0.93, -2.1125],
    ),
]


@pytest.mark.parametrize(("make", "expected"), STEPS)
@pytest.mark.parametrize("inside", [False, True], ids=["eager", "function"])
def test_three_steps(make, expected, inside):
    optimizer, w = make(), tf.Variable([1.0, -2.0])

    def step(gradient):
        optimizer.apply_gradients([(gradient, w)])

    run = tf.function(step) if inside else step
    for gradient in GRADIENTS:
        run(tf.constant(gradient))
    np.testing.assert_allclose(w, expected, rtol=3e-5)
    assert int(optimizer.iterations) == 3


@pytest.mark.parametrize("make", [make for make, _ in STEPS[:20]])
def test_rows_are_as_good_as_the_whole(make):
    whole, parts = tf.Variable(np.ones((3, 2), "float32")), tf.Variable(np.ones((3, 2), "float32"))
    first, second = make(), make()
    for number, gradient in enumerate(GRADIENTS):
        rows = tf.IndexedSlices([gradient], [number], [3, 2])
        first.apply_gradients([(tf.convert_to_tensor(rows), whole)])
        second.apply_gradients([(rows, parts)])
    np.testing.assert_allclose(parts, whole, rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl",
             "Lion"],
)  # fmt: skip
def test_arguments_and_configuration(name):
    kind = getattr(O, name)
    names = list(inspect.signature(kind).parameters)
    assert names[0] == "learning_rate"
    shared = [
        "weight_decay", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "ema_momentum",
        "ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps", "name",
    ]  # fmt: skip
    assert set(shared) <= set(names)
    again = kind.from_config(kind(learning_rate=0.5).get_config())
    assert float(again.learning_rate) == 0.5
    assert type(O.get(name.lower())) is kind
    assert type(O.deserialize(O.serialize(again))) is kind


class TestAttributes:
    def test_names_and_state(self):
        optimizer, w = O.Adam(0.5), tf.Variable([1.0, 2.0], name="w")
        assert [O.SGD().name, O.AdamW().name, O.RMSprop().name] == ["sgd", "adam_w", "rm_sprop"]
        assert O.SGD(name="mine").name == "mine"
        assert not optimizer.built
        optimizer.build([w])
        assert optimizer.built
        names = ["iteration", "learning_rate", "w_momentum", "w_velocity"]
        assert [v.name for v in optimizer.variables] == names
        assert all(isinstance(v, tf.Variable) for v in optimizer.variables)
        optimizer.apply([tf.constant([1.0, -1.0])])
        assert optimizer.iterations.numpy() == 1
        np.testing.assert_allclose(w, [0.5, 2.5], rtol=1e-5)
        other = O.Adam()
        other.build([w])
        other.set_weights(optimizer.get_weights())
        assert float(other.learning_rate) == 0.5
        with pytest.raises(ValueError, match="values for"):
            other.set_weights([1])

    def test_learning_rate(self):
        optimizer, w = O.SGD(0.25), tf.Variable([1.0, 2.0])
        assert (optimizer.learning_rate * w).numpy().tolist() == [0.25, 0.5]
        optimizer.learning_rate.assign(0.5)
        optimizer.apply([tf.ones([2])], [w])
        assert w.numpy().tolist() == [0.5, 1.5]
        fixed = O.SGD(O.schedules.ExponentialDecay(0.5, 1, 0.5))
        assert fixed.learning_rate.numpy() == 0.5
        with pytest.raises(TypeError, match="cannot be set"):
            fixed.learning_rate = 0.1

    def test_configuration(self):
        made = O.SGD(0.5, clipnorm=1.0, use_ema=True, ema_momentum=0.5)
        assert (made.clipnorm, made.clipvalue, made.use_ema) == (1.0, None, True)
        assert made.get_config() == {
            "name": "sgd", "learning_rate": 0.5, "weight_decay": None, "clipnorm": 1.0,
            "global_clipnorm": None, "clipvalue": None, "use_ema": True, "ema_momentum": 0.5,
            "ema_overwrite_frequency": None, "loss_scale_factor": None,
            "gradient_accumulation_steps": None, "momentum": 0.0, "nesterov": False,
        }  # fmt: skip
        scheduled = O.SGD(O.schedules.ExponentialDecay(0.5, 1, 0.5))
        again = O.deserialize(O.serialize(scheduled))
        assert isinstance(again._rate, O.schedules.ExponentialDecay)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"lr": 0.1}, "not recognized"), ({"learning_rate": "fast"}, "learning_rate"),
            ({"gradient_accumulation_steps": 1}, ">= 2"),
            ({"use_ema": True, "ema_momentum": 2.0}, "ema_momentum"),
            ({"clipnorm": 1.0, "clipvalue": 1.0}, "exclude"),
        ],
    )  # fmt: skip
    def test_wrong_arguments(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            O.SGD(**wrong)

    def test_schedules_give_float32(self):
        rate = O.schedules.ExponentialDecay(0.5, 1, 0.5)(tf.constant(1))
        assert (rate * tf.constant([1.0, 2.0])).numpy().tolist() == [0.25, 0.5]


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "function"])
def test_gradients_of_several_steps(inside):
    """Every second step applies the mean of two gradients."""
    w, plain = tf.Variable([1.0, -2.0]), tf.Variable([1.0, -2.0])
    optimizer = O.Adam(0.1, gradient_accumulation_steps=2)

    def step(gradient):
        optimizer.apply_gradients([(gradient, w)])

    run = tf.function(step) if inside else step
    seen = []
    for gradient in [*GRADIENTS, GRADIENTS[0]]:
        run(tf.constant(gradient))
        seen.append(w.numpy().tolist())
    assert seen[0] == [1.0, -2.0]
    assert seen[2] == seen[1]
    reference = O.Adam(0.1)
    reference.apply([tf.constant([0.75, -0.375])], [plain])
    reference.apply([tf.constant([0.1, 0.5])], [plain])
    np.testing.assert_allclose(w, plain, rtol=1e-6)
    assert optimizer.iterations.numpy() == 2


def test_scaled_losses():
    w = tf.Variable(1.0)
    optimizer = O.SGD(0.5, loss_scale_factor=4.0)
    with tf.GradientTape() as tape:
        loss = optimizer.scale_loss(w * w)
    assert loss.numpy() == 4.0
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    assert w.numpy() == 0.0


def test_an_optimizer_of_ones_own():
    class Heavy(O.Optimizer):
        def build(self, variables):
            if self.built:
                return
            super().build(variables)
            self.moments = [self.add_variable_from_reference(v, name="m") for v in variables]

        def update_step(self, gradient, variable, learning_rate):
            moment = self.moments[self._get_variable_index(variable)]
            self.assign(moment, moment * 0.5 + gradient)
            self.assign_sub(variable, tf.cast(learning_rate, variable.dtype) * moment)

    w, u = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    optimizer = Heavy(learning_rate=0.2, weight_decay=0.1)
    for _ in range(3):
        optimizer.apply_gradients([(w * 2.0, w), (u * 3.0, u)])

    def expected(x, slope):
        moment = 0.0
        for _ in range(3):
            gradient, x = slope * x, x * (1 - 0.1 * 0.2)
            moment = 0.5 * moment + gradient
            x = x - 0.2 * moment
        return x

    np.testing.assert_allclose(w, expected(np.array([1.0, 2.0]), 2.0), rtol=1e-5)
    np.testing.assert_allclose(u, expected(3.0, 3.0), rtol=1e-5)
    assert len(optimizer.variables) == 4


def test_averages_at_the_end():
    w = tf.Variable(0.0)
    optimizer = O.SGD(1.0, use_ema=True, ema_momentum=0.5)
    for _ in range(3):
        optimizer.apply_gradients([(tf.constant(-1.0), w)])
    assert w.numpy() == 3.0
    optimizer.finalize_variable_values([w])
    assert w.numpy() == 2.25


def test_restarts():
    schedule = O.schedules.CosineDecayRestarts(0.1, 10, t_mul=2.0, m_mul=0.5, alpha=0.1)
    found = [float(schedule(step)) for step in (0, 5, 10, 25)]
    np.testing.assert_allclose(found, [0.1, 0.055, 0.055, 0.01659], rtol=1e-4)
