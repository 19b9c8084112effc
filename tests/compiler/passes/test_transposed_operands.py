"""Turn: graphs before and after, as text."""

import numpy as np

import gradtape as gt
from gradtape.compiler.passes.transposed_operands import delay_transposes
from gradtape.ir.node import apply, leaf
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify

FLOAT = np.dtype("float64")
X = leaf(0, spec((5, 3), FLOAT))
S = leaf(1, spec((5,), FLOAT))


def node(name, *inputs, params=()):
    return apply(REGISTRY[name], inputs, params)


def transposed(x):
    return node("permute_dims", x, params=((1, 0),))


def text(found):
    return str(verify(found)).splitlines()


def test_scaling_keeps_the_layout():
    before = program([node("matmul", node("multiply", transposed(X), S), X)])
    assert text(delay_transposes(before)) == [
        "program(a: float64[5,3], b: float64[5]) -> g",
        "  c: float64[1,5] = reshape(b, shape=(1, 5))",
        "  d: float64[5,1] = permute_dims(c, axes=(1, 0))",
        "  e: float64[5,3] = multiply(a, d)",
        "  f: float64[3,5] = permute_dims(e, axes=(1, 0))",
        "  g: float64[3,3] = matmul(f, a)",
    ]


def test_a_chain_turns_as_a_whole():
    chain = node("sin", node("multiply", node("multiply", transposed(X), S), transposed(X)))
    after = text(delay_transposes(program([node("matmul", chain, X)])))
    assert sum("permute_dims" in line and "[3,5]" in line for line in after) == 1


def test_what_others_read_stays():
    scaled = node("multiply", transposed(X), S)
    before = program([node("matmul", scaled, X), scaled])
    assert delay_transposes(before) is before


def test_what_is_not_transposed_throughout_stays():
    other = leaf(2, spec((3, 5), FLOAT))
    before = program([node("matmul", node("multiply", transposed(X), other), X)])
    assert delay_transposes(before) is before


def test_products_of_products_are_not_computed_twice():
    inner = node("matmul", node("multiply", transposed(X), S), X)
    weights = node("sum", inner, params=((0, 1), False))
    outer = node("matmul", node("multiply", transposed(X), weights), X)
    after = text(delay_transposes(program([outer])))
    assert sum("matmul" in line for line in after) == 2


def test_inputs_are_not_looked_into():
    """An input may be any node whose value is known."""
    view = transposed(X)
    scaled = node("multiply", view, S)
    for known in ([view], [scaled], [X, view]):
        before = program([node("matmul", scaled, X)], known)
        after = delay_transposes(before)
        assert after.inputs == before.inputs
        verify(after)


def test_values():
    rng = np.random.default_rng(0)
    x, s, t = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(3, 1))
    a = gt.asarray(x)
    found = (gt.sin(a.T * s) * t) @ a + a.T @ (gt.exp(a) * s[:, None])
    expected = (np.sin(x.T * s) * t) @ x + x.T @ (np.exp(x) * s[:, None])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)
    batch = gt.asarray(rng.normal(size=(2, 4, 3)))
    found = (batch.mT * 2.0) @ batch
    np.testing.assert_allclose(found.numpy(), (batch.numpy().mT * 2.0) @ batch.numpy())
