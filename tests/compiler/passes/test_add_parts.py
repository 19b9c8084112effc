"""Parts put into zeros at one place: they are added first, and the numbers stay the same."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import for_loops, optimize
from gradtape.compiler.passes.add_parts import add_parts
from gradtape.ir import Program
from gradtape.ir.verify import verify
from gradtape.ops.arrays.slicing import UNSLICE
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.tensor.tensor import program_of

X = np.random.default_rng(0).standard_normal((5, 7))


def gradient(formula, x=X):
    """The program of a gradient, and NumPy's value of it as it was recorded."""
    x = gt.asarray(x)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = formula(x)
    found = tape.gradient(y, x)
    program = optimize(program_of(found))
    return program, found.numpy()


def counted(program: Program):
    return collections.Counter(node.op.name for node in program.nodes)


FORMULAS = {
    "elements": lambda x: (x[0, 1] * x[2, 3]) + x[0, 1] * x[0, 1] - x[2, 3] * x[4, 4] * x[0, 1],
    "rows": lambda x: gt.sum(gt.sin(x[1]) * x[2] + x[1] * gt.cos(x[2]) - x[1] * x[3]),
    "overlapping": lambda x: gt.sum(x[1:4] * x[2:5]) + gt.sum(gt.exp(x[1:4])) + gt.sum(x**3),
    "steps": lambda x: gt.sum(gt.sin(x[::2, 1:])) + gt.sum(x[::2, 1:] ** 2) + gt.sum(x[1:, ::3]),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_same_numbers(name):
    program, expected = gradient(FORMULAS[name])
    before = counted(program)["unslice"]
    smaller = add_parts(program)
    verify(smaller)
    places = {(node.params, node.inputs[1:]) for node in program.nodes if node.op is UNSLICE}
    assert counted(smaller)["unslice"] == len(places) < before
    values = {node: X if node.shape else np.array(1.5) for node in program.inputs}
    (one,), (other,) = (
        NumpyPlan(each).run([values[node] for node in each.inputs]) for each in (program, smaller)
    )
    np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)
    found = gt.function(gt.grad(FORMULAS[name]))
    for _ in range(3):
        value = found(gt.asarray(X)).numpy()
    np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-14)


def test_a_part_that_is_read_elsewhere_stays():
    def formula(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x[0, 1] * x[0, 1] * 3.0
        return tape.gradient(y, x)

    found = gt.function(lambda x: (formula(x), formula(x) + 1.0))
    for _ in range(3):
        one, other = (each.numpy() for each in found(gt.asarray(X)))
    expected = np.zeros_like(X)
    expected[0, 1] = 6 * X[0, 1]
    np.testing.assert_allclose(one, expected, rtol=1e-14)
    np.testing.assert_allclose(other, expected + 1, rtol=1e-14)


def test_nothing_to_add():
    program, _ = gradient(lambda x: gt.sum(gt.sin(x[1:3])) + gt.sum(x[4]))
    assert add_parts(program) is program


def test_in_the_passes_of_the_compiler():
    program, _ = gradient(FORMULAS["elements"])
    assert counted(for_loops(program))["unslice"] == 3


def test_elements_read_in_a_function_are_read_once():
    """More positions than a program of an undecorated loop has as params."""

    @gt.function
    def squares(x):
        total = 0.0
        for _ in range(2):
            for i in range(9):
                for j in range(9):
                    total = total + x[i, j] * x[i, j]
        return total

    x = np.random.default_rng(1).standard_normal((9, 9))
    for _ in range(3):
        found = squares(gt.asarray(x)).numpy()
    np.testing.assert_allclose(found, 2 * np.sum(x * x), rtol=1e-13)
    slope = gt.function(gt.grad(squares))
    for _ in range(3):
        by_x = slope(gt.asarray(x)).numpy()
    np.testing.assert_allclose(by_x, 4 * x, rtol=1e-13)


def test_positions_that_change_from_call_to_call_share_a_plan():
    x = gt.asarray(np.arange(300.0))
    read = gt.function(lambda x, i: x[i : i + 7] * 2.0)
    for i in range(40):
        read(x, i).numpy()
    before = gt.counters()
    for i in range(40, 60):
        np.testing.assert_array_equal(read(x, i).numpy(), 2 * np.arange(i, i + 7.0))
    assert gt.counters().plans_built == before.plans_built
