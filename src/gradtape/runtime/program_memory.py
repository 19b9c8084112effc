"""Footprint: the memory that running a program takes, known before it runs or is compiled."""

from __future__ import annotations

from gradtape.compiler.lower.arena import stored_bytes
from gradtape.compiler.passes import optimize
from gradtape.ir.program import Program
from gradtape.runtime import tiers
from gradtape.runtime.numpy_plan import last_uses


def total_bytes(program: Program) -> int:
    """Bytes of all results that are no views together: more than any plan ever holds."""
    return sum(stored_bytes(node) for node in program.nodes)


def intermediate_bytes(program: Program) -> int:
    """Bytes that a plan holds at most, beside its inputs and outputs."""
    program = optimize(program)
    if tiers.MODE == "off":
        return _in_numpy(program)
    if tiers.is_compiled_at_first(program):
        return _compiled(program)
    # The program runs in NumPy at first, where nothing is fused.
    return max(_in_numpy(program), _compiled(program))


def _in_numpy(program: Program) -> int:
    last = last_uses(program)
    live = most = 0
    dying: dict[int, int] = {}
    for position, node in enumerate(program.nodes):
        if last[node] < len(program.nodes):
            live += stored_bytes(node)
            dying[last[node]] = dying.get(last[node], 0) + stored_bytes(node)
        most = max(most, live)
        live -= dying.pop(position, 0)
    return most


def _compiled(program: Program) -> int:
    # Imported here because it loads the compiler.
    from gradtape.compiler.lower.lowered_program import intermediate_bytes

    return intermediate_bytes(program)
