"""CONTRACT: functions that say themselves what they do to many examples."""

import numpy as np
import pytest

import gradtape as gt

X = np.linspace(0.1, 1.2, 6).reshape(3, 2)
W = np.array([1.0, 2.0])


def weighted(calls):
    @gt.custom_vmap
    def f(x, w):
        return gt.sum(gt.sin(x) * w)

    @f.def_vmap
    def rule(axis_size, in_batched, x, w):
        calls.append((axis_size, in_batched))
        return gt.sum(gt.sin(x) * w, axis=-1), True

    return f


def tagged(scale):
    """A function whose rule can be told from it."""
    f = gt.custom_vmap(lambda x: gt.cos(x))
    f.def_vmap(lambda axis_size, in_batched, x: (gt.cos(x) * scale, in_batched[0]))
    return f


def test_the_rule_is_called_once_with_all_examples():
    calls = []
    got = gt.vmap(weighted(calls), in_axes=(0, None))(X, W)
    np.testing.assert_allclose(got.numpy(), np.sum(np.sin(X) * W, axis=-1))
    assert calls == [(3, [True, False])]


def test_elsewhere_it_is_the_function():
    calls = []
    f = weighted(calls)
    assert float(f(X[0], W)) == pytest.approx(np.sum(np.sin(X[0]) * W))
    np.testing.assert_allclose(gt.grad(f)(gt.asarray(X[0]), W).numpy(), np.cos(X[0]) * W)
    assert not calls
    shared = gt.vmap(lambda x: f(X[0], W) + gt.sum(x))(X)
    np.testing.assert_allclose(shared.numpy(), float(f(X[0], W)) + X.sum(axis=1))
    assert not calls


def test_without_a_rule_it_is_the_function():
    np.testing.assert_allclose(gt.vmap(gt.custom_vmap(lambda x: x * 2.0))(X).numpy(), X * 2.0)


def test_keywords_arrive_by_position():
    calls = []
    f = weighted(calls)
    gt.vmap(lambda x: f(x, w=W))(X)
    assert calls == [(3, [True, False])]
    g = gt.custom_vmap(lambda x, *, w: x * w)
    g.def_vmap(lambda n, b, x: (x, True))
    with pytest.raises(TypeError, match="keyword-only"):
        gt.vmap(lambda x: g(x, w=2.0))(X)


def test_derivatives_of_a_mapped_function_are_those_of_the_rule():
    f = tagged(10.0)
    got = gt.grad(lambda x: gt.sum(gt.vmap(f)(x)))(W).numpy()
    np.testing.assert_allclose(got, -10.0 * np.sin(W))
    np.testing.assert_allclose(
        gt.jacobian(gt.vmap(f))(gt.asarray(W)).numpy(), np.diag(-10.0 * np.sin(W))
    )


def test_derivatives_inside_a_mapped_function():
    calls = []
    f = weighted(calls)
    slopes = gt.vmap(gt.grad(f), in_axes=(0, None))(X, W).numpy()
    np.testing.assert_allclose(slopes, np.cos(X) * W)
    values, slopes = gt.vmap(gt.value_and_grad(f), in_axes=(0, None))(X, W)
    np.testing.assert_allclose(values.numpy(), np.sum(np.sin(X) * W, axis=-1))
    np.testing.assert_allclose(slopes.numpy(), np.cos(X) * W)
    pushed = gt.vmap(lambda x: gt.jvp(lambda a: f(a, W), (x,), (x,))[1])(X)
    np.testing.assert_allclose(pushed.numpy(), np.sum(np.cos(X) * W * X, axis=-1))


@pytest.mark.parametrize("inner", [0, 1])
def test_nested_maps(inner):
    calls = []
    f = weighted(calls)
    ws = np.arange(4.0).reshape(2, 2)
    expected = np.einsum("bi,ai->ab", np.sin(X), ws)
    if inner:
        mapped = gt.vmap(lambda w: gt.vmap(lambda x: f(x, w))(X))(ws)
    else:
        mapped = gt.moveaxis(gt.vmap(lambda x: gt.vmap(lambda w: f(x, w))(ws))(X), 0, 1)
    np.testing.assert_allclose(mapped.numpy(), expected)
    assert len(calls) == 1


def test_the_outer_map_calls_the_rule_of_what_the_inner_one_shares():
    calls = []
    f = weighted(calls)
    ws = np.arange(4.0).reshape(2, 2)
    got = gt.vmap(lambda w: gt.vmap(lambda a: f(w, w) + gt.sum(a))(X))(ws)
    expected = np.sum(np.sin(ws) * ws, axis=1)[:, None] + X.sum(axis=1)
    np.testing.assert_allclose(got.numpy(), expected)
    assert calls == [(2, [True, True])]


def test_inside_function_and_in_chunks():
    calls = []
    f = weighted(calls)
    g = gt.function(gt.vmap(f, in_axes=(0, None)), frozen=True)
    for scale in (1.0, 2.0, 3.0):
        expected = np.sum(np.sin(X * scale) * W, axis=-1)
        np.testing.assert_allclose(g(gt.asarray(X * scale), gt.asarray(W)).numpy(), expected)
    assert len(calls) == 1
    calls.clear()
    gt.vmap(f, in_axes=(0, None), chunk_size=2)(X, W)
    assert [size for size, _ in calls] == [2, 1]


