"""gt.function: programs that compute equal values before, inside and after branches.

Every application is a node of its own, and equal ones are told apart by their order alone. A path
of a captured function must find the values of the steps before it whatever that order is.

GRADTAPE_FUZZ sets how many programs are tried.
"""

import os
import random
import warnings

import numpy as np
import pytest
from tests.jit.agreement import counted

import gradtape as gt
from gradtape.ir.node import retire_tables

COUNT = int(os.environ.get("GRADTAPE_FUZZ", "30"))
# Few expressions, so that most of them are computed several times.
VECTORS = [
    "x[::-1]",
    "gt.sin(x)",
    "x * y",
    "x[1:3]",
    "y[::-1]",
    "gt.reshape(x, (-1, 1))[:, 0]",
    "gt.grad(lambda v: gt.sum(gt.sin(v) * v))(x)",
    "x + scale",
    "gt.cumulative_sum(x)",
]
GUARDS = [
    "scale > {}",
    "gt.sum(x) > {}",
    "x[0] < {}",
    "gt.sum(x * y) > {}",
    "y[::-1][0] < {}",
    "count > 2",
    "int(gt.argmax(x)) == 1",
]


def source_of(seed):
    """The source of a function of x, y, scale and count, with guards and equal values."""
    chance, lines, names = random.Random(seed), [], []

    def compute(indent, keep=True):
        for _ in range(chance.randint(1, 3)):
            expression = chance.choice(VECTORS)
            if names and chance.random() < 0.3:
                expression = f"gt.cos({chance.choice(names)})"
            if chance.random() < 0.2:
                lines.append(f"{indent}{expression}")
            else:
                name = f"v{len(names)}" if keep else chance.choice(names)
                lines.append(f"{indent}{name} = {expression}")
                if name not in names:
                    names.append(name)

    lines.append(f"    v0 = {chance.choice(VECTORS)}")
    names.append("v0")
    compute("    ")
    for _ in range(chance.randint(1, 3)):
        guard = chance.choice(GUARDS).format(round(chance.uniform(-0.7, 0.7), 2))
        lines.append(f"    if {guard}:")
        compute("        ", keep=False)
        if chance.random() < 0.4:
            lines.append("    else:")
            compute("        ", keep=False)
        compute("    ")
    one, two, three = (chance.choice([*names, "x", "y"]) for _ in range(3))
    form = chance.choice(['{{"a": {}, "b": [{}, {}]}}', "[{}, ({}, {})]", "({}, {}, {})"])
    lines.append(f"    return {form.format(one, two, three)}")
    return "\n".join(["def f(x, y, scale, count):", *lines])


@pytest.mark.parametrize("renewed", [False, True], ids=["one table", "renewed tables"])
@pytest.mark.parametrize("seed", range(COUNT))
def test_equal_values_around_branches(seed, renewed):
    source = source_of(seed)
    plain, captured = {"gt": gt}, {"gt": gt}
    exec(source, plain)
    exec(source, captured)
    decorated = gt.function(captured["f"])
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(30):
            x, y = (gt.asarray(rng.normal(size=4)) for _ in range(2))
            number = float(rng.normal())
            scale = gt.asarray(number) if rng.random() < 0.7 else number
            arguments = (x, y, scale, int(rng.integers(5)))
            want, want_shape = gt.pytree.flatten(plain["f"](*arguments))
            found, shape = gt.pytree.flatten(decorated(*arguments))
            assert shape == want_shape
            for a, b in zip(found, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=f"call {call} of\n{source}")
            if renewed and rng.random() < 0.2:
                retire_tables()


def test_a_slice_that_is_read_twice():
    """The second read of a slice must not be the first node of the next recording."""

    def read(x, scale):
        first = x[::-1]
        if scale > 0.0:
            gt.sum(x)
        x[::-1]
        return first

    retire_tables()
    gt.evaluate(gt.asarray(1.0) + 1.0)
    f, runs = counted(read)
    f = gt.function(f)
    for scale in (1.0, -1.0, 2.0, -2.0, 3.0):
        found = f(gt.asarray(np.arange(7.0)), gt.asarray(scale))
        assert found.tolist() == [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    assert len(runs) == 4  # one for each path


def test_a_table_that_is_renewed_between_two_paths():
    """The nodes of the second path are others; the first guard is on a number and no node."""

    def read(x, scale):
        wave = gt.sin(x)
        gt.evaluate(wave)
        return wave * 2.0 if scale > 0.0 else wave

    f = gt.function(read)
    for scale in (1.0, -1.0, 2.0, -2.0, 3.0):
        found = f(gt.asarray([1.0, 2.0]), scale)
        np.testing.assert_allclose(found, np.sin([1.0, 2.0]) * (2.0 if scale > 0.0 else 1.0))
        retire_tables()
        gt.evaluate(gt.asarray(1.0) + 1.0)
