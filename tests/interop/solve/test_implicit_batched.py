"""Solutions inside vmap and inside loops: against a Python loop over the examples."""

import numpy as np
import pytest

import gradtape as gt

WAYS = {
    "dense": {},
    "newton": {"method": "newton"},
    "lm": {"method": "lm"},
    "sparse": {"sparse": True},
    "gmres": {"solver": "gmres"},
}
A = np.linspace(1.0, 2.0, 4)
MANY = np.stack([A, 1.2 * A, A - 0.5])
SCALES = np.array([0.3, 0.7, 1.1])


def ring(x, a, b):
    return x**3 + 2.0 * x + 0.3 * gt.sin(gt.roll(x, 1)) * b - a * gt.exp(0.1 * a)


def solution(**ways):
    return lambda a, b: gt.root(ring, np.zeros(4), a, b, **ways)


def looped(f, *columns):
    return np.stack([np.asarray(f(*row)) for row in zip(*columns, strict=True)])


def close(found, expected, tolerance=1e-9):
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def of_each(whole):
    """The blocks of a Jacobian in which an example meets itself; all others are zero."""
    count = whole.shape[0]
    for i in range(count):
        for j in range(count):
            if i != j:
                assert np.abs(whole[i, :, j]).max() < 1e-12
    return np.stack([whole[i, :, i] for i in range(count)])


@pytest.mark.parametrize("way", WAYS)
class TestRoot:
    def test_values(self, way):
        f = solution(**WAYS[way])
        close(gt.vmap(f)(MANY, SCALES), looped(f, MANY, SCALES))
        close(gt.vmap(f, in_axes=(0, None))(MANY, 0.7), looped(lambda a: f(a, 0.7), MANY))
        close(gt.vmap(f, chunk_size=2)(MANY, SCALES), looped(f, MANY, SCALES))

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    def test_jacobians_inside_and_outside(self, way, mode):
        f = solution(**WAYS[way])
        expected = looped(gt.jacobian(f), MANY, SCALES)
        close(gt.vmap(gt.jacobian(f, mode=mode))(MANY, SCALES), expected)
        whole = gt.jacobian(lambda s: gt.vmap(f)(s, SCALES), mode=mode)(MANY).numpy()
        close(of_each(whole), expected)
        with gt.GradientTape() as tape:
            s = gt.asarray(MANY)
            tape.watch(s)
            y = gt.vmap(f)(s, SCALES)
        # Each example has an equation of its own, and that is proved.
        close(tape.batch_jacobian(y, s, mode=mode), expected)

    def test_what_all_examples_share(self, way):
        f = solution(**WAYS[way])
        found = gt.grad(lambda b: gt.sum(gt.vmap(lambda a: f(a, b))(MANY) ** 2))(0.7)
        each = looped(gt.grad(lambda b, a: gt.sum(f(a, b) ** 2)), np.full(3, 0.7), MANY)
        close(found, each.sum())

    @pytest.mark.slow
    def test_second_derivatives(self, way):
        def loss(a, b):
            return gt.sum(gt.sin(solution(**WAYS[way])(a, b)))

        expected = looped(gt.hessian(loss), MANY, SCALES)
        close(gt.vmap(gt.hessian(loss))(MANY, SCALES), expected, 1e-7)
        whole = gt.hessian(lambda s: gt.sum(gt.vmap(loss)(s, SCALES)))(MANY).numpy()
        close(of_each(whole), expected, 1e-7)

    @pytest.mark.slow
    def test_examples_of_examples(self, way):
        f = solution(**WAYS[way])

        def table(s):
            return gt.vmap(lambda a: gt.vmap(lambda b: f(a, b))(SCALES))(s)

        close(table(MANY), [[f(a, b).numpy() for b in SCALES] for a in MANY])
        expected = np.array([[gt.jacobian(f)(a, b).numpy() for b in SCALES] for a in MANY])
        inside = gt.vmap(lambda a: gt.vmap(lambda b: gt.jacobian(f)(a, b))(SCALES))(MANY)
        close(inside, expected)
        whole = gt.jacobian(table)(MANY).numpy()
        close(np.stack([whole[i, :, :, i] for i in range(3)]), expected)

    def test_each_its_own_start(self, way):
        def f(start, a):
            return gt.root(lambda x: x**2 - a, start, **WAYS[way])

        starts, squares = np.array([[1.0], [-1.0]]), np.array([[4.0], [9.0]])
        close(gt.vmap(f)(starts, squares), [[2.0], [-3.0]])
        found = gt.vmap(gt.jacobian(f, argnums=1))(starts, squares)
        close(found, [[[0.25]], [[-1 / 6]]])


