"""CONTRACT: derivatives written by hand, of any order, inside everything that takes a function."""

import numpy as np
import pytest

import gradtape as gt

A = gt.asarray


@gt.custom_gradient
def by_gradient(x):
    return gt.sin(x), lambda dy: dy * x * 20.0


@gt.custom_jvp
def by_jvp(x):
    return gt.sin(x)


@by_jvp.defjvp
def by_jvp_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return by_jvp(x), t * x * 20.0


# What surrounds a function of one number, and the same in Python.
AROUND = {
    "scan": (
        lambda f: lambda x: gt.scan(lambda c, _: (f(c), None), x, length=2)[0],
        lambda f: lambda x: f(f(x)),
    ),
    "checkpointed scan": (
        lambda f: lambda x: gt.scan(lambda c, _: (f(c), None), x, length=2, checkpoint=1)[0],
        lambda f: lambda x: f(f(x)),
    ),
    "fori": (
        lambda f: lambda x: gt.fori_loop(0, 2, lambda i, c: f(c) * (i + 1.0), x),
        lambda f: lambda x: 2.0 * f(f(x)),
    ),
    "while": (
        lambda f: lambda x: gt.while_loop(
            lambda c: c[1] < 2, lambda c: (f(c[0]), c[1] + 1), (x, 0)
        )[0],
        lambda f: lambda x: f(f(x)),
    ),
    "cond": (
        lambda f: lambda x: gt.cond(x > 0.0, lambda: f(x), lambda: x),
        lambda f: f,
    ),
    "map": (
        lambda f: lambda x: gt.sum(gt.map(f, gt.stack([x, 2.0 * x]))),
        lambda f: lambda x: f(x) + f(2.0 * x),
    ),
    "vmap": (
        lambda f: lambda x: gt.sum(gt.vmap(f)(gt.stack([x, 2.0 * x]))),
        lambda f: lambda x: f(x) + f(2.0 * x),
    ),
    "function": (gt.function, lambda f: f),
    "checkpoint": (gt.checkpoint, lambda f: f),
    "nested loops": (
        lambda f: lambda x: gt.fori_loop(
            0, 2, lambda i, c: gt.fori_loop(0, 1, lambda j, d: f(d), c), x
        ),
        lambda f: lambda x: f(f(x)),
    ),
    "vmap of scan": (
        lambda f: lambda x: gt.sum(
            gt.vmap(lambda a: gt.scan(lambda c, _: (f(c), None), a, length=2)[0])(
                gt.stack([x, 2.0 * x])
            )
        ),
        lambda f: lambda x: f(f(x)) + f(f(2.0 * x)),
    ),
    "scan of vmap": (
        lambda f: lambda x: gt.scan(
            lambda c, _: (gt.sum(gt.vmap(f)(gt.stack([c, c]))), None), x, length=2
        )[0],
        lambda f: lambda x: 2.0 * f(2.0 * f(x)),
    ),
    "another by hand": (
        lambda f: gt.custom_gradient(lambda x: (f(x), lambda dy: dy * f(x))),
        None,
    ),
}  # fmt: skip

