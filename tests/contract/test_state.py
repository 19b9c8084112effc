"""CONTRACT: row-sparse gradients, variables, mutation."""

import numpy as np
import pytest

import gradtape as gt


class TestRowSparse:
    def table_gradient(self):
        table = gt.Variable(np.arange(8.0).reshape(4, 2))
        with gt.GradientTape() as tape:
            rows = gt.take(table, gt.asarray([1, 3, 1]), axis=0)
            loss = gt.sum(rows * rows)
        return table, tape.gradient(loss, table)

    def test_stays_rows_until_needed(self):
        _, g = self.table_gradient()
        assert isinstance(g, gt.RowSparse)
        assert isinstance(g, gt.Tensor)
        assert g.shape == (4, 2)
        assert g.indices.tolist() == [1, 3, 1]
        assert g.values.tolist() == [[4.0, 6.0], [12.0, 14.0], [4.0, 6.0]]

    def test_becomes_dense_when_used(self):
        _, g = self.table_gradient()
        expected = np.array([[0, 0], [8, 12], [0, 0], [12, 14.0]])
        np.testing.assert_array_equal((g * 1.0).numpy(), expected)
        np.testing.assert_array_equal(g.numpy(), expected)
        np.testing.assert_array_equal(np.asarray(g), expected)

    def test_applied_sparsely(self):
        table, g = self.table_gradient()
        before = table.numpy().copy()
        table.assign_sub(g)
        np.testing.assert_array_equal(table.numpy(), before - g.numpy())

    def test_accumulates_with_rows_and_with_dense(self):
        table = gt.Variable(np.ones((3, 2)))
        with gt.GradientTape(persistent=True) as tape:
            a = gt.sum(gt.take(table, gt.asarray([0]), axis=0))
            b = gt.sum(gt.take(table, gt.asarray([2, 2]), axis=0))
            c = gt.sum(table)
        both = tape.gradient([a, b], table)
        assert isinstance(both, gt.RowSparse)
        assert both.numpy().tolist() == [[1, 1], [0, 0], [2, 2]]
        mixed = tape.gradient([a, c], table)
        assert mixed.numpy().tolist() == [[2, 2], [1, 1], [1, 1]]


