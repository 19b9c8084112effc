"""Diagonals, LU, roots and eigenvalues of matrices. Numbers are TensorFlow's."""

import numpy as np
import pytest

import gradtape.tf as tf

M = np.arange(12).reshape(3, 4)


class TestDiagonals:
    def test_several_at_once(self):
        assert tf.linalg.diag_part(M, k=(-1, 1)).numpy().tolist() == [
            [1, 6, 11], [0, 5, 10], [4, 9, 0],
        ]  # fmt: skip
        found = tf.linalg.diag_part(M, k=(-1, 2), align="LEFT_LEFT", padding_value=9)
        assert found.numpy().tolist() == [[2, 7, 9], [1, 6, 11], [0, 5, 10], [4, 9, 9]]
        right = tf.linalg.diag_part(M, k=(-1, 2), align="RIGHT_RIGHT").numpy().tolist()
        assert right == [[0, 2, 7], [1, 6, 11], [0, 5, 10], [0, 4, 9]]

    def test_matrices(self):
        assert tf.linalg.diag([[1, 2, 3], [4, 5, 0]], k=(-1, 0)).numpy().tolist() == [
            [1, 0, 0], [4, 2, 0], [0, 5, 3],
        ]  # fmt: skip
        assert tf.linalg.diag([1, 2], k=-1, num_rows=4).numpy().tolist() == [
            [0, 0], [1, 0], [0, 2], [0, 0],
        ]  # fmt: skip
        wide = tf.linalg.diag([1, 2], k=1, num_rows=2, num_cols=4, padding_value=7)
        assert wide.numpy().tolist() == [[7, 1, 7, 7], [7, 7, 2, 7]]
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.linalg.diag([1, 2], k=-1, num_rows=4, num_cols=5)

    def test_set(self):
        found = tf.linalg.set_diag(M, np.array([-1, -2, -3]), k=1)
        assert found.numpy().tolist() == [[0, -1, 2, 3], [4, 5, -2, 7], [8, 9, 10, -3]]
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.linalg.set_diag(M, np.array([1, 2]))

    @pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"])
    @pytest.mark.parametrize("k", [(-2, 3), (0, 2), (-1, 0), (-2, -1), (1, 1)])
    def test_there_and_back(self, k, align):
        x = np.random.default_rng(0).normal(size=(2, 3, 4))
        band = tf.linalg.diag_part(x, k=k, align=align)
        back = tf.linalg.set_diag(x, band, k=k, align=align)
        np.testing.assert_array_equal(back, x)
        again = tf.linalg.diag(band, k=k, num_rows=3, num_cols=4, align=align)
        i, j = np.indices((3, 4))
        np.testing.assert_array_equal(again, np.where((j - i >= k[0]) & (j - i <= k[1]), x, 0.0))

    def test_derivatives(self):
        x = tf.Variable(np.ones((3, 4), np.float32))
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(
                tf.linalg.diag_part(x, k=(-1, 1)) * tf.constant([[1.0], [2.0], [3.0]])
            )
        assert tape.gradient(y, x).numpy().tolist() == [
            [2.0, 1.0, 0.0, 0.0], [3.0, 2.0, 1.0, 0.0], [0.0, 3.0, 2.0, 1.0],
        ]  # fmt: skip


class TestFactors:
    def test_lu(self):
        found = tf.linalg.lu(np.float64([[1, 2], [3, 4]]))
        np.testing.assert_allclose(found.lu, [[3, 4], [1 / 3, 2 / 3]])
        assert found.p.numpy().tolist() == [1, 0]
        assert found.p.dtype == tf.int32

    def test_lu_of_stacks(self):
        draw = np.random.default_rng(0)
        a, b = draw.normal(size=(4, 3, 3)), draw.normal(size=(4, 3, 2))
        packed, order = tf.linalg.lu(a)
        np.testing.assert_allclose(tf.linalg.lu_reconstruct(packed, order), a, atol=1e-12)
        solved = tf.linalg.lu_solve(packed, order, b)
        np.testing.assert_allclose(solved, np.linalg.solve(a, b), rtol=1e-9)
        inverse = tf.linalg.lu_matrix_inverse(packed, order)
        np.testing.assert_allclose(inverse, np.linalg.inv(a), rtol=1e-9)

    def test_square_roots(self):
        x = tf.Variable(np.float64([[4, 1], [2, 3]]))
        with tf.GradientTape() as tape:
            y = tf.linalg.sqrtm(x)
        np.testing.assert_allclose(y @ y, x.numpy(), atol=1e-12)
        found = tape.gradient(y, x, tf.constant([[1.0, 2.0], [3.0, 4.0]], tf.float64))
        np.testing.assert_allclose(found, [[0.12617, 0.37359], [0.7347, 1.03518]], atol=1e-5)
        stack = np.stack([np.eye(2), 4 * np.eye(2)])
        np.testing.assert_allclose(tf.matrix_square_root(stack)[1], 2 * np.eye(2), atol=1e-12)

    def test_eigenvalues(self):
        found = tf.linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]])
        assert found.dtype == tf.complex64
        np.testing.assert_allclose(sorted(found.numpy().imag), [-1.0, 1.0])
        values, vectors = tf.linalg.eig(np.float64([[2, 1], [0, 3]]))
        np.testing.assert_allclose(
            np.float64([[2, 1], [0, 3]]) @ vectors.numpy(), vectors.numpy() * values.numpy()
        )
        np.testing.assert_allclose(
            tf.linalg.expm(tf.linalg.logm([[2.0 + 0j, 1.0], [0.0, 3.0]])),
            [[2.0, 1.0], [0.0, 3.0]], atol=1e-6,
        )  # fmt: skip

    def test_only_what_is_below_the_diagonal_counts(self):
        x = tf.Variable([[2.0, 99.0], [1.0, 3.0]])
        with tf.GradientTape() as tape:
            y = tf.linalg.eigvalsh(x)
        np.testing.assert_allclose(y, [1.381966, 3.618034], rtol=1e-6)
        found = tape.gradient(y, x, tf.constant([1.0, 2.0]))
        np.testing.assert_allclose(found, [[1.27639, 0.0], [0.89443, 1.72361]], atol=1e-5)

    @pytest.mark.parametrize("function", [tf.linalg.inv, lambda a: tf.linalg.solve(a, a)])
    def test_singular_matrices(self, function):
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(np.zeros((2, 2)))
        with pytest.raises(np.linalg.LinAlgError):
            function(np.zeros((2, 2)))
