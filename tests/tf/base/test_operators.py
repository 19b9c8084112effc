"""Operators leave objects that they do not know to these, and say what is wrong with others."""

import operator

import numpy as np
import pytest

import gradtape.tf as tf

SYMBOLS = ["add", "sub", "mul", "truediv", "matmul", "pow", "floordiv", "mod", "and", "or", "xor"]


class Foreign:
    """Knows what to do with any left operand."""


for _name in SYMBOLS:
    setattr(Foreign, f"__r{_name}__", lambda self, other, name=_name: name)


@pytest.mark.parametrize("made", [tf.constant, tf.Variable])
@pytest.mark.parametrize("name", SYMBOLS)
def test_foreign_objects_are_asked(name, made):
    function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
    tensor = made([True]) if name in ("and", "or", "xor") else made([[1.0]])
    assert function(tensor, Foreign()) == name


def test_functions_do_not_ask_them():
    with pytest.raises(ValueError, match="Foreign"):
        tf.add(tf.constant(1.0), Foreign())
    with pytest.raises(ValueError, match="object"):
        tf.constant(1.0) + object()


@pytest.mark.parametrize("other", [1.5, np.float64(1.5), np.array([1.5]), tf.constant(1.5), [1.5]])
def test_operands_of_another_dtype_are_still_explained(other):
    with pytest.raises(TypeError, match=r"tf\.cast|do not mix"):
        tf.constant(1) + other
