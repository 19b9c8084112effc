"""Modules: what is found in their attributes, state, copies, text."""

import copy
import pickle

import numpy as np
import pytest

import gradtape as gt
from gradtape import nn


class Block(nn.Module):
    def __init__(self):
        self.scale = gt.Variable([1.0, 2.0])
        self.count = gt.Variable(0, trainable=False)

    def call(self, x):
        return x * self.scale


class Tree(nn.Module):
    def __init__(self):
        self.first = Block()
        self.blocks = [Block(), {"a": Block(), "b": (gt.Variable(3.0),)}]
        self.again = self.first
        self.number = 7
        self.tied = self.blocks[1]["b"][0]


NAMES = [
    "first.scale", "first.count", "blocks.0.scale", "blocks.0.count", "blocks.1.a.scale",
    "blocks.1.a.count", "blocks.1.b.0",
]  # fmt: skip


def test_names():
    tree = Tree()
    assert [name for name, _ in tree.named_variables()] == NAMES
    trainable = [name for name in NAMES if not name.endswith("count")]
    assert [name for name, _ in tree.named_parameters()] == trainable
    assert len(tree.variables) == 7
    assert len(tree.parameters()) == len(tree.trainable_variables) == 4
    assert len(tree.non_trainable_variables) == 3
    assert [name for name, _ in tree.named_modules()] == ["", "first", "blocks.0", "blocks.1.a"]
    assert tree.modules()[0] is tree


def test_cycles_are_walked_once():
    tree = Tree()
    tree.first.parent = tree
    tree.blocks.append(tree.blocks)
    assert [name for name, _ in tree.named_variables()] == NAMES


def test_variables_made_later_are_found():
    tree = Tree()
    tree.late = gt.Variable(1.0)
    assert tree.named_variables()[-1] == ("late", tree.late)


def test_train_and_eval():
    model = nn.Sequential([nn.Dropout(0.5), nn.Sequential([nn.Dropout(0.5)])])
    assert all(module.training for module in model.modules())
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())


class TestState:
    def test_round_trip(self):
        tree, other = Tree(), Tree()
        for number, variable in enumerate(tree.variables):
            variable.assign(np.full(variable.shape, number))
        saved = tree.state_dict()
        assert list(saved) == NAMES
        other.load_state_dict(saved)
        for a, b in zip(tree.variables, other.variables, strict=True):
            assert a.numpy().tolist() == b.numpy().tolist()
            assert a.dtype == b.dtype

    def test_through_a_file(self, tmp_path):
        tree = Tree()
        tree.tied.assign(5.0)
        np.savez(tmp_path / "state.npz", **tree.state_dict())
        other = Tree()
        with np.load(tmp_path / "state.npz") as saved:
            other.load_state_dict(saved)
        assert float(other.tied) == 5.0

    def test_saved_arrays_do_not_change(self):
        tree = Tree()
        saved = tree.state_dict()
        tree.tied.assign_add(1.0)
        saved["first.scale"][0] = 9.0
        assert saved["blocks.1.b.0"] == 3.0
        assert tree.first.scale.numpy().tolist() == [1.0, 2.0]

    def test_errors_name_all_that_differs(self):
        tree = Tree()
        saved = tree.state_dict()
        del saved["first.scale"]
        saved["other"] = 1.0
        saved["blocks.0.scale"] = np.zeros(3)
        message = (
            r"Tree: missing: first\.scale; unexpected: other; "
            r"blocks\.0\.scale has shape \(3,\) there and \(2,\) here"
        )
        with pytest.raises(ValueError, match=message):
            tree.load_state_dict(saved)
        with pytest.raises(ValueError, match=r"blocks\.0\.scale has shape"):
            tree.load_state_dict(saved, strict=False)
        del saved["blocks.0.scale"]
        saved["blocks.1.b.0"] = 8.0
        tree.load_state_dict(saved, strict=False)
        assert float(tree.tied) == 8.0

    def test_unbuilt_layers_are_named(self):
        model = nn.Sequential([nn.Dense(2), nn.Dense(3)])
        model(np.zeros((1, 4)))
        with pytest.raises(ValueError, match=r"Not built yet: layers\.0, layers\.1\. Call"):
            nn.Sequential([nn.Dense(2), nn.Dense(3)]).load_state_dict(model.state_dict())


def test_deep_copies_are_independent_and_keep_ties():
    tree = Tree()
    other = copy.deepcopy(tree)
    assert other.again is other.first
    assert other.tied is other.blocks[1]["b"][0]
    other.tied.assign(0.0)
    other.first.scale.assign([0.0, 0.0])
    assert float(tree.tied) == 3.0
    assert tree.first.scale.numpy().tolist() == [1.0, 2.0]
    assert [name for name, _ in other.named_variables()] == NAMES


def test_pickle():
    model = nn.Sequential([nn.Dense(2, activation="softmax"), nn.LayerNorm()])
    x = np.ones((3, 4))
    expected = model(x).numpy()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(x).numpy(), expected)


def test_text():
    tree = Tree()
    assert repr(tree.first) == "Block(\n  scale: float64[2]\n  count: int64[]\n)"
    assert repr(tree).splitlines()[:3] == ["Tree(", "  first: Block(", "    scale: float64[2]"]
    assert repr(nn.Dense(3, "relu")) == "Dense(units=3, activation=relu, use_bias=True)"
    assert "\n    cell: LSTMCell(units=2" in repr(nn.Sequential([nn.LSTM(2)]))


def test_a_module_without_call():
    with pytest.raises(NotImplementedError, match="Tree: a module that is called needs"):
        Tree()(1.0)


def test_import_is_lazy():
    import subprocess
    import sys

    code = (
        "import sys, gradtape\n"
        "assert not [m for m in sys.modules if m in ('gradtape.nn', 'gradtape.optimizers')]\n"
        "gradtape.nn.Dense, gradtape.optimizers.SGD"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gt.nothing  # noqa: B018
