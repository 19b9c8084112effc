"""Layers and optimisers inside functions, loops and maps give what they give outside."""

import numpy as np
import pytest
from tests.jit.agreement import agrees

import gradtape as gt

A = gt.asarray

MODELS = {
    "dense": (lambda: gt.nn.Sequential([gt.nn.Dense(4, "tanh"), gt.nn.Dense(2)]), (5, 3)),
    "dropout": (
        lambda: gt.nn.Sequential(
            [gt.nn.Dense(4, "gelu"), gt.nn.Dropout(0.5, seed=1), gt.nn.Dense(2)]
        ),
        (5, 3),
    ),
    "norm": (lambda: gt.nn.Sequential([gt.nn.LayerNorm(), gt.nn.Dense(2, "relu")]), (5, 3)),
    "lstm": (lambda: gt.nn.Sequential([gt.nn.LSTM(4), gt.nn.Dense(2)]), (5, 6, 3)),
    "gru": (
        lambda: gt.nn.Sequential([gt.nn.GRU(4, return_sequences=True), gt.nn.GRU(2)]),
        (5, 6, 3),
    ),
    "rnn": (lambda: gt.nn.Sequential([gt.nn.RNN(gt.nn.RNNCell(4)), gt.nn.Dense(2)]), (5, 6, 3)),
}  # fmt: skip

OPTIMIZERS = {
    "sgd": lambda: gt.optimizers.SGD(0.1, momentum=0.9, nesterov=True, clipnorm=1.0),
    "adam": lambda: gt.optimizers.Adam(gt.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "adamw": lambda: gt.optimizers.AdamW(0.1, global_clipnorm=0.5),
    "rmsprop": lambda: gt.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "adagrad": lambda: gt.optimizers.Adagrad(0.1, clipvalue=0.1),
}


def start(model, x):
    """Weights that do not depend on what was drawn before."""
    model(x)
    rng = np.random.default_rng(0)
    for variable in model.variables:
        variable.assign(rng.standard_normal(variable.shape) * 0.3)


def inputs(shape, count=4):
    rng = np.random.default_rng(1)
    return [
        (A(rng.standard_normal(shape)), A(rng.standard_normal((shape[0], 2)))) for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_training_in_a_function(name):
    make_model, shape = MODELS[name]

    def make():
        gt.random.seed(0)
        model, optimizer = make_model(), gt.optimizers.Adam(0.05)
        start(model, A(np.ones(shape)))

        def step(x, y):
            with gt.GradientTape() as tape:
                loss = gt.mean((model(x) - y) ** 2)
            weights = model.parameters()
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        return step, model.parameters()

    # The first call makes the slots of the optimiser, so the next two are the same.
    assert agrees(make, inputs(shape)).runs == 3


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_in_a_function_and_in_a_loop(kind):
    make_model, shape = MODELS["dense"]
    batches = inputs(shape, 6)

    def trained(run):
        model, optimizer = make_model(), OPTIMIZERS[kind]()
        start(model, A(np.ones(shape)))

        def step(x, y):
            with gt.GradientTape() as tape:
                loss = gt.mean((model(x) - y) ** 2)
            optimizer.minimize(loss, model.parameters(), tape=tape)
            return loss

        losses = run(step)
        return np.array(losses), [variable.numpy() for variable in model.parameters()]

    def one_by_one(step):
        return [float(step(x, y)) for x, y in batches]

    def scanned(step):
        xs, ys = (gt.stack(list(part)) for part in zip(*batches, strict=True))
        return gt.scan(lambda _, pair: (None, step(*pair)), None, (xs, ys))[1].tolist()

    expected = trained(one_by_one)
    for run in (lambda step: one_by_one(gt.function(step)), scanned):
        losses, weights = trained(run)
        np.testing.assert_allclose(losses, expected[0], rtol=1e-10)
        for found, wanted in zip(weights, expected[1], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "dropout"])
def test_gradients_of_each_example(name):
    make_model, shape = MODELS[name]
    model = make_model()
    x = A(np.random.default_rng(2).standard_normal(shape))
    start(model, x)
    weights = model.parameters()

    def slopes(example):
        with gt.GradientTape() as tape:
            loss = gt.sum(model(example[None]) ** 2)
        return tape.gradient(loss, weights)

    found = gt.vmap(slopes)(x)
    again = gt.function(gt.vmap(slopes))(x)
    for number in range(shape[0]):
        for one, other, each in zip(found, again, slopes(x[number]), strict=True):
            np.testing.assert_allclose(one[number].numpy(), each.numpy(), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(other[number].numpy(), each.numpy(), rtol=1e-9, atol=1e-12)


def test_embeddings_in_functions_update_rows():
    def make():
        table, optimizer = gt.nn.Embedding(6, 3), gt.optimizers.SGD(0.5)
        start(table, A([0]))

        def step(rows):
            with gt.GradientTape() as tape:
                loss = gt.sum(table(rows) ** 2)
            optimizer.apply_gradients(
                zip(tape.gradient(loss, table.parameters()), table.parameters(), strict=True)
            )
            return loss

        return step, table.parameters()

    calls = [(A(rows),) for rows in ([0, 1, 1], [5, 5, 5], [2, 3, 0])]
    assert agrees(make, calls).runs == 2


def test_models_are_arguments_too():
    @gt.function
    def predict(model, x):
        return model(x)

    x = A(np.ones((2, 3)))
    for scale in (1.0, 2.0):
        model = gt.nn.Dense(1, kernel_initializer="ones")
        for _ in range(3):
            np.testing.assert_allclose(predict(model, x).numpy(), [[3.0], [3.0]])
        model.kernel.assign(model.kernel * scale)
        np.testing.assert_allclose(predict(model, x).numpy(), [[3.0 * scale]] * 2)
