"""Creation, shapes, joining, look-ups, scattering, sorting and segments."""

import numpy as np
import pytest

import gradtape.tf as tf

M = np.arange(6.0).reshape(2, 3).astype(np.float32)


def same(found, expected):
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(found), expected)


class TestCreation:
    def test_defaults_are_float32(self):
        for made in (tf.zeros(3), tf.ones([3]), tf.eye(3), tf.one_hot([1], 3), tf.fill([3], 1.0),
                     tf.range(3.0), tf.linspace(0.0, 1.0, 3), tf.zeros_like([1.5])):  # fmt: skip
            assert made.dtype == tf.float32
            assert type(made) is tf.Tensor

    def test_values(self):
        same(tf.zeros([2, 1], tf.int32), [[0], [0]])
        same(tf.ones(tf.constant([2])), [1.0, 1.0])
        same(tf.fill([2, 2], 7), [[7, 7], [7, 7]])
        same(tf.ones_like(M, dtype=tf.int32), np.ones((2, 3), int))
        same(tf.zeros_like(tf.Variable([1, 2])), [0, 0])
        same(tf.eye(2, 3, batch_shape=[2]), np.broadcast_to(np.eye(2, 3), (2, 2, 3)))
        same(tf.zeros([]), 0.0)

    @pytest.mark.parametrize(
        ("args", "dtype"),
        [((5,), "int32"), ((2, 7), "int32"), ((10, 1, -3), "int32"), ((1.0,), "float32"),
         ((0, 1, 0.25), "float32"), ((5, 5), "int32")],
    )  # fmt: skip
    def test_range(self, args, dtype):
        found = tf.range(*args)
        assert found.dtype == dtype
        same(found, np.arange(*args).astype(dtype))

    def test_range_of_tensors(self):
        same(tf.range(tf.constant(3)), [0, 1, 2])
        assert tf.range(3, dtype=tf.int64).dtype == tf.int64
        assert tf.range(3, delta=1.0).dtype == tf.float32
        with pytest.raises(ValueError, match="delta"):
            tf.range(1, 2, 0)

    def test_linspace(self):
        same(tf.linspace(0.0, 1.0, 5), np.linspace(0, 1, 5, dtype=np.float32))
        assert tf.linspace(0, 1, 3).dtype == tf.float64
        np.testing.assert_allclose(
            tf.linspace([0.0, 1.0], [1.0, 3.0], 3, axis=1), np.linspace([0, 1], [1, 3], 3, axis=1)
        )

    def test_others(self):
        a, b = tf.meshgrid([1, 2], [3, 4, 5], indexing="ij")
        same(a, [[1, 1, 1], [2, 2, 2]])
        same(b, [[3, 4, 5], [3, 4, 5]])
        same(tf.sequence_mask([1, 3]), [[True, False, False], [True, True, True]])
        assert tf.sequence_mask([1], 2, tf.float32).dtype == tf.float32
        same(tf.one_hot([0, 2], 3, on_value=5, off_value=1), [[5, 1, 1], [1, 1, 5]])
        same(tf.one_hot([1], 2, axis=0), [[0.0], [1.0]])
        same(tf.one_hot([[0], [5]], 2, dtype=tf.int32), [[[1, 0]], [[0, 0]]])


