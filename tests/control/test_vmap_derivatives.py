"""vmap and derivatives: inside, outside, by hand, to any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4, 3))
MATRIX = RNG.normal(size=(3, 3))


def loop(f: Any, *columns: Any) -> Any:
    """What vmap stands for."""
    rows = [gt.pytree.flatten(f(*map(gt.asarray, row))) for row in zip(*columns, strict=True)]
    columns = zip(*[leaves for leaves, _ in rows], strict=True)
    stacked = [np.stack([np.asarray(x) for x in column]) for column in columns]
    return gt.pytree.unflatten(rows[0][1], stacked)


def close(got: Any, expected: Any) -> None:
    got, expected = gt.pytree.flatten(got)[0], gt.pytree.flatten(expected)[0]
    for a, b in zip(got, expected, strict=True):
        a, b = (x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in (a, b))
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def check(f: Any, *columns: Any) -> None:
    close(gt.vmap(f)(*columns), loop(f, *columns))


def norm_of(x: Any) -> Any:
    return gt.sqrt(gt.sum(x * x) + 1.0) * gt.exp(x[0])


def test_gradient_inside():
    check(gt.grad(norm_of), ROWS)
    check(gt.value_and_grad(norm_of), ROWS)


def test_gradient_outside():
    got = gt.grad(lambda x: gt.sum(gt.vmap(norm_of)(x)))(gt.asarray(ROWS))
    close(got, loop(gt.grad(norm_of), ROWS))


def test_vjp_and_jvp_inside():
    def pulled(x, g):
        return gt.vjp(lambda x: gt.sin(x) * gt.sum(x), x)[1](g)[0]

    def pushed(x, t):
        return gt.jvp(lambda x: gt.sin(x) * gt.sum(x), (x,), (t,))[1]

    check(pulled, ROWS, ROWS * 0.5)
    check(pushed, ROWS, ROWS * 0.5)


def test_vjp_and_jvp_outside():
    x, t = gt.asarray(ROWS), gt.asarray(ROWS * 0.5)
    mapped = gt.vmap(lambda x: gt.sin(x) * gt.sum(x))
    plain = lambda x: gt.sin(x) * gt.sum(x, axis=1, keepdims=True)  # noqa: E731
    close(gt.jvp(mapped, (x,), (t,)), gt.jvp(plain, (x,), (t,)))
    close(gt.vjp(mapped, x)[1](t), gt.vjp(plain, x)[1](t))
    with gt.ForwardAccumulator(x, t) as accumulator:
        y = mapped(x)
    close(accumulator.jvp(y), gt.jvp(plain, (x,), (t,))[1])


def test_tape_inside_with_variables():
    v = gt.Variable(MATRIX)

    def f(x):
        with gt.GradientTape() as tape:
            y = gt.sum(gt.tanh(v @ x))
        return tape.gradient(y, v)

    check(f, ROWS)
    assert gt.vmap(f)(ROWS).shape == (4, 3, 3)


def test_per_example_gradients_of_a_shared_argument():
    def loss(w, x):
        return gt.sum(gt.tanh(w @ x))

    found = gt.vmap(gt.grad(loss), in_axes=(None, 0))(MATRIX, ROWS)
    close(found, np.stack([gt.grad(loss)(gt.asarray(MATRIX), gt.asarray(x)) for x in ROWS]))


def test_a_tape_outside_is_asked_inside():
    x = gt.asarray(2.0)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**3
        z = gt.sum(gt.vmap(lambda a: a * tape.gradient(y, x))(gt.asarray([1.0, 2.0])))
    close(z, np.array(36.0))
    close(outer.gradient(z, x), np.array(36.0))


def test_hessian_by_nesting():
    basis = gt.eye(3)
    for x in map(gt.asarray, ROWS):
        forward = gt.vmap(lambda v, x=x: gt.jvp(gt.grad(norm_of), (x,), (v,))[1])(basis)
        _, pull = gt.vjp(gt.grad(norm_of), x)
        backward = gt.vmap(lambda v, pull=pull: pull(v)[0])(basis)
        close(forward, backward)
        close(forward, forward.numpy().T)
        step = 1e-6 * np.eye(3)
        numeric = [
            (gt.grad(norm_of)(x + d).numpy() - gt.grad(norm_of)(x - d).numpy()) / 2e-6 for d in step
        ]
        np.testing.assert_allclose(forward.numpy(), numeric, rtol=1e-5, atol=1e-6)


def test_pulling_back_all_cotangents_of_one_pass():
    x = gt.asarray(ROWS[0])
    expected = np.diag(np.cos(ROWS[0])) * ROWS[0].sum() + np.sin(ROWS[0])[:, None]
    y, pull = gt.vjp(lambda x: gt.sin(x) * gt.sum(x), x)
    close(gt.vmap(pull)(gt.eye(3))[0], expected)
    # The same where the forward pass was computed before, and is not pending any more.
    y.numpy()
    (gt.asarray(1.0) + 1.0).numpy()
    close(gt.vmap(pull)(gt.eye(3))[0], expected)
    _, push = gt.linearize(lambda x: gt.sin(x) * gt.sum(x), x)
    close(gt.vmap(push, out_axes=1)(gt.eye(3)), expected)


def test_jacobians_are_differentiable():
    def f(x):
        return gt.sin(x) * gt.sum(x)

    def jacobian(x):
        return gt.vmap(gt.vjp(f, x)[1])(gt.eye(3))[0]

    x = gt.asarray(ROWS[0])
    loss = lambda x: gt.sum(jacobian(x) ** 2)  # noqa: E731
    step = 1e-6 * np.eye(3)
    numeric = [(float(loss(x + d)) - float(loss(x - d))) / 2e-6 for d in step]
    np.testing.assert_allclose(gt.grad(loss)(x).numpy(), numeric, rtol=1e-6)
    check(gt.grad(loss), ROWS)
    check(jacobian, ROWS)


def test_hessians_of_all_examples():
    def hessian(x):
        return gt.vmap(lambda v: gt.jvp(gt.grad(norm_of), (x,), (v,))[1])(gt.eye(3))

    check(hessian, ROWS)


def test_third_order_through_several_layers():
    def f(x):
        return gt.sin(x) * x

    third = gt.vmap(gt.grad(gt.grad(gt.grad(f))))
    x = gt.asarray([0.3, 1.2])
    expected = -3.0 * np.sin(x.numpy()) - x.numpy() * np.cos(x.numpy())
    close(third(x), expected)
    sums = gt.grad(lambda x: gt.sum(gt.vmap(gt.grad(gt.grad(f)))(x)))
    close(sums(x), expected)
    inner = gt.grad(lambda a: gt.sum(gt.vmap(gt.grad(f))(a * gt.ones(1))))
    between = gt.grad(lambda x: gt.sum(gt.vmap(inner)(x)))
    close(between(x), expected)


def test_vmap_of_vmap():
    x, y = RNG.normal(size=(2, 3)), RNG.normal(size=(4, 3))
    pairwise = gt.vmap(gt.vmap(lambda a, b: gt.sum((a - b) ** 2), (None, 0)), (0, None))
    close(pairwise(x, y), ((x[:, None] - y[None]) ** 2).sum(-1))
    triple = gt.vmap(gt.vmap(gt.vmap(lambda a, b: a * b, (0, None)), (None, 0)), (0, 0))
    close(triple(x, x), x[:, None, :] * x[:, :, None])


def test_inner_vmap_over_what_is_outside():
    rows = gt.asarray(ROWS)
    check(lambda x: gt.vmap(lambda y: gt.sum(x * y))(rows), ROWS)


def test_results_of_two_calls_are_two_values():
    x = gt.asarray(ROWS)
    f = gt.vmap(lambda x: x * x)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        first, second = f(x), f(x)
    assert tape.gradient(second, first, unconnected_gradients="none") is None
    close(tape.gradient(second, x), 2.0 * ROWS)


def test_stop_recording_around_it():
    x = gt.asarray(ROWS)
    f = gt.vmap(lambda x: x * x)
    with gt.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            constant = f(x)
        y = gt.sum(f(x) * constant)
    close(tape.gradient(y, x), 2.0 * ROWS**3)


def test_where_keeps_nan_out_inside():
    def f(x):
        n = gt.sqrt(gt.sum(x * x))
        return gt.sum(gt.where(n > 0.0, x / n, 0.0))

    rows = np.concatenate([ROWS, np.zeros((1, 3))])
    got = gt.vmap(gt.grad(f))(rows).numpy()
    assert np.isfinite(got).all()
    assert not got[-1].any()


def test_look_ups_inside():
    table = gt.Variable(RNG.normal(size=(5, 2)))

    def f(i):
        with gt.GradientTape() as tape:
            y = gt.sum(gt.take(table, i, axis=0) ** 2)
        return tape.gradient(y, table)

    indices = np.array([3, 0, 3])
    found = gt.vmap(f)(indices).numpy()
    expected = np.zeros((3, 5, 2))
    expected[range(3), indices] = 2.0 * table.numpy()[indices]
    np.testing.assert_allclose(found, expected)
    with gt.GradientTape() as tape:
        total = gt.sum(gt.vmap(lambda i: table[i])(indices) ** 2)
    np.testing.assert_allclose(np.asarray(tape.gradient(total, table)), expected.sum(0))


# Derivatives by hand, checkpoints, and Python inside.


@gt.custom_gradient
def tenfold(x):
    e = gt.exp(x)
    return gt.sum(e), lambda dy: dy * 10.0 * e


@gt.custom_jvp
def fivefold(x):
    return gt.sum(gt.sin(x))


@fivefold.defjvp
def _fivefold_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return fivefold(x), 5.0 * gt.sum(gt.cos(x) * t)


recomputed = gt.checkpoint(lambda x: gt.sum(gt.tanh(gt.sin(x) * 2.0)))


CUSTOM = {"gradient": tenfold, "jvp": fivefold, "checkpoint": recomputed}


@pytest.mark.parametrize("f", CUSTOM.values(), ids=CUSTOM)
def test_custom_derivatives(f):
    x = gt.asarray(ROWS)
    check(f, ROWS)
    check(gt.grad(f), ROWS)
    close(gt.grad(lambda x: gt.sum(gt.vmap(f)(x)))(x), loop(gt.grad(f), ROWS))
    tangent = gt.asarray(ROWS * 0.5)
    pushed = loop(lambda x, t: gt.jvp(f, (x,), (t,))[1], ROWS, ROWS * 0.5)
    close(gt.jvp(gt.vmap(f), (x,), (tangent,))[1], pushed)
    # Both ways at once, and the second derivative through both.
    inside = gt.vmap(lambda x: gt.sum(gt.grad(f)(x) ** 2))
    alone = gt.grad(lambda x: gt.sum(gt.grad(f)(x) ** 2))
    close(gt.grad(lambda x: gt.sum(inside(x)))(x), loop(alone, ROWS))
    twice = gt.vmap(gt.vmap(lambda a: f(a * gt.ones(2))))
    grad = gt.grad(lambda x: gt.sum(twice(x)))(x)
    alone = gt.grad(lambda a: f(a * gt.ones(2)))
    expected = [[float(alone(gt.asarray(a))) for a in row] for row in ROWS]
    close(grad, np.array(expected))


def test_custom_gradient_of_what_all_share():
    @gt.custom_gradient
    def product(x, w):
        return gt.sum(x * w), lambda dy: (dy * w, dy * x * 100.0)

    w = gt.asarray(MATRIX[0])
    found = gt.grad(lambda w: gt.sum(gt.vmap(lambda x: product(x, w))(ROWS)))(w)
    close(found, ROWS.sum(0) * 100.0)
    tangent = gt.jvp(lambda w: gt.vmap(lambda x: product(x, w))(ROWS), (w,), (gt.ones(3),))[1]
    close(tangent, ROWS.sum(1) * 100.0)
    unmapped = gt.grad(lambda w: gt.sum(gt.vmap(lambda x: x * tenfold(w))(ROWS)))(w)
    close(unmapped, ROWS.sum() * 10.0 * np.exp(MATRIX[0]))


def test_custom_gradient_with_variables():
    v = gt.Variable(2.0)

    @gt.custom_gradient
    def f(x):
        def slopes(dy, variables=None):
            return dy * v, [gt.sum(dy * x) * 7.0]

        return x * v, slopes

    with gt.GradientTape() as tape:
        y = gt.sum(gt.vmap(f)(ROWS))
    close(tape.gradient(y, v), np.array(7.0 * ROWS.sum()))


def test_grad_pass_through_and_stop_gradient():
    check(gt.grad(lambda x: gt.sum(gt.grad_pass_through(gt.round)(x) * gt.stop_gradient(x))), ROWS)


def test_numpy_function_is_called_once_per_example():
    seen = []

    def f(x):
        seen.append(x.shape)
        return np.cumsum(x)

    found = gt.vmap(lambda x: gt.numpy_function(f, [x * 2.0], ((3,), gt.float64)))(ROWS)
    close(found, np.cumsum(ROWS * 2.0, axis=1))
    assert seen == [(3,)] * 4


def test_py_function_and_its_gradient():
    def call(x, gradient=None):
        return gt.sum(gt.py_function(lambda x: x * x, [x], ((3,), gt.float64), gradient=gradient))

    def slope(x, dy):
        return [30.0 * x * dy]

    check(call, ROWS)
    for f in (call, lambda x: call(x, slope)):
        check(gt.grad(f), ROWS)
        outside = gt.grad(lambda x, f=f: gt.sum(gt.vmap(f)(x)))(gt.asarray(ROWS))
        close(outside, loop(gt.grad(f), ROWS))


def test_py_function_of_what_all_share():
    def slopes(x, w, dy):
        return [dy * w, dy * x]

    w = gt.asarray(MATRIX[0])
    for gradient in (None, slopes):

        def f(x, w=w, gradient=gradient):
            return gt.py_function(lambda x, w: x * w, [x, w], ((3,), gt.float64), gradient)

        found = gt.grad(lambda w, f=f: gt.sum(gt.vmap(lambda x: f(x, w))(ROWS)))(w)
        close(found, ROWS.sum(0))


def test_two_derivatives_with_one_body_for_other_sources():
    """The batched body depends on the sources that have a derivative, not on the body alone."""

    def product(chosen):
        @gt.custom_gradient
        def f(a, b):
            def grad(dy):
                slope = dy * gt.sin(dy)
                return (None, slope) if chosen else (slope, None)

            return a * b, grad

        return f

    def gradient(chosen):
        f, a, b = product(chosen), gt.asarray([1.0, 2.0, 3.0]), gt.asarray(2.0)
        with gt.GradientTape() as tape:
            tape.watch([a, b])
            y = gt.vmap(lambda a: gt.scan(lambda c, _: (c + f(a, b), None), 0.0, length=2)[0])(a)
        return tape.gradient(y, [a, b], unconnected_gradients="none")

    of_b, of_a = gradient(1), gradient(0)
    assert of_b[0] is None
    assert of_a[1] is None
    np.testing.assert_allclose(of_b[1], 6 * np.sin(1.0))
    np.testing.assert_allclose(of_a[0], np.full(3, 2 * np.sin(1.0)))
