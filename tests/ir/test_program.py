"""Programs: what they hold, how they print, when two are alike."""

import random

import numpy as np
import pytest

import gradtape as gt
from gradtape.autodiff.modes import ones_like, reverse
from gradtape.ir.node import Node, apply, leaf, outputs, placeholder
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import names, program, show, with_outputs
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify

FLOAT = spec((2,), np.dtype("float64"))


def test_printed_exactly():
    x = gt.asarray([1.0, 2.0])
    y = gt.where(x > 0.5, gt.sin(x) * 2.0, 0.0)
    assert str(gt.program_of(gt.sum(y))) == "\n".join(
        [
            "program(a: float64[2], b: float64[], c: float64[], d: float64[]) -> i",
            "  e: bool[2] = greater(a, b)",
            "  f: float64[2] = sin(a)",
            "  g: float64[2] = multiply(f, c)",
            "  h: float64[2] = where(e, g, d)",
            "  i: float64[] = sum(h, axis=(0,), keepdims=False)",
        ]
    )


def test_printed_gradient():
    x = placeholder(FLOAT)
    y = apply(REGISTRY["sin"], (x,))
    (slope,) = reverse([y], [ones_like(y)], [x])
    assert str(program([y, slope])) == "\n".join(
        [
            "program(a: float64[2]) -> b, e",
            "  b: float64[2] = sin(a)",
            "  c: float64[2] = full(shape=(2,), value=1, dtype=float64)",
            "  d: float64[2] = cos(a)",
            "  e: float64[2] = multiply(c, d)",
        ]
    )


def test_names_go_past_the_alphabet():
    found = [name for _, name in zip(range(54), names(), strict=False)]
    assert (found[0], found[25], found[26], found[27], found[53]) == ("a", "z", "aa", "ab", "bb")


def test_holds_only_what_its_outputs_need():
    x = leaf(0, FLOAT)
    apply(REGISTRY["exp"], (x,))
    assert [node.op.name for node in program([apply(REGISTRY["cos"], (x,))]).nodes] == ["cos"]


def test_known_nodes_become_inputs():
    x = leaf(0, FLOAT)
    y = apply(REGISTRY["exp"], (x,))
    z = apply(REGISTRY["sin"], (y,))
    found = verify(program([z], known={y}))
    assert (found.inputs, found.nodes) == ((y,), (z,))


@pytest.mark.parametrize("seed", range(40))
def test_more_outputs_give_the_program_of_all(seed):
    rng = random.Random(seed)
    of = spec((), np.dtype("float64"))
    nodes = [leaf(number, of) for number in range(3)] + [placeholder(of)]
    for _ in range(40):
        inputs = tuple(rng.choices(nodes[-rng.randint(1, len(nodes)) :], k=rng.randint(0, 3)))
        nodes.append(Node(REGISTRY["add"], inputs, (), of))
    known = dict.fromkeys(rng.choices(nodes, k=4)).keys()
    chosen = rng.sample(nodes, 6)
    expected = program(chosen, known)
    found = with_outputs(program(chosen[:2], known), chosen[2:], known)
    assert found.inputs == expected.inputs
    assert found.nodes == expected.nodes
    assert found.outputs == expected.outputs


def test_an_input_can_be_an_output():
    x = leaf(0, FLOAT)
    assert show(verify(program([x, x]))) == "program(a: float64[2]) -> a, a"


def test_key_forgets_which_leaves_but_not_how_they_are_used():
    def product(a, b):
        return program([apply(REGISTRY["multiply"], (a, b))])

    x, y, z = (leaf(ordinal, FLOAT) for ordinal in range(3))
    assert product(x, y).key() == product(z, x).key()
    assert product(x, x).key() != product(x, y).key()
    other = leaf(0, spec((3,), np.dtype("float64")))
    assert product(x, x).key() != product(other, other).key()


def test_key_knows_params_and_outputs():
    x = leaf(0, FLOAT)
    wide, tall = (apply(REGISTRY["reshape"], (x,), (shape,)) for shape in ((1, 2), (2, 1)))
    assert program([wide]).key() != program([tall]).key()
    y = apply(REGISTRY["sin"], (x,))
    z = apply(REGISTRY["sin"], (y,))
    assert program([z]).key() != program([y, z]).key()


def test_outputs_of_a_node_with_several():
    x = leaf(0, FLOAT)
    several = apply(REGISTRY["custom_derivative"], (x, x), (2, None))
    first, second = outputs(several)
    assert (first.spec, second.spec) == (FLOAT, FLOAT)
    assert outputs(several) == (first, second)
    assert len(verify(program([first, second])).nodes) == 3
