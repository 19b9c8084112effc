"""Sums and products that a later loop computes again, and values that must be computed once."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.passes.fuse import fuse
from gradtape.compiler.passes.units import FusedLoop
from gradtape.ir.node import leaf
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.ops.elementwise.unary import exp, tanh
from gradtape.ops.matrices.contraction import matmul
from gradtape.ops.reductions.extrema import max as largest
from gradtape.ops.reductions.reduction import sum as total
from gradtape.runtime import tiers

SHAPE = (512, 256)


def leaves(count, dtype="float32"):
    return [leaf(number, spec(SHAPE, np.dtype(dtype))) for number in range(count)]


def loops(*outputs):
    units = fuse(program(list(outputs)), fusible).units
    return [unit for unit in units if isinstance(unit, FusedLoop)]


def test_a_product_is_not_stored_for_a_later_loop():
    x, y = leaves(2)
    double = x * y
    row = total(exp(double), axis=1, keepdims=True)
    first, second = loops(total(double * row + x + y))
    assert double not in first.outputs
    assert double in first.nodes
    assert double in second.nodes


def test_a_function_is_stored():
    (x,) = leaves(1)
    slow = tanh(x)
    row = total(slow, axis=1, keepdims=True)
    first, second = loops(total(slow * row))
    assert slow in first.outputs
    assert slow not in second.nodes


def test_a_value_that_is_compared_has_one_rounding():
    x, y = leaves(2)
    scaled = x * y
    row = largest(scaled, axis=1, keepdims=True)
    first, _ = loops(total((scaled - row) * x + y))
    assert scaled in first.outputs
    other = x * y + 1.0
    row = total(other, axis=1, keepdims=True)
    first, _ = loops(total(gt.where(other > row, x, y) + other))
    assert other in first.outputs


def test_an_operand_that_a_product_reads_is_stored():
    x, y = leaves(2)
    both = x + y
    product = matmul(both, leaf(2, spec((256, 256), np.dtype("float32"))))
    first, _ = loops(total(product * both + x + y))
    assert both in first.outputs


def test_two_new_loads_are_not_worth_it():
    x, y = leaves(2)
    both = x + y
    row = total(exp(both), axis=1, keepdims=True)
    first, second = loops(total(both * row))
    assert both in first.outputs
    assert both not in second.nodes


def test_small_values_stay_in_the_caches():
    x, y = (leaf(number, spec((8, 8), np.dtype("float32"))) for number in range(2))
    double = x * y
    row = total(exp(double), axis=1, keepdims=True)
    first, _ = loops(total(double * row + x + y))
    assert double in first.outputs


@pytest.mark.parametrize("shape", [SHAPE, (300, 301)])
def test_the_numbers(monkeypatch, shape):
    """Loops that compute values again give what NumPy gives; so do the same loops resized."""
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal(shape).astype("float32"), rng.standard_normal(shape[1])
    b = b.astype("float32")

    def f(x, b):
        h = x + b
        return gt.sum(0.5 * h * (1.0 + gt.tanh(0.8 * (h + 0.05 * h * h * h))), axis=0)

    def slopes():
        vjp = gt.vjp(f, gt.asarray(x), gt.asarray(b))[1]
        return [np.asarray(each) for each in vjp(gt.asarray(np.cos(b)))]

    monkeypatch.setattr(tiers, "MODE", "off")
    expected = slopes()
    monkeypatch.setattr(tiers, "MODE", "always")
    for found, wanted in zip(slopes(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-4)
