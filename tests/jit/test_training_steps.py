"""gt.function: ordinary training steps are replayed, in a fresh process, too."""

import subprocess
import sys

import pytest
from tests.jit.agreement import counted
from tests.jit.outside.training_steps import STEPS

import gradtape as gt

# The first calls build layers and find out what is read outside.
BEGINNING = 5


@pytest.mark.parametrize("name", STEPS)
def test_is_replayed(name):
    f, arguments = STEPS[name]()
    counts, runs = counted(f)
    decorated = gt.function(counts)
    for _ in range(BEGINNING):
        decorated(*arguments)
    before = len(runs)
    for _ in range(40):
        decorated(*arguments)
    assert [each.refused for each in decorated.captured if each.refused] == []
    assert len(runs) == before, decorated.explain()


def test_methods_are_replayed():
    class Trainer:
        def __init__(self):
            self.model, self.optimizer = gt.nn.Dense(1), gt.optimizers.Adam(0.01)
            self.history, self.options = [], {"scale": 1.0}

        @gt.function
        def step(self, x, y):
            with gt.GradientTape() as tape:
                loss = gt.mean((self.model(x) - y) ** 2) * self.options["scale"]
            variables = self.model.trainable_variables
            self.optimizer.apply_gradients(
                zip(tape.gradient(loss, variables), variables, strict=True)
            )
            return loss

        def fit(self, x, y, steps):
            for _ in range(steps):
                self.history.append(float(self.step(x, y)))

    trainer = Trainer()
    trainer.fit(gt.ones((4, 3)), gt.ones((4, 1)), 40)
    assert trainer.history[-1] < trainer.history[0]
    assert "runs in Python" not in Trainer.step.explain()


FRESH = """
import numpy as np, gradtape as gt
model = gt.nn.Sequential([gt.nn.Dense(8, activation="tanh"), gt.nn.Dense(1)])
optimizer = gt.optimizers.Adam(learning_rate=1e-3)
runs = []

@gt.function
def train(x, y):
    with gt.GradientTape() as tape:
        loss = gt.mean((model(x) - y) ** 2)
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss

predict = gt.function(lambda x: model(x))
for _ in range(50):
    train(gt.ones((16, 8)), gt.ones((16, 1)))
    predict(np.ones((16, 8)))
for f in (train, predict):
    assert "runs in Python" not in f.explain(), f.explain()
    assert f.captured[-1].steps.paths == 1, f.explain()
"""


@pytest.mark.slow
def test_the_first_step_of_a_process():
    """NumPy loads parts of itself late, and layers draw their first weights inside the function."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FRESH], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
