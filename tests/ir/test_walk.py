"""Walks: order, reachability, substitution, on graphs deeper than Python's stack."""

import random
import sys

import numpy as np
import pytest

from gradtape.autodiff.modes import forward, ones_like, reverse
from gradtape.ir.node import Node, apply, leaf, placeholder
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.ir.walk import dependents, substitute, topological

FLOAT = spec((), np.dtype("float64"))
SIN, ADD = REGISTRY["sin"], REGISTRY["add"]
DEPTH = 100_000


@pytest.fixture(scope="module")
def chain():
    """A source and the end of 100,000 applications, not interned: nothing else needs them."""
    source = placeholder(FLOAT)
    node = source
    for _ in range(DEPTH):
        node = Node(SIN, (node,), (), FLOAT)
    return source, node


def test_inputs_come_first_and_each_node_once():
    x, y = leaf(0, FLOAT), leaf(1, FLOAT)
    a = apply(SIN, (x,))
    b = apply(ADD, (a, y))
    c = apply(ADD, (b, a))
    assert topological([c, a]) == [x, a, y, b, c]


def test_stop_is_listed_and_not_entered():
    x = leaf(0, FLOAT)
    a = apply(SIN, (x,))
    b = apply(SIN, (a,))
    assert topological([b], stop={a}) == [a, b]


def ordered(roots, stop, done):
    """What `topological` gives, by recursion."""
    for root in roots:
        if root not in done:
            ordered(() if root in stop else root.inputs, stop, done)
            done[root] = None
    return list(done)


@pytest.mark.parametrize("seed", range(40))
def test_order_is_that_of_a_recursive_walk(seed):
    rng = random.Random(seed)
    nodes = [placeholder(FLOAT) for _ in range(3)]
    for _ in range(60):
        inputs = tuple(rng.choices(nodes[-rng.randint(1, len(nodes)) :], k=rng.randint(0, 5)))
        nodes.append(Node(ADD, inputs, (), FLOAT))
    roots, stop = rng.choices(nodes, k=4), set(rng.choices(nodes, k=3))
    assert topological(roots) == ordered(roots, (), {})
    assert topological(roots, stop) == ordered(roots, stop, {})
    first = {node: node.inputs[:1] for node in nodes}
    cut = {node: Node(ADD, (), (), FLOAT) for node in nodes}
    for node in nodes:
        cut[node].inputs = tuple(cut[parent] for parent in first[node])
    expected = ordered([cut[root] for root in roots], (), {})
    assert [cut[node] for node in topological(roots, parents=first.get)] == expected


def test_dependents_do_not_search_a_sequence_of_sources():
    class Sources(tuple):
        def __contains__(self, node):
            raise AssertionError("searched")

    x = leaf(0, FLOAT)
    a = apply(SIN, (x,))
    assert dependents([x, a], Sources([x])) == {x, a}


def test_dependents_of_sources():
    x, y = leaf(0, FLOAT), leaf(1, FLOAT)
    a, b = apply(SIN, (x,)), apply(SIN, (y,))
    c = apply(ADD, (a, b))
    assert dependents(topological([c]), {x}) == {x, a, c}
    assert dependents(topological([c]), ()) == set()


def test_substitute_rebuilds_only_what_is_above():
    x, y = leaf(0, FLOAT), leaf(1, FLOAT)
    a, b = apply(SIN, (x,)), apply(SIN, (y,))
    c = apply(ADD, (a, b))
    (found,) = substitute([c], {x: b})
    assert found is apply(ADD, (apply(SIN, (b,)), b))
    assert substitute([c, a], {}) == [c, a]
    assert substitute([c], {c: x}) == [x]


def test_deep_chain_needs_no_recursion(chain):
    assert sys.getrecursionlimit() < DEPTH
    source, end = chain
    order = topological([end])
    assert len(order) == DEPTH + 1
    assert (order[0], order[-1]) == (source, end)
    assert len(dependents(order, {source})) == DEPTH + 1
    assert len(program([end]).key()) == DEPTH + 2
    made = []

    def make(op, inputs, params):
        made.append(Node(op, inputs, params, FLOAT))
        return made[-1]

    (moved,) = substitute([end], {source: placeholder(FLOAT)}, make)
    assert moved is made[-1]
    assert len(made) == DEPTH


def test_derivatives_of_a_deep_chain_need_no_recursion(chain):
    source, _ = chain
    end = source
    for _ in range(20_000):
        end = Node(SIN, (end,), (), FLOAT)
    (slope,) = reverse([end], [ones_like(end)], [source])
    (tangent,) = forward([end], [source], [ones_like(source)])
    assert slope.spec is tangent.spec is FLOAT