def test_what_is_read_only_from_outside_has_derivatives():
    def loss(a):
        return gt.sum(gt.vmap(lambda b: gt.root(lambda x: x**2 - a, 1.0) * b)(SCALES))

    close(gt.grad(loss)(4.0), 0.25 * SCALES.sum())
    close(gt.jacfwd(loss)(4.0), 0.25 * SCALES.sum())


def test_fixed_points():
    def f(a):
        return gt.fixed_point(lambda x: 0.5 * (x + a / x), 1.0)

    close(gt.vmap(f)(np.array([4.0, 9.0])), [2.0, 3.0])
    close(gt.vmap(gt.grad(f))(np.array([4.0, 9.0])), [0.25, 1 / 6])
    close(gt.vmap(gt.grad(gt.grad(f)))(np.array([4.0, 9.0])), [-1 / 32, -1 / 108])


@pytest.mark.slow
@pytest.mark.parametrize("ways", [{}, {"method": "Newton-CG"}, {"sparse": True}, {"solver": "cg"}])
def test_minima(ways):
    def f(a):
        return gt.minimize(lambda x: gt.sum((x - a) ** 2 + 0.1 * x**4), np.zeros(4), **ways)

    close(gt.vmap(f)(MANY), looped(f, MANY), 1e-7)
    close(gt.vmap(gt.jacobian(f))(MANY), looped(gt.jacobian(f), MANY), 1e-6)


def test_bounded_minima():
    def f(a, top):
        return gt.minimize(lambda x: gt.sum((x - a) ** 2), np.zeros(4), bounds=(0.0, top))

    tops = np.array([1.3, 1.9, 1.0])
    close(gt.vmap(f)(MANY, tops), np.minimum(MANY, tops[:, None]))
    by_a, by_top = gt.vmap(gt.jacobian(f, argnums=(0, 1)))(MANY, tops)
    free = tops[:, None] > MANY
    close(by_a, [np.diag(row * 1.0) for row in free])
    close(by_top, 1.0 - free)


def test_derivatives_by_hand_inside():
    @gt.custom_gradient
    def cube(x):
        return x**3, lambda g: g * 3.0 * x**2

    def f(a):
        return gt.root(lambda x: cube(x) + x - a, np.ones(1))

    many = np.array([[2.0], [10.0]])
    for derivative in (gt.jacobian(f), gt.jacobian(gt.jacobian(f))):
        close(gt.vmap(derivative)(many), looped(derivative, many), 1e-8)
    whole = gt.jacobian(gt.vmap(f))(many).numpy()
    close(of_each(whole), looped(gt.jacobian(f), many))


def test_nests_of_unknowns():
    def f(x, a):
        return {"one": x["v"] @ x["v"] - a, "two": x["v"] * x["s"] - gt.asarray([3.0, 4.0])}

    found = gt.vmap(lambda a: gt.root(f, {"s": 1.0, "v": np.array([1.0, 1.5])}, a))(
        np.array([4.0, 9.0])
    )
    close(found["v"], [[1.2, 1.6], [1.8, 2.4]])
    close(found["s"], [2.5, 5 / 3])


def test_a_root_inside_a_root():
    def f(x, a):
        return gt.root(lambda y, b: y**2 - b, np.ones(1), x * a) + x - 6.0 * a

    def solve(a):
        return gt.root(f, np.ones(1), a)[0]

    many = np.array([2.0, 3.0])
    close(gt.vmap(solve)(many), [8.0, 12.0])
    close(gt.vmap(gt.grad(solve))(many), [4.0, 4.0])
    close(gt.vmap(gt.grad(gt.grad(solve)))(many), [0.0, 0.0], 1e-7)
    close(gt.grad(lambda a: gt.sum(gt.vmap(solve)(a)))(many), [4.0, 4.0])


def test_inside_a_scan():
    def last(a):
        return gt.scan(lambda c, a: (gt.root(lambda x: x**2 - a - c, 1.0), c), gt.asarray(1.0), a)[
            0
        ]

    a = np.array([3.0, 2.0, 7.0])
    close(last(a), 3.0)
    # dc = (da + dc before) / (2 c)
    expected = [1 / 96, 1 / 24, 1 / 6]
    close(gt.grad(last)(a), expected)
    close(gt.jacfwd(last)(a), expected)


def test_no_examples():
    close(gt.vmap(lambda a: solution()(a, 1.0))(np.zeros((0, 4))), np.zeros((0, 4)))


def test_single_precision():
    found = gt.vmap(lambda a: gt.root(lambda x: x**2 - a, np.ones(1, "float32")))(
        np.array([[4.0], [9.0]], "float32")
    )
    assert found.dtype == np.float32
    close(found, [[2.0], [3.0]], 1e-6)


def test_the_example_that_fails_is_named():
    with pytest.raises(gt.errors.ConvergenceError, match="example 1: root: hybr found no") as info:
        gt.vmap(lambda a: gt.root(lambda x: x**2 + a, 1.0))(np.array([-1.0, 1.0]))
    assert info.value.residual >= 1.0


