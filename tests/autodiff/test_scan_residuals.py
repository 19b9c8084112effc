"""What reverse mode through a scan saves of each step."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.scan_pullback import saved

A = gt.asarray
RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(8, 8)) * 0.3, RNG.normal(size=8)
US = RNG.normal(size=(6, 8))


def kept(step):
    """The ops whose values are saved, besides what is carried."""
    program = gt.function(lambda w, x, u: gt.scan(lambda x, u: step(w, x, u), x, u)).program(
        A(W), A(X), A(US)
    )
    (scan,) = [node for node in program.nodes if node.op.name == "scan"]
    body = scan.params[0]
    nodes = saved(Scan.of(scan))[1]
    return sorted(node.op.name for node in nodes if node not in body.inputs)


def gates(w, x, u):
    z = w @ x + u
    return gt.tanh(z[:4]), gt.exp(-(z[4:] ** 2))


STEPS = {
    # The slope of tanh is computed from its argument: from its value it has no digits in the tails.
    "the last of a chain": (lambda w, x, u: (gt.tanh(w @ x + u), None), ["add"]),
    "what is read itself": (
        lambda w, x, u: (gt.tanh(z := w @ x) * z + u, None),
        ["matmul"],
    ),
    "parts of a whole": (
        lambda w, x, u: (gt.concat([gates(w, x, u)[0], gt.sin(gates(w, x, u)[1])]), None),
        ["slice", "slice"],
    ),
    "not what is larger": (lambda w, x, u: (gt.sum(gt.sin(w * gt.sum(x)), axis=1) + u, None), None),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_is_saved(name):
    step, expected = STEPS[name]
    found = kept(step)
    if expected is not None:
        assert found == expected
    else:
        assert "sin" not in found


@pytest.mark.parametrize("name", STEPS)
def test_gradients(name):
    step, _ = STEPS[name]

    def loss(w, x, u):
        return gt.sum(gt.scan(lambda x, u: step(w, x, u), x, u)[0] ** 2)

    def unrolled(w, x, u):
        for row in range(len(US)):
            x, _ = step(w, x, u[row])
        return gt.sum(x**2)

    arguments = (A(W), A(X), A(US))
    found = gt.grad(loss, (0, 1, 2))(*arguments)
    expected = gt.grad(unrolled, (0, 1, 2))(*arguments)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
