"""Flops and bytes follow from the facts of ops."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.passes import loops_of, optimize
from gradtape.ir import apply, placeholder, spec, topological
from gradtape.ir.op import REGISTRY
from gradtape.ops.matrices.decompositions import CHOLESKY, QR_OP
from gradtape.ops.matrices.factors import LU_FACTORS, LU_SOLVE
from gradtape.ops.matrices.fft import RFFT
from gradtape.ops.matrices.linalg import DET, INV, SLOGDET, SOLVE, TRIANGULAR_SOLVE
from gradtape.ops.matrices.matrix_functions import PINV
from gradtape.ops.matrices.spectral import EIGH, EIGVALSH, SVD_OP, SVDVALS
from gradtape.tools.profiler import costs


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


def node(op, shapes, params=(), dtype="float64"):
    """An application to operands of these shapes. Many decompositions are computed on their line,
    so no program has them that a user could ask for."""
    operands = tuple(placeholder(spec(shape, np.dtype(dtype))) for shape in shapes)
    return apply(op, operands, params)


@pytest.mark.parametrize(
    ("op", "shapes", "params", "expected"),
    [
        (CHOLESKY, [(6, 6)], (), 6**3 / 3),
        (CHOLESKY, [(5, 6, 6)], (), 5 * 6**3 / 3),
        (SOLVE, [(6, 6), (6, 2)], (), 2 * 6**3 / 3 + 2 * 6**2 * 2),
        (SOLVE, [(6, 6), (3, 6, 2)], (), 3 * (2 * 6**3 / 3 + 2 * 6**2 * 2)),
        (TRIANGULAR_SOLVE, [(6, 6), (6, 4)], (True, False), 6**2 * 4),
        (TRIANGULAR_SOLVE, [(7, 6, 6), (6, 4)], (True, False), 7 * 6**2 * 4),
        (INV, [(6, 6)], (), 2 * 6**3),
        (DET, [(2, 3, 6, 6)], (), 6 * 2 * 6**3 / 3),
        (SLOGDET, [(6, 6)], (), 2 * 6**3 / 3),
        (LU_FACTORS, [(4, 6, 6)], (), 4 * 2 * 6**3 / 3),
        # A tall QR: as many for R as for Q. A wide one: Q is square. A complete one: Q has all.
        (QR_OP, [(9, 4)], (False,), 2 * (2 * 9 * 4**2 - 2 * 4**3 / 3)),
        (QR_OP, [(4, 9)], (False,), 2 * 9 * 4**2 - 2 * 4**3 / 3 + 4 * 4**3 / 3),
        (QR_OP, [(9, 4)], (True,),
         2 * 9 * 4**2 - 2 * 4**3 / 3 + 4 * (9**2 * 4 - 9 * 4**2 + 4**3 / 3)),
        (EIGVALSH, [(6, 6)], (), 4 * 6**3 / 3),
        (EIGH, [(5, 6, 6)], (), 5 * 9 * 6**3),
        (SVDVALS, [(6, 6)], (), 8 * 6**3 / 3),
        (SVDVALS, [(90, 4)], (), 2 * 90 * 4**2 + 2 * 4**3),
        (SVDVALS, [(4, 90)], (), 2 * 90 * 4**2 + 2 * 4**3),
        (SVD_OP, [(5, 6, 6)], (False,), 5 * 22 * 6**3),
        (SVD_OP, [(90, 4)], (False,), 6 * 90 * 4**2 + 20 * 4**3),
        (SVD_OP, [(90, 4)], (True,), 4 * 90**2 * 4 + 22 * 4**3),
        (PINV, [(6, 6)], (None,), 22 * 6**3 + 2 * 6**3),
        (PINV, [(90, 4)], (None,), 6 * 90 * 4**2 + 20 * 4**3 + 2 * 90 * 4 * 4),
        (RFFT, [(3, 8)], (1, "backward"), 3 * 2.5 * 8 * 3),
    ],
)  # fmt: skip
def test_flops_of_decompositions_and_solves(op, shapes, params, expected):
    assert costs.flops(node(op, shapes, params)) == pytest.approx(expected, rel=1e-12)


def test_complex_decompositions_cost_four_times_as_much():
    # The eigenvalues are real, the work is not.
    for op in (CHOLESKY, EIGVALSH, SVDVALS, INV):
        real, complex_ = (node(op, [(6, 6)], (), each) for each in ("float64", "complex128"))
        assert costs.flops(complex_) == 4 * costs.flops(real)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: gt.fft.fft(array(3, 8)), 3 * 5 * 8 * 3),
        (lambda: gt.fft.ifftn(array(4, 8)), 5 * 32 * 5),
        (lambda: gt.fft.rfft(array(3, 8)), 3 * 2.5 * 8 * 3),
        (lambda: gt.fft.irfft(array(3, 5)), 3 * 2.5 * 8 * 3),
        (lambda: gt.fft.fft(array(3, 1)), 0),
    ],
)
def test_flops_of_transforms(make, expected):
    assert costs.flops(node_of(make())) == expected


def test_factors_and_solves_cost_what_the_solve_does():
    whole = node(SOLVE, [(100, 100), (100, 3)])
    a, b = whole.inputs
    parts = SOLVE.composition(a, b)
    found = [each for each in topological([parts]) if each.inputs]
    assert [each.op for each in found if each.op.flops is not None] == [LU_FACTORS, LU_SOLVE]
    assert sum(map(costs.flops, found)) == pytest.approx(costs.flops(whole))


def test_a_convolution_counts_its_window():
    y = gt.tf.nn.conv2d(array(2, 8, 8, 3), array(3, 3, 3, 5), strides=1, padding="VALID")
    nodes = gt.program_of(gt.asarray(y)).nodes
    assert max(map(costs.flops, nodes)) == 2 * (2 * 6 * 6 * 5) * (3 * 3 * 3)


def test_decompositions_declare_their_flops():
    silent = [op.name for op in REGISTRY.values() if op.solves or op.spectrum is not None
              if op.flops is None]  # fmt: skip
    assert not silent


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
