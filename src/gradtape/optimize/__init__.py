"""Program to program: passes that make a program smaller without changing what it computes."""

from __future__ import annotations

from collections.abc import Callable

from gradtape.graph.program import Program
from gradtape.optimize.common_subexpressions import share
from gradtape.optimize.fast_math import relax
from gradtape.optimize.merge_loops import subsume
from gradtape.optimize.simplify import simplify
from gradtape.optimize.transposed_operands import turn
from gradtape.optimize.trim_loops import trim

# Every pass, in the order they run. Pruning is no pass: a program is built from its outputs.
PASSES: tuple[Callable[[Program], Program], ...] = (
    share,
    simplify,
    share,
    subsume,
    trim,
    share,
    turn,
)


def optimize(program: Program, fast: bool = False) -> Program:
    """Run all passes; with `fast` also what changes the last bits."""
    for step in PASSES:
        program = step(program)
    return share(relax(program)) if fast else program
