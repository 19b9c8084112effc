"""Rows of tables: names, signatures and documentation of the functions made from them."""

import importlib
import inspect
import pkgutil

import pytest

import gradtape.tf as tf
from gradtape.tf import ops
from gradtape.tf.base.dispatch import documented, named_in

MODULES = [
    importlib.import_module(m.name) for m in pkgutil.iter_modules(ops.__path__, "gradtape.tf.ops.")
]
ALIASES = {"lrn": "local_response_normalization", "swish": "silu"}


@pytest.mark.parametrize(
    ("example", "name"),
    [
        ("tf.sin(0.0)", "sin"),
        ("round(tf.math.special.dawsn(1.0).numpy().item(), 4)", "dawsn"),
        ("bool(tf.reduce_all(tf.abs([1.0]) > 0))", "reduce_all"),
    ],
)
def test_an_example_names_its_function(example, name):
    assert named_in(example) == name


def test_an_example_must_call_a_function():
    with pytest.raises(ValueError, match="calls no function"):
        named_in("np.sin(0.0)")


def test_documented():
    def template(x, name=None):
        return x

    made = documented(template, "a.module", "The same.", "tf.same(1)", "1")
    assert (made.__name__, made.__qualname__, made.__module__) == ("same", "same", "a.module")
    assert inspect.cleandoc(made.__doc__) == "The same.\n\n>>> tf.same(1)\n1"


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_functions_know_their_names(module):
    for name in getattr(module, "__all__", ()):
        assert getattr(module, name).__name__ == ALIASES.get(name, name)


def test_a_graph_names_calls_of_row_functions():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        assert tf.reduce_sum(x).name == "reduce_sum:0"
        assert tf.sin(x).name == "sin:0"
