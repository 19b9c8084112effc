"""Ways to look at what the compiled tier makes of tensors."""

import numpy as np
import pytest

from gradtape.compiler.lower import llvm_effort as efforts
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.passes import loops_of, optimize
from gradtape.compiler.passes.units import Call
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.tensor.tensor import program_of
from gradtape.trace.recording import state
from gradtape.trace.value import Value


@pytest.fixture(autouse=True)
def optimised(monkeypatch):
    """Compile for speed however few points there are: tests have small arrays, users large ones."""
    monkeypatch.setattr(efforts, "FEW_LOOP_POINTS", 0)
    monkeypatch.setattr(efforts, "SOME_LOOP_POINTS", 0)


@pytest.fixture
def both_ways():
    """A function that gives, per tensor, what NumPy and what compiled kernels make of it."""

    def run(*outputs):
        found = optimize(program_of(*outputs))
        values = [state.recording.leaves[node.params[0]] for node in found.inputs]
        expected = NumpyPlan(found).run(values)
        plan = CompiledPlan(found)
        plan.run(values)
        results = plan.run(values)
        return [
            (np.asarray(want), Value(got, node.spec).array)
            for want, got, node in zip(expected, results, found.outputs, strict=True)
        ]

    return run


@pytest.fixture
def library_calls():
    """A function that gives the names of the ops that would run as library calls."""

    def find(*outputs):
        _, fused = loops_of(optimize(program_of(*outputs)), fusible)
        return [unit.node.op.name for unit in fused.units if isinstance(unit, Call)]

    return find