def test_methods_see_what_the_instance_holds_now():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @gt.custom_vmap
        def apply(self, x):
            return x * self.factor

        @apply.def_vmap
        def rule(axis_size, in_batched, self, x):  # noqa: N805 - a rule, not a method
            return x * self.factor * 100.0, in_batched[1]

    scale = Scale(3.0)
    np.testing.assert_allclose(gt.vmap(scale.apply)(X).numpy(), X * 300.0)
    scale.factor = 5.0
    np.testing.assert_allclose(gt.vmap(scale.apply)(X).numpy(), X * 500.0)


def test_nests_and_results_that_examples_share():
    @gt.custom_vmap
    def f(p):
        return {"a": p["x"] * 2.0, "b": (p["y"],)}

    @f.def_vmap
    def rule(axis_size, in_batched, p):
        (flags,) = in_batched
        return {"a": p["x"] * 2.0, "b": (p["y"],)}, {"a": flags["x"], "b": (flags["y"],)}

    got = gt.vmap(f, in_axes=({"x": 0, "y": None},))({"x": X, "y": W})
    np.testing.assert_allclose(got["a"].numpy(), X * 2.0)
    np.testing.assert_allclose(got["b"][0].numpy(), np.stack([W] * 3))


def test_variables_inside_the_rule():
    v = gt.Variable(2.0)
    f = gt.custom_vmap(lambda x: x * v)
    f.def_vmap(lambda n, b, x: (x * v * 10.0, True))
    with gt.GradientTape() as tape:
        y = gt.sum(gt.vmap(f)(W))
    assert float(tape.gradient(y, v)) == 30.0


def test_a_function_with_custom_gradient_may_have_a_rule():
    @gt.custom_vmap
    @gt.custom_gradient
    def f(x):
        return gt.sin(x), lambda dy: dy * 10.0

    f.def_vmap(lambda n, b, x: (f(x) * 3.0, True))
    np.testing.assert_allclose(gt.vmap(f)(W).numpy(), 3.0 * np.sin(W))
    np.testing.assert_allclose(gt.vmap(gt.grad(f))(W).numpy(), [10.0, 10.0])
    np.testing.assert_allclose(gt.grad(lambda w: gt.sum(gt.vmap(f)(w)))(W).numpy(), [30.0, 30.0])


def test_derivatives_by_hand_may_call_one_that_has_a_rule():
    h = tagged(1000.0)

    @gt.custom_gradient
    def f(x):
        return gt.sin(x), lambda dy: dy * h(x)

    @gt.custom_jvp
    def g(x):
        return gt.sin(x)

    g.defjvp(lambda primals, tangents: (g(*primals), tangents[0] * h(primals[0])))
    assert float(gt.grad(f)(1.0)) == pytest.approx(np.cos(1.0))
    for each in (f, g):
        np.testing.assert_allclose(gt.vmap(gt.grad(each))(W).numpy(), 1000.0 * np.cos(W))
        outside = gt.grad(lambda w, each=each: gt.sum(gt.vmap(each)(w)))(W)
        np.testing.assert_allclose(outside.numpy(), 1000.0 * np.cos(W))


def test_what_the_rule_replaces_is_not_tried():
    f = gt.custom_vmap(lambda a: gt.linalg.cholesky(a))
    f.def_vmap(lambda n, b, a: (a * 1.0, True))
    matrices = -np.stack([np.eye(2)] * 2)
    np.testing.assert_array_equal(gt.vmap(f)(matrices).numpy(), matrices)


