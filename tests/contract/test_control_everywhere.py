"""CONTRACT: loops and branches as one op, under every transform, against the same in Python."""

import numpy as np
import pytest
from tests.contract.loops_in_python import InPython

import gradtape as gt

A = gt.asarray
RNG = np.random.default_rng(0)
W = A(RNG.standard_normal((3, 3)) * 0.5)
XS = A(RNG.standard_normal((5, 3)))
STARTS = [A([0.7, -0.3, 0.9]), A([-0.5, 0.2, -0.6])]


def _complex_carry(x, m):
    start = gt.cast(x, gt.complex128)
    z, rows = m.scan(lambda z, a: (z * z * 0.3 + a + 1j * x, gt.abs(z)), start, XS)
    return gt.real(z), gt.imag(z), rows


def _mixed_carry(x, m):
    def step(c, a):
        new = {
            "h": gt.sin(c["h"]) * a,
            "n": c["n"] + 1,
            "top": gt.maximum(c["top"], c["h"]),
            "seen": c["seen"] | (a > 0.5),
        }
        return new, (c["h"] * gt.cast(c["n"], gt.float64), [c["n"]])

    start = {"h": x, "n": A(0), "top": x, "seen": A([False] * 3)}
    return m.scan(step, start, XS)


# Functions of a vector of three, written with `m`, which is gradtape or Python.
PROGRAMS = {
    "scan": lambda x, m: m.scan(lambda h, a: (gt.tanh(W @ h + a), h * a), x, XS),
    "reverse scan": lambda x, m: m.scan(
        lambda h, a: (gt.tanh(W @ h + a * x), h * a), x, XS, reverse=True
    ),
    "scan of a length": lambda x, m: m.scan(lambda h, _: (gt.sin(h) + x, h), x, length=4),
    "mixed carry": _mixed_carry,
    "complex carry": _complex_carry,
    "while": lambda x, m: m.while_loop(
        lambda c: gt.sum(c[0] ** 2) < 50.0, lambda c: (c[0] * 1.3 + x * 0.1, c[1] + 1), (x, A(0))
    ),
    "no trips": lambda x, m: m.while_loop(lambda c: gt.sum(c) > 1e9, lambda c: c * x, x * x),
    "fori": lambda x, m: m.fori_loop(1, 5, lambda i, c: gt.sin(c) + x * i, x),
    "no turns": lambda x, m: m.fori_loop(5, 1, lambda i, c: gt.sin(c) + x * i, x),
    "fori to a tensor": lambda x, m: m.fori_loop(A(1), A(4), lambda i, c: gt.sin(c) * x, x),
    "cond": lambda x, m: m.cond(
        gt.sum(x) > 0.0,
        lambda a: (gt.sin(a) * x, gt.sum(a)),
        lambda a: (gt.cos(a) * W[0], gt.prod(a)),
        x * 2.0,
    ),
    "switch": lambda x, m: m.switch(
        gt.cast(gt.floor(gt.sum(x)), gt.int64),
        [lambda a: a * a, lambda a: gt.sin(a), lambda a: a * x[0]],
        x,
    ),
    "map": lambda x, m: m.map(lambda a: gt.tanh(a * x) @ W, XS),
    "scan of cond": lambda x, m: m.scan(
        lambda c, a: (
            m.cond(gt.sum(c) > 0.0, lambda v: v * a - 0.5, lambda v: gt.sin(v) + x, c), c
        ),
        x, XS,
    ),
    "scan of while": lambda x, m: m.scan(
        lambda c, a: (
            m.while_loop(lambda v: gt.sum(v * v) > 1.0, lambda v: v * 0.7 + 0.01 * a, c) + x, c
        ),
        x * 3.0, XS,
    ),
    "scan of scan": lambda x, m: m.scan(
        lambda c, a: m.scan(lambda d, b: (gt.sin(d * b) + x[0], d), c, a * XS[:2]), x, XS[:3]
    ),
    "while of scan": lambda x, m: m.while_loop(
        lambda c: gt.sum(c * c) < 30.0,
        lambda c: m.scan(lambda d, b: (d * 1.1 + 0.1 * b * x, d), c, XS)[0],
        x,
    ),
    "while of cond": lambda x, m: m.while_loop(
        lambda c: c[1] < 4,
        lambda c: (m.cond(c[0][0] > 0.0, gt.sin, lambda v: v * x - 0.1, c[0]), c[1] + 1),
        (x, A(0)),
    ),
    "cond of loops": lambda x, m: m.cond(
        x[0] > 0.0,
        lambda: m.scan(lambda d, b: (d * b, d), x, XS)[0],
        lambda: m.fori_loop(0, 3, lambda i, v: v * x, x),
    ),
}  # fmt: skip


