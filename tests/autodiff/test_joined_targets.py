"""Jacobians of stacks: part by part, unless the parts are computed from the same nodes."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.config import MOST_REPEATED_PARTS as MOST_REPEATED


def shared(count):
    """Numbers that are all computed from the same long chain."""

    def f(x):
        y = x
        for _ in range(30):
            y = 0.5 * gt.sin(y) + 0.1 * gt.cos(gt.sum(y)) + 0.1 * gt.flip(x)
        return gt.stack([y[0] * (k + 1.0) + y[1] ** 2 for k in range(count)])

    return f


def apart(count):
    """Numbers that have nothing in common but their source."""

    def f(x):
        return gt.stack([gt.exp(gt.sin(x[k]) * x[0]) for k in range(count)])

    return f


def nodes_of(function, x):
    return len(gt.program_of(gt.jacobian(function)(gt.asarray(x))).nodes)


@pytest.mark.parametrize("count", [3, MOST_REPEATED + 4])
@pytest.mark.parametrize("function", [shared, apart])
def test_columns_are_differences(function, count):
    f, x = function(count), np.linspace(0.1, 0.9, count)
    found = gt.jacobian(f)(gt.asarray(x)).numpy()
    for k in range(count):
        step = np.zeros(count)
        step[k] = 1e-6
        above, below = (f(gt.asarray(x + s * step)).numpy() for s in (1, -1))
        np.testing.assert_allclose(found[:, k], (above - below) / 2e-6, rtol=1e-4, atol=1e-5)


def test_many_parts_of_one_computation_are_differentiated_together():
    few = nodes_of(shared(MOST_REPEATED), np.ones(4))
    many = nodes_of(shared(4 * MOST_REPEATED), np.ones(4))
    assert many < 2 * few


def test_parts_that_share_little_stay_apart():
    # Otherwise each of them would be computed for all seeds.
    count = 2 * MOST_REPEATED
    program = gt.program_of(gt.jacobian(apart(count))(gt.asarray(np.ones(count))))
    assert not any(node.op.name == "exp" and node.size > 1 for node in program.nodes)