def test_a_repeated_call_builds_nothing():
    f = gt.vmap(gt.grad(lambda a: gt.sum(solution()(a, 0.5) ** 2)))
    for _ in range(3):
        f(MANY).numpy()
    before = gt.counters()
    f(MANY + 0.1).numpy()
    after = gt.counters()
    assert after.plans_built == before.plans_built
    assert after.derivatives_built == before.derivatives_built
    assert after.batches_built == before.batches_built


class TestBounds:
    """Minima with bounds, without vmap."""

    a = np.array([0.5, 3.0, -2.0])

    def f(self, a, lower=0.0, upper=1.0, **ways):
        return gt.minimize(
            lambda x: gt.sum((x - a) ** 2) + 0.1 * x[0] * x[1], np.zeros(3), bounds=(lower, upper),
            **ways,
        )  # fmt: skip

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "method", [None, "TNC", "SLSQP", "trust-constr", "Nelder-Mead", "Powell"]
    )
    def test_methods(self, method):
        found = self.f(self.a, method=method)
        close(found, [0.45, 1.0, 0.0], 1e-8)
        assert found.numpy()[1:].tolist() == [1.0, 0.0]
        by_a = gt.jacobian(lambda a: self.f(a, method=method))(self.a)
        close(by_a, np.diag([1.0, 0.0, 0.0]), 1e-8)

    @pytest.mark.parametrize("ways", [{}, {"sparse": True}, {"solver": "gmres"}])
    @pytest.mark.parametrize("mode", ["forward", "reverse"])
    def test_by_arguments_and_by_bounds(self, ways, mode):
        found = gt.jacobian(lambda *given: self.f(*given, **ways), argnums=(0, 1, 2), mode=mode)(
            self.a, 0.0, 1.0
        )
        close(found[0], np.diag([1.0, 0.0, 0.0]))
        close(found[1], [0.0, 0.0, 1.0])
        # The second sits on its bound and moves with it, and takes the first along.
        close(found[2], [-0.05, 1.0, 0.0])

    def test_second_derivatives(self):
        def f(a):
            return gt.minimize(
                lambda x: gt.sum(gt.cosh(x - a) + 0.3 * x**2) + x[0] * x[1], np.zeros(3),
                bounds=(0.1, 0.8),
            )  # fmt: skip

        def loss(a):
            return gt.sum(f(a) ** 3)

        h = 1e-5
        expected = [
            (gt.grad(loss)(self.a + h * e).numpy() - gt.grad(loss)(self.a - h * e).numpy())
            / (2 * h)
            for e in np.eye(3)
        ]
        close(gt.hessian(loss)(self.a), expected, 1e-6)

    def test_forms(self):
        from scipy.optimize import Bounds

        for bounds in (
            [(0.0, 1.0)] * 3,
            ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)),
            Bounds(0.0, 1.0),
            Bounds(np.zeros(3), np.ones(3)),
            (np.zeros(3), gt.ones(3)),
        ):
            found = gt.minimize(lambda x: gt.sum((x - self.a) ** 2), np.zeros(3), bounds=bounds)
            close(found, [0.5, 1.0, 0.0])
        for bounds in ([(0.0, None)] * 3, (0.0, None), (np.zeros(3), None)):
            found = gt.minimize(lambda x: gt.sum((x - self.a) ** 2), np.zeros(3), bounds=bounds)
            close(found, [0.5, 3.0, 0.0])

    def test_nests(self):
        def f(p, a):
            return gt.sum((p["u"] - a) ** 2) + (p["v"] + 2.0) ** 2

        found = gt.minimize(
            f, {"u": np.zeros(3), "v": 0.5}, self.a, bounds=({"u": np.zeros(3), "v": -1.0}, None)
        )
        close(found["u"], [0.5, 3.0, 0.0])
        close(found["v"], -1.0)

    def test_a_start_outside(self):
        found = gt.minimize(lambda x: gt.sum((x - self.a) ** 2), np.full(3, 9.0), bounds=(0.0, 1.0))
        close(found, [0.5, 1.0, 0.0])

    def test_wrong_ones(self):
        def f(x):
            return gt.sum(x**2)

        with pytest.raises(ValueError, match="minimize: BFGS takes no bounds"):
            gt.minimize(f, np.ones(3), method="BFGS", bounds=(0.0, 1.0))
        with pytest.raises(gt.errors.ShapeError, match="a bound has 2 elements and x0 has 3"):
            gt.minimize(f, np.ones(3), bounds=(np.zeros(2), None))
        with pytest.raises(ValueError, match=r"bounds are a pair \(lower, upper\), or a list"):
            gt.minimize(f, np.ones(3), bounds=[0.0, 1.0])
