"""Native instructions of a node run one by one, and programs of nodes with their library calls."""

import ctypes
import itertools

import numpy as np
import pytest

from gradtape.codegen import llvm
from gradtape.codegen.kernels.lower import fusible
from gradtape.codegen.llvm import compile_ir
from gradtape.graph.node import PICK, apply, outputs, placeholder
from gradtape.graph.program import program
from gradtape.graph.spec import spec
from gradtape.optimize import loops_of, optimize
from gradtape.optimize.fuse import Call
from gradtape.recording.value import Value
from gradtape.runtime import native_matrices
from gradtape.runtime.compiled_plan import CompiledPlan

KERNELS = {}
KINDS = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def node_of(op, *arrays):
    return apply(op, tuple(placeholder(spec(x.shape, x.dtype)) for x in arrays))


def compiled_once(module, lanes):
    if (module, lanes) not in KERNELS:
        KERNELS[module, lanes] = compile_ir(module(lanes))
    return KERNELS[module, lanes]


def run(native, op, arrays, bits, parts=1):
    """The results of the instructions of a plan, run with vectors of so many bits.

    Each parallel instruction runs in so many parts, the last one first: they must not depend on
    one another.
    """
    node = node_of(op, *arrays)
    results = [
        np.full(one.shape, np.nan if one.dtype.kind == "f" else -1, one.dtype) for one in node.spec
    ]
    buffers = [*(np.ascontiguousarray(x) for x in arrays), *results]
    places = {number: (number + len(arrays), 0) for number in range(len(results))}

    def take(nbytes):
        # NaN everywhere, so that nothing is read before it is written.
        buffers.append(np.full(nbytes + 128, 255, np.uint8))
        address = buffers[-1].ctypes.data
        return len(buffers) - 1, -address % 64

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_matrices, "_compiled", compiled_once)
        patch.setattr(llvm, "host", lambda: type("Host", (), {"bits": bits}))
        operands = [(number, 0) for number in range(len(arrays))]
        made = native(node).instructions(operands, places, take)
    slots = (ctypes.c_void_p * len(buffers))(*(each.ctypes.data for each in buffers))
    for each in (prepared.instruction for prepared in made):
        words = (ctypes.c_int64 * len(each.arguments))(*each.arguments)
        function = ctypes.CFUNCTYPE(None, *KINDS)(each.function)
        units = -(-each.total // each.grain)
        # A short instruction has no parts only because that costs more than it brings.
        cuts = parts if each.total > 1 else 1
        bounds = [min(units * cut // cuts * each.grain, each.total) for cut in range(cuts + 1)]
        for low, high in reversed(list(itertools.pairwise(bounds))):
            function(ctypes.addressof(slots), ctypes.addressof(words), low, high, 0)
    return results


def plan_of(op, arrays, wanted):
    """A compiled plan with some results of a node."""
    found = outputs(node_of(op, *arrays))
    return CompiledPlan(program(tuple(found[number] for number in wanted)))


def plan_results(plan, *arrays):
    results = zip(plan.run(list(arrays)), plan.program.outputs, strict=True)
    return [Value(content, node.spec).array for content, node in results]


def library_calls(x, f):
    """The names of the library calls of a program of one matrix, and its results.

    The program is written with nodes: on tensors these ops would run on their own lines.
    """
    written = optimize(program(f(placeholder(spec(x.shape, x.dtype)))))
    _, fused = loops_of(written, fusible)
    calls = [unit.node.op for unit in fused.units if isinstance(unit, Call)]
    results = plan_results(CompiledPlan(written), x)
    return sorted(op.name for op in calls if op is not PICK), results
