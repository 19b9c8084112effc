"""When a program is compiled: by the call that makes NumPy's time on it reach the cost of that.

How often a program will run is unknown. NumPy runs it until that has taken as long as compiling
is expected to take, and then the call compiles it (the problem of renting or buying skis). So at
any moment the time spent is at most about twice that of the better of "never" and "at once". If one
run in NumPy is expected to take longer than compiling, the first call compiles.

Rent is counted for an outline: programs that differ in sizes share kernels. What the process does
once (loading the compiler, the code of the interpreter) is weighed against NumPy's time on all
programs that ran more than once. Programs that an earlier process has compiled are loaded soon.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gradtape.compiler.lower.llvm_effort import Effort, effort_for
from gradtape.compiler.machine_limits import processors
from gradtape.compiler.objects import known_programs
from gradtape.compiler.passes.routine_op import cost_of
from gradtape.compiler.passes.units import Call, Fused, FusedLoop, Registers, inner_nodes
from gradtape.config import (
    COMPILE_RENT,
    FIRST_PLAN_COST,
    FIXED_WORK_TIME,
    KERNEL_COSTS,
    LEAST_MACHINE_SCALE,
    LOADED_KERNEL_COST,
    LOADED_PLAN_COST,
    LOOP_OP_ELEMENTS,
    MOST_MACHINE_SCALE,
    NUMPY_ELEMENT_TIME,
    NUMPY_OP_TIME,
    OP_COST,
    PLAN_COST,
    PRODUCT_COST,
    REMEMBERED_COMPILED_LOOPS,
    ROUTINE_COST,
    SCALAR_STEP_COST,
)
from gradtape.ir import Node, Program
from gradtape.ops.control.bodies import held
from gradtape.ops.control.while_loop import WHILE

if TYPE_CHECKING:
    from gradtape.runtime.tiers import TieredPlan


_OP, _SPEC = attrgetter("op"), attrgetter("spec")


class CompilePolicy:
    """The measurements behind decisions of this process. Tests replace the clock by a counter."""

    # Seconds, as a function without arguments.
    clock = staticmethod(time.perf_counter)
    # NumPy's time on programs that ran more than once.
    repeated = 0.0
    # Whether the compiler is loaded.
    loaded = False
    # The compile times of this machine, relative to the constants above; measured when it is
    # first needed.
    scale: float | None = None


class Outline:
    """The time that NumPy has spent so far on programs of one outline."""

    __slots__ = ("_known", "_structure", "model", "runs", "spent")

    def __init__(self, structure: object = None) -> None:
        self.runs = 0
        self.spent = 0.0
        # A compiled plan of this outline, and its sizes: the model of plans of other sizes.
        self.model: tuple[TieredPlan, tuple[int, ...]] | None = None
        self._structure = structure
        self._known: bool | None = None

    def has_other_sizes(self, sizes: tuple[int, ...]) -> bool:
        """Whether a program of this outline was compiled at other sizes."""
        return self.model is not None and self.model[1] != sizes

    def is_known(self) -> bool:
        """Whether an earlier process has compiled a program of this outline."""
        if self._known is None:
            may_be = self._structure is not None and known_programs.has_any()
            self._known = may_be and known_programs.is_known(self._number())
        return self._known

    def note_compiled(self) -> None:
        """Note for later processes that machine code is on disk."""
        if self._structure is not None and not self._known and known_programs.cache_folder():
            known_programs.note(self._number())
        self._structure = None

    def _number(self) -> int:
        return known_programs.number_of(repr(self._structure))

    def pay(self, seconds: float) -> None:
        """Note a run in NumPy."""
        if self.runs:
            CompilePolicy.repeated += seconds
            if self.runs == 1:
                CompilePolicy.repeated += self.spent
        self.runs += 1
        self.spent += seconds


# The ops of loops that were compiled, with the price of their kernels, and products.
_Signature = tuple[object, ...]
_compiled: set[_Signature] = set()


def least_cost(program: Program) -> float:
    """A lower bound of the time to compile or load a program, from its number of nodes."""
    return LOADED_PLAN_COST + LOADED_KERNEL_COST + OP_COST * len(program.nodes) / 2


def cost(fused: Fused) -> float:
    """The time to compile the loops and calls of a program, without loops compiled before."""
    fresh: dict[_Signature, float] = {}
    ops = 0
    for unit in fused.units:
        if isinstance(unit, Call):
            bodies = held(unit.node) if unit.node.op.runs_bodies else ()
            ops += 1 + sum(len(body.nodes) for body in bodies)
            # A body is a loop or two, as a rule.
            for body in bodies:
                fresh[unit.node.op, *map(_OP, body.nodes)] = KERNEL_COSTS[Effort.FULL]
            if unit.node.op.contracts:
                fresh[_called(unit)] = PRODUCT_COST
            elif unit.node.op.native is not None:
                fresh[_called(unit)] = ROUTINE_COST
        else:
            ops += len(inner_nodes(unit))
            fresh[_signature(unit)] = _price(unit)
    prices = [price for loop, price in fresh.items() if loop not in _compiled]
    # Modules are compiled together, on all processors.
    together = max(max(prices, default=0.0), sum(prices) / processors())
    return PLAN_COST + OP_COST * ops + together


def _price(unit: FusedLoop | Registers) -> float:
    """The cost of the kernel of a loop or routine."""
    if isinstance(unit, Registers):
        return KERNEL_COSTS[Effort.QUICK] + SCALAR_STEP_COST * cost_of(unit.routine)
    return KERNEL_COSTS[effort_for(math.prod(unit.space))]


def note_compiled(fused: Fused) -> None:
    """Note that the loops of a program are compiled."""
    if len(_compiled) > REMEMBERED_COMPILED_LOOPS:
        _compiled.clear()
    for unit in fused.units:
        if not isinstance(unit, Call):
            _compiled.add(_signature(unit))
        elif unit.node.op.contracts or unit.node.op.native is not None:
            _compiled.add(_called(unit))


def _signature(unit: FusedLoop | Registers) -> _Signature:
    return (_price(unit), *map(_OP, inner_nodes(unit)))


def _called(call: Call) -> _Signature:
    return call.node.op, call.node.spec if type(call.node.spec) is tuple else call.node.dtype


def pays(
    spent: float, expected: float, once: float = FIRST_PLAN_COST, rent: float = COMPILE_RENT
) -> bool:
    """Whether to compile at the `expected` cost, after `spent` seconds in NumPy."""
    spent /= rent
    # The scale is at least LEAST, and takes time to measure.
    if spent < LEAST_MACHINE_SCALE * expected or spent < scale() * expected:
        return False
    return CompilePolicy.loaded or max(CompilePolicy.repeated / rent, spent) >= scale() * (
        expected + once
    )


def scale() -> float:
    """The speed of this machine: its compile times relative to the constants."""
    if CompilePolicy.scale is None:
        found = min(_fixed_work() for _ in range(3)) / FIXED_WORK_TIME
        CompilePolicy.scale = min(max(found, LEAST_MACHINE_SCALE), MOST_MACHINE_SCALE)
    return CompilePolicy.scale


def _fixed_work() -> float:
    """The seconds of some Python code that is always the same."""
    begin, found = CompilePolicy.clock(), {}
    for number in range(400):
        found[number] = (number, str(number))
    return CompilePolicy.clock() - begin


def calibrate(expected: float, took: float) -> None:
    """Correct the speed of this machine by the time of a compilation."""
    if expected > 0 and took > 0:
        ratio = min(max(took / (expected * scale()), LEAST_MACHINE_SCALE), MOST_MACHINE_SCALE)
        CompilePolicy.scale = min(
            max(scale() * ratio**0.25, LEAST_MACHINE_SCALE), MOST_MACHINE_SCALE
        )


def run_in_numpy(program: Program, elements: int) -> float:
    """The seconds that NumPy is expected to take for a run; infinite for while loops."""
    if any(op is WHILE for op in set(map(_OP, program.nodes))):
        return math.inf
    return NUMPY_OP_TIME * len(program.nodes) + NUMPY_ELEMENT_TIME * elements


def work(program: Program) -> int:
    """A rough count of the element-ops of a program."""
    # A long program has few ops and specs: each of them is read once.
    total = sum(times * _size(of) for of, times in Counter(map(_SPEC, program.nodes)).items())
    special = {op for op in set(map(_OP, program.nodes)) if op.runs_bodies or op.reduces}
    if special:
        nodes = [node for node in program.nodes if node.op in special]
        total += sum(_elements(node) - _size(node.spec) for node in nodes)
    return total


def _size(of: Any) -> int:
    return sum(each.size for each in of) if type(of) is tuple else of.size


def _elements(node: Node) -> int:
    if node.op.runs_bodies:
        steps: int = node.keywords.get("length", 1)
        bodies = held(node)
        return steps * sum(work(body) + LOOP_OP_ELEMENTS * len(body.nodes) for body in bodies)
    if node.op.reduces and type(node.spec) is not tuple:
        return node.inputs[0].size
    return _size(node.spec)
