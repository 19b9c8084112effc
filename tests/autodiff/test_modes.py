"""Reverse and forward mode as graph transforms: connection, blocking, derived rules."""

import numpy as np
import pytest

from gradtape.autodiff.modes import forward, ones_like, reverse
from gradtape.errors import UndefinedRuleError
from gradtape.ir.node import apply, constant, outputs, placeholder
from gradtape.ir.op import REGISTRY, Op, Undefined
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify
from gradtape.runtime.numpy_plan import NumpyPlan

FLOAT = spec((3,), np.dtype("float64"))
VALUES = np.array([0.5, 1.0, 2.0])


def call(name, *operands, params=()):
    return apply(REGISTRY[name], operands, params)


def run(node, bound):
    found = verify(program([node]))
    return NumpyPlan(found).run([bound[leaf] for leaf in found.inputs])[0]


def pull(target, source, blocked=()):
    return reverse([target], [ones_like(target)], [source], blocked)[0]


def push(target, source, blocked=()):
    return forward([target], [source], [ones_like(source)], blocked)[0]


MODES = pytest.mark.parametrize("differentiate", [pull, push])


@MODES
def test_unconnected_is_none(differentiate):
    x, y = placeholder(FLOAT), placeholder(FLOAT)
    assert differentiate(call("sin", y), x) is None


@MODES
def test_integers_are_unconnected(differentiate):
    x = placeholder(FLOAT)
    rounded = call("cast", x, params=(np.dtype("int64"),))
    assert differentiate(call("cast", rounded, params=(np.dtype("float64"),)), x) is None
    assert differentiate(call("multiply", x, call("greater", x, x)), x) is not None


@MODES
def test_target_that_is_the_source_has_derivative_one(differentiate):
    x = placeholder(FLOAT)
    assert differentiate(x, x) is ones_like(x)


@MODES
def test_blocked_nodes_are_constants(differentiate):
    x = placeholder(FLOAT)
    inner = call("sin", x)
    y = call("multiply", inner, x)
    assert differentiate(inner, x, blocked={inner}) is None
    found = differentiate(y, x, blocked={inner})
    np.testing.assert_allclose(run(found, {x: VALUES}), np.sin(VALUES))


@MODES
def test_a_blocked_source_still_counts(differentiate):
    x = placeholder(FLOAT)
    inner = call("sin", x)
    found = differentiate(call("multiply", inner, inner), inner, blocked={inner})
    np.testing.assert_allclose(run(found, {x: VALUES}), 2 * np.sin(VALUES))


def test_a_source_may_depend_on_another():
    x = placeholder(FLOAT)
    y = call("square", x)
    z = call("multiply", x, y)
    by_x, by_y = reverse([z], [ones_like(z)], [x, y])
    np.testing.assert_allclose(run(by_x, {x: VALUES}), 3 * VALUES**2)
    np.testing.assert_allclose(run(by_y, {x: VALUES}), VALUES)


def test_several_targets_add_up():
    x = placeholder(FLOAT)
    y, z = call("square", x), call("sin", x)
    (found,) = reverse([y, z], [ones_like(y), constant(3, FLOAT)], [x])
    np.testing.assert_allclose(run(found, {x: VALUES}), 2 * VALUES + 3 * np.cos(VALUES))


def test_a_repeated_source_adds_its_tangents():
    x = placeholder(FLOAT)
    y = call("square", x)
    (found,) = forward([y], [x, x], [constant(1, FLOAT), constant(2, FLOAT)])
    np.testing.assert_allclose(run(found, {x: VALUES}), 6 * VALUES)


def cube(**rules):
    """x³ with the given rules only; not entered in the registry."""
    return Op("cube", "elementwise", spec=lambda x: x, numpy=lambda x: x**3, **rules)


FORWARD_RULE = {"jvp": lambda tangents, y, inputs: tangents[0] * (3.0 * inputs[0] * inputs[0])}
REVERSE_RULE = {"vjp": lambda index, g, y, inputs: g * (3.0 * inputs[0] * inputs[0])}


@MODES
@pytest.mark.parametrize("rules", [FORWARD_RULE, REVERSE_RULE], ids=["jvp only", "vjp only"])
def test_one_rule_gives_both_modes_and_every_order(differentiate, rules):
    x = placeholder(FLOAT)
    found = apply(cube(**rules), (x,))
    for expected in (3 * VALUES**2, 6 * VALUES, np.full(3, 6.0)):
        found = differentiate(found, x)
        np.testing.assert_allclose(run(found, {x: VALUES}), expected)


@MODES
def test_undefined_rule_says_why(differentiate):
    why = Undefined("nobody knows it")
    x = placeholder(FLOAT)
    with pytest.raises(UndefinedRuleError, match="cube: the derivative is undefined: nobody knows"):
        differentiate(apply(cube(jvp=why, vjp=why), (x,)), x)


def split(x):
    """sin and cos of x, as one op with two outputs."""
    op = Op(
        "split",
        "elementwise",
        spec=lambda x: (x, x),
        numpy=lambda x: (np.sin(x), np.cos(x)),
        jvp=lambda tangents, y, inputs: (tangents[0] * y[1], -(tangents[0] * y[0])),
    )
    return outputs(apply(op, (x,)))


@MODES
def test_several_outputs(differentiate):
    x = placeholder(FLOAT)
    sine, cosine = split(x)
    both = call("multiply", sine, cosine)
    np.testing.assert_allclose(run(differentiate(sine, x), {x: VALUES}), np.cos(VALUES))
    np.testing.assert_allclose(run(differentiate(both, x), {x: VALUES}), np.cos(2 * VALUES))
    again = differentiate(differentiate(both, x), x)
    np.testing.assert_allclose(run(again, {x: VALUES}), -2 * np.sin(2 * VALUES))
