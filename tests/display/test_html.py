"""Notebooks, rich and treescope show tensors, modules, functions and programs."""

import re
import sys
import types

import numpy as np
import pytest

import gradtape as gt
from gradtape.display import in_notebook, shell, shown_file


def test_tensor_in_a_notebook():
    text = gt.asarray([1.0, 2.0])._repr_html_()
    assert "[1., 2.]" in text
    assert "float64" in text


def test_rich_shows_a_pending_tensor_without_computing_it():
    y = gt.asarray([1.0]) * 2.0
    before = gt.counters().plans_run
    fields = dict(y.__rich_repr__())
    assert fields == {"shape": (1,), "dtype": "float64", "pending": True}
    assert gt.counters().plans_run == before
    y.numpy()
    assert ("shape", (1,)) in list(y.__rich_repr__())


def test_module_shows_its_variables_and_modules():
    model = gt.nn.Sequential([gt.nn.Dense(3)])
    model(np.ones((2, 2)))
    text = model._repr_html_()
    assert "Sequential" in text
    assert "float64[2, 3]" in text
    assert [name for name, _ in model.__rich_repr__()] == ["layers.0"]


def test_function_shows_what_it_captured():
    f = gt.function(lambda x: x * 2.0)
    f(gt.asarray(1.0))
    assert "1 kind of calls" in f._repr_html_()
    assert dict(f.__rich_repr__())["kinds of calls"] == 1


def test_markup_in_values_is_escaped():
    @gt.function
    def f(x):
        return x

    f.__qualname__ = "<b>f</b>"
    assert "<b>" not in f._repr_html_()


def test_treescope_gets_the_fields(monkeypatch):
    calls = []
    library = types.ModuleType("treescope.repr_lib")
    library.render_object_constructor = lambda *args: calls.append(args) or "tree"
    monkeypatch.setitem(sys.modules, "treescope", types.ModuleType("treescope"))
    monkeypatch.setitem(sys.modules, "treescope.repr_lib", library)
    assert gt.asarray([1.0]).__treescope_repr__("path", None) == "tree"
    kind, fields, path, _ = calls[0]
    assert (kind, path) == (gt.Tensor, "path")
    assert fields["shape"] == (1,)


def test_rich_prints_a_tensor():
    rich = pytest.importorskip("rich.pretty", reason="rich is not installed")
    assert "shape=(2,)" in rich.pretty_repr(gt.asarray([1.0, 2.0]))


def test_program_as_dot_and_in_a_notebook():
    program = gt.program_of(gt.sum(gt.asarray([1.0]) * 2.0))
    text = program.to_dot()
    assert text.startswith("digraph program {")
    assert text.count("->") == 3
    assert "multiply" in text
    assert re.match(r"<pre [^>]*>program\(", program._repr_html_())


@pytest.mark.parametrize("template", ["", ".3f", "10.2e", "g"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_a_0d_tensor_is_formatted_as_numpys_number(template, dtype):
    number = np.array(1.1, dtype)
    if dtype == "int64" and template:
        template = "5d"
    assert format(gt.asarray(number), template) == format(number, template)
    assert format(gt.Variable(number), template) == format(number, template)


def test_other_tensors_take_no_format():
    x = gt.asarray([1.0, 2.0])
    assert f"{x}" == str(x)
    with pytest.raises(TypeError, match=r"format: '\.3f' is for single numbers.*shape \(2,\)"):
        format(x, ".3f")
    with pytest.raises(TypeError):
        format(x.numpy(), ".3f")


def test_texts_show_their_lines():
    for text in (gt.show_config(), gt.spy(np.eye(8)), gt.plan_of(gt.asarray([1.0]) * 2.0)):
        assert isinstance(text, str)
        assert repr(text) == str(text)
        assert text.splitlines()[0] in text._repr_html_()


def test_objects_show_what_they_hold():
    w = gt.Variable([1.0, 2.0], name="slope", trainable=False)
    html = w._repr_html_()
    assert "slope" in html
    assert "float64" in html
    assert "trainable" in html
    with gt.GradientTape() as tape:
        tape.watch(w)
        y = gt.sum(w * w)
    assert repr(tape) == (
        "<GradientTape: state: stopped, persistent: False, ops: 2, watched: slope float64[2]>"
    )
    tape.gradient(y, w)
    assert repr(tape) == "<GradientTape: state: consumed, persistent: False>"
    assert "learning_rate" in gt.optimizers.SGD(0.1)._repr_html_()
    assert "counter" in gt.random.Generator(1)._repr_html_()
    assert "plans_run" in gt.counters()._repr_html_()
    assert str(gt.counters()).startswith("plans_run ")
    assert "<th" in gt.caches()._repr_html_()
    pattern = gt.sparsity_pattern(lambda x: x[1:] * x[:-1], np.ones(4))
    assert str(gt.spy(pattern)) in pattern._repr_html_()


def test_a_history_shows_its_first_and_last_numbers():
    history = gt.training.History()
    for epoch in range(9):
        history.add({"loss": float(epoch)})
    assert "0, 1, ..., 5, 6, 7, 8" in history._repr_html_()
    assert repr(history) == "History(9 epochs, last: loss=8)"


def test_code_outside_notebooks_is_named_by_its_file():
    assert shell() is None
    assert not in_notebook()
    assert shown_file(__file__) == __file__
