"""Random programs on tiny arrays as register code, against NumPy; GRADTAPE_FUZZ sets how many."""

import math

import numpy as np
import pytest
from tests.compiler.random_programs import RandomProgram
from tests.compiler.test_differential import (
    BATCHES,
    PROGRAMS,
    Case,
    compare,
    differing_bits,
    explained,
    same_types,
)

import gradtape as gt
from gradtape.compiler.emit import builder
from gradtape.compiler.passes import routines
from gradtape.compiler.passes.units import Registers
from gradtape.errors import DtypeError
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.recording import Recording, state


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Routines, however little they save."""
    monkeypatch.setattr(routines, "LEAST_SAVED_BY_ROUTINE", 0.0)
    monkeypatch.setattr(routines._Routine, "saves", lambda self, loops: math.inf)


class TinyProgram(RandomProgram):
    """A random program of many ops on arrays of a few elements."""

    def __init__(self, seed, kind):
        super().__init__(seed, kind)
        self.large = False

    def shape(self):
        rank = int(self.rng.integers(0, 4))
        return tuple(int(n) for n in self.rng.choice((1, 2, 3, 4), rank, p=(0.2, 0.2, 0.5, 0.1)))

    def apply(self, inputs):
        pool = list(inputs)
        for _ in range(int(self.rng.integers(8, 40))):
            x = self.choose(pool)
            if x.size > 40:
                continue
            try:
                new = self.step(x, pool)
            except DtypeError:
                continue
            if new is not None:
                pool.append(new)
        return pool

    def product(self, x):
        if x.ndim and x.shape[-1] == 3 and x.dtype.kind in "iuf" and self.chance(0.6):
            return gt.linalg.cross(x, gt.flip(x, axis=-1) + x)
        return super().product(x)


def outputs_of(number, kind):
    """Some values of a random program, the last one included."""
    state.recording = Recording()
    made = TinyProgram(number, kind)
    pool = made.apply([gt.asarray(array) for array in made.inputs()])
    return [pool[-1], pool[len(pool) // 2], pool[-2]]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_exact_ops_agree_to_the_bit(batch, monkeypatch):
    monkeypatch.setattr(builder, "CONTRACT", "off")
    for number in range(batch, PROGRAMS, BATCHES):
        case = Case(outputs_of(number, "exact"), number)
        expected, got = case.run(NumpyPlan), case.run(CompiledPlan)
        same_types(expected, got, number)
        for position, (a, b) in enumerate(zip(expected, got, strict=True)):
            wrong = differing_bits(a, b)
            assert not wrong.any(), explained(number, position, case, a, b, wrong)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_registers_agree_within_the_spread(batch):
    for number in range(batch, PROGRAMS // 4, BATCHES):
        case = Case(outputs_of(number, "any"), number)
        compare(case, case.run(NumpyPlan), [case.run(CompiledPlan)], number)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_gradients_agree_within_the_spread(batch):
    for number in range(batch, PROGRAMS // 4, BATCHES):
        state.recording = Recording()
        made = TinyProgram(number, "smooth")
        sources = [gt.asarray(array) for array in made.inputs()]
        with gt.GradientTape() as tape:
            tape.watch(sources)
            pool = [x for x in made.apply(sources) if x.dtype.kind in "fc"]
            target = gt.sum(gt.real(pool[-1])) + gt.sum(gt.sin(gt.real(pool[len(pool) // 2])))
        found = tape.gradient(target, sources, unconnected_gradients="zero")
        case = Case([gt.asarray(g) for g in found], number)
        compare(case, case.run(NumpyPlan), [case.run(CompiledPlan)], number, each_use=True)


def test_most_of_such_programs_is_register_code():
    inside = outside = 0
    for number in range(40):
        plan = CompiledPlan(Case(outputs_of(number, "any"), number).program)
        for unit in plan.lowered.fused.units:
            if isinstance(unit, Registers):
                inside += len(unit.routine.params[0].nodes)
            else:
                outside += 1
    assert inside > 4 * outside


def test_numpy_may_compute_a_routine():
    case = Case(outputs_of(3, "any"), 3)
    outlined = routines.with_routines(case.program, lambda node: node.op.llvm is not None)
    expected = NumpyPlan(case.program).run(list(case.inputs))
    got = NumpyPlan(outlined).run(list(case.inputs))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
