"""Linear algebra, products and Fourier transforms against NumPy."""

import numpy as np
import pytest
import scipy.linalg

import gradtape.tf as tf

RNG = np.random.default_rng(5)
A = RNG.normal(size=(2, 3, 3))
P = A @ A.swapaxes(-1, -2) + np.eye(3)
B = RNG.normal(size=(2, 3, 2))
C = A + 1j * RNG.normal(size=A.shape)


def close(found, expected, tolerance=1e-10):
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


class TestProducts:
    def test_matmul(self):
        turned = A.swapaxes(-1, -2)
        close(tf.matmul(A, B), A @ B)
        close(tf.matmul(A, A, transpose_a=True), turned @ A)
        close(tf.matmul(A, A, transpose_b=True), A @ turned)
        close(tf.matmul(C, C, adjoint_a=True), C.conj().swapaxes(-1, -2) @ C)
        close(tf.constant(A) @ B, A @ B)
        assert tf.matmul([[1, 2]], [[3], [4]]).numpy().tolist() == [[11]]
        assert tf.matmul(np.float32(A), np.float32(B)).dtype == tf.float32
        with pytest.raises(ValueError, match="matvec"):
            tf.matmul(A[0], B[0, :, 0])
        with pytest.raises(ValueError, match="not both"):
            tf.matmul(A, A, transpose_a=True, adjoint_a=True)

    def test_others(self):
        close(tf.linalg.matvec(A, B[..., 0]), (A @ B)[..., 0])
        close(
            tf.linalg.matvec(A, B[..., 0], transpose_a=True), np.einsum("bji,bj->bi", A, B[..., 0])
        )
        close(tf.tensordot(A, B, axes=[[1], [1]]), np.tensordot(A, B, axes=[[1], [1]]))
        close(tf.tensordot(A[0], B[0], 1), A[0] @ B[0])
        close(tf.tensordot(A, B, axes=[2, 1]), np.tensordot(A, B, axes=[2, 1]))
        close(tf.einsum("bij,bjk->bik", A, B), A @ B)
        close(tf.einsum("...ii", A), np.einsum("...ii", A))
        close(tf.linalg.cross([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]), np.cross([1, 2, 3], [4, 5, 6]))

    def test_norms(self):
        close(tf.norm(A), np.linalg.norm(A))
        close(tf.norm(A, axis=-1), np.linalg.norm(A, axis=-1))
        close(tf.norm(A, ord=1, axis=0, keepdims=True), np.abs(A).sum(0, keepdims=True))
        close(tf.norm(A, ord=np.inf), np.abs(A).max())
        close(tf.norm(A, ord="fro", axis=[-2, -1]), np.linalg.norm(A, axis=(-2, -1)))
        close(tf.norm(A, ord=2, axis=(1, 2)), np.linalg.norm(A, 2, axis=(1, 2)))
        close(tf.norm(A, ord=1, axis=[1, 2]), np.linalg.norm(A, 1, axis=(1, 2)))
        close(tf.linalg.global_norm([A, None, B]), np.sqrt((A**2).sum() + (B**2).sum()))
        close(tf.math.l2_normalize(A, axis=1), A / np.linalg.norm(A, axis=1, keepdims=True))
        unit, size = tf.linalg.normalize(A, axis=-1)
        close(size, np.linalg.norm(A, axis=-1, keepdims=True))
        close(unit, A / np.linalg.norm(A, axis=-1, keepdims=True))
        with pytest.raises(TypeError, match=r"tf\.cast"):
            tf.norm([1, 2])


