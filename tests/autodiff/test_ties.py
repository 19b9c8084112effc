"""Functions that treat equal eigenvalues and singular values alike have exact derivatives there."""

import numpy as np
import pytest
import scipy.linalg

import gradtape as gt

RNG = np.random.default_rng(0)


def rotation(n):
    return np.linalg.qr(RNG.normal(size=(n, n)))[0]


def with_values(rows, columns, values):
    k = len(values)
    return rotation(rows)[:, :k] @ np.diag(values) @ rotation(columns)[:, :k].T


def turned(values):
    q = rotation(len(values))
    return q @ np.diag(values) @ q.T


SYMMETRIC = {
    "diagonal": np.diag([1.0, 1.0, 2.0]),
    "identity": np.eye(3),
    "zero": np.zeros((3, 3)),
    "turned": turned([1.0, 1.0, 1.0, 3.0]),
    "two_pairs": turned([1.0, 1.0, 3.0, 3.0]),
    "apart": turned([1.0, 2.0, 2.5]),
}
ANY = {
    "equal": with_values(3, 3, [2.0, 2.0, 1.0]),
    "identity": np.eye(3),
    "zero": np.zeros((3, 3)),
    "tall": with_values(4, 3, [2.0, 2.0, 1.0]),
    "wide": with_values(3, 4, [2.0, 2.0, 1.0]),
    "rank_1": with_values(3, 3, [2.0, 0.0, 0.0]),
    "tall_rank_1": with_values(4, 2, [2.0, 0.0]),
    "wide_zero": np.zeros((2, 3)),
}


def by_eigh(f):
    def function(a):
        w, v = gt.linalg.eigh(a)
        return (v * f(w)[..., None, :]) @ gt.matrix_transpose(v)

    return function


def by_svd(f):
    def function(a):
        u, s, vh = gt.linalg.svd(a, full_matrices=False)
        return (u * f(s)[..., None, :]) @ vh

    return function


def taylor(odd):
    """exp or sinh of the symmetric part or of the matrix, without a decomposition."""

    def function(a):
        a = a if odd else (a + gt.matrix_transpose(a)) * 0.5
        step = gt.matrix_transpose(a) @ a if odd else a
        total = a if odd else gt.eye(a.shape[0])
        term = total
        for k in range(1, 10 if odd else 20):
            term = term @ step * (1.0 / ((2 * k) * (2 * k + 1) if odd else k))
            total = total + term
        return total

    return function


CASES = [
    *[
        pytest.param(by_eigh(gt.exp), taylor(False), a, id=f"eigh-{n}")
        for n, a in SYMMETRIC.items()
    ],
    *[pytest.param(by_svd(gt.sinh), taylor(True), a, id=f"svd-{n}") for n, a in ANY.items()],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("function", "expected", "a"), CASES)
def test_derivatives_are_those_of_a_power_series(function, expected, a):
    weights, along = RNG.normal(size=(2, *a.shape))

    def all_derivatives(f):
        def loss(a):
            y = f(a)
            return gt.sum(weights * y) + 0.1 * gt.sum(y * y)

        slope = gt.grad(loss)
        return {
            "reverse": slope(a),
            "forward": gt.jvp(loss, (a,), (along,))[1],
            "jacobian": gt.jacobian(f, mode="forward")(a),
            "reverse over reverse": gt.grad(lambda a: gt.sum(slope(a) * along))(a),
            "forward over reverse": gt.jvp(slope, (a,), (along,))[1],
            "forward over forward": gt.jvp(
                lambda a: gt.jvp(loss, (a,), (along,))[1], (a,), (along,)
            )[1],
        }

    found, right = all_derivatives(function), all_derivatives(expected)
    for name, derivative in found.items():
        scale = 1.0 + np.abs(right[name].numpy()).max()
        np.testing.assert_allclose(
            derivative.numpy(), right[name].numpy(), atol=1e-11 * scale, err_msg=name
        )


@pytest.mark.parametrize(
    ("values", "power"),
    [(gt.linalg.eigvalsh, lambda a: a @ a @ a), (lambda a: gt.linalg.svdvals(a) ** 2, None)],
)
def test_second_derivatives_of_values_alone(values, power):
    a = np.diag([1.0, 1.0, 2.0])

    def symmetric(a):
        return a @ gt.matrix_transpose(a) if power is None else (a + gt.matrix_transpose(a)) * 0.5

    found = gt.hessian(lambda a: gt.sum(values(a) ** 3))(a).numpy()

    def trace(a):
        s = symmetric(a)
        return gt.linalg.trace(s @ s @ s)

    np.testing.assert_allclose(found, gt.hessian(trace)(a).numpy(), atol=1e-11)


