"""When a program is compiled: by the call that makes NumPy's time on it reach the cost of that.

Nothing tells how often a program will run. NumPy runs it until that has taken as long as compiling
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

from gradtape.compiler.lower.effort import Effort, effort_for
from gradtape.compiler.objects import known_programs
from gradtape.compiler.objects.emission import processors
from gradtape.compiler.passes.routine_op import cost_of
from gradtape.compiler.passes.units import Call, Fused, FusedLoop, Registers, inner_nodes
from gradtape.ir import Node, Program
from gradtape.ops.control.bodies import held
from gradtape.ops.control.while_loop import WHILE

if TYPE_CHECKING:
    from gradtape.runtime.tiers import TieredPlan

# Seconds on a machine on which `_fixed_work` takes `UNIT` (decision 0047). The costs of compiling:
# of a plan at least, of a kernel by effort, of an op, of the first matrix product of a dtype, and
# of the first call of a routine, such as a sort (5 to 80 ms were measured).
PLAN, OP, PRODUCT, ROUTINE = 6e-3, 6e-5, 1.2e-2, 2e-2
KERNEL = {Effort.QUICK: 2e-3, Effort.PLAIN: 1.5e-2, Effort.FULL: 2.5e-2}
# A scalar step of a routine (decision 0049).
STEP = 8e-6
# The costs of loading them: of a plan, and of a kernel.
LOADED_PLAN, LOADED_KERNEL = 5e-3, 8e-4
# Once for the process: its modules, LLVM's library, the interpreter of plans; of these, what is
# left if machine code is on disk.
ONCE, LOADED_ONCE = 3.2e-2, 2.6e-2
UNIT = 5.2e-5
# Rent, as a part of the cost, after which a program is compiled. With 1 the time spent is at most
# twice what was needed, wherever the program ends; a little less serves those that go on. A
# program that an earlier process has compiled ran for long there, and is expected to do so again.
RENT, KNOWN_RENT = 0.85, 0.03
# NumPy's time for an op, and for an element of its result.
CALL, ELEMENT = 1.2e-6, 1e-9
# NumPy's overhead for an op in the body of a loop, in elements.
STEP_ELEMENTS = 1000

_OP, _SPEC = attrgetter("op"), attrgetter("spec")


class CompilePolicy:
    """What the decisions of this process rest on. Tests replace the clock by one that counts."""

    # Seconds, as a function without arguments.
    clock = staticmethod(time.perf_counter)
    # NumPy's time on programs that ran more than once.
    repeated = 0.0
    # Whether the compiler is loaded.
    loaded = False
    # How long compiling takes here, in units of what the constants above say; measured when it is
    # first needed.
    scale: float | None = None


class Outline:
    """What NumPy has cost so far on programs of one outline."""

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
# Then they are forgotten: an estimate is too high for a while.
_MOST_SIGNATURES = 1 << 14


def least_cost(program: Program) -> float:
    """What compiling or loading a program takes at least, found without looking at its nodes."""
    return LOADED_PLAN + LOADED_KERNEL + OP * len(program.nodes) / 2


def cost(fused: Fused) -> float:
    """What compiling the loops and calls of a program takes, without loops compiled before."""
    fresh: dict[_Signature, float] = {}
    ops = 0
    for unit in fused.units:
        if isinstance(unit, Call):
            bodies = held(unit.node) if unit.node.op.runs_bodies else ()
            ops += 1 + sum(len(body.nodes) for body in bodies)
            # A body is a loop or two, as a rule.
            for body in bodies:
                fresh[unit.node.op, *map(_OP, body.nodes)] = KERNEL[Effort.FULL]
            if unit.node.op.contracts:
                fresh[_called(unit)] = PRODUCT
            elif unit.node.op.native is not None:
                fresh[_called(unit)] = ROUTINE
        else:
            ops += len(inner_nodes(unit))
            fresh[_signature(unit)] = _price(unit)
    prices = [price for loop, price in fresh.items() if loop not in _compiled]
    # Modules are compiled together, on all processors.
    together = max(max(prices, default=0.0), sum(prices) / processors())
    return PLAN + OP * ops + together


def _price(unit: FusedLoop | Registers) -> float:
    """What the kernel of a loop or routine costs."""
    if isinstance(unit, Registers):
        return KERNEL[Effort.QUICK] + STEP * cost_of(unit.routine)
    return KERNEL[effort_for(math.prod(unit.space))]


def note_compiled(fused: Fused) -> None:
    """Note that the loops of a program are compiled."""
    if len(_compiled) > _MOST_SIGNATURES:
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


def pays(spent: float, expected: float, once: float = ONCE, rent: float = RENT) -> bool:
    """Whether to compile what costs so much after so much was spent, of which some was repeated."""
    spent /= rent
    # The scale is at least LEAST, and takes time to measure.
    if spent < LEAST * expected or spent < scale() * expected:
        return False
    return CompilePolicy.loaded or max(CompilePolicy.repeated / rent, spent) >= scale() * (
        expected + once
    )


LEAST, MOST = 0.25, 4.0


def scale() -> float:
    """How long compiling takes here, in units of what the constants say."""
    if CompilePolicy.scale is None:
        found = min(_fixed_work() for _ in range(3)) / UNIT
        CompilePolicy.scale = min(max(found, LEAST), MOST)
    return CompilePolicy.scale


def _fixed_work() -> float:
    """The seconds of some Python code that is always the same."""
    begin, found = CompilePolicy.clock(), {}
    for number in range(400):
        found[number] = (number, str(number))
    return CompilePolicy.clock() - begin


def calibrate(expected: float, took: float) -> None:
    """Learn from a compilation how fast this machine is."""
    if expected > 0 and took > 0:
        ratio = min(max(took / (expected * scale()), LEAST), MOST)
        CompilePolicy.scale = min(max(scale() * ratio**0.25, LEAST), MOST)


def run_in_numpy(program: Program, elements: int) -> float:
    """The seconds that NumPy is expected to take for a run. Nothing tells the length of a while."""
    if any(op is WHILE for op in set(map(_OP, program.nodes))):
        return math.inf
    return CALL * len(program.nodes) + ELEMENT * elements


def work(program: Program) -> int:
    """A rough count of the element-ops of a program."""
    # A long program has few ops and specs: each of them is looked at once.
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
        return steps * sum(work(body) + STEP_ELEMENTS * len(body.nodes) for body in bodies)
    if node.op.reduces and type(node.spec) is not tuple:
        return node.inputs[0].size
    return _size(node.spec)
