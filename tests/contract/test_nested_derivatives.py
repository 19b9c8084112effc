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
