"""Time by layer: the ops of a model that is one line of the program are split by module."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.origin import LINES


@pytest.fixture
def model():
    return gt.nn.Sequential([gt.nn.Dense(8, activation="tanh"), gt.nn.Dense(3)])


def train(model, steps=6):
    x = gt.asarray(np.random.default_rng(0).standard_normal((32, 5)))
    for _ in range(steps):
        with gt.GradientTape() as tape:
            logits = model(x)
            loss = gt.mean(logits**2)
        gt.evaluate(tape.gradient(loss, model.parameters()))


def named(rows):
    return {row["name"]: row for row in rows}


def test_layers_are_named_by_their_path(model):
    with gt.profile() as p:
        train(model)
    layers = named(p.data["layers"])
    assert {"layers.0 Dense", "layers.1 Dense", None} <= set(layers)
    for name in ("layers.0 Dense", "layers.1 Dense"):
        assert layers[name]["forward"] > 0
        assert layers[name]["backward"] > 0
    plans = sum(group["seconds"] for group in p.data["groups"])
    assert sum(row["seconds"] for row in layers.values()) == pytest.approx(plans)


def test_the_line_of_a_model_is_split_by_layer(model):
    with gt.profile() as p:
        train(model)
    (row,) = [row for row in p.data["lines"] if row["source"] == "logits = model(x)"]
    split = named(row["layers"])
    assert {"layers.0 Dense", "layers.1 Dense"} <= set(split)
    assert sum(each["backward"] for each in split.values()) == pytest.approx(row["backward"])
    assert "layers.1 Dense" in str(p)


def test_layers_of_a_captured_function_are_known(model):
    x = gt.asarray(np.ones((4, 5)))
    step = gt.function(lambda x: gt.sum(model(x) ** 2))
    with gt.profile() as p:
        for _ in range(8):
            step(x).numpy()
    assert "layers.0 Dense" in named(p.data["layers"])


def test_modules_of_a_users_module_are_named_by_attribute():
    class Block(gt.nn.Module):
        def __init__(self):
            self.parts = {"first": gt.nn.Dense(4)}
            self.last = gt.nn.Sequential([gt.nn.Dense(2)])

        def call(self, x):
            return self.last(gt.sin(self.parts["first"](x)))

    with gt.profile() as p:
        Block()(np.ones((2, 3))).numpy()
    layers = named(p.data["layers"])
    assert {"parts.first Dense", "last.layers.0 Dense", "Block"} <= set(layers)


def test_without_modules_there_are_no_layers():
    with gt.profile() as p:
        gt.sin(gt.asarray([1.0])).numpy()
    assert p.data["layers"] == []
    assert all(row["layers"] == [] for row in p.data["lines"])


def test_scopes_are_left_after_an_error():
    class Broken(gt.nn.Module):
        def call(self, x):
            raise ValueError("broken")

    with gt.profile() as p:
        with pytest.raises(ValueError, match="broken"):
            Broken()(1.0)
        with gt.libraries.named_scope("outer"):
            with gt.libraries.named_scope("inner"):
                y = gt.sin(gt.asarray([1.0]))
            z = gt.cos(y)
        gt.exp(z).numpy()
    assert set(named(p.data["layers"])) == {"outer", "inner", None}
    assert not LINES.noting
