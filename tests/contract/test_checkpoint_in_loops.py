"""CONTRACT: checkpoints inside loops save what their policy says, and the listing says where."""

import linecache

import numpy as np
import pytest

import gradtape as gt

A = gt.asarray
W = A(np.random.default_rng(0).standard_normal((4, 4)) * 0.4)
X = A(np.random.default_rng(1).standard_normal(4))


def layer(x):
    return gt.tanh(gt.checkpoint_name(W @ x, "product") * 1.5 + 0.1)  # the line of the layer


def two(x):
    return layer(layer(x))


POLICIES = {
    "nothing": "nothing",
    "contractions": "contractions",
    "only": gt.save_only("product"),
    "except": gt.save_any_except("product"),
    "everything": "everything",
}


def line_of(comment):
    for number, text in enumerate(linecache.getlines(__file__), start=1):
        if text.rstrip().endswith(f"# {comment}"):
            return f"{__file__}:{number}"
    raise AssertionError(comment)


def looped(f, **options):
    return lambda x: gt.sum(gt.scan(lambda c, _: (f(c), None), x, length=10, **options)[0] ** 2)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize(
    "derive",
    [
        gt.grad,
        gt.hessian,
        gt.jacfwd,
        lambda f: gt.function(gt.grad(f)),
        lambda f: lambda x: gt.vmap(gt.grad(f))(gt.stack([x, x]))[0],
        lambda f: gt.grad(lambda x: gt.sum(gt.vmap(f)(gt.stack([x, 2.0 * x])))),
    ],
    ids=["gradient", "hessian", "forward", "function", "mapped", "of a map"],
)
def test_derivatives_do_not_change(policy, derive):
    expected = derive(looped(two))(X).numpy()
    found = derive(looped(gt.checkpoint(two, policy=policy)))(X).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loop", ["map", "fori", "while", "cond", "nested", "checkpointed"])
def test_in_all_loops(loop):
    inside = {
        "map": lambda f: lambda x: gt.sum(gt.map(f, gt.stack([x, 2.0 * x]))),
        "fori": lambda f: lambda x: gt.sum(gt.fori_loop(0, 3, lambda i, c: f(c) * i, x)),
        "while": lambda f: (
            lambda x: gt.sum(
                gt.while_loop(lambda c: c[1] < 3, lambda c: (f(c[0]), c[1] + 1), (x, 0))[0]
            )
        ),
        "cond": lambda f: lambda x: gt.sum(gt.cond(x[0] < 9.0, f, lambda a: a, x)),
        "nested": lambda f: (
            lambda x: gt.sum(
                gt.fori_loop(0, 2, lambda i, c: gt.fori_loop(0, 2, lambda j, d: f(d) + j, c), x)
            )
        ),
        "checkpointed": lambda f: looped(f, checkpoint=True),
    }[loop]
    expected = gt.grad(inside(two))(X).numpy()
    found = gt.grad(inside(gt.checkpoint(two)))(X).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def stacks(f):
    """What is kept of each step."""
    return [one for one in gt.saved_for_backward(f, X) if one.shape[:1] == (10,)]


class TestWhatIsKept:
    def test_by_policy(self):
        assert len(stacks(looped(two))) == 3  # what is carried, and two products
        assert len(stacks(looped(gt.checkpoint(two)))) == 1
        assert len(stacks(looped(gt.checkpoint(two, policy="contractions")))) == 3
        assert len(stacks(looped(gt.checkpoint(two, policy=gt.save_only("product"))))) == 3
        assert len(stacks(looped(gt.checkpoint(two, policy=gt.save_only("other"))))) == 1

    def test_long_scans(self):
        def f(**options):
            return lambda x: gt.sum(
                gt.scan(lambda c, _: (two(c), None), x, length=100, **options)[0]
            )

        sizes = [
            gt.saved_for_backward(f(**options), X).nbytes
            for options in ({}, {"checkpoint": True}, {"checkpoint": 5}, {"checkpoint": 100})
        ]
        step = 4 * 8
        assert sizes[0] > 300 * step
        assert sizes[1] <= 12 * step
        assert sizes[2] <= 22 * step
        assert sizes[3] <= 3 * step

    def test_lines(self):
        line = line_of("the line of the layer")
        for around in (
            lambda f: lambda x: gt.sum(f(x)),
            lambda f: gt.function(lambda x: gt.sum(f(x))),
            lambda f: lambda x: gt.sum(gt.vmap(f)(gt.stack([x, x]))),
            lambda f: lambda x: gt.sum(gt.vmap(gt.vmap(f))(gt.stack([x, x])[None])),
        ):
            saved = gt.saved_for_backward(around(two), X)
            assert [one.op for one in saved] == ["matmul", "matmul"]
            assert {one.line for one in saved} == {line}

    def test_lines_inside_loops(self):
        line = line_of("the line of the layer")
        saved = gt.saved_for_backward(looped(two), X)
        assert all(one.line.startswith(__file__) for one in saved)
        assert [one.line for one in saved].count(line) >= 2
        text = str(saved)
        assert f"{saved.nbytes} bytes" in text
        assert "float64[10,4]" in text
        assert "320 bytes" in text
