"""Flops and bytes follow from the facts of ops."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.codegen.kernels.lower import fusible
from gradtape.inspect.profiler import costs
from gradtape.optimize import loops_of, optimize


def node_of(tensor):
    return gt.program_of(tensor).outputs[0]


def array(*shape, dtype="float64"):
    return gt.asarray(np.ones(shape, dtype))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: array(3, 4) @ array(4, 5), 2 * 3 * 4 * 5),
        (lambda: array(2, 3, 4) @ array(4, 5), 2 * 2 * 3 * 4 * 5),
        (lambda: gt.einsum("ij,jk->ik", array(3, 4), array(4, 5)), 2 * 3 * 4 * 5),
        (lambda: array(3, 4) + 1.0, 12),
        (lambda: gt.sum(array(3, 4)), 12),
        (lambda: gt.reshape(array(3, 4), (12,)), 0),
        (lambda: gt.concat([array(3), array(4)]), 0),
    ],
)
def test_flops(make, expected):
    assert costs.flops(node_of(make())) == expected


def test_a_sine_costs_more_than_a_sum():
    x = array(10)
    assert costs.flops(node_of(gt.sin(x))) > costs.flops(node_of(x + x))


def test_complex_numbers_cost_four_times_as_much():
    assert costs.flops(node_of(array(3, dtype="complex128") * 2.0)) == 12


def test_a_loop_costs_its_steps():
    def body(carry, _):
        return carry + 1.0, None

    final, _ = gt.scan(body, array(4), gt.zeros((7,)))
    node = node_of(final)
    assert costs.flops(node.inputs[0]) == pytest.approx(7 * 4)


def test_a_fused_loop_reads_each_value_once():
    x, row = array(100, 10), array(10)
    program, fused = loops_of(optimize(gt.program_of(x * x + row)), fusible)
    (unit,) = fused.units
    assert costs.unit_bytes(unit, fused) == 8 * (1000 + 10 + 1000)
    assert costs.kind(unit) == "fused loop"
    assert sum(costs.weights(unit).values()) == pytest.approx(1.0)
    assert costs.title(unit) == "multiply, add"
    assert len(program.outputs) == 1
