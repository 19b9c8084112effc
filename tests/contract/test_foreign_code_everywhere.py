"""CONTRACT: ops declared from outside, and Python inside programs, under every transform."""

import numpy as np
import pytest
from tests.contract.loops_in_python import InPython

import gradtape as gt
from gradtape.extend import _declared
from gradtape.ir.op import REGISTRY

A = gt.asarray
X = np.array([0.3, 1.2, -0.7])


@pytest.fixture(autouse=True)
def declared():
    """What a test declares must not be there for others."""
    before = set(REGISTRY)
    yield
    for name in set(REGISTRY) - before:
        del REGISTRY[name]
        _declared.discard(name)


def by_kernel():
    return gt.extend.elementwise(
        "test_softsine", numpy=lambda x: np.sin(x) * x,
        partials=[lambda y, x: gt.cos(x) * x + gt.sin(x)],
    )  # fmt: skip


def by_composition():
    return gt.extend.elementwise("test_composed", composition=lambda x: gt.sin(x) * x)


def by_op():
    return gt.extend.op(
        "test_op", spec=lambda x: x, numpy=lambda x: np.sin(x) * x,
        jvp=lambda tangents, y, inputs: tangents[0] * (gt.cos(inputs[0]) * inputs[0]
                                                       + gt.sin(inputs[0])),
        samples=[(np.array([0.5, 1.5]),)],
    )  # fmt: skip


def by_callback():
    rule = gt.custom_jvp(
        lambda x: gt.pure_callback(lambda a: np.sin(a) * a, (x.shape, x.dtype), x,
                                   vmap_method="expand_dims")
    )  # fmt: skip
    rule.defjvp(
        lambda primals, tangents: (
            rule(*primals),
            tangents[0] * (gt.cos(primals[0]) * primals[0] + gt.sin(primals[0])),
        )
    )
    return rule


def by_python():
    return lambda x: gt.py_function(lambda a: gt.sin(a) * a, [x], (x.shape, x.dtype))


FOREIGN = {
    "kernel": by_kernel,
    "composition": by_composition,
    "op": by_op,
    "pure_callback": by_callback,
    "py_function": by_python,
}


def own(x):
    return gt.sin(x) * x


TRANSFORMS = {
    "value": lambda f: f,
    "function": gt.function,
    "gradient": lambda f: gt.grad(lambda x: gt.sum(f(x) ** 2)),
    "gradient in a function": lambda f: gt.function(gt.grad(lambda x: gt.sum(f(x) ** 2))),
    "jacfwd": gt.jacfwd,
    "jacobian": gt.jacobian,
    "sparse": lambda f: lambda x: A(gt.jacobian(f, sparse=True)(x).toarray()),
    "hessian": lambda f: gt.hessian(lambda x: gt.sum(f(x) ** 2)),
    "vmap": lambda f: lambda x: gt.vmap(f)(gt.stack([x, 2.0 * x])),
    "vmap of scalars": lambda f: gt.vmap(f),
    "vmap of gradients": lambda f: gt.vmap(gt.grad(f)),
    "gradient of vmap": lambda f: gt.grad(lambda x: gt.sum(gt.vmap(f)(gt.stack([x, 2.0 * x])))),
    "checkpoint": lambda f: gt.grad(lambda x: gt.sum(gt.checkpoint(f)(x))),
    "scan": lambda f: lambda x: m_of(f).scan(lambda c, a: (f(c) * a, c), x, gt.stack([x, x])),
    "gradient of scan": lambda f: gt.grad(
        lambda x: gt.sum(m_of(f).scan(lambda c, _: (f(c), None), x, length=2)[0])
        if f is not own else gt.sum(f(f(x)))
    ),
    "while": lambda f: lambda x: m_of(f).while_loop(
        lambda c: c[1] < 2, lambda c: (f(c[0]), c[1] + 1), (x, A(0))
    )[0],
    "gradient of while": lambda f: gt.grad(
        lambda x: gt.sum(
            m_of(f).while_loop(lambda c: c[1] < 2, lambda c: (f(c[0]), c[1] + 1), (x, A(0)))[0]
        )
    ),
    "cond": lambda f: gt.grad(
        lambda x: gt.sum(m_of(f).cond(x[0] > 0.0, f, lambda a: a, x))
    ),
    "map": lambda f: lambda x: m_of(f).map(f, gt.stack([x, 2.0 * x])),
    "vmap of scan": lambda f: lambda x: gt.vmap(
        lambda a: gt.scan(lambda c, _: (f(c), None), a, length=2)[0]
    )(gt.stack([x, 2.0 * x])),
    "function of scan": lambda f: gt.function(
        lambda x: gt.scan(lambda c, _: (f(c), None), x, length=2)[0]
    ),
}  # fmt: skip


def m_of(f):
    """Loops in Python for the library's own function."""
    return InPython if f is own else gt


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", FOREIGN)
def test_like_the_librarys_own(kind, transform):
    derive = TRANSFORMS[transform]
    expected = gt.pytree.flatten(derive(own)(A(X)))[0]
    function = derive(FOREIGN[kind]())
    for _ in range(3 if "function" in transform else 1):
        found = gt.pytree.flatten(function(A(X)))[0]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", FOREIGN)
def test_patterns(kind):
    f = FOREIGN[kind]()
    pattern = gt.sparsity_pattern(f, A(X))
    if kind in ("kernel", "composition"):
        assert pattern.nnz == 3
    assert not np.any(np.diag(np.ones(3))[pattern.toarray() == 0])
