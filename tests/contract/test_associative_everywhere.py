"""CONTRACT: associative_scan under every transform, against prefixes one by one."""

import numpy as np
import pytest

import gradtape as gt

A = gt.asarray


def compose(f, g):
    """Of affine maps, which do not commute."""
    return {"a": f["a"] * g["a"], "b": g["a"] * f["b"] + g["b"]}


def product(a, b):
    return a @ b


def one_by_one(fn, elems, reverse=False, axis=0):
    leaves, structure = gt.pytree.flatten(elems)
    count = leaves[0].shape[axis]
    parts = [
        gt.pytree.unflatten(structure, [gt.take(x, A([n]), axis=axis) for x in leaves])
        for n in (reversed(range(count)) if reverse else range(count))
    ]
    rows = parts[:1]
    for part in parts[1:]:
        rows.append(fn(rows[-1], part))
    rows = rows[::-1] if reverse else rows
    columns = zip(*[gt.pytree.flatten(row)[0] for row in rows], strict=True)
    return gt.pytree.unflatten(structure, [gt.concat(list(c), axis=axis) for c in columns])


def flat(tree):
    return gt.concat([gt.reshape(leaf, (-1,)) for leaf in gt.pytree.flatten(tree)[0]])


CASES = {
    "sum": (gt.add, lambda x: x),
    "maximum": (gt.maximum, lambda x: x),
    "affine maps": (compose, lambda x: {"a": gt.sin(x), "b": x * x}),
    "matrices": (
        product,
        lambda x: gt.stack(
            [gt.stack([x, x * x], axis=-1), gt.stack([-x, 1.0 + x], axis=-1)], axis=-1
        ),
    ),
}  # fmt: skip
TRANSFORMS = {
    "value": lambda f: f,
    "gradient": lambda f: gt.grad(lambda x: gt.sum(f(x) ** 2)),
    "jacfwd": gt.jacfwd,
    "hessian": lambda f: gt.hessian(lambda x: gt.sum(f(x) ** 2)),
    "function": gt.function,
    "vmap": lambda f: lambda x: gt.vmap(f)(gt.stack([x, 0.5 * x])),
    "vmap of gradient": lambda f: (
        lambda x: gt.vmap(gt.grad(lambda y: gt.sum(f(y) ** 2)))(gt.stack([x, 0.5 * x]))
    ),
    "sparse": lambda f: lambda x: A(gt.jacobian(f, sparse=True)(x).toarray()),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_prefixes(case, transform, reverse, length):
    fn, make = CASES[case]
    derive = TRANSFORMS[transform]
    x = A(np.random.default_rng(length).uniform(-1.0, 1.0, length))
    expected = derive(lambda x: flat(one_by_one(fn, make(x), reverse)))(x).numpy()
    found = derive(lambda x: flat(gt.associative_scan(fn, make(x), reverse=reverse)))
    for _ in range(2 if transform == "function" else 1):
        np.testing.assert_allclose(found(x).numpy(), expected, rtol=1e-9, atol=1e-12)


def test_inside_loops_and_along_other_axes():
    x = A(np.random.default_rng(0).uniform(-1.0, 1.0, (3, 4)))
    for axis in (0, 1, -1):
        expected = np.cumsum(x.numpy(), axis=axis)
        np.testing.assert_allclose(
            gt.associative_scan(gt.add, x, axis=axis).numpy(), expected, rtol=1e-12
        )
    rows = gt.map(lambda row: gt.associative_scan(gt.add, row), x)
    np.testing.assert_allclose(rows.numpy(), np.cumsum(x.numpy(), axis=1), rtol=1e-12)


def test_nothing_to_combine():
    assert gt.associative_scan(gt.add, gt.zeros((0, 2))).shape == (0, 2)
    assert gt.associative_scan(gt.add, {}) == {}
