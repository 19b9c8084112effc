"""Derivatives by tensors that were computed before the tape and may still be pending."""

import numpy as np
import pytest

import gradtape as gt


def f(x, y):
    return gt.sum(gt.sin(x) * y**2)


def given(pending):
    """Two vectors that are read by nobody yet, or known values."""
    x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
    if pending:
        return gt.asarray(x) * 1.0, gt.asarray(x) + 1.0
    return gt.asarray(x), gt.asarray(y)


def blocks(hessian):
    return [
        [each.toarray() if hasattr(each, "toarray") else each.numpy() for each in row]
        for row in hessian
    ]


X, Y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
CROSS = np.diag(2 * np.cos(X) * Y)
WANT = [[np.diag(-np.sin(X) * Y**2), CROSS], [CROSS, np.diag(2 * np.sin(X))]]


@pytest.mark.parametrize("pending", [False, True])
class TestSecondDerivatives:
    @pytest.mark.parametrize("sparse", [False, True])
    def test_hessians_have_all_blocks(self, pending, sparse):
        found = gt.hessian(f, (0, 1), sparse=sparse)(*given(pending))
        np.testing.assert_allclose(blocks(found), WANT, atol=1e-14)

    def test_tape_watches_what_was_there(self, pending):
        x, y = given(pending)
        with gt.GradientTape() as tape:
            tape.watch([x, y])
            z = f(x, y)
        np.testing.assert_allclose(blocks(tape.hessian(z, [x, y])), WANT, atol=1e-14)

    def test_products(self, pending):
        x, y = given(pending)
        directions = (gt.asarray(X), gt.asarray(Y))
        found = gt.hvp(f, (x, y), directions)
        want = np.einsum("abij,bj->ai", np.array(WANT), np.array([X, Y]))
        np.testing.assert_allclose([each.numpy() for each in found], want)

    def test_chunks(self, pending):
        x, _ = given(pending)
        found = gt.hessian(lambda x: f(x, gt.asarray(Y)), chunk_size=1)(x)
        np.testing.assert_allclose(found.numpy(), WANT[0][0], atol=1e-14)

    @pytest.mark.parametrize("outside", [False, True])
    def test_outer_derivatives_pass_through(self, pending, outside):
        def second(x, v):
            w, u = x + 1.0, v * 2.0
            if outside:
                return gt.sum(gt.hessian(lambda u: gt.sum(u**3 * w))(u))
            return gt.sum(gt.hvp(lambda u: gt.sum(u**3 * w), u, gt.ones(3)))

        x, y = given(pending)
        by_x, by_v = gt.grad(second, (0, 1))(x, y)
        np.testing.assert_allclose(by_x.numpy(), 12 * Y)
        np.testing.assert_allclose(by_v.numpy(), 12 * (X + 1))

    def test_outer_tape_of_an_inner_hessian(self, pending):
        x, v = given(pending)
        with gt.GradientTape() as outer:
            outer.watch([x, v])
            w, u = x + 1.0, v * 2.0
            stopped = gt.stop_gradient(w)
            with gt.GradientTape() as inner:
                inner.watch(u)
                z = gt.sum(u**3 * w * stopped)
            total = gt.sum(inner.hessian(z, u))
        by_x, by_v = outer.gradient(total, [x, v])
        np.testing.assert_allclose(by_x.numpy(), 12 * Y * (X + 1))
        np.testing.assert_allclose(by_v.numpy(), 12 * (X + 1) ** 2)


def test_sources_that_depend_on_each_other_outside_are_apart():
    a = gt.asarray(X)
    b = a * 2.0
    with gt.GradientTape() as tape:
        tape.watch([a, b])
        z = gt.sum(a**2 * b**2)
    found = blocks(tape.hessian(z, [a, b]))
    cross = np.diag(8 * X**2)
    np.testing.assert_allclose(found, [[np.diag(8 * X**2), cross], [cross, np.diag(2 * X**2)]])


def test_gradients_by_what_depends_on_a_pending_tensor():
    x = gt.asarray(X)
    y, w = x * 1.0, x + 1.0
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(y)
        q = y * 2.0
        z = gt.sin(q) * w
        slope = tape.gradient(z, q)
    np.testing.assert_allclose(slope.numpy(), np.cos(2 * X) * Y)
    np.testing.assert_allclose(tape.gradient(slope, y).numpy(), -2 * np.sin(2 * X) * Y)
    np.testing.assert_allclose(np.diag(tape.jacobian(z, q).numpy()), np.cos(2 * X) * Y)


def test_hessian_of_a_captured_function_at_a_sum():
    decorated = gt.function(lambda x: gt.sum(gt.sin(x) * x**2))
    twice = gt.function(gt.hessian(decorated))
    for shift in (0.0, 1.0, 2.0):
        at = X + shift
        want = np.diag(-np.sin(at) * at**2 + 4 * np.cos(at) * at + 2 * np.sin(at))
        for hessian in (gt.hessian(decorated), twice):
            np.testing.assert_allclose(hessian(gt.asarray(X) + shift).numpy(), want, atol=1e-14)


