"""Routines: which ops on tiny arrays are gathered, and where the routines stand."""

import math

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.passes import loops_of, optimize, routines
from gradtape.compiler.passes.routine_op import ROUTINE, body_of
from gradtape.compiler.passes.routines import with_routines
from gradtape.compiler.passes.scalar_steps import Combine, template_of
from gradtape.compiler.passes.units import Call, FusedLoop, Registers
from gradtape.ir.node import apply, constant, leaf
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify
from gradtape.ops.arrays.creation import ARANGE
from gradtape.ops.arrays.gathering import GATHER
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.recording import state
from gradtape.trace.value import Value


@pytest.fixture
def always(monkeypatch):
    """Routines, however little they save."""
    monkeypatch.setattr(routines, "LEAST_SAVED_BY_ROUTINE", 0.0)
    monkeypatch.setattr(routines._Routine, "saves", lambda self, loops: math.inf)


def outlined(*outputs):
    found = with_routines(optimize(gt.program_of(*outputs)), fusible)
    verify(found)
    return found


def routines_in(found):
    return [node for node in found.nodes if node.op is ROUTINE]


def units_of(*outputs):
    return loops_of(optimize(gt.program_of(*outputs)), fusible)[1].units


def both_ways(*outputs):
    found = optimize(gt.program_of(*outputs))
    values = [state.recording.leaves[node.params[0]] for node in found.inputs]
    plan = CompiledPlan(found)
    results = [
        Value(content, node.spec).array
        for content, node in zip(plan.run(values), found.outputs, strict=True)
    ]
    return [np.asarray(each) for each in NumpyPlan(found).run(values)], results, plan


def rotations(count):
    """Products of rotations, whose angles are the elements of a vector, applied to a vector."""
    q = gt.asarray(np.linspace(0.1, 1.0, count))
    x = gt.asarray([1.0, 2.0, 3.0])
    for k in range(count):
        c, s = gt.cos(q[k]), gt.sin(q[k])
        zero, one = gt.zeros(()), gt.ones(())
        rows = [gt.stack([c, -s, zero]), gt.stack([s, c, zero]), gt.stack([zero, zero, one])]
        x = gt.stack(rows) @ x + 0.1 * gt.linalg.cross(x, gt.flip(x))
    return x


def test_a_program_of_tiny_arrays_is_one_routine():
    found = outlined(rotations(8))
    (node,) = routines_in(found)
    assert len(found.nodes) == 2  # and its result
    assert [each.op.name for each in body_of(node).nodes].count("cos") == 8
    (unit,) = units_of(rotations(8))
    assert isinstance(unit, Registers)


def test_routines_compute_what_numpy_does():
    expected, got, plan = both_ways(rotations(8), gt.sum(rotations(5)))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert len(plan.lowered.fused.units) == 1


def test_a_chain_on_one_vector_stays_a_loop():
    x = y = gt.asarray(np.linspace(0.1, 1.0, 16))
    for _ in range(40):
        y = y * x + 0.5
    assert not routines_in(outlined(y))
    (unit,) = units_of(y)
    assert isinstance(unit, FusedLoop)


def test_few_loops_are_not_worth_a_routine():
    x = gt.asarray([1.0, 2.0, 3.0])
    assert not routines_in(outlined(gt.sum(x * x) + x[1]))


def test_large_arrays_are_not_in_routines():
    x = gt.asarray(np.ones(1000))
    found = outlined(gt.sum(x) * rotations(8))
    (node,) = routines_in(found)
    assert all(each.size < 100 for each in (*body_of(node).nodes, *body_of(node).inputs))


def test_a_tiny_part_of_a_large_array_is_read_where_it_lies():
    x = gt.asarray(np.arange(1000.0))
    y = rotations(6) * x[3:6] + x[999]
    expected, got, plan = both_ways(y)
    np.testing.assert_allclose(expected[0], got[0], rtol=1e-12)
    (unit,) = plan.lowered.fused.units
    assert isinstance(unit, Registers)


def test_a_loop_waits_for_no_more_than_it_reads(always):
    # `scale` is known at once and `late` after a large sum: they are in two routines, so that the
    # product with `scale` can be in the loop that computes the sum.
    x = gt.asarray(np.ones(1000))
    a = gt.asarray([1.0, 2.0, 3.0])
    scale = gt.sum(a * a)
    total = gt.sum(x)
    late = gt.max(a * total) + gt.max(a * scale)
    units = units_of(x * scale, late)
    kinds = [type(unit) for unit in units]
    assert kinds.count(FusedLoop) == 1
    assert kinds == [Registers, FusedLoop, Registers]


def test_a_view_outside_needs_no_memory(always):
    a = gt.asarray([1.0, 2.0, 3.0])
    squares = a * a
    large = gt.asarray(np.ones((500, 3))) * gt.reshape(squares, (1, 3))
    units = units_of(large)
    (unit,) = (unit for unit in units if isinstance(unit, Registers))
    assert [pick.shape for pick in unit.outputs] == [(3,)]
    expected, got, _ = both_ways(large)
    np.testing.assert_array_equal(expected[0], got[0])