def flat(tree):
    """All real leaves as one vector."""
    leaves = [leaf for leaf in gt.pytree.flatten(tree)[0] if leaf.dtype.kind in "fi"]
    return gt.concat([gt.reshape(gt.cast(leaf, gt.float64), (-1,)) for leaf in leaves])


TRANSFORMS = {
    "value": lambda f: f,
    "gradient": lambda f: gt.grad(lambda x: gt.sum(f(x) ** 2)),
    "jacrev": gt.jacrev,
    "jacfwd": gt.jacfwd,
    "hessian": lambda f: gt.hessian(lambda x: gt.sum(f(x) ** 2)),
    "reverse over forward": lambda f: gt.jacrev(gt.jacfwd(f)),
    "forward over forward": lambda f: gt.jacfwd(gt.jacfwd(f)),
    "hvp": lambda f: lambda x: gt.hvp(lambda y: gt.sum(f(y) ** 2), x, x),
    "function": gt.function,
    "gradient in a function": lambda f: gt.function(gt.grad(lambda x: gt.sum(f(x) ** 2))),
    "checkpoint": lambda f: gt.grad(lambda x: gt.sum(gt.checkpoint(f)(x) ** 2)),
    "sparse": lambda f: lambda x: A(gt.jacobian(f, sparse=True)(x).toarray()),
}

BATCHED = {
    "vmap": lambda f: f,
    "vmap of gradient": lambda f: gt.grad(lambda x: gt.sum(f(x) ** 2)),
    "vmap of jacfwd": gt.jacfwd,
    "vmap of hvp": lambda f: lambda x: gt.hvp(lambda y: gt.sum(f(y) ** 2), x, x),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms(program, transform):
    write, derive = PROGRAMS[program], TRANSFORMS[transform]
    compiled = derive(lambda x: flat(write(x, gt)))
    plain = (TRANSFORMS["jacrev"] if transform == "sparse" else derive)(
        lambda x: flat(write(x, InPython))
    )
    for x in STARTS:
        expected = plain(x).numpy()
        for _ in range(2 if "function" in transform else 1):
            np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("transform", BATCHED)
def test_maps(program, transform):
    write, derive = PROGRAMS[program], BATCHED[transform]
    compiled = derive(lambda x: flat(write(x, gt)))
    plain = derive(lambda x: flat(write(x, InPython)))
    expected = np.stack([plain(x).numpy() for x in STARTS])
    many = gt.stack(STARTS)
    for mapped in (gt.vmap(compiled), gt.function(gt.vmap(compiled))):
        np.testing.assert_allclose(mapped(many).numpy(), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_of_maps(program):
    write = PROGRAMS[program]
    plain = gt.grad(lambda x: gt.sum(flat(write(x, InPython)) ** 2))
    expected = np.stack([plain(x).numpy() for x in STARTS])
    found = gt.grad(lambda xs: gt.sum(gt.vmap(lambda x: flat(write(x, gt)))(xs) ** 2))
    np.testing.assert_allclose(found(gt.stack(STARTS)).numpy(), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_patterns_cover_jacobians(program):
    def f(x):
        return flat(PROGRAMS[program](x, gt))

    for x in STARTS:
        pattern = gt.sparsity_pattern(f, x).toarray() != 0
        assert not np.any(gt.jacobian(f)(x).numpy()[~pattern])


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"checkpoint": True}, {"checkpoint": 2}, {"unroll": 4}])
@pytest.mark.parametrize("length", [0, 1, 2, 5, 9])
def test_options_of_scan_change_nothing(options, length):
    xs = A(np.random.default_rng(length).standard_normal((length, 3)))

    def total(x, **more):
        final, rows = gt.scan(lambda h, a: (gt.tanh(W @ h + a), h * a), x, xs, **more)
        return gt.sum(final**2) + gt.sum(rows)

    for derive in (lambda f: f, gt.grad, gt.hessian):
        expected = derive(total)(STARTS[0]).numpy()
        found = derive(lambda x: total(x, **options))(STARTS[0]).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


