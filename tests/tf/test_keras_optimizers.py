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


def test_what_is_not_covered():
    with pytest.raises(ValueError, match="gradient_accumulation_steps"):
        O.SGD(0.1, gradient_accumulation_steps=2)


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
