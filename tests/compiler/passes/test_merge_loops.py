"""Loops whose results another loop computes as well."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes.merge_loops import merge_loops
from gradtape.compiler.passes.simplify import share_subexpressions
from gradtape.ir.walk import visits
from gradtape.ops.control.scan import SCAN

XS = np.linspace(0.0, 1.0, 5)


def chained(count):
    """A function with so many scans, each of which starts where the last has ended."""

    def f(start):
        total = start
        for number in range(count):
            carried, _ = gt.scan(
                lambda c, x: (gt.tanh(c + x), c), total * (1.0 + number), gt.asarray(XS)
            )
            total = total + carried
        return total

    return f


def value_and_gradient(count):
    start = gt.asarray(0.1)
    with gt.GradientTape() as tape:
        tape.watch(start)
        value = chained(count)(start)
    return gt.program_of(value, tape.gradient(value, start))


def scans(program):
    return sum(node.op is SCAN for node in program.nodes)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_way_forward_runs_once(count):
    program = share_subexpressions(value_and_gradient(count))
    merged = merge_loops(program)
    # One loop forward, which saves what the one on the way back reads.
    assert scans(merged) == 2 * count < scans(program)


def test_values_stay():
    found = gt.grad(chained(3))(gt.asarray(0.1)).numpy()
    h = 1e-6
    above, below = (chained(3)(gt.asarray(0.1 + shift)).numpy() for shift in (h, -h))
    np.testing.assert_allclose(found, (above - below) / (2 * h), rtol=1e-6)


def test_work_grows_with_the_count():
    def work(count):
        program = share_subexpressions(value_and_gradient(count))
        before = visits()
        merge_loops(program)
        return (visits() - before) / count

    assert work(40) < 2 * work(10)


def test_loops_that_would_wait_for_each_other_stay():
    x = gt.asarray(XS)

    def plain(c, t):
        return gt.tanh(c + t), c

    def more(pair, t):
        return (gt.tanh(pair[0] + t), pair[1] * t), pair[0]

    start = gt.asarray(0.3)
    first, _ = gt.scan(plain, start, x)
    # Carries what the first scan does, and starts from its result.
    (again, product), _ = gt.scan(more, (start, first), x)
    program = gt.program_of(first, again, product)
    assert scans(merge_loops(share_subexpressions(program))) == 2
    np.testing.assert_allclose(first.numpy(), again.numpy())
