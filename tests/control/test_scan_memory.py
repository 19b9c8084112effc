"""What the gradient of a scan keeps of every step."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.ops.control import scan_products
from gradtape.optimize import optimize

STEPS, ROWS, STATES = 10, 32, 8
RNG = np.random.default_rng(0)
WEIGHTS = 0.3 * RNG.standard_normal((STATES, STATES))
GIVEN = RNG.standard_normal((STEPS, ROWS, STATES))


def loss(weights, bias):
    def step(x, given):
        return gt.tanh(x @ weights + bias + given), gt.sum(x * x)

    last, squares = gt.scan(step, gt.zeros((ROWS, STATES)), gt.asarray(GIVEN))
    return gt.sum(last) + gt.sum(squares)


def gradient():
    """The gradient, and how many values of each step its program keeps."""
    weights, bias = gt.asarray(WEIGHTS), gt.asarray(np.ones(STATES))
    with gt.GradientTape() as tape:
        tape.watch([weights, bias])
        found = loss(weights, bias)
    slopes = tape.gradient(found, [weights, bias])
    kept = [
        of
        for node in optimize(gt.program_of(*slopes)).nodes
        if node.op.runs_bodies
        for of in node.spec
        if of.shape == (STEPS, ROWS, STATES)
    ]
    return [slope.numpy() for slope in slopes], len(kept)


@pytest.mark.parametrize("rows", [ROWS, ROWS + 1])
def test_large_stacks_of_cotangents_are_summed_in_the_loop(monkeypatch, rows):
    gt.clear_plans()
    expected, stacks = gradient()
    # The states, what the tangent of tanh reads, and the cotangents for one product after the loop.
    assert stacks == 3
    monkeypatch.setattr(scan_products, "LARGE_STACK", 8 * STEPS * ROWS * STATES - 1)
    monkeypatch.setattr(scan_products, "MANY_ROWS", rows)
    gt.clear_plans()
    found, stacks = gradient()
    # Steps with few rows are multiplied after the loop, however many they are.
    assert stacks == (2 if rows == ROWS else 3)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
