"""CONTRACT: variables that are assigned inside loops and branches, which are one op each."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import NoValueError

A = gt.asarray


def nothing(_):
    """What a statement gives."""


def test_scan():
    v = gt.Variable(1.0)

    def step(c, a):
        before = v * 1.0
        v.assign(v * a)
        v.assign_add(0.5)
        return c + before, v.value

    final, rows = gt.scan(step, 0.0, A([2.0, 3.0, 4.0]))
    assert rows.tolist() == [2.5, 8.0, 32.5]
    assert float(final) == 1.0 + 2.5 + 8.0
    assert float(v) == 32.5


def test_reverse_and_checkpointed_scans():
    for options in ({"reverse": True}, {"checkpoint": True}, {"checkpoint": 2, "reverse": True}):
        v = gt.Variable([1.0, 2.0])
        expected = np.array([1.0, 2.0])
        xs = np.arange(5.0)
        gt.scan(lambda c, a, v=v: (c, nothing(v.assign(v * 0.5 + a))), 0.0, xs, **options)
        for a in reversed(xs) if options.get("reverse") else xs:
            expected = expected * 0.5 + a
        np.testing.assert_allclose(v.numpy(), expected)


def test_no_steps_change_nothing():
    v = gt.Variable(1.0)
    gt.scan(lambda c, _: (c, v.assign(v * 2.0).value), 0.0, length=0)
    gt.while_loop(lambda c: c < 0.0, lambda c: c + v.assign(7.0), 1.0)
    assert float(v) == 1.0


def test_fori_and_while():
    v = gt.Variable(1.0)
    assert float(gt.fori_loop(0, 3, lambda i, c: c + v.assign_add(i), 0.0)) == 1.0 + 2.0 + 4.0
    assert float(v) == 4.0
    count = gt.while_loop(lambda c: v < 100.0, lambda c: c + 1 + 0 * v.assign(v * 2.0), 0.0)
    assert (float(count), float(v)) == (5.0, 128.0)


def test_map():
    total = gt.Variable(0.0)
    gt.map(lambda x: total.assign_add(x).value, A([1.0, 2.0, 3.0]))
    assert float(total) == 6.0


def test_branches():
    v, w = gt.Variable(1.0), gt.Variable(10.0)

    def choose(flag):
        return gt.cond(A(flag), lambda: v.assign_add(5.0) * 1.0, lambda: w.assign(v + 0.5) + 0.0)

    assert float(choose(True)) == 6.0
    assert (float(v), float(w)) == (6.0, 10.0)
    assert float(choose(False)) == 6.5
    assert (float(v), float(w)) == (6.0, 6.5)
    gt.switch(2, [lambda: nothing(v.assign(0.0)), lambda: None, lambda: nothing(w.assign(0.0))])
    assert (float(v), float(w)) == (6.0, 0.0)


def test_loops_in_loops_and_branches_in_loops():
    v = gt.Variable(0.0)

    def outer(i, c):
        def inner(j, d):
            gt.cond(d > 1.0, lambda: nothing(v.assign_add(d)), lambda: nothing(v.assign_sub(1.0)))
            return d + 1.0

        return gt.fori_loop(0, 2, inner, c)

    final = gt.fori_loop(0, 3, outer, 0.0)
    expected, d = 0.0, 0.0
    for _ in range(6):
        expected, d = (expected + d if d > 1.0 else expected - 1.0), d + 1.0
    assert (float(final), float(v)) == (6.0, expected)


def test_several_dtypes_and_items():
    n, flags = gt.Variable(0), gt.Variable(np.zeros(4, bool))

    def step(c, i):
        n.assign_add(1)
        flags[i] = i > 1
        return c, None

    gt.scan(step, None, gt.arange(4))
    assert int(n) == 4
    assert flags.numpy().tolist() == [False, False, True, True]


class TestDerivatives:
    def test_through_the_assignments(self):
        v, x = gt.Variable(0.0), A(3.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            v.assign(x)
            gt.fori_loop(0, 3, lambda i, c: c + 0.0 * v.assign(v * x), 0.0)
            y = v * 1.0
        assert float(tape.gradient(y, x)) == 4 * 27.0

    def test_by_what_the_variable_was(self):
        v = gt.Variable(2.0)
        with gt.GradientTape() as tape:
            first = v * 1.0
            final, _ = gt.scan(lambda c, _: (c + v.assign(v * v), None), 0.0, length=2)
        # v² + v⁴
        slopes = tape.gradient(final, [v, first], unconnected_gradients="none")
        assert float(slopes[0]) == pytest.approx(2 * 2.0 + 4 * 8.0)
        assert slopes[1] is None

    def test_of_higher_order_and_forward(self):
        def f(x):
            v = gt.Variable(1.0)
            gt.fori_loop(0, 3, lambda i, c: c + 0.0 * v.assign(v * x), 0.0)
            return v.value

        def g(x):
            v = gt.Variable(1.0)
            v.assign(x)
            gt.fori_loop(0, 2, lambda i, c: c + 0.0 * v.assign(v * x), 0.0)
            return v * 1.0

        for function in (f, g):
            assert float(gt.grad(function)(2.0)) == 12.0
            assert float(gt.grad(gt.grad(function))(2.0)) == 12.0
            assert float(gt.jacfwd(function)(A(2.0))) == 12.0


def training(optimizer):
    w = gt.Variable([1.0, -1.0, 0.5])

    def step(x):
        with gt.GradientTape() as tape:
            loss = gt.sum((w * x - 1.0) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return step, w


@pytest.mark.parametrize(
    "make",
    [
        lambda: gt.optimizers.SGD(0.05, momentum=0.9),
        lambda: gt.optimizers.Adam(0.05),
        lambda: gt.optimizers.RMSprop(lambda step: 0.1 / (1.0 + step)),
    ],
    ids=["sgd", "adam", "rmsprop"],
)
@pytest.mark.parametrize("decorate", [lambda f: f, gt.function], ids=["plain", "function"])
def test_a_whole_training_is_one_loop(make, decorate):
    xs = A(np.random.default_rng(0).standard_normal((6, 3)))
    by_hand, w = training(make())
    in_a_loop, v = training(make())

    @decorate
    def epoch(xs):
        return gt.scan(lambda _, x: (None, in_a_loop(x)), None, xs)[1]

    for _ in range(4):
        expected = [float(by_hand(x)) for x in xs]
        np.testing.assert_allclose(epoch(xs).numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(v.numpy(), w.numpy(), rtol=1e-12)


def test_variables_of_a_body_that_nobody_keeps():
    def step(c, a):
        local = gt.Variable(0.0)
        local.assign(c * a)
        local.assign_add(1.0)
        return local * 1.0, None

    assert float(gt.scan(step, 1.0, A([2.0, 3.0]))[0]) == 10.0


def test_variables_that_the_first_step_makes():
    kept = {}

    def step(c, a):
        if "v" not in kept:
            kept["v"] = gt.Variable(10.0)
        kept["v"].assign_add(a)
        return c, kept["v"].value

    _, rows = gt.scan(step, 0.0, A([1.0, 2.0]))
    assert rows.tolist() == [11.0, 13.0]
    assert float(kept["v"]) == 13.0


def test_variables_that_every_step_would_make():
    kept = []

    def step(c, a):
        kept.append(gt.Variable(0.0))
        return c + kept[-1].assign_add(a), None

    with pytest.raises(NoValueError, match=r"makes variables.*Make them outside"):
        gt.scan(step, 0.0, A([1.0, 2.0]))
    with pytest.raises(NoValueError, match=r"from a tensor that has no value there"):
        gt.scan(lambda c, a: (c, gt.Variable(c + a).value), 0.0, A([1.0]))


def test_random_numbers_are_drawn_once_where_a_body_is_traced_again():
    a, b = gt.random.Generator(0), gt.random.Generator(0)
    v = gt.Variable(0.0)
    # Once more because the start takes another dtype, and because of the variable.
    final, _ = gt.scan(lambda c, _: (c * 0.5 + v.assign(a.normal(())), None), 0, length=3)
    expected = 0
    for _ in range(3):
        expected = expected * 0.5 + b.normal(())
    assert float(final) == pytest.approx(float(expected), rel=1e-15)
    assert a.state == b.state


def test_under_vmap_a_variable_is_one_for_all():
    v = gt.Variable(0.0, name="shared")

    def f(x):
        return gt.fori_loop(0, 2, lambda i, c: c * 2.0 + 0.0 * v.assign(c), x)

    with pytest.raises(NoValueError, match="shared would be given a value that differs"):
        gt.vmap(f)(A([1.0, 2.0]))
