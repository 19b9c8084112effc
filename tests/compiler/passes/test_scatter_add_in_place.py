"""Rows that are added to a tensor: no zeros of the whole size, and the same numbers."""

import collections

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import optimize
from gradtape.compiler.passes.scatter_add_in_place import add_rows
from gradtape.ir.verify import verify
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.tensor.tensor import program_of

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(80, 24))
DEEP = RNG.normal(size=(6, 30, 8))
PLACES = np.array([3, 79, 3, 0, 17])
# Whatever a program reads beside the table: positions, some of them twice, and numbers.
RANDOM = {"i": lambda shape: RNG.integers(0, 5, shape), "f": RNG.random}
SMALL = np.array([3, 5, 3, 0])


def rows(n, x):
    taken = n.take(x, PLACES, axis=0)
    return n.sum(n.sin(taken)) + n.sum((x @ x.T) ** 2)


def columns(n, x):
    taken = n.take(x.T, PLACES % 24, axis=0)
    return n.sum(n.sin(taken)) + n.sum((x @ x.T) ** 2)


def deep(n, x):
    taken = n.take(n.permute_dims(x, (2, 0, 1)), SMALL, axis=0)
    return n.sum(n.cos(taken)) + n.sum(n.sin(x @ n.permute_dims(x, (0, 2, 1))))


def both(n, x):
    return rows(n, x) + columns(n, x)


CASES = {
    "rows": (rows, TABLE), "columns": (columns, TABLE), "deep": (deep, DEEP), "both": (both, TABLE),
}  # fmt: skip


def gradient(formula, x):
    x = gt.asarray(x)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = formula(gt, x)
    return tape.gradient(y, x)


def counted(program):
    return collections.Counter(node.op.name for node in program.nodes)


@pytest.mark.parametrize("name", CASES)
def test_same_numbers(name):
    formula, x = CASES[name]
    program = optimize(program_of(gradient(formula, x)))
    changed = add_rows(program)
    verify(changed)
    assert counted(changed)["add"] < counted(program)["add"]
    assert counted(changed)["full"] < counted(program)["full"]
    values = [x if node.shape == x.shape else RANDOM[node.dtype.kind](node.shape)
              for node in program.inputs]  # fmt: skip
    assert changed.inputs == program.inputs
    one, other = (NumpyPlan(each).run(values)[0] for each in (program, changed))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_compiled(name, monkeypatch):
    formula, x = CASES[name]
    monkeypatch.setattr(tiers, "MODE", "off")
    expected = gradient(formula, x).numpy()
    monkeypatch.setattr(tiers, "MODE", "always")
    np.testing.assert_allclose(gradient(formula, x).numpy(), expected, rtol=1e-11, atol=1e-11)
    found = gt.function(gt.grad(lambda x: formula(gt, x)))
    for _ in range(3):
        np.testing.assert_allclose(found(gt.asarray(x)).numpy(), expected, rtol=1e-11, atol=1e-11)


def test_the_product_is_changed_in_place():
    """The weights of a last layer: a product, to which rows are added."""
    words, hidden = gt.asarray(RNG.normal(size=(64, 500))), gt.asarray(RNG.normal(size=(5, 64)))

    def loss(words):
        wanted = gt.sum(hidden * gt.take(words.T, gt.asarray(PLACES), axis=0))
        return gt.sum(gt.exp(hidden @ words)) - wanted

    with gt.GradientTape() as tape:
        tape.watch(words)
        y = loss(words)
    plan = CompiledPlan(optimize(program_of(tape.gradient(y, words))))
    assert len(plan.lowered.outputs.parts) == 1


def keeps(found):
    program = optimize(program_of(*found))
    return counted(add_rows(program))["add"] == counted(program)["add"]


def test_terms_that_others_read_stay():
    x = gt.asarray(TABLE)
    zeros = gt.zeros(TABLE.shape)
    rows = gt.scatter_add(zeros, PLACES, TABLE[:5])
    whole = x @ TABLE.T @ TABLE
    assert not keeps([rows + whole])
    assert keeps([rows + whole, rows])
    assert keeps([rows + whole, whole])
    assert keeps([rows + whole[:1]])
    assert keeps([rows + rows])