class TestDecompositions:
    def test_solving(self):
        close(tf.linalg.inv(A), np.linalg.inv(A), 1e-8)
        close(tf.linalg.inv(A, adjoint=True), np.linalg.inv(A.swapaxes(-1, -2)), 1e-8)
        close(tf.linalg.solve(A, B), np.linalg.solve(A, B), 1e-8)
        close(tf.linalg.solve(A, B, adjoint=True), np.linalg.solve(A.swapaxes(-1, -2), B), 1e-8)
        lower = np.linalg.cholesky(P)
        close(tf.linalg.triangular_solve(lower, B), np.linalg.solve(lower, B), 1e-8)
        close(
            tf.linalg.triangular_solve(lower, B, adjoint=True),
            np.linalg.solve(lower.swapaxes(-1, -2), B), 1e-8,
        )  # fmt: skip
        close(tf.linalg.cholesky(P), lower, 1e-9)
        close(tf.linalg.cholesky_solve(lower, B), np.linalg.solve(P, B), 1e-8)
        tall = RNG.normal(size=(5, 3))
        right = RNG.normal(size=(5, 2))
        close(tf.linalg.lstsq(tall, right), np.linalg.lstsq(tall, right)[0], 1e-8)
        ridge = np.linalg.solve(tall.T @ tall + 0.5 * np.eye(3), tall.T @ right)
        close(tf.linalg.lstsq(tall, right, l2_regularizer=0.5), ridge, 1e-8)
        close(tf.linalg.pinv(tall), np.linalg.pinv(tall), 1e-8)

    def test_determinants(self):
        close(tf.linalg.det(A), np.linalg.det(A), 1e-9)
        sign, logarithm = tf.linalg.slogdet(A)
        close(sign, np.linalg.slogdet(A)[0])
        close(logarithm, np.linalg.slogdet(A)[1], 1e-9)
        close(tf.linalg.logdet(P), np.linalg.slogdet(P)[1], 1e-9)
        assert tf.linalg.matrix_rank(np.ones((3, 3))).numpy() == 1
        assert tf.linalg.matrix_rank(np.diag([1.0, 1e-3]), tol=0.1).numpy() == 1

    def test_factors(self):
        q, r = tf.linalg.qr(A)
        close(q @ r, A, 1e-9)
        s, u, v = tf.linalg.svd(A)
        close(u @ tf.linalg.diag(s) @ tf.linalg.matrix_transpose(v), A, 1e-9)
        close(tf.linalg.svd(A, compute_uv=False), np.linalg.svd(A, compute_uv=False), 1e-9)
        values, vectors = tf.linalg.eigh(P)
        close(values, np.linalg.eigvalsh(P), 1e-9)
        close(vectors @ tf.linalg.diag(values) @ tf.linalg.adjoint(vectors), P, 1e-8)
        close(tf.linalg.eigvalsh(P), np.linalg.eigvalsh(P), 1e-9)
        close(tf.linalg.expm(A[0]), scipy.linalg.expm(A[0]), 1e-8)

    def test_derivative_of_a_solve(self):
        x = tf.Variable(A[0])
        with tf.GradientTape() as tape:
            y = tf.linalg.logdet(tf.matmul(x, x, transpose_b=True))
        close(tape.gradient(y, x), 2.0 * np.linalg.inv(A[0]).T, 1e-7)


class TestDiagonals:
    @pytest.mark.parametrize("k", [0, 1, -2])
    def test_diag(self, k):
        d = np.arange(1.0, 7.0).reshape(2, 3)
        found = tf.linalg.diag(d, k=k)
        close(found, np.stack([np.diag(row, k) for row in d]))
        close(tf.linalg.diag_part(found, k=k), d)

    def test_others(self):
        close(tf.linalg.trace(A), np.trace(A, axis1=1, axis2=2))
        assert tf.linalg.trace([[1, 2], [3, 4]]).dtype == tf.int32
        close(tf.linalg.set_diag([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [8.0, 9.0]),
              [[8.0, 2.0, 3.0], [4.0, 9.0, 6.0]])  # fmt: skip
        close(tf.linalg.tensor_diag([1.0, 2.0]), np.diag([1.0, 2.0]))
        close(tf.linalg.tensor_diag_part(np.diag([1.0, 2.0])), [1.0, 2.0])
        close(tf.linalg.band_part(A, 1, 0), np.triu(np.tril(A), -1))
        close(tf.linalg.band_part(A, -1, 0), np.tril(A))
        assert tf.linalg.eye(2).shape == [2, 2]


class TestSignal:
    z = RNG.normal(size=(2, 4, 6)) + 1j * RNG.normal(size=(2, 4, 6))

    @pytest.mark.parametrize(("suffix", "count"), [("", 1), ("2d", 2), ("3d", 3)])
    def test_transforms(self, suffix, count):
        axes = tuple(range(-count, 0))
        close(getattr(tf.signal, f"fft{suffix}")(self.z), np.fft.fftn(self.z, axes=axes), 1e-9)
        close(getattr(tf.signal, f"ifft{suffix}")(self.z), np.fft.ifftn(self.z, axes=axes), 1e-9)
        real = self.z.real
        half = getattr(tf.signal, f"rfft{suffix}")(real)
        close(half, np.fft.rfftn(real, axes=axes), 1e-9)
        close(getattr(tf.signal, f"irfft{suffix}")(half), real, 1e-9)

    def test_lengths_and_dtypes(self):
        assert tf.signal.rfft(np.ones(8, np.float32)).dtype == tf.complex64
        close(tf.signal.rfft(np.ones(8), fft_length=[4]), np.fft.rfft(np.ones(8), 4))
        with pytest.raises(TypeError, match="complex64"):
            tf.signal.fft([1.0, 2.0])
        with pytest.raises(TypeError, match="float32"):
            tf.signal.rfft(self.z)
        close(tf.signal.fftshift(np.arange(4.0)), np.fft.fftshift(np.arange(4)))
        close(tf.signal.ifftshift(np.arange(5.0), axes=0), np.fft.ifftshift(np.arange(5)))
