"""When a program is compiled: by the call that makes NumPy's time on it reach the cost of that.

Nothing tells how often a program will run. NumPy runs it until that has taken as long as compiling
is expected to take, and then the call compiles it (the problem of renting or buying skis). So at
any moment the time spent is at most about twice that of the better of "never" and "at once". If one
run in NumPy is expected to take longer than compiling, the first call compiles.

Rent is counted for an outline: programs that differ in sizes share kernels. What the process does
once (loading the compiler, the code of threads and of products) is weighed against NumPy's time on
all programs that ran more than once.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gradtape.graph import Node, Op, Program
from gradtape.ops.control.bodies import held
from gradtape.ops.control.while_loop import WHILE
from gradtape.optimize.fuse import Call, Fused, Loop

if TYPE_CHECKING:
    from gradtape.runtime.tiers import TieredPlan

# Seconds, measured on a machine with AVX2 (decision 0046). The costs of compiling: of a plan at
# least, of a kernel, of an op in it, of a matrix product; and once for the process.
PLAN, KERNEL, OP, PRODUCT = 2e-3, 6e-3, 6e-5, 2e-4
ONCE = 5e-2
# NumPy's time for an op, and for an element of its result.
CALL, ELEMENT = 1.2e-6, 1e-9
# NumPy's overhead for an op in the body of a loop, in elements.
STEP_ELEMENTS = 1000

_OP, _SPEC = attrgetter("op"), attrgetter("spec")


class Policy:
    """What the decisions of this process rest on. Tests replace the clock by one that counts."""

    # Seconds, as a function without arguments.
    clock = staticmethod(time.perf_counter)
    # NumPy's time on programs that ran more than once.
    repeated = 0.0
    # Whether the compiler is loaded.
    loaded = False
    # How long compiling takes here, in units of what the constants above say.
    scale = 1.0


class Outline:
    """What NumPy has cost so far on programs of one outline."""

    __slots__ = ("model", "runs", "spent")

    def __init__(self) -> None:
        self.runs = 0
        self.spent = 0.0
        # A compiled plan of this outline, and its sizes: the model of plans of other sizes.
        self.model: tuple[TieredPlan, tuple[int, ...]] | None = None

    def pay(self, seconds: float) -> None:
        """Note a run in NumPy."""
        if self.runs:
            Policy.repeated += seconds
            if self.runs == 1:
                Policy.repeated += self.spent
        self.runs += 1
        self.spent += seconds


# The ops of loops that were compiled, each loop once.
Signature = tuple[Op, ...]
_compiled: set[Signature] = set()
# Then they are forgotten: an estimate is too high for a while.
_MOST_SIGNATURES = 1 << 14


def least_cost(program: Program) -> float:
    """What compiling a program takes at least, found without looking at its nodes."""
    return Policy.scale * (PLAN + OP * len(program.nodes) / 4)


def cost(fused: Fused) -> float:
    """What compiling the loops and calls of a program takes, without loops compiled before."""
    fresh: set[Signature] = set()
    ops = products = 0
    for unit in fused.units:
        if isinstance(unit, Call):
            bodies = held(unit.node) if unit.node.op.runs_bodies else ()
            ops += 1 + sum(len(body.nodes) for body in bodies)
            products += 1
            # A body is a loop or two, as a rule.
            fresh.update((unit.node.op, *map(_OP, body.nodes)) for body in bodies)
        else:
            ops += len(unit.nodes)
            fresh.add(_signature(unit))
    return Policy.scale * (PLAN + KERNEL * len(fresh - _compiled) + OP * ops + PRODUCT * products)


def note_compiled(fused: Fused) -> None:
    """Note that the loops of a program are compiled."""
    if len(_compiled) > _MOST_SIGNATURES:
        _compiled.clear()
    _compiled.update(_signature(unit) for unit in fused.units if not isinstance(unit, Call))


def _signature(loop: Loop) -> Signature:
    return tuple(map(_OP, loop.nodes))


def pays(spent: float, expected: float) -> bool:
    """Whether to compile what costs so much after so much was spent, of which some was repeated."""
    if spent < expected:
        return False
    return Policy.loaded or max(Policy.repeated, spent) >= expected + Policy.scale * ONCE


def calibrate(expected: float, took: float) -> None:
    """Learn from a compilation how fast this machine is."""
    if expected > 0 and took > 0:
        ratio = min(max(took / expected, 0.25), 4.0)
        Policy.scale = min(max(Policy.scale * ratio**0.25, 0.25), 4.0)


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