class TestVariable:
    def test_assignments(self):
        v = gt.Variable([1.0, 2.0], name="w")
        assert v.name == "w"
        assert v.assign([3.0, 4.0]) is v
        v.assign_add([1.0, 1.0]).assign_sub(gt.asarray([0.5, 0.5]))
        v[0] = 9.0
        assert v.numpy().tolist() == [9.0, 4.5]
        assert isinstance(v.value, gt.Tensor)

    def test_reading_sees_the_value_of_now(self):
        v = gt.Variable(1.0)
        old = v.value
        v.assign(2.0)
        assert float(old) == 1.0
        assert float(v.value) == 2.0

    def test_shape_and_dtype_are_kept(self):
        v = gt.Variable([1.0, 2.0])
        with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
            v.assign([1.0, 2.0, 3.0])
        with pytest.raises(TypeError, match="complex"):
            v.assign(np.array([1j, 2j]))
        v.assign(gt.asarray([1, 2], dtype=gt.float32))
        assert v.dtype == gt.float64
        assert v.numpy().tolist() == [1.0, 2.0]

    def test_gradients_flow_through_assignments_under_the_tape(self):
        x, v = gt.asarray(3.0), gt.Variable(0.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            v.assign(x * x)
            v.assign_add(x)
            v[...] = v.value * 2.0
            y = v * v
        # v = 2 (x² + x), y = v²
        assert float(tape.gradient(y, x)) == 2 * 24.0 * 2 * 7.0

    def test_gradient_by_the_value_first_read(self):
        v = gt.Variable(2.0)
        with gt.GradientTape() as tape:
            y = v * v
            v.assign(y)
            z = v * 3.0
        assert float(tape.gradient(z, v)) == 12.0

    def test_meta_learning_step_through_an_update(self):
        w = gt.Variable(1.0)
        rate = gt.asarray(0.1)
        with gt.GradientTape() as outer:
            outer.watch(rate)
            with gt.GradientTape() as inner:
                loss = (w - 3.0) ** 2
            w.assign_sub(rate * inner.gradient(loss, w))
            final = (w - 3.0) ** 2
        # w1 = 1 + 4r, final = (4r - 2)², d/dr = 8 (4r - 2)
        assert float(outer.gradient(final, rate)) == pytest.approx(8 * (0.4 - 2.0))


class TestMutation:
    def test_item_assignment_is_differentiable(self):
        x = gt.asarray([1.0, 2.0, 3.0, 4.0])
        y = gt.asarray([10.0, 20.0])
        with gt.GradientTape() as tape:
            tape.watch([x, y])
            z = x * 1.0
            z[1:3] = y * y
            out = gt.sum(z * z)
        gx, gy = tape.gradient(out, [x, y])
        assert gx.tolist() == [2.0, 0.0, 0.0, 8.0]
        assert gy.tolist() == [4 * 1000.0, 4 * 8000.0]

    def test_augmented_assignment_rebinds_every_name(self):
        x = gt.asarray([1.0, 2.0])
        same = x
        x += 1.0
        assert same is x
        assert x.tolist() == [2.0, 3.0]
        x[0] += 5.0
        assert x.tolist() == [7.0, 3.0]

    def test_shape_and_dtype_stay(self):
        x = gt.asarray([1.0, 2.0])
        with pytest.raises(ValueError, match="keeps its shape"):
            x += np.ones((2, 2))
        n = gt.asarray([1, 2])
        with pytest.raises(TypeError, match="keeps its dtype"):
            n += 0.5
        assert x.tolist() == [1.0, 2.0]
        assert n.tolist() == [1, 2]

    def test_writes_to_views_are_refused(self):
        x = gt.asarray([[1.0, 2.0], [3.0, 4.0]])
        with pytest.raises(TypeError, match=r"x\[i, j\] = v"):
            x[0][1] = 5.0
        for row in x:
            with pytest.raises(TypeError, match="copy"):
                row += 1.0
        view = gt.reshape(x, (4,))
        with pytest.raises(TypeError, match="copy"):
            view *= 2.0
        own = x[0].copy()
        own += 1.0
        assert own.tolist() == [2.0, 3.0]
        assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_what_was_read_before_a_tape_is_not_the_variable():
    v = gt.Variable(3.0)
    before = v.value
    with gt.GradientTape():
        inside = v.value
    for old in (before, inside):
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(old)
            y = v * old
        assert [float(slope) for slope in tape.gradient(y, [old, v])] == [3.0, 3.0]
    # A ratio of new to old, at the step where both are the same.
    with gt.GradientTape() as tape:
        ratio = gt.exp(v - before)
    assert float(tape.gradient(ratio, v)) == 1.0


def test_what_was_read_before_an_inner_tape_is_not_the_variable():
    v = gt.Variable(3.0)

    def slopes():
        with gt.GradientTape() as outer:
            x = v.value
            with gt.GradientTape(persistent=True) as inner:
                inner.watch(x)
                y = v * x
            by_x, by_v = inner.gradient(y, [x, v])
            z = by_x * by_v * x
        return by_x, by_v, outer.gradient(z, v)

    for run in (slopes, gt.function(slopes)):
        for _ in range(3):
            assert [float(slope) for slope in run()] == [3.0, 3.0, 27.0]


def test_rows_of_what_was_read_are_rows_of_the_variable():
    table = gt.Variable([[1.0], [2.0], [3.0]])
    with gt.GradientTape() as tape:
        y = gt.sum(gt.gather(table.value, gt.asarray([2, 2])))
    slope = tape.gradient(y, table)
    assert isinstance(slope, gt.RowSparse)
    assert slope.numpy().tolist() == [[0.0], [0.0], [2.0]]
