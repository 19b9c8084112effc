"""CONTRACT: what one derivative gives is differentiable by the ones around it, to any order."""

import numpy as np
import pytest

import gradtape as gt

POINT = np.array([0.5, -1.0, 2.0])
ALONG = np.array([1.0, -0.5, 0.25])


def cubic(x):
    return gt.sum(x**3) * x[0]


def tape_hessian(f, x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.hessian(y, x)


def tape_hvp(f, x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.hvp(y, x, ALONG)


# Ways to a Hessian, or to its product with ALONG.
SECOND = {
    "hessian": lambda f, x: gt.hessian(f)(x),
    "tape.hessian": tape_hessian,
    "jacfwd(grad)": lambda f, x: gt.jacfwd(gt.grad(f))(x),
    "jacrev(jacrev)": lambda f, x: gt.jacrev(gt.jacrev(f))(x),
    "vmap(hessian)": lambda f, x: gt.vmap(gt.hessian(f))(x[None])[0],
    "hvp": lambda f, x: gt.hvp(f, x, ALONG),
    "vhp": lambda f, x: gt.vhp(f, x, ALONG),
    "tape.hvp": tape_hvp,
    "vmap(hvp)": lambda f, x: gt.vmap(lambda one: gt.hvp(f, one, ALONG))(x[None])[0],
}
PRODUCTS = ("hvp", "vhp", "tape.hvp", "vmap(hvp)")

# Ways to the derivative of that: its last axis counts elements of the argument.
OUTER = {
    "jacobian": lambda f, x: gt.jacobian(f)(x),
    "jacfwd": lambda f, x: gt.jacfwd(f)(x),
    "jacrev": lambda f, x: gt.jacrev(f)(x),
    "function": lambda f, x: gt.function(gt.jacobian(f))(x),
    "vmap of jvp": lambda f, x: gt.vmap(lambda v: gt.jvp(f, (x,), (v,))[1], out_axes=-1)(np.eye(3)),
    "chunks": lambda f, x: gt.jacobian(f, chunk_size=2)(x),
}


def third(x):
    """Third derivatives of `cubic`, by hand."""
    found = np.zeros((3, 3, 3))
    for i in range(3):
        found[i, i, i] += 6 * x[0]
        for place in ((i, i, 0), (i, 0, i), (0, i, i)):
            found[place] += 6 * x[i]
    return found


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("second", SECOND)
def test_third_derivatives(second, outer):
    expected = third(POINT)
    if second in PRODUCTS:
        expected = np.einsum("ijk,j->ik", expected, ALONG)
    found = OUTER[outer](lambda x: SECOND[second](cubic, x), POINT)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
    # The argument may itself have been computed under the outer derivative.
    chained = OUTER[outer](lambda x: SECOND[second](cubic, x * 1.0), POINT)
    np.testing.assert_allclose(chained.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("second", SECOND)
def test_what_was_computed_outside_has_derivatives_outside(second):
    """sin(x) is a constant of the inner derivative and a variable of the outer one."""

    def f(x):
        outside = gt.sin(x)
        return gt.sum(SECOND[second](lambda y: gt.sum(outside * y**3), gt.asarray(POINT)))

    expected = np.cos(POINT) * 6 * POINT * (ALONG if second in PRODUCTS else 1.0)
    np.testing.assert_allclose(gt.grad(f)(POINT).numpy(), expected)


@pytest.mark.parametrize("second", SECOND)
def test_stop_gradient_of_what_was_computed_outside_stays(second):
    def f(x):
        outside = gt.sin(x)
        held = gt.stop_gradient(outside)
        return gt.sum(SECOND[second](lambda y: gt.sum(outside * held * y**3), gt.asarray(POINT)))

    expected = np.cos(POINT) * np.sin(POINT) * 6 * POINT * (ALONG if second in PRODUCTS else 1.0)
    np.testing.assert_allclose(gt.grad(f)(POINT).numpy(), expected)


def test_blocks_of_several_arguments_inside_a_derivative():
    def f(a, b):
        return gt.sum(a**2 * b**2)

    def blocks(x):
        (aa, ab), (ba, bb) = gt.hessian(f, argnums=(0, 1))(x, 2.0 * x)
        return gt.stack([aa, ab, ba, bb])

    found = gt.jacobian(blocks)(POINT).numpy()
    # aa = 2 b^2 = 8 x^2, ab = ba = 4 a b = 8 x^2, bb = 2 a^2 = 2 x^2, all diagonal.
    expected = np.zeros((4, 3, 3, 3))
    for i in range(3):
        expected[:, i, i, i] = np.array([16.0, 16.0, 16.0, 4.0]) * POINT[i]
    np.testing.assert_allclose(found, expected)


def test_products_of_several_arguments_inside_a_derivative():
    def product(x):
        first, second = gt.hvp(
            lambda a, b: gt.sum(a**2 * b**2), (x, 2.0 * x), (np.ones(3), np.zeros(3))
        )
        return gt.sum(first) + gt.sum(second)

    np.testing.assert_allclose(gt.grad(product)(POINT).numpy(), 32.0 * POINT)


def test_a_source_that_depends_on_another_through_what_was_not_recorded():
    x = gt.asarray(POINT)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with tape.stop_recording():
            held = x * x
        z = held * x
        y = gt.sum(z * z * x)
    by_hand = POINT**2
    expected = {
        # y = held^2 x^3 as the tape sees it, and z^2 x with z on its own.
        "xx": 6 * by_hand**2 * POINT,
        "zz": 2 * POINT,
    }
    (xx, _), (_, zz) = tape.hessian(y, [x, z])
    np.testing.assert_allclose(np.diag(xx.numpy()), expected["xx"])
    np.testing.assert_allclose(np.diag(zz.numpy()), expected["zz"])
    np.testing.assert_allclose(np.diag(tape.hessian(y, x).numpy()), expected["xx"])


def test_sparse_second_derivatives_inside_a_derivative():
    """They are numbers, but right ones."""
    seen = []

    def f(x):
        seen.append(gt.hessian(cubic, sparse=True)(x).toarray())
        return gt.sum(x)

    gt.grad(f)(POINT)
    np.testing.assert_allclose(seen[0], gt.hessian(cubic)(POINT).numpy())


class TestComputedBefore:
    """What was computed before a tape is a constant to it; a derivative that looks like it is not.

    Here cos(x) is the user's own, pending, and the derivative of sin(x) as well.
    """

    def second(self, x):
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = gt.sin(x)
            slope = inner.gradient(y, x)
        return outer.gradient(slope, x).numpy()

    @pytest.mark.parametrize("kind", [gt.Variable, gt.asarray])
    def test_by_the_user(self, kind):
        x = kind(POINT)
        before = gt.cos(x)
        np.testing.assert_allclose(self.second(x), -np.sin(POINT))
        np.testing.assert_allclose(before.numpy(), np.cos(POINT))

    @pytest.mark.parametrize("kind", [gt.Variable, gt.asarray])
    def test_by_another_tape(self, kind):
        x = kind(POINT)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sin(x)
        before = tape.gradient(y, x)
        np.testing.assert_allclose(self.second(x), -np.sin(POINT))
        np.testing.assert_allclose(before.numpy(), np.cos(POINT))

    def test_while_recording_was_stopped(self):
        x = gt.asarray(POINT)
        with gt.GradientTape() as outer:
            outer.watch(x)
            with outer.stop_recording():
                held = gt.cos(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = gt.sin(x) * held
            slope = inner.gradient(y, x)
        # The slope is cos(x) held, and only the first of them is the outer tape's.
        np.testing.assert_allclose(outer.gradient(slope, x).numpy(), -np.sin(POINT) * np.cos(POINT))

    def test_by_the_same_tape(self):
        x = gt.asarray(POINT)
        before = gt.cos(x)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = gt.sin(x)
            slope = tape.gradient(y, x)
            bend = tape.gradient(slope, x)
        third = tape.gradient(bend, x)
        np.testing.assert_allclose(slope.numpy(), before.numpy())
        np.testing.assert_allclose(bend.numpy(), -np.sin(POINT))
        np.testing.assert_allclose(third.numpy(), -np.cos(POINT))

    @pytest.mark.parametrize("ask", ["jvp", "jacobian", "hessian", "hvp", "batch_jacobian"])
    def test_other_questions(self, ask):
        x = gt.asarray(POINT)
        before = [gt.cos(x), -gt.sin(x), gt.sin(x)]
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = gt.sin(x) if ask in ("jvp", "jacobian", "batch_jacobian") else gt.sum(gt.sin(x))
            if ask in ("jvp", "hvp"):
                found = getattr(inner, ask)(y, x, np.ones(3))
            else:
                found = getattr(inner, ask)(y, x)
        expected = -np.cos(POINT) if ask in ("hessian", "hvp") else -np.sin(POINT)
        np.testing.assert_allclose(outer.gradient(found, x).numpy(), expected)
        np.testing.assert_allclose(before[2].numpy(), np.sin(POINT))

    def test_a_gradient_taken_outside_stays_outside(self):
        x = gt.asarray(POINT)
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape(persistent=True) as inner:
                inner.watch(x)
                y = gt.sin(x)
            with outer.stop_recording():
                held = inner.gradient(y, x)
            z = held * x
        np.testing.assert_allclose(outer.gradient(z, x).numpy(), np.cos(POINT))


@pytest.mark.parametrize("second", SECOND)
def test_derivatives_written_in_python_inside(second):
    """Of what was computed outside, too."""

    @gt.custom_gradient
    def cube(x):
        return x * x * x, lambda g: g * 3.0 * x * x

    def f(x):
        outside = 2.0 * x
        return SECOND[second](lambda y: gt.sum(cube(y * outside)), gt.asarray(POINT))

    # The Hessian of sum((y k)^3) is diag(6 y k^3), with k = 2 x.
    expected = np.diag(6 * POINT * 3 * (2 * POINT) ** 2 * 2.0)
    if second in PRODUCTS:
        expected = expected * ALONG
    else:
        expected = np.einsum("ij,ik->ijk", np.eye(3), expected)
    for derivative in (gt.jacfwd, gt.jacrev):
        np.testing.assert_allclose(derivative(f)(POINT).numpy(), expected)
