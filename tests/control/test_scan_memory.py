"""What the gradient of a scan keeps of every step."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import optimize
from gradtape.ops.control import scan_products, scan_pullback

STEPS, ROWS, STATES = 10, 32, 8
RNG = np.random.default_rng(0)
WEIGHTS = 0.3 * RNG.standard_normal((STATES, STATES))
GIVEN = RNG.standard_normal((STEPS, ROWS, STATES))


def loss(weights, bias, squared_after=False):
    def step(x, given):
        after = gt.tanh(x @ weights + bias + given)
        return after, gt.sum((after if squared_after else x) ** 2)

    last, squares = gt.scan(step, gt.zeros((ROWS, STATES)), gt.asarray(GIVEN))
    return gt.sum(last) + gt.sum(squares)


def gradient(squared_after=False):
    """The gradient, and how many values of each step its program keeps."""
    weights, bias = gt.asarray(WEIGHTS), gt.asarray(np.ones(STATES))
    with gt.GradientTape() as tape:
        tape.watch([weights, bias])
        found = loss(weights, bias, squared_after)
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
    monkeypatch.setattr(scan_products, "LARGE_PRODUCT_STACK", 8 * STEPS * ROWS * STATES - 1)
    monkeypatch.setattr(scan_products, "MANY_PRODUCT_ROWS", rows)
    gt.clear_plans()
    found, stacks = gradient()
    # Steps with few rows are multiplied after the loop, however many they are.
    assert stacks == (2 if rows == ROWS else 3)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_small_stacks_of_carried_functions_are_kept_and_large_ones_computed_again(monkeypatch):
    gt.clear_plans()
    expected, stacks = gradient(squared_after=True)
    # The states before, the argument of tanh, its result, and the cotangents.
    assert stacks == 4
    monkeypatch.setattr(scan_pullback, "SMALL_RESIDUAL_STACK", 8 * STEPS * ROWS * STATES - 1)
    gt.clear_plans()
    found, stacks = gradient(squared_after=True)
    assert stacks == 3
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
