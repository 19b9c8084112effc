"""Nodes: equal applications are one object."""

import contextlib

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir import node as node_module
from gradtape.ir.node import Node, apply, constant, leaf, placeholder, table
from gradtape.ir.op import REGISTRY, Op, Undefined, declare, find
from gradtape.ir.spec import spec

FLOAT = spec((3,), np.dtype("float64"))
MULTIPLY = REGISTRY["multiply"]


def test_equal_applications_are_one_node():
    x = leaf(0, FLOAT)
    assert apply(MULTIPLY, (x, x)) is apply(MULTIPLY, (x, x))
    assert leaf(0, FLOAT) is x


def test_other_inputs_params_or_specs_are_other_nodes():
    x, y = leaf(0, FLOAT), leaf(1, FLOAT)
    found = {
        apply(MULTIPLY, (x, y)),
        apply(MULTIPLY, (y, x)),
        apply(REGISTRY["add"], (x, y)),
        apply(REGISTRY["reshape"], (x,), ((3, 1),)),
        apply(REGISTRY["reshape"], (x,), ((1, 3),)),
        leaf(0, spec((4,), np.dtype("float64"))),
    }
    assert len(found) == 6


def test_placeholders_are_never_the_same():
    assert placeholder(FLOAT) is not placeholder(FLOAT)


def test_negative_zero_has_a_structure_of_its_own():
    scalar = spec((), np.dtype("float64"))
    assert constant(0.0, scalar) is constant(0, scalar)
    assert constant(-0.0, scalar) is not constant(0.0, scalar)
    one = gt.asarray(1.0)
    assert float(gt.copysign(one, gt.asarray(-0.0))) == -1.0


def test_operators_on_nodes_are_ops_of_the_registry():
    x = leaf(0, FLOAT)
    names = [
        (x + 1.0).op.name, (1.0 - x).op.name, (x * x).op.name, (x / 2).op.name, (-x).op.name,
        (x < 1.0).op.name, (x >= x).op.name, (~(x > 0.0)).op.name,
    ]  # fmt: skip
    assert names == [
        "add", "subtract", "multiply", "divide", "negative", "less", "greater_equal", "logical_not",
    ]  # fmt: skip


def test_table_begins_anew_past_its_limit(monkeypatch):
    monkeypatch.setattr(node_module, "LARGEST_NODE_TABLE", 10)
    monkeypatch.setattr(node_module._local, "table", node_module.Table())
    gt.evaluate(gt.asarray([1.0]) + 1.0)  # what follows records into the new table
    total = gt.asarray([0.0])
    for step in range(50):
        total = total + float(step)
    assert total.tolist() == [1225.0]
    for size in range(1, 30):
        assert gt.sum(gt.asarray(np.ones(size))).item() == size
    assert len(table().nodes) <= 60


def test_a_name_is_declared_once():
    with pytest.raises(ValueError, match="an op named 'sin' exists already"):
        declare(REGISTRY["sin"])


def test_an_op_without_derivative_must_say_why():
    with pytest.raises(ValueError, match="neither jvp nor vjp"):
        declare(Op("test_only", "elementwise", spec=lambda x: x, numpy=lambda x: x))
    assert "test_only" not in REGISTRY


def test_undefined_refuses_with_its_sentence():
    with pytest.raises(LookupError, match="spin: the derivative is undefined: it has none"):
        Undefined("it has none").refuse("spin", "the derivative")


def test_ops_are_found_by_name():
    assert find("sin") is REGISTRY["sin"]
    assert repr(find("sin")) == "<Op sin>"


def test_node_is_shown_with_its_spec():
    assert repr(apply(MULTIPLY, (leaf(0, FLOAT), leaf(0, FLOAT)))) == "<multiply float64[3]>"
    assert type(leaf(0, FLOAT)) is Node


@pytest.mark.parametrize("is_recording", [False, True])
def test_the_default_dtype_is_no_part_of_what_is_interned(is_recording):
    """Integers are cast to the default dtype: their node is not found by the operands alone."""
    functions = (gt.sin, gt.exp, lambda i: i / i, gt.logsumexp, lambda i: gt.fft.fft(i).real)
    try:
        with gt.GradientTape() if is_recording else contextlib.nullcontext():
            for dtype in ("float64", "float32", "float64"):
                gt.set_default_dtype(dtype)
                assert {str(f(gt.asarray([1, 2])).dtype) for f in functions} == {dtype}
    finally:
        gt.set_default_dtype("float64")


def test_a_repeated_cast_is_the_same_graph():
    def derive():
        i, x = gt.asarray([1, 2]), gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sin(i) * x + i / i
        return tape.gradient(y, x).numpy()

    derive()
    before = gt.counters().derivatives_built
    for _ in range(3):
        derive()
    assert gt.counters().derivatives_built == before
