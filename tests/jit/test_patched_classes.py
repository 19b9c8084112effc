"""Classes of the library that somebody patches between calls of a captured step."""

import functools

import numpy as np
import pytest

import gradtape as gt

X = np.ones((2, 3), "float32")


def halved(original):
    """A method that gives half of what the original gives."""
    return lambda self, *args, **kwargs: original(self, *args, **kwargs) * 0.5


def skipped(original):
    """A method that does nothing."""
    return lambda self, *args, **kwargs: None


# The class that gets the entry, its name, and what is put there in place of the old one.
PATCHES = {
    "an inherited method of an optimiser": (gt.optimizers.Adam, "apply_gradients", skipped),
    "a method where it is defined": (gt.optimizers.Optimizer, "apply_gradients", skipped),
    "a method of a layer": (gt.nn.Dense, "call", halved),
    "an inherited special method of a layer": (gt.nn.Dense, "__call__", halved),
    "an inherited property of a model": (
        gt.nn.Sequential,
        "trainable_variables",
        lambda original: property(lambda self: original.fget(self)[:1]),
    ),
}


def training(decorate):
    """A training step, the weights it changes and what the optimiser is called with."""
    gt.random.seed(3)
    model = gt.nn.Sequential([gt.nn.Dense(3), gt.nn.Dense(2)])
    model(gt.asarray(X))
    optimizer = gt.optimizers.Adam(0.1, weight_decay=0.1)

    def step(x):
        with gt.GradientTape() as tape:
            loss = gt.mean(gt.square(model(x)))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return decorate(step), model


# Classes of the library are trusted, so only checks see that one was patched.
CHECKED = functools.partial(gt.function, recheck=1)


@pytest.mark.filterwarnings("ignore:gt.function. step was replayed")
@pytest.mark.parametrize("patch", PATCHES)
def test_a_patched_class_is_noticed(patch, monkeypatch):
    kind, name, change = PATCHES[patch]
    (step, model), (plain, other) = training(CHECKED), training(lambda f: f)
    seen = []
    for phase in range(3):
        if phase == 1:
            monkeypatch.setattr(kind, name, change(getattr(kind, name, False)), raising=False)
        elif phase == 2:
            monkeypatch.undo()
        for _ in range(4):
            seen.append(float(step(gt.asarray(X))))
            assert seen[-1] == pytest.approx(float(plain(gt.asarray(X))), rel=1e-5)
        for one, two in zip(model.variables, other.variables, strict=True):
            np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-5, atol=1e-6)
