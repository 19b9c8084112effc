"""CONTRACT: loops, scans and maps of length 0, under every transform, against no loop at all."""

import numpy as np
import pytest
from tests.contract.test_control_everywhere import BATCHED, TRANSFORMS, flat

import gradtape as gt

A = gt.asarray
X = A([0.3, 0.5, 0.7])
NONE = A(np.zeros((0, 3)))


def _step(h, a):
    return gt.sin(h) * a + h[1], h * a


# Each function of a vector of three with a loop, and the same without it.
PROGRAMS = {
    "fori": (lambda x: gt.fori_loop(0, 0, lambda i, c: gt.sin(c) * x[1], x), lambda x: x),
    "fori to a tensor": (
        lambda x: gt.fori_loop(A(2), A(1), lambda i, c: gt.sin(c) * x[1], x * x),
        lambda x: x * x,
    ),
    "scan": (lambda x: gt.scan(_step, x * x, NONE), lambda x: x * x),
    "reversed scan": (lambda x: gt.scan(_step, x * x, NONE, reverse=True), lambda x: x * x),
    "checkpointed scan": (lambda x: gt.scan(_step, x, NONE, checkpoint=True), lambda x: x),
    "scan in segments": (lambda x: gt.scan(_step, x, NONE, checkpoint=3), lambda x: x),
    "scan of a length": (
        lambda x: gt.scan(lambda h, _: (gt.sin(h) + x, h), x, length=0),
        lambda x: x,
    ),
    "scan over the source": (
        lambda x: gt.scan(lambda h, a: (h * a, h + a), gt.sum(x), x[:0]),
        lambda x: gt.reshape(gt.sum(x), (1,)),
    ),
    "two carries": (
        lambda x: gt.scan(
            lambda c, a: ((c[1] * a, gt.sin(c[0]), c[2] + 1), c[0]), (x, x * x, 0), NONE
        )[0],
        lambda x: gt.concat([x, x * x, A([0.0])]),
    ),
    "while": (
        lambda x: gt.while_loop(lambda c: gt.sum(c) > 1e9, lambda c: c * x, x * x),
        lambda x: x * x,
    ),
    "while of at most 0 steps": (
        lambda x: gt.while_loop(lambda c: gt.sum(c) < 1e9, lambda c: c * x, x * x, 0),
        lambda x: x * x,
    ),
    "map": (lambda x: [x, gt.map(lambda a: gt.tanh(a * x), NONE)], lambda x: x),
    "map in batches": (
        lambda x: [x, gt.map(lambda a: gt.tanh(a * x), NONE, batch_size=2)],
        lambda x: x,
    ),
    "vmap": (lambda x: [x, gt.vmap(lambda a: gt.tanh(a * x))(NONE)], lambda x: x),
    "scan of a scan": (
        lambda x: gt.scan(
            lambda c, a: (gt.scan(_step, c * a, NONE)[0], None), x, A(np.ones((2, 3)))
        ),
        lambda x: x,
    ),
    "scan without steps of a scan": (
        lambda x: gt.scan(lambda c, a: gt.scan(_step, c * a, A(np.ones((2, 3)))), x, NONE),
        lambda x: x,
    ),
    "cond of a scan": (
        lambda x: gt.cond(x[0] > 0.0, lambda: gt.scan(_step, x, NONE)[0], lambda: x * x),
        lambda x: gt.where(x[0] > 0.0, x, x * x),
    ),
}
SPARSE = {
    "sparse": lambda f: lambda x: A(gt.jacobian(f, sparse=True)(x).toarray()),
    "sparse hessian": lambda f: (
        lambda x: A(gt.hessian(lambda y: gt.sum(f(y) ** 2), sparse=True)(x).toarray())
    ),
    "sparse hessian in a function": lambda f: (
        lambda x: A(gt.function(gt.hessian(lambda y: gt.sum(f(y) ** 2), sparse=True))(x).toarray())
    ),
}
DENSE = {
    "sparse": gt.jacobian,
    "sparse hessian": TRANSFORMS["hessian"],
    "sparse hessian in a function": TRANSFORMS["hessian"],
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("transform", TRANSFORMS | SPARSE)
def test_transforms(program, transform):
    loop, plain = PROGRAMS[program]
    derive = (TRANSFORMS | SPARSE)[transform]
    found = derive(lambda x: flat(loop(x)))
    expected = DENSE.get(transform, derive)(lambda x: flat(plain(x)))(X).numpy()
    for _ in range(2):
        np.testing.assert_allclose(found(X).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("transform", BATCHED)
def test_maps(program, transform):
    loop, plain = PROGRAMS[program]
    many = gt.stack([X, -X])
    found = gt.vmap(BATCHED[transform](lambda x: flat(loop(x))))(many)
    expected = gt.vmap(BATCHED[transform](lambda x: flat(plain(x))))(many)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_derivatives_by_a_sequence_without_elements(sparse):
    def f(xs):
        final, rows = gt.scan(_step, X, xs)
        return gt.concat([final, gt.reshape(rows, (-1,))])

    assert gt.grad(lambda xs: gt.sum(f(xs)))(NONE).shape == (0, 3)
    found = gt.jacobian(f, sparse=sparse)(NONE)
    assert found.shape == ((3, 0) if sparse else (3, 0, 3))
    found = gt.hessian(lambda xs: gt.sum(f(xs)), sparse=sparse)(NONE)
    assert found.shape == ((0, 0) if sparse else (0, 3, 0, 3))


def test_patterns_are_exact():
    pattern = gt.sparsity_pattern(lambda x: PROGRAMS["fori"][0](x), X)
    np.testing.assert_array_equal(pattern.toarray() != 0, np.eye(3) != 0)


def test_branches_without_results():
    assert gt.cond(X[0] > 0.0, lambda x: (), lambda x: (), X) == ()
    found = gt.jacobian(lambda x: (gt.cond(x[0] > 0.0, lambda: (), lambda: ()), x)[1], sparse=True)
    np.testing.assert_array_equal(found(X).toarray(), np.eye(3))
