"""Plans: values of large programs are dropped, results are right."""

import gc
import weakref

import numpy as np
import pytest

from gradtape.ir.node import apply, constant, leaf, outputs, placeholder
from gradtape.ir.op import REGISTRY, Op, Undefined
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.runtime import numpy_plan
from gradtape.runtime.numpy_plan import NumpyPlan

FLOAT = spec((3,), np.dtype("float64"))
VALUES = np.array([0.1, 0.2, 0.3])


def call(name, *inputs, params=()):
    return apply(REGISTRY[name], inputs, params)


def chain(node, length):
    for _ in range(length):
        node = call("sin", node)
    return node


@pytest.fixture
def dead_values_are_dropped(monkeypatch):
    """Dead values are dropped however small they are."""
    monkeypatch.setattr(numpy_plan, "LARGE_NUMPY_PLAN", 0)
    monkeypatch.setattr(numpy_plan, "SMALL_NUMPY_RESULT", 0)


@pytest.mark.usefixtures("dead_values_are_dropped")
def test_a_chain_with_dropped_values():
    plan = NumpyPlan(program([chain(leaf(0, FLOAT), 50)]))
    assert len(plan.steps) == 50
    expected = VALUES
    for _ in range(50):
        expected = np.sin(expected)
    assert plan.run([VALUES])[0].tobytes() == expected.tobytes()


def test_outputs_and_inputs_that_are_outputs_keep_their_slots():
    x = leaf(0, FLOAT)
    a = call("sin", x)
    b = call("cos", a)
    plan = NumpyPlan(program([b, x, a, b]))
    assert len(set(plan.output_slots)) == 3
    found = plan.run([VALUES])
    for got, want in zip(
        found, [np.cos(np.sin(VALUES)), VALUES, np.sin(VALUES), np.cos(np.sin(VALUES))], strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_inputs_are_not_written():
    x, y = leaf(0, FLOAT), leaf(1, FLOAT)
    first, second = VALUES.copy(), VALUES.copy()
    for array in (first, second):
        array.flags.writeable = False
    NumpyPlan(program([chain(call("add", x, y), 5)])).run([first, second])
    np.testing.assert_array_equal(first, VALUES)


def test_a_plan_runs_again_on_other_values():
    x = leaf(0, FLOAT)
    plan = NumpyPlan(program([call("multiply", x, x)]))
    assert plan.run([VALUES])[0].tolist() == (VALUES * VALUES).tolist()
    assert plan.run([np.ones(3)])[0].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("dtype", "scalar"), [("float32", 0.1), ("int8", 3), ("complex64", 1j)])
def test_python_scalars_take_the_dtype_of_their_leaf(dtype, scalar):
    of = spec((), np.dtype(dtype))
    (found,) = NumpyPlan(program([call("add", leaf(0, of), leaf(1, of))])).run([scalar, scalar])
    assert found.dtype == np.dtype(dtype)
    assert found == np.dtype(dtype).type(scalar) + np.dtype(dtype).type(scalar)


def test_a_program_without_inputs():
    (found,) = NumpyPlan(program([call("sin", constant(1, FLOAT))])).run([])
    np.testing.assert_array_equal(found, np.sin(np.ones(3)))


def test_unused_outputs_free_their_slot():
    several = apply(REGISTRY["custom_derivative"], (leaf(0, FLOAT), leaf(1, FLOAT)), (2, None))
    first, _ = outputs(several)
    (found,) = NumpyPlan(program([chain(first, 3)])).run([VALUES, VALUES])
    np.testing.assert_array_equal(found, np.sin(np.sin(np.sin(VALUES))))


SIZE = 1 << 13


@pytest.mark.usefixtures("dead_values_are_dropped")
def test_large_dead_values_are_dropped_during_the_run():
    references, alive = [], []

    class Tracked(np.ndarray):
        """An array that a weak reference can be kept of."""

    def kernel(x):
        gc.collect()
        alive.append(sum(reference() is not None for reference in references))
        result = np.array(x).view(Tracked)
        references.append(weakref.ref(result))
        return result

    why = Undefined("only for this test")
    op = Op("tracked", "test", spec=lambda x: x, numpy=kernel, jvp=why, vjp=why)
    x, y = (placeholder(spec((SIZE,), np.dtype("float64"))) for _ in range(2))
    total = call("add", apply(op, (x,)), apply(op, (y,)))
    NumpyPlan(program([apply(op, (total,))])).run([np.zeros(SIZE), np.zeros(SIZE)])
    assert alive == [0, 1, 0]


def test_floating_point_trouble_is_silent():
    x = leaf(0, FLOAT)
    (found,) = NumpyPlan(program([call("log", call("subtract", x, x))])).run([VALUES])
    assert np.isneginf(found).all()
