"""Share: graphs before and after, as text."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import PASSES, optimize
from gradtape.compiler.passes.simplify import share_subexpressions as share
from gradtape.ir.node import Node, apply, leaf, outputs
from gradtape.ir.op import REGISTRY, Op, Undefined
from gradtape.ir.program import Program, program
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify

FLOAT = spec((2,), np.dtype("float64"))
X, Y = leaf(0, FLOAT), leaf(1, FLOAT)


def twin(name, *inputs, params=()):
    """A node of its own, as recordings make for a repeated application."""
    found = apply(REGISTRY[name], inputs, params)
    return Node(found.op, found.inputs, found.params, found.spec)


def text(found):
    return str(verify(found)).splitlines()


def test_equal_applications_become_one():
    before = program([twin("add", twin("sin", X), twin("sin", X))])
    assert text(before) == [
        "program(a: float64[2]) -> d",
        "  b: float64[2] = sin(a)",
        "  c: float64[2] = sin(a)",
        "  d: float64[2] = add(b, c)",
    ]
    assert text(share(before)) == [
        "program(a: float64[2]) -> c",
        "  b: float64[2] = sin(a)",
        "  c: float64[2] = add(b, b)",
    ]


def test_what_becomes_equal_is_shared_too():
    def tower():
        return twin("exp", twin("multiply", twin("sin", X), Y))

    after = share(program([tower(), tower(), tower()]))
    assert text(after) == [
        "program(a: float64[2], b: float64[2]) -> e, e, e",
        "  c: float64[2] = sin(a)",
        "  d: float64[2] = multiply(c, b)",
        "  e: float64[2] = exp(d)",
    ]


@pytest.mark.parametrize("name", ["identity", "stop_gradient", "positive"])
def test_identities_vanish(name):
    after = share(program([twin("sin", twin(name, twin(name, X))), twin(name, X)]))
    assert text(after) == [
        "program(a: float64[2]) -> b, a",
        "  b: float64[2] = sin(a)",
    ]


def test_other_params_or_order_are_not_shared():
    before = program(
        [
            twin("reshape", X, params=((1, 2),)),
            twin("reshape", X, params=((2, 1),)),
            twin("subtract", X, Y),
            twin("subtract", Y, X),
        ]
    )
    assert text(share(before)) == text(before)


def test_opaque_ops_are_never_shared():
    why = Undefined("it is not a function")
    opaque = Op(
        "opaque", "test", spec=lambda x: x, numpy=lambda x: x, jvp=why, vjp=why, opaque=True
    )
    nodes = [Node(opaque, (X,), (), FLOAT) for _ in range(2)]
    assert len(share(program(nodes)).nodes) == 2


def test_recomputation_is_left_alone():
    before = program([twin("sin", X), twin("sin", twin("recompute", X))])
    assert text(share(before)) == text(before)


def test_custom_derivatives_leave_nothing_to_compute():
    value = twin("sin", X)
    custom = apply(REGISTRY["custom_derivative"], (value, X), (1, None))
    after = share(program([twin("exp", outputs(custom)[0])]))
    assert text(after) == [
        "program(a: float64[2]) -> c",
        "  b: float64[2] = sin(a)",
        "  c: float64[2] = exp(b)",
    ]


def test_nothing_to_share_keeps_the_nodes_themselves():
    before = program([apply(REGISTRY["sin"], (apply(REGISTRY["cos"], (X,)),))])
    assert share(before).nodes == before.nodes


def test_inputs_stay_in_place():
    before = Program((Y, X), (), (X,))
    after = optimize(before)
    assert (after.inputs, after.outputs) == ((Y, X), (X,))


def test_share_is_among_the_passes_and_settles_at_once():
    assert share in PASSES
    once = share(program([twin("add", twin("sin", X), twin("sin", X))]))
    assert text(share(once)) == text(once)


def test_gradient_shares_the_forward_pass():
    x = gt.asarray([0.5, 1.5])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.exp(x) * gt.exp(x)
    slope = tape.gradient(y, x)
    names = [node.op.name for node in optimize(gt.program_of(y, slope)).nodes]
    assert names.count("exp") == 1
    np.testing.assert_allclose(slope.numpy(), 2 * np.exp([1.0, 3.0]))