DERIVATIVES = {
    "value": lambda f: f,
    "gradient": gt.grad,
    "forward": gt.jacfwd,
    "second": lambda f: gt.grad(gt.grad(f)),
    "forward over reverse": lambda f: gt.jacfwd(gt.grad(f)),
    "reverse over forward": lambda f: gt.grad(gt.jacfwd(f)),
    "third": lambda f: gt.grad(gt.grad(gt.grad(f))),
    "in a function": lambda f: gt.function(gt.grad(f)),
    "mapped": lambda f: lambda x: gt.vmap(gt.grad(f))(gt.stack([x, x]))[1],
    "of a map": lambda f: gt.grad(lambda x: gt.sum(gt.vmap(f)(gt.stack([x, x]))) / 2.0),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("f", [by_gradient, by_jvp], ids=["gradient", "jvp"])
def test_everywhere(f, derivative, around):
    inside, plain = AROUND[around]
    derive = DERIVATIVES[derivative]
    if around == "another by hand":
        orders = {"value": 0, "second": 2, "third": 3, "forward over reverse": 2,
                  "reverse over forward": 2}  # fmt: skip
        x = 1.5
        # f(x) itself is the slope of the outer one, and has the slope 20 x.
        expected = [np.sin(x), np.sin(x), 20.0 * x, 20.0][orders.get(derivative, 1)]
    else:
        expected = float(derive(plain(f))(A(1.5)))
    found = derive(inside(f))
    for _ in range(2):
        assert float(found(A(1.5))) == pytest.approx(expected, rel=1e-10)


class TestVariables:
    def test_by_what_a_custom_jvp_reads(self):
        v = gt.Variable(3.0)
        f = gt.custom_jvp(lambda x: v * v * x)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 100.0))

        for around in (lambda g: g, gt.function, gt.checkpoint):
            x = gt.Variable(2.0)
            with gt.GradientTape() as tape:
                y = around(f)(x)
            by_x, by_v = tape.gradient(y, [x, v])
            assert (float(by_x), float(by_v)) == (100.0, 2 * 3.0 * 2.0)

    def test_second_order_and_maps(self):
        v = gt.Variable(3.0)
        f = gt.custom_jvp(lambda x: v**3 * x)
        f.defjvp(lambda primals, tangents: (f(*primals), v * tangents[0]))
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                y = gt.sum(gt.vmap(f)(A([1.0, 2.0])))
            slope = inner.gradient(y, v)
        assert float(slope) == 27.0 * 3.0
        assert float(outer.gradient(slope, v)) == 18.0 * 3.0

    def test_arguments_that_depend_on_them(self):
        """What goes through an argument is the rule's affair, and counts once."""
        v = gt.Variable(3.0)
        f = gt.custom_jvp(lambda x: v * x)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 100.0))
        with gt.GradientTape() as tape:
            y = f(v * 2.0)
        assert float(tape.gradient(y, v)) == 6.0 + 200.0
        with gt.GradientTape() as tape:
            y = f(v)
        assert float(tape.gradient(y, v)) == 100.0

    def test_inside_loops(self):
        v = gt.Variable(3.0)
        f = gt.custom_jvp(lambda x: v * x)
        f.defjvp(lambda primals, tangents: (f(*primals), v * tangents[0]))
        with gt.GradientTape() as tape:
            y = gt.fori_loop(0, 3, lambda i, c: f(c), 2.0)
        assert float(tape.gradient(y, v)) == 3 * 9.0 * 2.0

    def test_methods(self):
        class Model:
            def __init__(self):
                self.w = gt.Variable(2.0)

            @gt.custom_jvp
            def f(self, x):
                return self.w * x

            @f.defjvp
            def rule(primals, tangents):  # noqa: N805
                return primals[0].f(primals[1]), tangents[1] * 7.0

        model = Model()
        with gt.GradientTape() as tape:
            y = model.f(A(5.0))
        assert float(tape.gradient(y, model.w)) == 5.0
        assert float(gt.grad(model.f)(5.0)) == 7.0


class TestKeywords:
    def test_arguments_by_keyword_are_arguments(self):
        @gt.custom_gradient
        def f(x, scale=2.0, shift=0.0):
            return x * scale + shift, lambda dy: (dy * 100.0, dy * 7.0, dy * 9.0)

        @gt.custom_jvp
        def g(x, scale=2.0, shift=0.0):
            return x * scale + shift

        @g.defjvp
        def rule(primals, tangents):
            return g(*primals), tangents[0] * 100.0 + tangents[1] * 7.0 + tangents[2] * 9.0

        for function in (f, g):

            def call(x, a, b, function=function):
                return function(x, shift=b, scale=a)

            slopes = gt.grad(call, argnums=(0, 1, 2))(1.0, 2.0, 3.0)
            assert [float(slope) for slope in slopes] == [100.0, 7.0, 9.0]
            assert float(call(1.0, 2.0, 3.0)) == 5.0

    def test_a_default_in_between(self):
        @gt.custom_gradient
        def f(x, scale=2.0, shift=0.0):
            return x * scale + shift, lambda dy: (dy * 100.0, None, dy * 9.0)

        assert float(gt.grad(lambda b: f(A(1.0), shift=b))(3.0)) == 9.0

    def test_by_keyword_only(self):
        @gt.custom_gradient
        def f(x, *, power=2):
            return x**power, lambda dy: dy * 100.0

        assert float(gt.grad(lambda x: f(x, power=3))(2.0)) == 100.0
        with pytest.raises(TypeError, match="power can only be passed by keyword"):
            gt.grad(lambda p: f(A(2.0), power=p))(2.0)
        assert float(gt.grad(lambda x: f(x, power=gt.stop_gradient(x)))(2.0)) == 100.0