def test_values_and_vectors_of_two_calls():
    weights = np.arange(9.0).reshape(3, 3)

    def loss(a):
        v = gt.linalg.eigh(a).eigenvectors
        return gt.sum(weights * (v @ gt.diag(gt.exp(gt.linalg.eigvalsh(a))) @ v.T))

    a = SYMMETRIC["diagonal"]
    right = gt.grad(lambda a: gt.sum(weights * taylor(False)(a)))(a)
    np.testing.assert_allclose(gt.grad(loss)(a).numpy(), right.numpy(), atol=1e-12)


def test_stacks_vmap_maps_functions_and_float32():
    stack = np.stack([np.diag([1.0, 1.0, 2.0]), np.eye(3), np.diag([1.0, 2.0, 3.0])])
    weights = RNG.normal(size=(3, 3))
    f = by_eigh(gt.exp)
    slope = gt.grad(lambda a: gt.sum(weights * f(a)))
    right = np.stack([slope(one).numpy() for one in stack])
    mapped = gt.grad(lambda a: gt.sum(gt.map(lambda m: gt.sum(weights * f(m)), a)))
    for found in (slope(stack), gt.vmap(slope)(stack), gt.function(slope)(stack), mapped(stack)):
        np.testing.assert_allclose(found.numpy(), right, atol=1e-13)
    single = gt.grad(lambda a: gt.sum(weights.astype("float32") * f(a)))(stack.astype("float32"))
    assert single.dtype == gt.float32
    np.testing.assert_allclose(single.numpy(), right, atol=1e-5)


def test_hermitian_matrices():
    weights = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))

    def loss(a):
        w, v = gt.linalg.eigh(a)
        return gt.real(gt.sum(weights * ((v * gt.exp(w)) @ gt.conj(v.T))))

    # The derivative of exp at the identity is e times the direction.
    found = gt.grad(loss)(np.eye(3) + 0j).numpy()
    right = np.e * (np.conj(weights) + weights.T) / 2
    np.testing.assert_allclose(found, right, atol=1e-12)


def test_vectors_of_close_values_keep_their_own_derivative():
    """A function of one eigenvector depends on the choice; apart from ties it has a derivative."""
    gap = 1e-6
    a, along = np.diag([1.0, 1.0 + gap]), np.array([[0.0, 1.0], [1.0, 0.0]])
    moved = gt.jvp(lambda a: gt.abs(gt.linalg.eigh(a).eigenvectors[1, 1]), (a,), (along,))[1]
    mixed = gt.jvp(lambda a: gt.linalg.eigh(a).eigenvectors[0, 1] ** 2, (a,), (along,))[1]
    assert float(moved) == float(mixed) == 0.0
    found = gt.jvp(lambda a: gt.linalg.eigh(a).eigenvectors[0], (a,), (along,))[1].numpy()
    np.testing.assert_allclose(np.abs(found).max(), 1.0 / gap, rtol=1e-8)


def test_the_polar_factor():
    weights = np.arange(9.0).reshape(3, 3)

    def loss(a):
        u, _, vh = gt.linalg.svd(a)
        return gt.sum(weights * (u @ vh))

    a = np.diag([1.0, 1.0, 2.0])
    found = gt.grad(loss)(a).numpy()
    for place in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[place] = 1e-6
        pair = [(weights * scipy.linalg.polar(a + s * step)[0]).sum() for s in (1, -1)]
        np.testing.assert_allclose(found[place], (pair[0] - pair[1]) / 2e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("function", "expected", "a"), [CASES[at] for at in (0, 1, 4, 6, 11)])
def test_third_derivatives(function, expected, a):
    weights, along = np.random.default_rng(1).normal(size=(2, *a.shape))

    def third(f):
        def loss(t):
            return gt.sum(weights * f(a + t * along))

        return float(gt.grad(gt.grad(gt.grad(loss)))(0.0))

    # The third derivative of the power series lacks terms of the eighth digit.
    np.testing.assert_allclose(third(function), third(expected), rtol=1e-6, atol=1e-8)
