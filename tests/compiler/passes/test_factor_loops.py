"""Factor loops: what a loop solves with in every step is factored once."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import for_loops, optimize
from gradtape.runtime import tiers

RNG = np.random.default_rng(5)
MATRIX = 4.0 * np.eye(20) + 0.1 * RNG.standard_normal((20, 20))
START = RNG.standard_normal(20)


def last(matrix, start, steps=6):
    return gt.scan(lambda u, _: (gt.linalg.solve(matrix, u), None), start, None, length=steps)[0]


def ops_of(function, *arguments):
    """The names of ops outside and inside the loops of a function as it is compiled."""
    compiled = gt.function(function)
    for _ in range(3):
        compiled(*map(gt.asarray, arguments))
    (captured,) = compiled.captured
    found = for_loops(optimize(captured.steps.root.runs[0].plan.program))
    inside = [
        each.op.name
        for node in found.nodes
        if node.op.name == "scan"
        for each in node.params[0].nodes
    ]
    return [node.op.name for node in found.nodes], inside


def test_one_factorisation_before_the_loop():
    outside, inside = ops_of(last, MATRIX, START)
    assert outside.count("lu_factors") == 1
    assert "lu_factors" not in inside
    assert "lu_solve" in inside


def test_the_derivative_shares_the_factors():
    slopes = gt.grad(lambda a, u: gt.sum(last(a, u) ** 2), (0, 1))
    outside, inside = ops_of(slopes, MATRIX, START)
    assert outside.count("lu_factors") == 1
    assert "lu_factors" not in inside


def test_a_matrix_that_changes_is_factored_in_each_step():
    def scaled(matrix, start, scales):
        return gt.scan(lambda u, s: (gt.linalg.solve(matrix * s, u), None), start, scales)[0]

    outside, inside = ops_of(scaled, MATRIX, START, np.array([1.0, 2.0, 3.0]))
    assert "lu_factors" not in outside
    assert "solve" in inside or "lu_factors" in inside


@pytest.mark.parametrize("steps", [1, 2, 6])
def test_values_and_derivatives(monkeypatch, steps):
    def both():
        matrix, start = gt.asarray(MATRIX), gt.asarray(START)
        loss = lambda a, u: gt.sum(gt.sin(last(a, u, steps)))  # noqa: E731
        found = gt.grad(loss, (0, 1))(matrix, start)
        return [last(matrix, start, steps).numpy(), *[each.numpy() for each in found]]

    monkeypatch.setattr(tiers, "MODE", "off")
    expected = both()
    monkeypatch.setattr(tiers, "MODE", "always")
    for got, want in zip(both(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_a_singular_matrix_raises_in_both_tiers(monkeypatch):
    singular = np.ones((20, 20))
    for mode in ("off", "always"):
        monkeypatch.setattr(tiers, "MODE", mode)
        with pytest.raises(gt.errors.MatrixError, match="singular"):
            last(gt.asarray(singular), gt.asarray(START)).numpy()
