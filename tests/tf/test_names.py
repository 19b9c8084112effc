"""Names that are there and names that are not; nests, modules, assertions, errors."""

import re
from pathlib import Path

import numpy as np
import pytest

import gradtape.tf as tf

MODULES = [tf, *(eval(f"tf.{name}", {"tf": tf}) for name in tf.SUBMODULES)]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_all_exports_exist(module):
    for name in module.__all__:
        assert hasattr(module, name)


@pytest.mark.parametrize(
    ("expression", "nearest"),
    [
        ("tf.reduce_summ", "tf.reduce_sum"), ("tf.sum", "tf.reduce_sum"),
        ("tf.reduce_std", "tf.math.reduce_std"), ("tf.gradient_tape", "tf.gradients"),
        ("tf.math.logg", "tf.math.log"), ("tf.nn.sigmod", "tf.nn.sigmoid"),
        ("tf.linalg.choleski", "tf.linalg.cholesky"), ("tf.random.randn", "tf.random"),
        ("tf.keras.optimizers.Adm", "tf.keras.optimizers.Adam"),
        ("tf.keras.layers.Dens", "tf.keras.layers.Dense"), ("tf.signal.ffft", "tf.signal.fft"),
        ("tf.softmax", "tf.nn.softmax"), ("tf.arange", "tf.range"),
        ("tf.debugging.assert_equals", "tf.debugging.assert_equal"),
        ("tf.keras.Sequental", "tf.keras.Sequential"), ("tf.RaggedTensor", "pad them"),
        ("tf.io", "NumPy"), ("tf.einsun", "tf.einsum"),
    ],
)  # fmt: skip
def test_a_missing_name_names_the_nearest(expression, nearest):
    with pytest.raises(AttributeError) as caught:
        eval(expression, {"tf": tf})
    assert nearest in str(caught.value)
    assert expression.rpartition(".")[2] in str(caught.value)


def test_unknown_attributes_are_not_there():
    assert not hasattr(tf, "nothing_like_it")
    assert not hasattr(tf.math, "__wrapped__")
    assert getattr(tf, "nothing_like_it", 1) == 1


NEST = {"b": (1, [2]), "a": 3}


class TestNest:
    def test_flatten_and_pack(self):
        assert tf.nest.flatten(NEST) == [3, 1, 2]
        packed = tf.nest.pack_sequence_as(NEST, [30, 10, 20])
        assert packed == {"b": (10, [20]), "a": 30}
        assert list(packed) == ["b", "a"]
        assert tf.nest.flatten(5) == [5]
        with pytest.raises(ValueError, match="leaves"):
            tf.nest.pack_sequence_as([1, 2], [1])

    def test_map_structure(self):
        assert tf.nest.map_structure(lambda a, b: a * b, [1, (2,)], [3, (4,)]) == [3, (8,)]
        with pytest.raises(ValueError, match="number of elements"):
            tf.nest.map_structure(lambda a, b: a, [1], [1, 2])
        with pytest.raises(TypeError, match="sequence type"):
            tf.nest.assert_same_structure([1], (1,))
        with pytest.raises(ValueError, match="keys"):
            tf.nest.assert_same_structure({"a": 1}, {"b": 1})
        assert tf.nest.is_nested({})
        assert not tf.nest.is_nested(tf.constant([1.0]))


class TestModule:
    def test_variables_and_submodules(self):
        class Layer(tf.Module):
            def __init__(self, name=None):
                super().__init__(name=name)
                self.w = tf.Variable(1.0, name="w")
                self.b = tf.Variable(2.0, trainable=False, name="b")

        class TwoLayers(tf.Module):
            def __init__(self):
                super().__init__()
                self.layers = [Layer("first"), Layer("second")]
                self.by_name = {"again": self.layers[0]}
                self.scale = tf.Variable(3.0, name="scale")

        model = TwoLayers()
        assert model.name == "two_layers"
        assert [v.name for v in model.variables] == ["scale:0", "b:0", "w:0", "b:0", "w:0"]
        assert [v.name for v in model.trainable_variables] == ["scale:0", "w:0", "w:0"]
        assert len(model.non_trainable_variables) == 2
        assert [m.name for m in model.submodules] == ["first", "second"]
        assert isinstance(model.variables, tuple)
        with model.name_scope:
            pass
        with pytest.raises(ValueError, match="identifier"):
            tf.Module(name="not a name")


class TestDebugging:
    def test_what_holds(self):
        d = tf.debugging
        d.assert_equal([1, 2], [1, 2])
        d.assert_less(1.0, [2.0, 3.0])
        d.assert_near(1.0, 1.05, rtol=0.1)
        d.assert_positive([1, 2])
        d.assert_non_negative([0, 1])
        d.assert_rank(tf.ones([2, 2]), 2)
        d.assert_rank_in(1.0, [0, 1])
        d.assert_shapes([(tf.ones([2, 3]), ("N", 3)), (tf.ones([2]), ("N",))])
        d.assert_type(tf.constant(1), tf.int32)
        d.assert_integer([1])
        assert d.assert_scalar(1.0).numpy() == 1.0
        assert d.check_numerics([1.0], "x").numpy().tolist() == [1.0]
        assert d.is_numeric_tensor(tf.constant(1))
        tf.Assert(True, [1])

    @pytest.mark.parametrize(
        ("check", "kind", "words"),
        [
            (lambda d: d.assert_equal(1, 2, message="oh no"), "InvalidArgumentError", "oh no"),
            (lambda d: d.assert_none_equal([1], [1]), "InvalidArgumentError", "!="),
            (lambda d: d.assert_greater(1, 2), "InvalidArgumentError", ">"),
            (lambda d: d.assert_less_equal(3, 2), "InvalidArgumentError", "<="),
            (lambda d: d.assert_near(1.0, 1.1), "InvalidArgumentError", "tolerance"),
            (lambda d: d.assert_negative([1.0]), "InvalidArgumentError", "< 0"),
            (lambda d: d.assert_all_finite([np.nan], "loss"), "InvalidArgumentError", "NaN"),
            (lambda d: d.check_numerics([np.inf], "loss"), "InvalidArgumentError", "Inf"),
            (lambda d: d.Assert(tf.constant(False), ["why"]), "InvalidArgumentError", "why"),
            (lambda d: d.assert_rank([1], 2), "ValueError", "rank 2"),
            (lambda d: d.assert_rank_at_least([1], 2), "ValueError", "at least"),
            (lambda d: d.assert_shapes([(tf.ones([2]), ("N", "M"))]), "ValueError", "shape"),
            (lambda d: d.assert_type([1], tf.float32), "TypeError", "tf.float32"),
            (lambda d: d.assert_integer([1.5]), "TypeError", "integer"),
        ],
    )
    def test_what_does_not(self, check, kind, words):
        error = (
            getattr(tf.errors, kind, None)
            or {"ValueError": ValueError, "TypeError": TypeError}[kind]
        )
        with pytest.raises(error, match=words):
            check(tf.debugging)


def test_errors():
    with pytest.raises(tf.errors.InvalidArgumentError, match="broadcast"):
        tf.ones([2]) + tf.ones([3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
        tf.reshape([1, 2], [3])
    with pytest.raises(tf.errors.OpError):
        tf.ones([2]) + tf.constant(1)


def test_examples_of_the_documentation_run():
    text = (Path(__file__).resolve().parents[2] / "docs" / "tensorflow.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "tensorflow.md", "exec"), {"__name__": "documentation"})


def test_version():
    assert tf.__version__.startswith("2.")
