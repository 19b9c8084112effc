"""Every op's samples as register code, against NumPy's kernel."""

import math

import numpy as np
import pytest
from tests.compiler.test_ops_compiled import EXACT, node_at
from tests.ops.cases import at_samples

from gradtape.compiler.lower import native_stretches
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.lower.llvm_effort import Effort
from gradtape.compiler.passes import optimize, routines
from gradtape.compiler.passes.scalar_steps import template_of
from gradtape.compiler.passes.units import Registers
from gradtape.ir.program import program
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.value import Value


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Routines, however little they save."""
    monkeypatch.setattr(routines, "LEAST_SAVED_BY_ROUTINE", 0.0)
    monkeypatch.setattr(routines._Routine, "saves", lambda self, loops: math.inf)


@at_samples(lambda case: True)
def test_registers_equal_numpy(cases, monkeypatch):
    for op, sample in ((case.op, case.sample) for case in cases):
        node = node_at(op, sample)
        if type(node.spec) is tuple or template_of(node, fusible) is None:
            continue
        found = optimize(program([node]))
        values = [Value(np.array(sample.inputs[n.params[0]]), n.spec) for n in found.inputs]
        (expected,) = NumpyPlan(found).run(values)
        exact = op.name in EXACT and not any(n.dtype.kind == "c" for n in found.inputs)
        for effort in Effort:
            monkeypatch.setattr(
                native_stretches, "effort_for", lambda points, effort=effort: effort
            )
            plan = CompiledPlan(found)
            (content,) = plan.run(values)
            got = Value(content, node.spec).array
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape
            if expected.dtype.kind in "fc" and not exact:
                eps = np.finfo(expected.dtype).eps
                np.testing.assert_allclose(got, expected, rtol=64 * eps, atol=64 * eps)
            else:
                np.testing.assert_array_equal(got, expected)
            # Not if the passes have made a view or a constant of it.
            if any(each.op.view is None and not each.op.constant for each in found.nodes):
                assert any(isinstance(unit, Registers) for unit in plan.lowered.fused.units)