class TestShapes:
    def test_facts(self):
        same(tf.shape(M), [2, 3])
        assert tf.shape(M).dtype == tf.int32
        assert tf.shape(M, out_type=tf.int64).dtype == tf.int64
        assert tf.size(M).numpy() == 6
        assert tf.rank(M).numpy() == 2
        assert tf.constant(M).ndim == 2

    def test_moving(self):
        same(tf.reshape(M, [3, -1]), M.reshape(3, 2))
        same(tf.reshape(M, tf.constant([6])), M.reshape(6))
        same(tf.reshape(M, (tf.shape(M)[1], 2)), M.reshape(3, 2))
        same(tf.transpose(M), M.T)
        same(tf.transpose(M[None], [2, 0, 1]), M[None].transpose(2, 0, 1))
        same(tf.transpose([[1j]], conjugate=True), [[-1j]])
        same(tf.expand_dims(M, 1), M[:, None])
        same(tf.squeeze(M[None, :, None]), M)
        same(tf.squeeze(M[None, :, None], axis=[0]), M[:, None])
        same(tf.reverse(M, [1]), M[:, ::-1])
        same(tf.roll(M, shift=[1, 2], axis=[0, 1]), np.roll(M, [1, 2], [0, 1]))
        same(tf.broadcast_to(M[0], [2, 3]), np.broadcast_to(M[0], (2, 3)))
        same(tf.tile(M, [2, 1]), np.tile(M, (2, 1)))
        same(tf.repeat(M, 2, axis=1), np.repeat(M, 2, 1))
        same(tf.repeat([1, 2], [3, 1]), [1, 1, 1, 2])
        assert tf.ensure_shape(M, [None, 3]).shape == [2, 3]
        with pytest.raises(ValueError, match="ensure_shape"):
            tf.ensure_shape(M, [3, None])
        with pytest.raises(ValueError, match="multiples"):
            tf.tile(M, [2])
        assert tf.broadcast_static_shape([2, 1], [3]) == [2, 3]

    @pytest.mark.parametrize("mode", ["CONSTANT", "REFLECT", "symmetric"])
    def test_pad(self, mode):
        same(tf.pad(M, [[1, 0], [1, 2]], mode), np.pad(M, [[1, 0], [1, 2]], mode.lower()))

    def test_pad_with_a_value(self):
        same(tf.pad([1, 2], [[1, 0]], constant_values=7), [7, 1, 2])
        with pytest.raises(ValueError, match="mode"):
            tf.pad(M, [[0, 0], [0, 0]], "EDGE")
        with pytest.raises(ValueError, match="paddings"):
            tf.pad(M, [[1, 1]])

    def test_joining(self):
        same(tf.concat([M, M], 0), np.concatenate([M, M]))
        same(tf.concat([M, [[9], [9]]], axis=-1), np.concatenate([M, [[9], [9]]], 1))
        same(tf.stack([M, M], axis=-1), np.stack([M, M], -1))
        same(tf.stack([1.0, tf.constant(2.0)]), [1.0, 2.0])
        parts = tf.unstack(tf.constant(M), axis=1)
        assert isinstance(parts, list)
        assert [p.numpy().tolist() for p in parts] == M.T.tolist()
        with pytest.raises(ValueError, match="num"):
            tf.unstack(M, num=3)

    def test_split(self):
        parts = tf.split(M, 3, axis=1)
        assert isinstance(parts, list)
        same(parts[2], M[:, 2:])
        first, rest = tf.split(M, [1, -1], axis=1)
        same(first, M[:, :1])
        same(rest, M[:, 1:])
        with pytest.raises(ValueError, match="equal parts"):
            tf.split(M, 2, axis=1)
        with pytest.raises(ValueError, match="add up"):
            tf.split(M, [1, 1], axis=1)


