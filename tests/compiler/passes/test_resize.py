"""A program of other sizes is planned after one known before, and computes what NumPy does."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import for_loops, optimize
from gradtape.compiler.passes.resize import outline
from gradtape.compiler.passes.units import Registers
from gradtape.ir.node import apply, leaf
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.runtime import plan_cache, tiers


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")


def normalised(xp, x):
    centred = x - xp.mean(x, axis=0, keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=0, keepdims=True) + 0.1)


FUNCTIONS = {
    "chain": lambda xp, x: xp.sin(x) * 0.9 + x,
    "sum of all": lambda xp, x: xp.sum(xp.exp(-x * x)),
    "rows": lambda xp, x: xp.sum(x * x, axis=1) / 3.0,
    "columns": lambda xp, x: xp.max(x, axis=0) + xp.sum(x, axis=0),
    "normalised": normalised,
    "transposed": lambda xp, x: xp.matmul(xp.permute_dims(x, (1, 0)) * 2.0, x),
    "product": lambda xp, x: xp.tanh(xp.matmul(x, xp.permute_dims(x, (1, 0)))) + 1.0,
    "view": lambda xp, x: xp.permute_dims(x + 1.0, (1, 0)),
    "flat": lambda xp, x: xp.reshape(x, (-1,)) * 2.0,
    "copied": lambda xp, x: xp.reshape(xp.permute_dims(x, (1, 0)), (-1,)) + 1.0,
    "outer": lambda xp, x: xp.sum(x[:, None, :] * x[None, :, :], axis=(0, 2)),
    "split": lambda xp, x: xp.sum(xp.reshape(x, (2, -1, x.shape[1])), axis=(0, 2)),
    "variance": lambda xp, x: xp.var(x) + xp.sum(x, axis=0),
    "variance of rows": lambda xp, x: xp.var(x, axis=1) + xp.mean(x, axis=1),
    "variance of columns": lambda xp, x: xp.var(x * 2.0, axis=0) + xp.mean(x, axis=0),
    "constant": lambda xp, x: xp.where(x > 0, x, xp.zeros_like(x) + 0.5),
}
SIZES = [(4, 6), (8, 3), (6, 4), (4, 4), (2, 3), (6, 1), (2, 12), (100, 70), (4, 6), (600, 513)]


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_size(name):
    function = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    for shape in SIZES:
        x = rng.normal(size=shape)
        for _ in range(2):
            found = function(gt, gt.asarray(x)).numpy()
        np.testing.assert_allclose(found, function(np, x), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_every_size(name):
    function = FUNCTIONS[name]
    rng = np.random.default_rng(2)
    for shape in SIZES[:-1]:
        x, direction = rng.normal(size=shape), rng.normal(size=shape)
        inputs = gt.asarray(x)
        with gt.GradientTape() as tape:
            tape.watch(inputs)
            loss = gt.sum(gt.sin(function(gt, inputs)))
        slope = float(gt.sum(tape.gradient(loss, inputs) * direction))
        step = 1e-6
        above, below = (np.sum(np.sin(function(np, x + s * direction))) for s in (step, -step))
        np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-5, atol=1e-5)


def test_a_new_size_compiles_nothing():
    def step(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(20):
                y = gt.sin(y) * 0.9 + x
            loss = gt.mean(y * y)
        return tape.gradient(loss, x)

    compiled = gt.function(step)
    for size in (700, 900):
        compiled(gt.asarray(np.linspace(0, 1, size))).numpy()
    before = gt.counters()
    compiled(gt.asarray(np.linspace(0, 1, 1234))).numpy()
    after = gt.counters()
    assert after.kernels_compiled == before.kernels_compiled
    assert after.plans_built == before.plans_built + 1


def outline_of(function, *shapes):
    x = [gt.asarray(np.ones(shape)) for shape in shapes]
    return outline(gt.program_of(function(*x)))


def test_outlines():
    add = lambda x, y: x + y  # noqa: E731
    assert outline_of(add, (3, 4), (4,))[0] == outline_of(add, (7, 5), (5,))[0]
    assert outline_of(add, (3, 4), (4,))[1] == (1, 3, 4)
    # Lengths that were equal are not, or one is 1.
    assert outline_of(add, (3, 4), (4,))[0] != outline_of(add, (4, 4), (4,))[0]
    assert outline_of(add, (3, 4), (4,))[0] != outline_of(add, (3, 1), (1,))[0]
    assert outline_of(add, (3, 4), (4,))[0] != outline_of(add, (3, 4), (1,))[0]
    # Empty axes, and ops that hold lengths.
    assert outline_of(add, (0, 4), (4,)) is None
    assert outline_of(lambda x: x[1:] * 2.0, (5,)) is None


def with_longer_axes(op, sample, more):
    """The program of an op on operands whose axes are longer, or None if it takes no such."""
    leaves = []
    for number, array in enumerate(sample.inputs):
        shape = tuple(n if n == 1 else n + more for n in np.shape(array))
        leaves.append(leaf(number, spec(shape, np.asarray(array).dtype)))
    try:
        return program([apply(op, tuple(leaves), tuple(sample.params[name] for name in op.params))])
    except (ValueError, IndexError):
        return None


@pytest.mark.parametrize("name", [name for name, op in REGISTRY.items() if op.composition])
def test_equal_outlines_have_equal_loops(name):
    """A composition with a length in it would be wrong at every size but the first."""
    op = REGISTRY[name]
    for sample in op.samples():
        known = {}
        for more in (0, 3, 4):
            made = with_longer_axes(op, sample, more)
            found = None if made is None else outline(optimize(made))
            if found is not None:
                loops = outline(for_loops(optimize(made)))
                assert known.setdefault(found[0], loops and loops[0]) == (loops and loops[0])


def test_nothing_is_resized_where_numpy_runs(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "off")
    before = gt.counters().kernels_compiled
    for size in (5, 6, 7):
        x = np.arange(float(size))
        np.testing.assert_allclose((gt.asarray(x) * 3.25 + 1.5).numpy(), x * 3.25 + 1.5)
    assert gt.counters().kernels_compiled == before


def squeezed(a, rounds):
    """Many loops over a few numbers: each sum has to be known before the next begins."""
    for _ in range(rounds):
        a = a / (1.0 + gt.sum(a * a))
    return a


def routines_run():
    """The routines of all plans in the cache."""
    plans = [plan.compiled for plan in plan_cache._plans.values() if plan.compiled is not None]
    units = [unit for plan in plans for unit in plan.lowered.fused.units]
    return sum(isinstance(unit, Registers) for unit in units)


def test_a_routine_serves_other_sizes_of_what_is_outside_it():
    gt.clear_plans()
    a = gt.asarray([1.0, 2.0, 3.0])

    def f(n):
        x = np.linspace(0.0, 1.0, n)
        found = (gt.tanh(gt.asarray(x)) * gt.sum(squeezed(a, 12))).numpy()
        expected = np.array([1.0, 2.0, 3.0])
        for _ in range(12):
            expected = expected / (1.0 + np.sum(expected * expected))
        np.testing.assert_allclose(found, np.tanh(x) * np.sum(expected), rtol=1e-12)

    f(700)
    assert routines_run() == 1
    before = gt.counters()
    for n in (701, 900, 5000):
        f(n)
    assert gt.counters().kernels_compiled == before.kernels_compiled
    assert routines_run() == 4


def test_routines_are_for_the_first_size_of_a_program_only():
    gt.clear_plans()

    def f(n):
        x = np.linspace(0.5, 1.0, n)
        found = squeezed(gt.asarray(x), 13).numpy()
        for _ in range(13):
            x = x / (1.0 + np.sum(x * x))
        np.testing.assert_allclose(found, x, rtol=1e-12)

    f(5), f(5)
    assert routines_run() == 1
    f(7)
    assert routines_run() == 1
    before = gt.counters().kernels_compiled
    for n in (8, 9, 11, 5):
        f(n)
    # The loops of the second size serve all others.
    assert gt.counters().kernels_compiled == before
