"""CONTRACT: NumPy protocols and borrowed memory."""

import numpy as np
import pytest

import gradtape as gt


class TestNumPyProtocols:
    def test_ufuncs_record(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = np.sum(np.sin(x) * np.exp(x) + np.arctan2(x, 2.0))
        expected = np.exp([1, 2.0]) * (np.sin([1, 2.0]) + np.cos([1, 2.0])) + 2 / (
            4 + np.array([1, 4.0])
        )
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), expected)

    def test_mixed_operands(self):
        x = gt.asarray([1.0, 2.0])
        for y in (
            np.array([1.0, 2.0]) * x,
            np.float64(2.0) * x,
            np.add(np.ones(2), x),
            np.ones((2, 2)) @ x,
        ):
            assert isinstance(y, gt.Tensor)

    def test_solve_and_concatenate(self):
        a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(b)
            y = np.sum(np.concatenate([np.linalg.solve(a, b), b]))
        np.testing.assert_allclose(
            tape.gradient(y, b).numpy(), np.linalg.solve(a.T, np.ones(2)) + 1
        )

    def test_what_is_not_covered_raises(self):
        x = gt.asarray([1.0, 2.0])
        with pytest.raises(TypeError, match=r"np\.put"):
            np.put(x, [0], [1.0])
        with pytest.raises(TypeError, match=r"np\.frexp"):
            np.frexp(x)
        with pytest.raises(TypeError, match="out="):
            np.add(x, x, out=np.zeros(2))

    @pytest.mark.parametrize(
        "name", ["sin", "absolute", "power", "logaddexp", "matmul", "linalg.norm"]
    )
    def test_covered_lists(self, name):
        assert name in gt.numpy_protocols.covered()

    def test_asarray_raises_when_tracked(self):
        x = gt.asarray([1.0, 2.0])
        assert np.asarray(x).tolist() == [1.0, 2.0]
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            with pytest.raises(gt.errors.LostDerivativeError, match=r"gt\.stack"):
                np.asarray(y)
            assert y.numpy().tolist() == [1.0, 4.0]
        assert tape.gradient(y, x).tolist() == [2.0, 4.0]

    def test_asarray_is_allowed_once_nothing_is_recorded(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
        assert np.asarray(y).tolist() == [1.0, 4.0]
        assert np.asarray(tape.gradient(y, x)).tolist() == [2.0, 4.0]
        _, push = gt.linearize(lambda x: x * x, x)
        assert np.asarray(push(x)).tolist() == [2.0, 8.0]

    def test_exports_are_read_only(self):
        x = gt.asarray([1.0, 2.0])
        for array in (x.numpy(), np.asarray(x), (x * 2.0).numpy(), np.from_dlpack(x)):
            assert not array.flags.writeable
        assert np.array(x, copy=True).flags.writeable

    def test_dlpack_both_ways(self):
        x = gt.from_dlpack(np.arange(3.0))
        assert np.from_dlpack(x).tolist() == [0.0, 1.0, 2.0]
        source = np.arange(3.0)
        y = gt.from_dlpack(source)
        source[0] = 100.0
        assert y.tolist() == [0.0, 1.0, 2.0]