class TestLookUps:
    def test_slices(self):
        x = tf.constant(M)
        same(x[1], M[1])
        same(x[:, 1], M[:, 1])
        same(x[..., ::-1], M[..., ::-1])
        same(x[tf.newaxis], M[None])
        same(x[tf.constant(1), 2], M[1, 2])
        same(tf.slice(x, [0, 1], [2, -1]), M[:, 1:])
        same(tf.strided_slice(x, [0, 0], [2, 3], [1, 2]), M[0:2, 0:3:2])
        same(tf.strided_slice(x, [0, 1], [1, 2], shrink_axis_mask=1), M[0, 1:2])
        with pytest.raises(ValueError, match="leaves"):
            tf.slice(x, [0, 2], [2, 2])
        with pytest.raises(IndexError):
            x[5]

    def test_gather(self):
        same(tf.gather(M, [1, 0, 1]), M[[1, 0, 1]])
        same(tf.gather(M, [[2], [0]], axis=1), M[:, [[2], [0]]])
        same(tf.gather(M, [2, 0], axis=1, batch_dims=1), [M[0, 2], M[1, 0]])
        same(tf.gather(M, 1), M[1])
        with pytest.raises(IndexError):
            tf.gather(M, [7])
        with pytest.raises(TypeError, match="integers"):
            tf.gather(M, [0.5])

    def test_gather_nd(self):
        same(tf.gather_nd(M, [[0, 1], [1, 2]]), [M[0, 1], M[1, 2]])
        same(tf.gather_nd(M, [[1], [0]]), M[[1, 0]])
        same(tf.gather_nd(M, [1, 2]), M[1, 2])
        same(tf.gather_nd(M, [[2], [0]], batch_dims=1), [M[0, 2], M[1, 0]])
        batched = np.arange(24.0).reshape(2, 3, 4)
        found = tf.gather_nd(batched, [[[0, 1], [2, 3]], [[1, 1], [0, 0]]], batch_dims=1)
        same(found, [[batched[0, 0, 1], batched[0, 2, 3]], [batched[1, 1, 1], batched[1, 0, 0]]])

    def test_where(self):
        same(tf.where(M > 2, M, 0.0), np.where(M > 2, M, 0))
        same(tf.where(M > 2), np.argwhere(M > 2))
        assert tf.where([True]).dtype == tf.int64
        with pytest.raises(ValueError, match="both"):
            tf.where([True], 1.0)
        with pytest.raises(TypeError, match="bool"):
            tf.where([1.0], 1.0, 2.0)

    def test_no_nan_from_the_branch_not_taken(self):
        x = tf.Variable([0.0, 4.0])
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.where(x > 0, tf.sqrt(x), 0.0))
        assert tape.gradient(y, x).numpy().tolist() == [0.0, 0.25]

    def test_boolean_mask(self):
        same(tf.boolean_mask(M, M > 2), M[M > 2])
        same(tf.boolean_mask(M, [True, False]), M[[True, False]])
        same(tf.boolean_mask(M, [True, False, True], axis=1), M[:, [True, False, True]])
        x = tf.Variable(M)
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.boolean_mask(x, x > 2) ** 2)
        same(tape.gradient(y, x), np.where(M > 2, 2 * M, 0))
        with pytest.raises(ValueError, match="does not fit"):
            tf.boolean_mask(M, [True, False, True])


class TestScattering:
    def test_values(self):
        same(tf.scatter_nd([[0], [2], [0]], [1.0, 2.0, 3.0], [4]), [4.0, 0.0, 2.0, 0.0])
        same(tf.scatter_nd([[1]], [[5, 6, 7]], [2, 3]), [[0, 0, 0], [5, 6, 7]])
        same(tf.tensor_scatter_nd_update(M, [[0, 1], [1, 2]], [7, 8]), [[0, 7, 2], [3, 4, 8]])
        same(tf.tensor_scatter_nd_add([1, 2], [[0], [0]], [5, 6]), [12, 2])
        same(tf.tensor_scatter_nd_sub([1, 2], [[1]], [5]), [1, -3])
        same(tf.tensor_scatter_nd_max([1, 2], [[0], [1]], [5, 0]), [5, 2])
        same(tf.tensor_scatter_nd_min([1, 2], [[0], [1]], [5, 0]), [1, 0])

    def test_derivatives(self):
        x, u = tf.Variable([1.0, 2.0, 3.0]), tf.Variable([10.0, 20.0])
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.tensor_scatter_nd_update(x, [[0], [2]], u) ** 2)
        by_x, by_u = tape.gradient(y, [x, u])
        same(by_x, [0.0, 4.0, 0.0])
        same(by_u, [20.0, 40.0])

    def test_refusals(self):
        with pytest.raises(IndexError):
            tf.scatter_nd([[4]], [1.0], [4])
        with pytest.raises(ValueError, match="updates of shape"):
            tf.scatter_nd([[0]], [1.0, 2.0], [4])