class TestInsideLoops:
    """The rule is called while the loop is traced, for each number of examples around it."""

    def test_scan(self):
        f = tagged(1000.0)

        def total(x):
            return gt.scan(lambda c, a: (c + f(a), c), gt.asarray(0.0), x)[0]

        expected = (np.cos(X) * 1000.0).sum(axis=1)
        np.testing.assert_allclose(gt.vmap(total)(X).numpy(), expected)
        np.testing.assert_allclose(gt.function(gt.vmap(total))(gt.asarray(X)).numpy(), expected)
        np.testing.assert_allclose(total(X[0]).numpy(), np.cos(X[0]).sum())

    @pytest.mark.parametrize(
        "loop",
        [
            lambda f: lambda x: gt.fori_loop(0, 1, lambda i, c: f(c), x),
            lambda f: lambda x: gt.map(f, gt.stack([x, x]))[1],
            lambda f: lambda x: gt.cond(gt.sum(x) > -9.0, lambda: f(x), lambda: x),
            lambda f: lambda x: gt.cond(gt.asarray(True), lambda: f(x), lambda: x),
            lambda f: lambda x: gt.switch(1, [lambda a: a, f], x),
            lambda f: lambda x: gt.while_loop(lambda c: gt.max(c) < 9.0, f, x, 1),
            lambda f: lambda x: gt.scan(lambda c, _: (f(c), None), x, length=1, checkpoint=True)[0],
            lambda f: (
                lambda x: gt.fori_loop(
                    0, 1, lambda i, c: gt.fori_loop(0, 1, lambda j, d: f(d), c), x
                )
            ),
        ],
        ids=["fori", "map", "cond apart", "cond", "switch", "while", "checkpoint", "nested"],
    )
    def test_all_of_them(self, loop):
        f = tagged(1000.0)
        np.testing.assert_allclose(gt.vmap(loop(f))(X).numpy(), np.cos(X) * 1000.0)

    def test_nested_maps(self):
        f = tagged(1000.0)
        many = np.stack([X, X + 1.0, X - 1.0])

        def total(x):
            return gt.scan(lambda c, a: (c + f(a), c), gt.asarray(0.0), x)[0]

        found = gt.vmap(gt.vmap(total))(many)
        np.testing.assert_allclose(found.numpy(), (np.cos(many) * 1000.0).sum(axis=-1))

    def test_what_all_examples_share_is_the_function(self):
        f = tagged(1000.0)

        def total(x):
            return gt.sum(x) + gt.scan(lambda c, a: (c + f(a), c), gt.asarray(0.0), X[0])[0]

        expected = X.sum(axis=1) + np.cos(X[0]).sum()
        np.testing.assert_allclose(gt.vmap(total)(X).numpy(), expected)

    def test_arguments_in_part_and_closures_of_the_rule(self):
        weight, offset = gt.Variable(3.0), gt.asarray([1.0, 2.0])
        f = gt.custom_vmap(lambda x, w, power: x * w * weight)
        f.def_vmap(
            lambda n, b, x, w, power: (gt.sum(x * w, axis=1)[:, None] + offset * weight, True)
        )

        def loop(x):
            return gt.fori_loop(0, 2, lambda i, c: f(c, gt.ones(2), 2), x)

        x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        once = x.sum(axis=1)[:, None] + np.array([3.0, 6.0])
        twice = once.sum(axis=1)[:, None] + np.array([3.0, 6.0])
        np.testing.assert_allclose(gt.vmap(loop)(x).numpy(), twice)
        weight.assign(0.0)
        np.testing.assert_allclose(gt.vmap(loop)(x).numpy(), np.stack([x.sum(axis=1)] * 2, 1) * 2)

    def test_derivatives_of_the_mapped_loop_are_those_of_the_rule(self):
        f = gt.custom_vmap(lambda x: gt.sin(x))
        f.def_vmap(lambda n, b, x: (x * x, True))

        def loss(x):
            return gt.sum(gt.vmap(lambda a: gt.fori_loop(0, 2, lambda i, c: f(c), a))(x))

        x = np.array([0.5, 1.5])
        np.testing.assert_allclose(gt.grad(loss)(x).numpy(), 4.0 * x**3)
        inside = gt.vmap(gt.grad(lambda a: gt.fori_loop(0, 1, lambda i, c: f(c), a)))(x)
        np.testing.assert_allclose(inside.numpy(), np.cos(x))

    def test_what_differs_must_be_an_argument(self):
        def loop(x):
            def step(i, c):
                f = gt.custom_vmap(lambda y: gt.sum(y) * c)
                f.def_vmap(lambda n, b, y: (y, True))
                return f(c * 2.0)

            return gt.fori_loop(0, 2, step, x)

        with pytest.raises(gt.errors.NoValueError, match="it reads a tensor that may differ"):
            gt.vmap(loop)(np.ones(3))

        def other(x):
            f = gt.custom_vmap(lambda y: y)
            f.def_vmap(lambda n, b, y: (y * x, True))
            return gt.fori_loop(0, 2, lambda i, c: f(c), x)

        with pytest.raises(gt.errors.NoValueError, match="its rule reads a tensor that differs"):
            gt.vmap(other)(np.ones(3))


class TestErrors:
    def test_what_differs_must_be_an_argument(self):
        def outer(x):
            f = gt.custom_vmap(lambda y: gt.sum(y * x))
            f.def_vmap(lambda n, b, y: (y, True))
            return f(x * 2.0)

        with pytest.raises(gt.errors.NoValueError, match="it reads a tensor that differs"):
            gt.vmap(outer)(X)

        def other(x):
            f = gt.custom_vmap(lambda y: y)
            f.def_vmap(lambda n, b, y: (y * x, True))
            return f(x * 2.0)

        with pytest.raises(gt.errors.NoValueError, match="its rule reads"):
            gt.vmap(other)(X)

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (lambda x: x, "must return"),
            (lambda x: (gt.sum(x, axis=0), True), r"gave float64 of shape \(2,\)"),
            (lambda x: ((x, x), True), "another structure"),
            (lambda x: (x, False), r"expected float64 of shape \(2,\)"),
        ],
    )
    def test_results_that_do_not_fit(self, result, message):
        f = gt.custom_vmap(lambda x: x)
        f.def_vmap(lambda n, b, x: result(x))
        with pytest.raises(ValueError, match=message):
            gt.vmap(f)(X)

    def test_the_rule_must_be_a_function(self):
        with pytest.raises(TypeError, match="Give a function"):
            gt.custom_vmap(lambda x: x).def_vmap(None)
