"""CONTRACT: jacobian and batch_jacobian, row by row."""

import gc
import weakref

import numpy as np
import pytest
from tests.contract.recorded import recorded

import gradtape as gt
from gradtape.errors import (
    MixedExamplesError,
    NotRecordingError,
    TapeConsumedError,
    UndefinedRuleError,
)


class TestSeeds:
    """The table "Values the seeds' examples must give"."""

    def test_jacobian_of_a_pair(self):
        x = gt.asarray([2.0])
        tape, ys = recorded(lambda x: [x**2, x**3], x)
        found = tape.jacobian(ys, x)
        assert [one.tolist() for one in found] == [[[4.0]], [[12.0]]]
        assert [one.shape for one in found] == [(1, 1), (1, 1)]

    def test_gradient_of_the_pair_is_a_sum(self):
        x = gt.asarray([2.0])
        tape, ys = recorded(lambda x: [x**2, x**3], x)
        assert tape.gradient(ys, x).tolist() == [16.0]

    def test_stack_of_a_scalar(self):
        x = gt.Variable(2.0)
        with gt.GradientTape(persistent=True) as tape:
            y = gt.stack([x**2, x**3])
        assert float(tape.gradient(y, x)) == 16.0
        assert tape.jacobian(y, x).tolist() == [4.0, 12.0]

    def test_batch_jacobian_with_a_scalar_source(self):
        x = gt.Variable(2.0)
        with gt.GradientTape() as tape:
            y = gt.stack([x**2, x**3])
        with pytest.raises(ValueError, match=r"shape \(2,\).*shape \(\).*Use jacobian"):
            tape.batch_jacobian(y, x)

    def test_batch_jacobian_of_stacked_rows(self):
        x = gt.Variable([2.0, 3.0])
        with gt.GradientTape(persistent=True) as tape:
            y = gt.stack([x[0] ** 2, x[1] ** 3])
        assert tape.batch_jacobian(y, x).tolist() == [4.0, 27.0]
        assert tape.jacobian(y, x).tolist() == [[4.0, 0.0], [0.0, 27.0]]