class TestSorting:
    def test_sort(self):
        x = np.float32([[3, 1, 2], [4, 6, 5]])
        same(tf.sort(x), np.sort(x))
        same(tf.sort(x, axis=0, direction="DESCENDING"), -np.sort(-x, 0))
        same(tf.argsort(x), np.argsort(x))
        assert tf.argsort(x).dtype == tf.int32
        with pytest.raises(ValueError, match="direction"):
            tf.sort(x, direction="UP")

    def test_top_k(self):
        found = tf.math.top_k([[1.0, 3.0, 2.0]], k=2)
        same(found.values, [[3.0, 2.0]])
        same(found.indices, [[1, 2]])
        assert found.indices.dtype == tf.int32
        with pytest.raises(ValueError, match="top_k"):
            tf.math.top_k([1.0], k=2)
        scores = [[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]]
        same(tf.math.in_top_k([2, 0], scores, 1), [False, True])
        same(tf.math.in_top_k([2, 2], scores, 2), [True, False])

    def test_unique(self):
        y, idx = tf.unique([4, 2, 4, 8])
        same(y, [4, 2, 8])
        same(idx, [0, 1, 0, 2])
        same(tf.unique_with_counts([4, 2, 4]).count, [2, 1])

    def test_searchsorted(self):
        same(tf.searchsorted([1.0, 2.0, 3.0], [2.0, 9.0]), [1, 3])
        same(tf.searchsorted([1.0, 2.0, 3.0], [2.0], side="right"), [2])
        rows = [[1.0, 3.0], [2.0, 4.0]]
        same(tf.searchsorted(rows, [[2.0], [4.0]]), [[1], [1]])
        same(tf.searchsorted(rows, [[3.0], [4.0]], side="right"), [[2], [2]])

    def test_counting(self):
        same(tf.math.bincount([1, 1, 3]), [0, 2, 0, 1])
        same(tf.math.bincount([1, 1, 3], weights=[1.0, 2.0, 3.0]), [0.0, 3.0, 0.0, 3.0])
        same(tf.math.bincount([1, 5], maxlength=3, minlength=2), [0, 1, 0])
        same(tf.histogram_fixed_width([-1.0, 0.0, 2.5, 9.0], [0.0, 3.0], 3), [2, 0, 2])
        same(tf.math.invert_permutation([2, 0, 1]), [1, 2, 0])
        same(tf.math.confusion_matrix([0, 1, 1], [0, 0, 1]), [[1, 0], [1, 1]])


class TestSegments:
    data = np.float32([[1, 2], [3, 4], [5, 6], [7, 8]])

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("sum", [[4, 6], [0, 0], [12, 14]]), ("mean", [[2, 3], [0, 0], [6, 7]]),
            ("max", [[3, 4], [0, 0], [7, 8]]), ("min", [[1, 2], [0, 0], [5, 6]]),
            ("prod", [[3, 8], [1, 1], [35, 48]]),
        ],
    )  # fmt: skip
    def test_sorted(self, name, expected):
        function = getattr(tf.math, f"segment_{name}")
        found = function(self.data, [0, 0, 2, 2])
        assert found.dtype == tf.float32
        same(found, expected)
        same(function(self.data.astype(np.int32), [0, 0, 2, 2]), np.array(expected))
        with pytest.raises(ValueError, match="not sorted"):
            function(self.data, [1, 0, 2, 2])

    def test_unsorted(self):
        ids = [2, 0, -1, 2]
        same(tf.math.unsorted_segment_sum(self.data, ids, 3), [[3, 4], [0, 0], [8, 10]])
        same(tf.math.unsorted_segment_mean(self.data, ids, 3), [[3, 4], [0, 0], [4, 5]])
        same(tf.math.unsorted_segment_prod(self.data, ids, 3), [[3, 4], [1, 1], [7, 16]])
        low, high = np.finfo(np.float32).min, np.finfo(np.float32).max
        same(tf.math.unsorted_segment_max(self.data, ids, 3), [[3, 4], [low, low], [7, 8]])
        same(tf.math.unsorted_segment_min(self.data, ids, 3), [[3, 4], [high, high], [1, 2]])
        root = np.sqrt(np.float32(2))
        np.testing.assert_allclose(
            tf.math.unsorted_segment_sqrt_n(self.data, ids, 3),
            [[3, 4], [0, 0], [8 / root, 10 / root]],
        )
        same(tf.math.unsorted_segment_sum(self.data, [[0, 1], [1, 1]][0] + [0, 0], 2),
             [[13, 16], [3, 4]])  # fmt: skip

    @pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
    def test_derivatives(self, name):
        x = tf.Variable(self.data.astype(np.float64))
        weights = np.arange(6.0).reshape(3, 2) + 1.0
        function = getattr(tf.math, f"unsorted_segment_{name}")

        def value(data):
            return tf.reduce_sum(function(data, [2, 0, 1, 2], 3) * weights)

        with tf.GradientTape() as tape:
            y = value(x)
        found, start = tape.gradient(y, x).numpy(), self.data.astype(np.float64)
        for place in np.ndindex(4, 2):
            step = np.zeros((4, 2))
            step[place] = 1e-6
            slope = (value(start + step).numpy() - value(start - step).numpy()) / 2e-6
            assert found[place] == pytest.approx(slope, rel=1e-6)