def by_gradient(tape, y, x):
    return tape.gradient(y, x)


def by_jacobian(tape, y, x):
    return tape.jacobian(y, x)


def by_batch_jacobian(tape, y, x):
    return tape.batch_jacobian(y, x)


def by_jvp(tape, y, x):
    return tape.jvp(y, x, gt.ones(3))


@pytest.mark.parametrize("derive", [by_gradient, by_jacobian, by_batch_jacobian, by_jvp])
@pytest.mark.parametrize("reads", [False, True])
def test_a_derivative_that_was_computed_before_by_the_user_is_no_constant(derive, reads):
    x = gt.asarray(X)
    cosine = gt.cos(x)  # pending, and the same as the derivative of the sine
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = gt.sin(x) * cosine if reads else gt.sin(x)
        slope = derive(inner, y, x)
    want = -np.sin(X) * (np.cos(X) if reads else 1.0)
    np.testing.assert_allclose(outer.gradient(slope, x).numpy(), want)


def by_hand(x, w):
    return gt.sin(x) * w, lambda dy: (dy * gt.cos(x) * w, dy * gt.sin(x))


def with_tangents():
    f = gt.custom_jvp(lambda x, w: gt.sin(x) * w)
    f.defjvp(
        lambda p, t: (f(*p), t[0] * gt.cos(p[0]) * p[1] + t[1] * gt.sin(p[0])),
    )
    return f


@pytest.mark.parametrize(
    "g",
    [
        gt.custom_gradient(by_hand),
        with_tangents(),
        gt.checkpoint(lambda x, w: gt.sin(x) * w),
    ],
    ids=["gradient", "jvp", "checkpoint"],
)
def test_derivatives_by_hand_beside_pending_tensors(g):
    def second(g):
        def total(x):
            w = x + 1.0
            return gt.sum(gt.hessian(lambda u: gt.sum(g(u, w) * u))(x * 2.0))

        return total

    def plain(x, w):
        return gt.sin(x) * w

    x = gt.asarray(X) * 1.0
    w = x + 1.0
    found, want = (gt.hessian(lambda u, f=f: gt.sum(f(u, w) * u))(x).numpy() for f in (g, plain))
    np.testing.assert_allclose(found, want, atol=1e-14)
    found, want = (gt.grad(second(f))(gt.asarray(X)).numpy() for f in (g, plain))
    np.testing.assert_allclose(found, want)


class TestConstants:
    @pytest.mark.parametrize("shape", [(), (3,)])
    def test_ones_as_a_source_are_no_part_of_its_derivatives(self, shape):
        x = gt.ones(shape)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**3
            slope = tape.gradient(y, x)
        assert np.all(slope.numpy() == 3.0)
        assert np.all(tape.gradient(slope, x).numpy() == 6.0)
        assert np.sum(tape.hessian(y, x).numpy()) == 6.0 * x.size
        assert np.all(tape.hvp(y, x, gt.ones(shape)).numpy() == 6.0)

    def test_zeros_that_a_derivative_gave(self):
        x, w = gt.asarray(X), gt.asarray(Y)
        with gt.GradientTape() as tape:
            tape.watch([x, w])
            y = gt.sin(x)
        nothing = tape.gradient(y, w, unconnected_gradients="zero")
        with gt.GradientTape(persistent=True) as tape:
            tape.watch([x, nothing])
            flat = tape.gradient(gt.sin(x), nothing, unconnected_gradients="zero")
        assert tape.gradient(flat, nothing, unconnected_gradients="none") is None


@pytest.mark.parametrize("name", ["jvp", "hvp"])
def test_products_in_eager_mode(name):
    with gt.eager():
        x = gt.asarray(X)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.tanh(x)
        found = getattr(tape, name)(y, x, gt.ones(3)).numpy()
    slope = 1 - np.tanh(X) ** 2
    np.testing.assert_allclose(found, slope if name == "jvp" else -2 * np.tanh(X) * slope)


def test_by_itself_a_target_has_the_derivative_one_watched_or_not():
    x, v = gt.asarray(X), gt.Variable(2.0)
    with gt.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        _ = v * 2.0
    assert tape.gradient(x, x).tolist() == [1.0, 1.0, 1.0]
    assert float(tape.gradient(v, v)) == 1.0
    assert tape.gradient(x, v, unconnected_gradients="none") is None


def test_the_way_from_one_source_to_another_that_was_taken_before_the_tape():
    v = gt.Variable(X)
    q = v * 1.0
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(q)
        z = gt.cos(q) * v
    by_q, by_v = tape.gradient(z, [q, v])
    np.testing.assert_allclose(by_q.numpy(), -np.sin(X) * X)
    np.testing.assert_allclose(by_v.numpy(), np.cos(X))
    np.testing.assert_allclose(tape.gradient(z, v).numpy(), np.cos(X))
    np.testing.assert_allclose(np.diag(tape.jacobian(z, [q, v])[1].numpy()), np.cos(X))