class TestJacobian:
    def test_shape_is_target_then_source(self):
        x = gt.asarray(np.arange(6.0).reshape(2, 3))
        tape, y = recorded(lambda x: x @ np.ones((3, 4)), x)
        found = tape.jacobian(y, x)
        assert found.shape == (2, 4, 2, 3)
        expected = np.einsum("bB,oi->boBi", np.eye(2), np.ones((4, 3)))
        np.testing.assert_array_equal(found.numpy(), expected)

    def test_nests_of_targets_and_sources(self):
        a, b = gt.asarray([1.0, 2.0]), gt.asarray(3.0)
        tape, y = recorded(lambda a, b: {"p": a * b, "q": (gt.sum(a), b * b)}, a, b)
        found = tape.jacobian(y, [a, {"b": b}])
        assert found["p"][0].tolist() == [[3.0, 0.0], [0.0, 3.0]]
        assert found["p"][1]["b"].tolist() == [1.0, 2.0]
        assert found["q"][0][0].tolist() == [1.0, 1.0]
        assert found["q"][0][1]["b"] is None
        assert found["q"][1][0] is None
        assert float(found["q"][1][1]["b"]) == 6.0

    def test_tensorflow_arguments_are_accepted(self):
        x = gt.asarray([1.0, 2.0])
        tape, y = recorded(lambda x: x * x, x, persistent=True)
        for found in (
            tape.jacobian(y, x, "none", 10, False),
            tape.jacobian(y, x, parallel_iterations=10, experimental_use_pfor=True),
            tape.batch_jacobian(y, x, "zero", 10, False),
        ):
            assert found.shape[0] == 2

    def test_unconnected(self):
        x, other = gt.asarray([1.0, 2.0]), gt.asarray([[1.0], [2.0]])
        tape, y = recorded(lambda x, other: gt.stack([x[0], x[1], x[0]]), x, other, persistent=True)
        assert tape.jacobian(y, other, "none") is None
        zeros = tape.jacobian(y, other, unconnected_gradients="zero")
        assert zeros.shape == (3, 2, 1)
        assert not zeros.numpy().any()

    def test_an_unknown_word_is_an_error(self):
        x = gt.asarray([1.0])
        tape, y = recorded(lambda x: x * x, x, persistent=True)
        with pytest.raises(ValueError, match="'nothing' is unknown"):
            tape.jacobian(y, x, "nothing")
        with pytest.raises(ValueError, match="'nothing' is unknown"):
            tape.batch_jacobian(y, x, "nothing")
        with pytest.raises(ValueError, match="'nothing' is unknown"):
            tape.hessian(y, x, "nothing")

    def test_an_unknown_mode_is_an_error(self):
        x = gt.asarray([1.0])
        tape, y = recorded(lambda x: x * x, x, persistent=True)
        for ask in (tape.jacobian, tape.batch_jacobian):
            with pytest.raises(ValueError, match=r"'sideways' is unknown\. Use one of"):
                ask(y, x, mode="sideways")
        with pytest.raises(ValueError, match="sparse='yes' is unknown"):
            tape.jacobian(y, x, sparse="yes")

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    def test_modes_agree(self, mode):
        x = gt.asarray([0.5, 1.5, -2.0])
        tape, y = recorded(lambda x: gt.stack([gt.sum(x), x[0] * x[1]]), x)
        assert tape.jacobian(y, x, mode=mode).tolist() == [[1.0, 1.0, 1.0], [1.5, 0.5, 0.0]]

    def test_a_non_persistent_tape_suffices_once(self):
        x = gt.asarray([1.0, 2.0])
        tape, y = recorded(lambda x: x * x, x)
        assert tape.jacobian(y, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
        for ask in (tape.jacobian, tape.gradient, tape.batch_jacobian, tape.hessian):
            with pytest.raises(TapeConsumedError):
                ask(y, x)

    def test_a_persistent_tape_is_asked_again(self):
        x = gt.asarray([1.0, 2.0])
        tape, y = recorded(lambda x: x * x, x, persistent=True)
        for _ in range(3):
            assert tape.jacobian(y, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
        assert tape.gradient(y, x).tolist() == [2.0, 4.0]

    def test_inside_the_tape(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            found = tape.jacobian(y, x)
        assert found.tolist() == [[2.0, 0.0], [0.0, 4.0]]
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x * x
            first = tape.jacobian(y, x)
            second = tape.jacobian(gt.sum(first, axis=1), x)
        assert second.tolist() == [[6.0, 0.0], [0.0, 12.0]]

    def test_a_tape_that_recorded_nothing(self):
        with pytest.raises(NotRecordingError, match="recorded nothing"):
            gt.GradientTape().jacobian(gt.asarray(1.0), gt.asarray(1.0))

    def test_targets_must_be_tensors(self):
        x = gt.asarray([1.0])
        tape, _ = recorded(lambda x: x * x, x)
        with pytest.raises(ValueError, match=r"jacobian: target: expected a tensor.*got float"):
            tape.jacobian(3.0, x)

    def test_a_target_that_is_a_source(self):
        x = gt.asarray([[1.0, 2.0]])
        tape, _ = recorded(lambda x: x * x, x)
        np.testing.assert_array_equal(tape.jacobian(x, x).numpy(), np.eye(2).reshape(1, 2, 1, 2))

    def test_repeated_sources_and_intermediates(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            z = x * x
            y = gt.sum(z * x)
        by_x, again, by_z = tape.jacobian(y, [x, x, z])
        assert by_x.tolist() == again.tolist() == [3.0, 12.0]
        assert by_z.tolist() == [1.0, 2.0]

    def test_integers_and_booleans_are_unconnected(self):
        x = gt.asarray([1.5, 2.5])
        whole = gt.asarray([1, 2])
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = gt.cast(x, gt.int64)
            z = gt.cast(y, gt.float64) * whole
        with pytest.warns(UserWarning, match="the target has no float dtype"):
            assert tape.jacobian(y, x) is None
        with pytest.warns(UserWarning, match="through NumPy arrays or integers"):
            assert tape.jacobian(z, x) is None
        with pytest.warns(UserWarning, match="it has dtype int64"):
            assert tape.jacobian(z, whole) is None
        assert tape.jacobian(x > 2.0, x, "none") is None
        assert tape.jacobian(y, x, "zero").numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]

    def test_steps_have_derivative_zero(self):
        x = gt.asarray([1.5, 2.5])
        tape, y = recorded(lambda x: gt.floor(x) + gt.sign(x), x)
        assert tape.jacobian(y, x).tolist() == [[0.0, 0.0], [0.0, 0.0]]

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    def test_an_undefined_derivative_names_the_op(self, mode):
        x = gt.asarray([1.5, 2.5])
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.numpy_function(np.sin, [x], ((2,), gt.float64))
        with pytest.raises(UndefinedRuleError, match="numpy_function"):
            tape.jacobian(y, x, mode=mode)

    def test_variables(self):
        v, w = gt.Variable([1.0, 2.0], name="v"), gt.Variable(3.0, trainable=False)
        with gt.GradientTape() as tape:
            y = v * v * w
        by_v, by_w = tape.jacobian(y, [v, w], "none")
        assert by_v.tolist() == [[6.0, 0.0], [0.0, 12.0]]
        assert by_w is None

    def test_a_variable_target(self):
        v, w = gt.Variable([1.0, 2.0]), gt.Variable([0.0, 0.0])
        with gt.GradientTape() as tape:
            w.assign(v * v)
        assert tape.jacobian(w, v).tolist() == [[2.0, 0.0], [0.0, 4.0]]

    def test_a_source_means_its_value_when_watched(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            x += 10.0
            y = x * x
        assert tape.jacobian(y, x).tolist() == [[22.0, 0.0], [0.0, 24.0]]

    def test_stop_recording(self):
        x = gt.asarray([2.0, 3.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            with tape.stop_recording():
                k = x * x
            y = k * x
        assert tape.jacobian(y, x).tolist() == [[4.0, 0.0], [0.0, 9.0]]

    def test_re_entered(self):
        x = gt.asarray([2.0, 3.0])
        tape = gt.GradientTape()
        with tape:
            tape.watch(x)
            y = x * x
        with tape:
            z = y * x
        assert tape.jacobian(z, x).tolist() == [[12.0, 0.0], [0.0, 27.0]]

    def test_reset(self):
        x = gt.Variable([2.0, 3.0])
        with gt.GradientTape() as tape:
            y = x * x
            tape.reset()
            z = x * 3.0
            found = tape.jacobian([y, z], x)
        assert found[0] is None
        assert found[1].tolist() == [[3.0, 0.0], [0.0, 3.0]]

    def test_after_the_values_were_looked_at(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = gt.exp(x) @ np.eye(2)
            y.numpy()
            z = gt.sin(y)
        z.numpy()
        expected = np.diag(np.cos(np.exp([1.0, 2.0])) * np.exp([1.0, 2.0]))
        np.testing.assert_allclose(tape.jacobian(z, x).numpy(), expected)
        np.testing.assert_allclose(tape.jacobian(z, x, sparse=True).toarray(), expected)

    def test_sparse_is_csr(self):
        x = gt.asarray(np.arange(1.0, 5.0))
        tape, y = recorded(lambda x: x[1:] * x[:-1], x)
        found = tape.jacobian(y, x, sparse=True)
        assert (found.format, found.shape, found.nnz) == ("csr", (3, 4), 6)
        expected = [[2.0, 1.0, 0.0, 0.0], [0.0, 3.0, 2.0, 0.0], [0.0, 0.0, 4.0, 3.0]]
        assert found.toarray().tolist() == expected

    def test_sparse_is_flat(self):
        x = gt.asarray(np.arange(6.0).reshape(2, 3))
        tape, y = recorded(lambda x: x * x, x)
        found = tape.jacobian(y, x, sparse=True)
        assert found.shape == (6, 6)
        np.testing.assert_array_equal(found.toarray(), np.diag(2 * np.arange(6.0)))

    def test_memory(self):
        """A tape that gave its Jacobian holds nothing."""

        def step(data):
            x = gt.asarray(data)
            tape, y = recorded(lambda x: x @ x, x)
            found = tape.jacobian(y, x)
            gone = weakref.ref(x)
            del x, y
            gc.collect()
            assert gone() is None
            return found.numpy()

        data = np.ones((3, 3))
        for _ in range(3):
            step(data)


class TestNestedTapes:
    def test_jacobian_of_a_gradient_is_the_hessian(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = x[0] ** 2 * x[1]
            g = inner.gradient(y, x)
        assert outer.jacobian(g, x).tolist() == [[4.0, 2.0], [2.0, 0.0]]

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    def test_third_derivatives(self, mode):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as middle:
                middle.watch(x)
                with gt.GradientTape() as inner:
                    inner.watch(x)
                    y = gt.sum(x**3) * x[0]
                g = inner.jacobian(y, x, mode=mode)
            h = middle.jacobian(g, x, mode=mode)
        found = outer.jacobian(h, x, mode=mode).numpy()
        # y = x0^4 + x0 x1^3
        expected = np.zeros((2, 2, 2))
        expected[0, 0, 0] = 24.0
        for place in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
            expected[place] = 12.0
        expected[1, 1, 1] = 6.0
        np.testing.assert_allclose(found, expected)

    def test_gradient_through_a_jacobian(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = gt.sin(x)
            j = inner.jacobian(y, x)
            total = gt.sum(j * j)
        expected = -2 * np.sin([1.0, 2.0]) * np.cos([1.0, 2.0])
        np.testing.assert_allclose(outer.gradient(total, x).numpy(), expected)

    def test_gradient_through_a_batch_jacobian_and_a_hessian(self):
        x = gt.asarray([[1.0, 2.0], [3.0, 4.0]])
        with gt.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with gt.GradientTape(persistent=True) as inner:
                inner.watch(x)
                y = x**3
                z = gt.sum(x**3)
            j = inner.batch_jacobian(y, x)
            h = inner.hessian(z, x)
        np.testing.assert_allclose(outer.gradient(j, x).numpy(), 6 * x.numpy())
        np.testing.assert_allclose(outer.gradient(h, x).numpy(), 6 * np.ones((2, 2)))


class TestBatchJacobian:
    def test_shape(self):
        x = gt.asarray(np.arange(6.0).reshape(2, 3))
        weights = np.arange(12.0).reshape(3, 4)
        tape, y = recorded(lambda x: gt.sin(x @ weights), x)
        found = tape.batch_jacobian(y, x)
        assert found.shape == (2, 4, 3)
        expected = np.cos(x.numpy() @ weights)[:, :, None] * weights.T
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)

    def test_rank_one(self):
        x = gt.asarray([1.0, 2.0])
        tape, y = recorded(lambda x: x * x, x)
        assert tape.batch_jacobian(y, x).tolist() == [2.0, 4.0]

    @pytest.mark.parametrize(
        ("target", "source"), [((3, 2), (2, 2)), ((), (2,)), ((2,), ()), ((), ())]
    )
    def test_no_batch_axis_in_common(self, target, source):
        x = gt.asarray(np.ones(source))
        tape, y = recorded(lambda x: gt.sum(x) * np.ones(target), x)
        with pytest.raises(ValueError, match="batch_jacobian") as caught:
            tape.batch_jacobian(y, x)
        assert str(caught.value) == (
            f"batch_jacobian: target of shape {target} and source of shape {source} have no "
            "first axis in common that counts examples. Use jacobian, which needs none."
        )

    def test_a_failed_check_leaves_the_tape_usable(self):
        x = gt.asarray([1.0, 2.0])
        tape, y = recorded(lambda x: x - gt.mean(x), x)
        with pytest.raises(MixedExamplesError):
            tape.batch_jacobian(y, x)
        assert tape.jacobian(y, x).tolist() == [[0.5, -0.5], [-0.5, 0.5]]

    def test_mixing_is_refused_with_the_op(self):
        x = gt.asarray([1.0, 2.0])
        tape, y = recorded(lambda x: x - gt.mean(x), x)
        with pytest.raises(MixedExamplesError, match=r"sum mixes examples.*check=False"):
            tape.batch_jacobian(y, x)

    def test_what_cannot_be_proved_is_refused_with_the_op(self):
        x = gt.asarray([[1.0, 2.0], [3.0, 4.0]])

        @gt.custom_gradient
        def opaque(x):
            return x * x, lambda g: g * 2.0 * x

        tape, y = recorded(opaque, x)
        with pytest.raises(MixedExamplesError, match="cannot prove that custom_gradient"):
            tape.batch_jacobian(y, x)

    def test_check_false(self):
        x = gt.asarray([1.0, 2.0])
        tape, y = recorded(lambda x: x - gt.stop_gradient(gt.mean(x)) + 0.0 * gt.mean(x), x)
        assert tape.batch_jacobian(y, x, check=False).shape == (2,)

    def test_unconnected(self):
        x, other = gt.asarray([1.0, 2.0]), gt.asarray([[1.0], [2.0]])
        tape, y = recorded(lambda x, other: x * x, x, other, persistent=True)
        assert tape.batch_jacobian(y, other, "none") is None
        assert tape.batch_jacobian(y, other, "zero").numpy().shape == (2, 1)


@pytest.mark.parametrize("make", [gt.jacobian, gt.jacfwd, gt.jacrev, gt.hessian])
@pytest.mark.parametrize("size", [0, -3, -1.5, {}, "", [1]])
def test_a_bad_chunk_size_is_refused_where_it_is_given(make, size):
    with pytest.raises(ValueError, match=r"chunk_size=.* is not a number of seeds"):
        make(lambda x: x, chunk_size=size)
