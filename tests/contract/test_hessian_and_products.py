"""CONTRACT: hessian, jvp and hvp of tapes and functions, row by row."""

import numpy as np
import pytest
from tests.contract.recorded import recorded

import gradtape as gt
from gradtape.errors import (
    TapeConsumedError,
)


class TestHessian:
    def test_of_several_sources(self):
        a, b = gt.asarray([1.0, 2.0]), gt.asarray(3.0)
        tape, y = recorded(lambda a, b: gt.sum(a**3) * b**2, a, b)
        found = tape.hessian(y, {"a": a, "b": b})
        np.testing.assert_allclose(found["a"]["a"].numpy(), np.diag([54.0, 108.0]))
        assert found["a"]["b"].tolist() == [18.0, 72.0]
        assert found["b"]["a"].tolist() == [18.0, 72.0]
        assert float(found["b"]["b"]) == 18.0

    def test_linear_targets_have_zeros(self):
        a, b = gt.asarray([1.0, 2.0]), gt.asarray(3.0)
        tape, y = recorded(lambda a, b: gt.sum(a) + b * b, a, b)
        found = tape.hessian(y, [a, b])
        assert found[0][0].numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert found[0][1].numpy().tolist() == [0.0, 0.0]
        assert found[1][0].numpy().tolist() == [0.0, 0.0]

    def test_unconnected(self):
        a, b = gt.asarray([1.0, 2.0]), gt.asarray([1.0, 2.0, 3.0])
        tape, y = recorded(lambda a, b: gt.sum(a * a), a, b, persistent=True)
        assert tape.hessian(y, b) is None
        assert tape.hessian(y, [a, b])[0][1] is None
        zeros = tape.hessian(y, [a, b], "zero")
        assert zeros[0][1].shape == (2, 3)
        assert zeros[1][0].shape == (3, 2)
        assert zeros[1][1].numpy().shape == (3, 3)

    def test_sparse(self):
        x = gt.asarray(np.arange(1.0, 5.0))
        tape, y = recorded(lambda x: gt.sum(x[1:] * x[:-1] ** 2), x, persistent=True)
        found = tape.hessian(y, x, sparse=True)
        assert found.format == "csr"
        np.testing.assert_allclose(found.toarray(), tape.hessian(y, x).numpy())

    def test_what_was_recorded_outside_is_constant(self):
        x = gt.asarray([0.5, 1.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            with tape.stop_recording():
                c = gt.cos(x)
            y = gt.sum(gt.sin(x) * c)
        found = tape.hessian(y, x).numpy()
        np.testing.assert_allclose(found, np.diag(-np.sin([0.5, 1.0]) * np.cos([0.5, 1.0])))


class TestProducts:
    def test_jvp(self):
        a, b = gt.asarray([1.0, 2.0]), gt.asarray(3.0)
        tape, y = recorded(lambda a, b: {"p": a * b, "q": b * b}, a, b)
        found = tape.jvp(y, [a, b], [[1.0, 0.0], 1.0])
        assert found["p"].tolist() == [4.0, 2.0]
        assert float(found["q"]) == 6.0

    def test_hvp(self):
        a, b = gt.asarray([1.0, 2.0]), gt.asarray(3.0)
        tape, y = recorded(lambda a, b: gt.sum(a**3) * b, a, b)
        by_a, by_b = tape.hvp(y, [a, b], [[1.0, 0.0], 1.0])
        np.testing.assert_allclose(by_a.numpy(), [18.0 + 3.0, 12.0])
        assert float(by_b) == 3.0

    def test_hvp_is_the_hessian_times_the_vector(self):
        x = gt.asarray([0.3, 0.7, 1.1])
        v = np.array([1.0, -2.0, 0.5])
        tape, y = recorded(lambda x: gt.prod(gt.sin(x)), x, persistent=True)
        expected = tape.hessian(y, x).numpy() @ v
        np.testing.assert_allclose(tape.hvp(y, x, v).numpy(), expected, rtol=1e-12)
        f = lambda x: gt.prod(gt.sin(x))  # noqa: E731
        np.testing.assert_allclose(gt.hvp(f, x, v).numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(gt.vhp(f, x, v).numpy(), expected, rtol=1e-12)

    def test_unconnected_products_are_zero(self):
        a, b = gt.asarray([1.0, 2.0]), gt.asarray(3.0)
        tape, y = recorded(lambda a, b: gt.sum(a * a), a, b, persistent=True)
        assert float(tape.jvp(y, b, 1.0)) == 0.0
        assert float(tape.hvp(y, b, 1.0)) == 0.0

    def test_consumed(self):
        x = gt.asarray([1.0])
        for name in ("jvp", "hvp"):
            tape, y = recorded(lambda x: gt.sum(x * x), x)
            getattr(tape, name)(y, x, [1.0])
            with pytest.raises(TapeConsumedError):
                tape.gradient(y, x)


class TestFunctions:
    def test_jacobian_of_several_arguments(self):
        found = gt.jacobian(lambda a, b: a * b, argnums=(0, 1))(np.array([1.0, 2.0]), 3.0)
        assert isinstance(found, tuple)
        assert found[0].tolist() == [[3.0, 0.0], [0.0, 3.0]]
        assert found[1].tolist() == [1.0, 2.0]

    def test_nested_arguments_and_values(self):
        found = gt.jacobian(lambda p: [p["w"] * p["b"], p["b"]])({"w": np.ones(2), "b": 2.0})
        assert found[0]["w"].tolist() == [[2.0, 0.0], [0.0, 2.0]]
        assert found[1]["w"].tolist() == [0.0, 0.0]
        assert float(found[1]["b"]) == 1.0

    def test_has_aux(self):
        found, aux = gt.jacobian(lambda x: (x * x, "kept"), has_aux=True)(np.array([1.0, 2.0]))
        assert (found.tolist(), aux) == ([[2.0, 0.0], [0.0, 4.0]], "kept")
        found, aux = gt.hessian(lambda x: (gt.sum(x**3), 7), has_aux=True)(np.array([1.0]))
        assert (found.tolist(), aux) == ([[6.0]], 7)

    def test_forward_and_reverse(self):
        f = lambda x: gt.stack([gt.sum(x), gt.prod(x)])  # noqa: E731
        for made in (gt.jacfwd, gt.jacrev, gt.jacobian):
            found = made(f)(np.array([2.0, 3.0])).numpy()
            np.testing.assert_allclose(found, [[1.0, 1.0], [3.0, 2.0]])

    def test_hessian_of_what_is_no_scalar(self):
        with pytest.raises(ValueError, match=r"hessian: the function returned shape \(2,\)"):
            gt.hessian(lambda x: x * x)(np.array([1.0, 2.0]))

    def test_integer_arguments_are_refused(self):
        with pytest.raises(TypeError, match="jacobian: argument 0 has dtype int64"):
            gt.jacobian(lambda x: x * 1.0)(gt.asarray([1, 2]))

    def test_argnums_out_of_range(self):
        with pytest.raises(ValueError, match="jacobian: argnums 1 with 1 positional"):
            gt.jacobian(lambda x: x, argnums=1)([1.0])

    def test_composition_to_order_four(self):
        f = gt.jacobian(gt.jacobian(gt.jacobian(gt.jacobian(lambda x: gt.sum(x**5)))))
        found = f(gt.asarray([2.0, 1.0])).numpy()
        assert found.shape == (2, 2, 2, 2)
        assert (found[0, 0, 0, 0], found[1, 1, 1, 1]) == (240.0, 120.0)
        assert np.count_nonzero(found) == 2