def test_tiny_outputs_that_are_views_are_written():
    m = gt.stack([rotations(6), rotations(7)])
    expected, got, plan = both_ways(gt.matrix_transpose(m), m[1], gt.reshape(m, (6,)), m)
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    # Nothing is copied outside the routine.
    assert len(plan.lowered.items) == 1


def test_a_long_routine_is_cut(always, monkeypatch):
    monkeypatch.setattr(routines, "LONGEST_ROUTINE", 200)
    found = outlined(rotations(8))
    assert len(routines_in(found)) > 3
    expected, got, _ = both_ways(rotations(8))
    np.testing.assert_allclose(expected[0], got[0], rtol=1e-12)


def test_an_op_with_several_results(always):
    a, b, c = gt.split(gt.asarray(np.arange(6.0)), 3)
    expected, got, plan = both_ways(gt.stack([c * a, b + a]), a * 2.0)
    for x, y in zip(expected, got, strict=True):
        np.testing.assert_array_equal(x, y)
    assert not any(isinstance(unit, Call) for unit in plan.lowered.fused.units)


def test_known_positions_are_followed_and_others_are_not(always):
    x = leaf(0, spec((4,), np.dtype("float64"))) * 2.0
    known = apply(ARANGE, (), (3, -1, -1, np.dtype("int64")))
    given = leaf(1, spec((4,), np.dtype("int64")))
    values = np.array([3.0, 5.0, 7.0, 9.0])
    for indices, inside in ((known, True), (given, False)):
        found = optimize(program([apply(GATHER, (x, indices), (0,)) + 1.0]))
        plan = CompiledPlan(found)
        (content,) = plan.run([values, np.array([3, 2, 1, 0])][: len(found.inputs)])
        np.testing.assert_array_equal(
            Value(content, found.outputs[0].spec).array, 19 - np.arange(0, 16, 4)
        )
        assert any(isinstance(unit, FusedLoop) for unit in plan.lowered.fused.units) is not inside


def test_tables_are_literals_and_literals_are_folded(always):
    x = leaf(0, spec((3,), np.dtype("float64")))
    mask = equal(apply(ARANGE, (), (0, 3, 1, np.dtype("int64"))), 1)
    found = optimize(program([where(mask, x * x, constant(0, x.spec))]))
    plan = CompiledPlan(found)
    (content,) = plan.run([np.array([3.0, 5.0, 7.0])])
    np.testing.assert_array_equal(Value(content, x.spec).array, [0.0, 25.0, 0.0])
    (item,) = plan.lowered.items
    steps = [type(step) for step in item.lowered.kernel.steps if step is not None]
    # The zero, the element that is selected, and its square.
    assert sorted(each.__name__ for each in steps) == ["Apply", "Literal", "Load"]


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_keep_their_signs(always, zero):
    x = gt.asarray([-0.0, 0.0, 1.0])
    y = gt.stack([x[0] + zero, x[0] - zero, x[1] - zero, x[0] * 1.0, -x[1]])
    y = gt.concat([y, x + gt.full((3,), zero), x - gt.full((3,), zero)], axis=0)
    expected, got, _ = both_ways(y)
    np.testing.assert_array_equal(np.signbit(expected[0]), np.signbit(got[0]))


@pytest.mark.parametrize("shapes", [((2, 0), (0, 3)), ((0,), (0,)), ((2, 0), (0,)), ((0,), (0, 2))])
def test_sums_of_no_products_are_zeros(always, shapes):
    a, b = (gt.asarray(np.ones(shape)) for shape in shapes)
    expected, got, _ = both_ways((a * 2.0) @ (b + 1.0) + 3.0)
    np.testing.assert_array_equal(expected[0], got[0])


def test_templates_are_shared_by_nodes_of_one_spec():
    x, y = gt.asarray([1.0, 2.0, 3.0]), gt.asarray([4.0, 5.0, 6.0])
    nodes = optimize(gt.program_of(x * y, y * x * x)).nodes
    first, second, *_ = [template_of(node, fusible) for node in nodes]
    assert first is second
    assert len(first.steps) == 3


def test_a_reduction_is_one_step_for_each_result():
    x = gt.asarray(np.ones((4, 3)))
    (node,) = optimize(gt.program_of(gt.sum(x, axis=0))).nodes
    found = template_of(node, fusible)
    assert [type(step) for step in found.steps] == [Combine] * 3
    assert [len(step.arguments) for step in found.steps] == [4] * 3


def test_bodies_of_loops_have_routines_sooner():
    def step(carry, x):
        y = gt.sum(carry * carry) + carry[0]
        return gt.stack([carry[1], y * 0.1]), y

    start, xs = gt.asarray([0.1, 0.2]), gt.asarray(np.ones(20))
    expected, got, plan = both_ways(*gt.scan(step, start, xs))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    (native,) = plan.lowered.natives.values()
    # One instruction in a step.
    (body,), _ = native.kept
    assert body.stream.count == 1


def test_a_template_belongs_to_what_is_lowered():
    x = gt.asarray(0.25)
    (node,) = optimize(gt.program_of(gt.sin(x))).nodes
    assert template_of(node, lambda node: False) is None
    assert template_of(node, fusible) is not None
