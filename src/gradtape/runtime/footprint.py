"""Footprint: what running a program takes in memory, known before it runs or is compiled."""

from __future__ import annotations

from gradtape.graph.node import Node, constant_value
from gradtape.graph.program import Program
from gradtape.optimize import loops_of, optimize
from gradtape.optimize.fuse import Call, Loop
from gradtape.runtime import tiers
from gradtape.runtime.numpy_plan import last_uses
from gradtape.runtime.storage import Arena


def total_bytes(program: Program) -> int:
    """What all results together take that are no views: more than any plan ever holds."""
    return sum(_bytes(node) for node in program.nodes)


def intermediate_bytes(program: Program) -> int:
    """What a plan holds at most, beside its inputs and outputs."""
    program = optimize(program)
    if tiers.MODE == "off":
        return _in_numpy(program)
    if tiers.MODE == "always" or tiers.work(program) >= tiers.WORTH_COMPILING:
        return _compiled(program)
    # It may run in NumPy at first, where nothing is fused.
    return max(_in_numpy(program), _compiled(program))


def _bytes(node: Node) -> int:
    if type(node.spec) is tuple:
        return sum(of.nbytes for of in node.spec)
    return 0 if node.op.view or constant_value(node) is not None else node.spec.nbytes


def _in_numpy(program: Program) -> int:
    last = last_uses(program)
    live = most = 0
    dying: dict[int, int] = {}
    for position, node in enumerate(program.nodes):
        if last[node] < len(program.nodes):
            live += _bytes(node)
            dying[last[node]] = dying.get(last[node], 0) + _bytes(node)
        most = max(most, live)
        live -= dying.pop(position, 0)
    return most


def _compiled(program: Program) -> int:
    from gradtape.codegen.kernels.lower import fusible
    from gradtape.runtime.compiled_plan import is_product, last_reads
    from gradtape.runtime.output_places import find_results

    program, fused = loops_of(program, fusible)
    results = find_results(program, fused, is_product)
    elsewhere = {*results.written, *results.parts}
    last = last_reads(program, fused)
    arena, called = Arena(), 0
    for index, unit in enumerate(fused.units):
        made = unit.outputs if isinstance(unit, Loop) else [unit.node]
        for node in made:
            if node in elsewhere:
                continue
            if isinstance(unit, Call) and not is_product(node):
                # What library calls return lives as long as the run.
                called += _bytes(node)
            else:
                arena.take(node, node.spec.nbytes)
        arena.release(node for node, at in last.items() if at == index)
    return arena.size + called
