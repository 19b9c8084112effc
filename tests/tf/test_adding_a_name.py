"""The examples of docs/adding_a_tensorflow_name.md work where the page says they belong."""

import re
from pathlib import Path

import numpy as np
import pytest

import gradtape.nn.layers as layers
import gradtape.tf as tf
from gradtape.tf.ops import elementwise, reductions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding_a_tensorflow_name.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def defined(block, module):
    names = dict(vars(module))
    code = "from __future__ import annotations\n" + block
    exec(compile(code, PAGE.name, "exec"), names)
    return names


def test_row():
    sinpi = defined(BLOCKS[0], elementwise)["sinpi"]
    x = tf.constant(0.25)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = sinpi(x, name="y")
    assert y.numpy() == pytest.approx(np.sqrt(0.5), 1e-6)
    assert tape.gradient(y, x).numpy() == pytest.approx(np.pi * np.sqrt(0.5), 1e-6)
    with pytest.raises(TypeError, match=r"sinpi.*tf\.cast"):
        sinpi(1)


def test_function_with_a_body():
    reduce_range = defined(BLOCKS[1], reductions)["reduce_range"]
    assert reduce_range([[1.0, 4.0], [2.0, 2.0]], axis=1).numpy().tolist() == [3.0, 0.0]
    with pytest.raises(TypeError, match="has no order"):
        reduce_range([True])


def test_layer():
    scale = defined(BLOCKS[2], layers)["Scale"]()
    assert scale(np.array([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]
    assert [variable.shape for variable in scale.variables] == [(2,)]