class TestReverseThroughWhile:
    """Of a length that only the values know."""

    @staticmethod
    def loop(a, n):
        return gt.while_loop(
            lambda s: s[1] < n, lambda s: (gt.sin(s[0]) * a + 0.5, s[1] + 1), (a, 0)
        )[0]

    @staticmethod
    def plain(a, n):
        x = a
        for _ in range(int(n)):
            x = gt.sin(x) * a + 0.5
        return x

    @pytest.mark.slow
    @pytest.mark.parametrize("n", [0, 1, 5, 63, 64, 65, 128, 150])
    def test_chunks(self, n):
        xs = np.array([0.9, 1.1])
        expected = [float(gt.grad(lambda a: self.plain(a, n))(x)) for x in xs]
        found = gt.vmap(gt.grad(lambda a: self.loop(a, n)))(xs)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-300)

    @pytest.mark.slow
    def test_examples_that_end_at_different_times(self):
        xs, counts = np.array([0.9, 1.1, 0.7]), np.array([3, 70, 0])
        for derive in (gt.grad, lambda f: gt.grad(gt.grad(f))):
            expected = [
                float(derive(lambda a, n=n: self.plain(a, n))(x))
                for x, n in zip(xs, counts, strict=True)
            ]
            found = gt.vmap(lambda a, n: derive(lambda b: self.loop(b, n))(a))(xs, counts)  # noqa: B023
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)

    def test_constants_and_closures_in_a_body(self):
        w, b = gt.Variable([1.1, 0.9]), gt.Variable(0.1)

        def step(c, x):
            y = gt.while_loop(lambda v: gt.sum(v) < 4.0, lambda v: v * w + b, x)
            return c + gt.sum(y), None

        def plain():
            total = 0.0
            for x in XS[:3, :2] ** 2:
                while bool(gt.sum(x) < 4.0):
                    x = x * w + b
                total = total + gt.sum(x)
            return total

        with gt.GradientTape() as tape:
            found = gt.scan(step, 0.0, XS[:3, :2] ** 2)[0]
        with gt.GradientTape() as other:
            expected = plain()
        pairs = zip(tape.gradient(found, [w, b]), other.gradient(expected, [w, b]), strict=True)
        for one, another in pairs:
            np.testing.assert_allclose(one.numpy(), another.numpy(), rtol=1e-10)


class TestErrors:
    def test_python_lists_of_numbers_are_nests(self):
        with pytest.raises(gt.errors.ShapeError, match="0-d"):
            gt.scan(lambda c, a: (c + a, None), 0.0, [1.0, 2.0])

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: gt.while_loop(lambda c: c < 3, lambda c: c / 2, A(1)), TypeError,
             r"carry is int64\[\] going in and float64\[\] coming out of body_fn"),
            (lambda: gt.fori_loop(0, 2, lambda i, c: c + 1j, A(1.0)), TypeError, "one dtype"),
            (lambda: gt.scan(lambda c, _: (c > 0.0, None), A(1.0), length=2), TypeError,
             r"float64\[\] going in and bool\[\]"),
            (lambda: gt.scan(lambda c, _: ({"a": c["a"] * 1.5}, None), {"a": A(1)}, length=2),
             TypeError, r"carry\['a'\]"),
            (lambda: gt.map(lambda x: x, A(1.0)), ValueError, "0-d"),
            (lambda: gt.switch(0, []), ValueError, "no branches"),
            (lambda: gt.switch(0.5, [lambda: 1.0]), TypeError, "not a single integer"),
            (lambda: gt.cond(A([True]), lambda: 1.0, lambda: 2.0), ValueError, "truth value"),
            (lambda: gt.fori_loop(0, 1.5, lambda i, c: c, 0.0), TypeError, "upper"),
            (lambda: gt.while_loop(lambda c: True, lambda c: c, 0.0, -1), ValueError, "at least 0"),
        ],
    )  # fmt: skip
    def test_each_says_what_is_wrong(self, call, error, message):
        with pytest.raises(error, match=message):
            call()
