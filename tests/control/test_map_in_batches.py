"""gt.map with a batch size, and what loops and branches say of arguments that are not functions."""

import numpy as np
import pytest

import gradtape as gt

X = np.linspace(0.1, 1.2, 12).reshape(6, 2)


def f(x):
    return {"sine": gt.sin(x) * x[0], "total": gt.sum(x)}


@pytest.mark.parametrize("batch_size", [1, 2, 4, 5, 6, 9])
class TestBatches:
    def test_values(self, batch_size):
        found, want = gt.map(f, X, batch_size=batch_size), gt.map(f, X)
        for name in want:
            np.testing.assert_allclose(found[name].numpy(), want[name].numpy())

    def test_nests_gradients_and_functions(self, batch_size):
        def loss(x, **options):
            found = gt.map(lambda p: p["a"] @ p["b"], {"a": x, "b": x * x}, **options)
            return gt.sum(found**2)

        want = gt.grad(loss)(X).numpy()
        sliced = gt.grad(lambda x: loss(x, batch_size=batch_size))
        np.testing.assert_allclose(sliced(X).numpy(), want)
        captured = gt.function(sliced)
        for _ in range(2):
            np.testing.assert_allclose(captured(gt.asarray(X)).numpy(), want)


def test_no_elements():
    assert gt.map(f, np.zeros((0, 2)), batch_size=3)["sine"].shape == (0, 2)


def test_wrong_sizes():
    with pytest.raises(ValueError, match="batch_size=0 is not a whole number of at least 1"):
        gt.map(f, X, batch_size=0)
    with pytest.raises(TypeError, match=r"batch_size=1\.5 is not a whole number"):
        gt.map(f, X, batch_size=1.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gt.cond(True, 1.0, lambda: 2.0), "cond: true_fn: 1.0 is not callable"),
        (lambda: gt.switch(0, [3]), "switch: branch 0: 3 is not callable"),
        (lambda: gt.switch(0, 3), "switch: branches is int, not a sequence of functions"),
        (lambda: gt.while_loop(True, f, 1.0), "while_loop: cond_fn: True is not callable"),
        (lambda: gt.while_loop(f, 1.0, 1.0), "while_loop: body_fn: 1.0 is not callable"),
        (lambda: gt.fori_loop(0, 3, 1.0, 2.0), "fori_loop: body_fn: 1.0 is not callable"),
        (lambda: gt.scan(X, 0.0, X), "scan: f: .* is not callable"),
        (lambda: gt.map(X, f), "map: f: .* is not callable"),
        (lambda: gt.checkpoint(3), "checkpoint: 3 is not callable"),
    ],
)
def test_functions_are_asked_for(call, message):
    with pytest.raises(TypeError, match=message):
        call()
