"""Program to program: passes that make a program smaller without changing what it computes.

Other packages import:

- `optimize`: all passes, on any program; `optimized`: unless they have run
- `for_loops`, `loops_of`: a program as loops, routines and library calls
- routines: tiny ops gathered into routines
- units: Loop, Call, Registers and Fused, the loops, calls and routines themselves
- fuse: nodes as these units
- scalar_steps, routine_op: the contents of routines
- resize: known loops for a program that differs in its sizes alone
"""

from __future__ import annotations

from collections.abc import Callable

from gradtape.compiler.passes.add_parts import add_parts
from gradtape.compiler.passes.compositions import expand_compositions, split_reductions
from gradtape.compiler.passes.factor_loops import factor_loops
from gradtape.compiler.passes.fuse import fuse
from gradtape.compiler.passes.join_parts import join_parts
from gradtape.compiler.passes.merge_loops import merge_loops
from gradtape.compiler.passes.routines import with_routines
from gradtape.compiler.passes.scatter_add_in_place import add_rows
from gradtape.compiler.passes.simplify import relax_rounding, share_subexpressions, simplify
from gradtape.compiler.passes.transposed_operands import delay_transposes
from gradtape.compiler.passes.trim_loops import trim_loops
from gradtape.compiler.passes.units import Fused
from gradtape.ir import Fact, Node, Program, closed, of_structure
from gradtape.ir.walk import count_visits


def trim(program: Program) -> Program:
    """`trim_loops`, where bodies are optimised by all passes in turn."""
    return trim_loops(program, _optimized_body)


# Every pass, in the order they run. No pass prunes: a program is built from its outputs.
PASSES: tuple[Callable[[Program], Program], ...] = (
    share_subexpressions,
    simplify,
    share_subexpressions,
    merge_loops,
    trim,
    share_subexpressions,
    delay_transposes,
)


def optimize(program: Program, fast: bool = False) -> Program:
    """Run all passes; with `fast` also the one that changes the last bits."""
    shared = None
    for run in PASSES:
        # A pass that changes nothing gives the program itself: nothing new can be shared then.
        if run is share_subexpressions and program is shared:
            continue
        count_visits(len(program.nodes))
        program = run(program)
        if run is share_subexpressions:
            shared = program
    if fast:
        program = share_subexpressions(relax_rounding(program))
    program.derived[_passed(fast)] = True
    return program


def optimized(program: Program, fast: bool = False) -> Program:
    """The program itself if all passes have run, or what they make of it."""
    return program if _passed(fast) in program.derived else optimize(program, fast)


def _passed(fast: bool) -> Fact:
    return Fact("all passes have run", (), (), (fast,))


def _optimized_body(body: Program) -> Program:
    """A body after all passes, remembered with it."""
    key = of_structure("optimized")

    def derive() -> Program:
        small = optimize(body)
        found = closed(small.inputs, small.outputs)
        found.derived[key] = found
        return found

    return body.derived.once(key, derive)


def for_loops(program: Program) -> Program:
    """An optimised program in the ops that the compiler makes loops of."""
    expanded = expand_compositions(factor_loops(program, _optimized_body))
    if expanded is not program:
        # The parts of a composition may stand in the program already, such as a mean; and two
        # loops may need the factors of one matrix.
        expanded = share_subexpressions(expanded)
    return split_reductions(join_parts(add_parts(add_rows(expanded))))


def loops_of(
    program: Program, fusible: Callable[[Node], bool], sizes_vary: bool = False
) -> tuple[Program, Fused]:
    """An optimised program as loops, routines and library calls, and what these compute.

    Programs whose sizes vary get no routines: these serve one size.
    """
    if not sizes_vary:
        program = with_routines(program, fusible)
    program = for_loops(program)
    return program, fuse(program, fusible)
