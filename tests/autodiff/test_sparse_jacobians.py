"""What is kept of derivatives must not depend on what happened to be computed before."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.autodiff.sparse.programs import SparseProgram
from gradtape.ir.walk import topological
from gradtape.ops.elementwise.arithmetic import STOP_GRADIENT

W = np.random.default_rng(0).normal(size=(4, 4))


def recorded(look):
    x = gt.asarray(np.arange(1.0, 5.0))
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = gt.exp(0.1 * (W @ gt.sin(x))) * x
    if look:
        y.numpy()
    return tape, x, y


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_sparse_jacobian_whether_or_not_the_value_was_seen(order):
    found = []
    for look in order:
        tape, x, y = recorded(look)
        found.append(tape.jacobian(y, x, sparse=True).toarray())
    tape, x, y = recorded(False)
    expected = tape.jacobian(y, x).numpy()
    for matrix in found:
        np.testing.assert_allclose(matrix, expected, rtol=1e-12)


def cubic(x):
    return gt.sum(x[1:] ** 3 * x[:-1])


@pytest.mark.parametrize("gradient_first", [True, False])
@pytest.mark.parametrize("look", [True, False])
def test_hessians_after_the_gradient_was_asked_for(gradient_first, look):
    x = gt.asarray(np.arange(1.0, 6.0))
    expected = gt.jacfwd(gt.grad(cubic))(x).numpy()
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = cubic(x)
    if look:
        y.numpy()
    if gradient_first:
        tape.gradient(y, x).numpy()
    np.testing.assert_allclose(tape.hessian(y, x).numpy(), expected)
    np.testing.assert_allclose(tape.hessian(y, x, sparse=True).toarray(), expected)
    np.testing.assert_allclose(tape.hvp(y, x, np.ones(5)).numpy(), expected @ np.ones(5))


def test_what_was_computed_outside_the_tape_still_counts_as_constant():
    x = gt.asarray([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with tape.stop_recording():
            k = x * x
        y = gt.sum(k * x * x)
    tape.gradient(y, x).numpy()
    # With k constant, the second derivative of k x² is 2 k.
    np.testing.assert_allclose(tape.hessian(y, x).numpy(), np.diag([2.0, 8.0]))


@pytest.mark.parametrize("sources", [1, 2])
def test_sparse_second_derivatives_read_values_computed_outside_the_window(sources):
    x, y = gt.asarray(np.arange(1.0, 5.0)), gt.asarray(np.arange(2.0, 6.0))
    outside = gt.exp(W @ x)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = gt.sum(outside * x * x * y * y)
    asked = [x, y][:sources]
    dense, sparse = tape.hessian(z, asked), tape.hessian(z, asked, sparse=True)
    for row, other in zip(dense, sparse, strict=True):
        for one, matrix in zip(row, other, strict=True):
            np.testing.assert_allclose(matrix.toarray(), one.numpy())
    recording = tape._recording
    prepared = [each for each in recording.table.derived.values() if type(each) is SparseProgram]
    plans = [each.bound for each in prepared[-sources:]]
    ops = {node.op for plan in plans for node in topological(plan.outputs)}
    assert STOP_GRADIENT not in ops
