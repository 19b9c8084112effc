"""Sums of parts in zeros: which become concatenations, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes.join_parts import join_parts
from gradtape.ir.node import leaf
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.arrays.slicing import UNSLICE
from gradtape.runtime import tiers
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.record import record

ROWS, COLUMNS = 200, 12


def part(number, start, length):
    of = leaf(number, spec((ROWS, length), np.dtype("float64")))
    params = ((0, start), (ROWS, length), (1, 1), (ROWS, COLUMNS))
    return record(UNSLICE, (of,), params)


def joined(node):
    found = join_parts(program([node]))
    verify(found)
    return found, sum(each.op is CONCAT for each in found.nodes)


def same_numbers(node, found):
    rng = np.random.default_rng(0)
    values = {each: rng.standard_normal(each.shape) for each in program([node]).inputs}
    (expected,) = NumpyPlan(program([node])).run([values[each] for each in program([node]).inputs])
    (got,) = NumpyPlan(found).run([values[each] for each in found.inputs])
    # Terms may be added in another order.
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=1e-14)


def test_parts_side_by_side():
    node = part(0, 0, 5) + part(1, 5, 3) + part(2, 9, 2)
    found, joins = joined(node)
    assert joins == 1
    assert not any(each.op is UNSLICE for each in found.nodes)
    same_numbers(node, found)


def test_other_terms_stay():
    wide = leaf(5, spec((ROWS, COLUMNS), np.dtype("float64")))
    row = leaf(6, spec((COLUMNS,), np.dtype("float64")))
    node = (row + part(0, 7, 5)) + (part(1, 0, 2) + wide)
    found, joins = joined(node)
    assert joins == 1
    same_numbers(node, found)


def test_parts_that_overlap_are_added():
    node = part(0, 0, 6) + part(1, 3, 6)
    found, joins = joined(node)
    assert joins == 0
    same_numbers(node, found)
    node = part(0, 0, 6) + part(1, 3, 6) + part(2, 6, 6)
    found, joins = joined(node)
    assert joins == 1
    same_numbers(node, found)


def test_a_part_that_something_else_reads_stays():
    first = part(0, 0, 6)
    _, joins = joined(first * 2.0 + (first + part(1, 6, 6)))
    assert joins == 0


@pytest.mark.parametrize("mode", ["off", "always"])
def test_derivatives_of_slices(monkeypatch, mode):
    monkeypatch.setattr(tiers, "MODE", mode)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 15))

    def f(x):
        a, b, c, d = x[:, :3], x[:, 3:7], x[:, 7], x[:, 9:15]
        return gt.sum(gt.sin(a)) + gt.sum(b * b) + gt.sum(c) + gt.sum(gt.exp(d)) + gt.sum(x[::2])

    expected = np.zeros_like(x)
    expected[:, :3], expected[:, 3:7], expected[:, 7] = np.cos(x[:, :3]), 2 * x[:, 3:7], 1.0
    expected[:, 9:15] = np.exp(x[:, 9:15])
    expected[::2] += 1.0
    np.testing.assert_allclose(gt.grad(f)(gt.asarray(x)).numpy(), expected, rtol=1e-13)
