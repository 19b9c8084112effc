"""Tiers: a plan runs in NumPy at first, and is compiled when that is likely to pay.

Compiling takes milliseconds, as long as NumPy needs for millions of elements. A program is compiled
at its second run, or at its first if it has so much work that NumPy would take longer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gradtape.codegen.llvm import host
from gradtape.graph import Node, Program, new_lock
from gradtape.ops.control.bodies import held
from gradtape.recording.value import Content
from gradtape.runtime.beyond_memory import memory
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.runtime.plan import BoundRun, Input, Layout
from gradtape.runtime.probe import PROBE

if TYPE_CHECKING:
    from gradtape.runtime.compiled_plan import CompiledPlan

# Element-ops past which compiling pays within one run: NumPy takes about as long for them.
WORTH_COMPILING = 30_000_000
# After so many programs that were compiled at their first run and never ran again, programs are
# compiled at their second run only.
SPECULATIONS = 16

# A program of more ops than this is compiled only after NumPy has run it for as long as compiling
# would take.
LONG_PROGRAM = 5000
COMPILE_SECONDS = 5e-5

MODE = os.environ.get("GRADTAPE_JIT", "auto")
if MODE not in ("off", "auto", "always"):
    raise ValueError(f"GRADTAPE_JIT={MODE!r} is unknown. Use off, auto or always.")

_lock = new_lock()
_speculations = {"wasted": 0}


class TieredPlan:
    """One program as a NumPy plan and, once that pays, as a compiled plan."""

    __slots__ = ("_compiled", "_fast", "_guessed", "_plain", "_runs", "_spent", "program")

    def __init__(self, program: Program, fast: bool = False) -> None:
        self.program = program
        self._fast = fast
        self._plain: NumpyPlan | None = None
        self._compiled: CompiledPlan | None = None
        self._runs = 0
        self._guessed = False
        # Seconds that NumPy has spent on it so far.
        self._spent = 0.0

    def run(self, inputs: Sequence[Input]) -> list[Content]:
        """Evaluate on Values and Python numbers."""
        compiled = self._compiled
        if compiled is not None and MODE != "off":
            if self._guessed and self._runs:
                _speculations["wasted"] -= 1
                self._guessed = False
            self._runs += 1
            return compiled.run(inputs)
        if MODE != "off" and self._should_compile():
            with _lock:
                if self._compiled is None:
                    # Imported here because it loads the compiler.
                    from gradtape.runtime.compiled_plan import compiled_plan

                    begin = time.perf_counter_ns()
                    self._compiled = compiled_plan(self.program, self._fast)
                    if PROBE.sink is not None:
                        PROBE.sink.compiled(self, begin)
            return self.run(inputs)
        self._runs += 1
        if self._plain is None:
            self._plain = NumpyPlan(self.program)
        start = time.perf_counter()
        if PROBE.sink is not None:
            begin = time.perf_counter_ns()
            results, times = self._plain.timed_run(inputs)
            PROBE.sink.ran_in_numpy(self, times, begin)
        else:
            results = self._plain.run(inputs)
        self._spent += time.perf_counter() - start
        return results

    def bound(self, fixed: Mapping[int, Input], install: Callable[[BoundRun], None]) -> BoundRun:
        """The run with some inputs fixed, as a function of the others, one by one.

        As soon as the plan is compiled, `install` is called with a faster function.
        """
        count = len(self.program.inputs)
        positions = [position for position in range(count) if position not in fixed]
        template = [fixed.get(position) for position in range(count)]

        def in_full(*others: Input) -> list[Content]:
            inputs = template.copy()
            for position, value in zip(positions, others, strict=True):
                inputs[position] = value
            return self.run(inputs)

        def run(*others: Input) -> list[Content]:
            if self._compiled is not None and MODE != "off":
                install(self._compiled.bound(fixed, in_full) or in_full)
            return in_full(*others)

        return run

    @property
    def compiled(self) -> CompiledPlan | None:
        """The compiled plan, if there is one already."""
        return self._compiled

    @property
    def fast(self) -> bool:
        """Whether its kernels may round as is quickest."""
        return self._fast

    @property
    def layout(self) -> Layout | None:
        """How the slots of the compiled plan are filled, if it is compiled and one stretch."""
        return None if self._compiled is None or MODE == "off" else self._compiled.layout

    def resized(self, inputs: tuple[Node, ...], sizes: dict[int, int]) -> TieredPlan | None:
        """The plan of the program with other sizes, if compiled code does not depend on them."""
        if self._compiled is None or MODE == "off":
            return None
        compiled = self._compiled.resized(inputs, sizes, self._fast)
        if compiled is None:
            return None
        found = TieredPlan(compiled.program, self._fast)
        found._compiled = compiled
        return found

    def _should_compile(self) -> bool:
        if MODE == "always":
            return True
        nodes = len(self.program.nodes)
        if nodes > LONG_PROGRAM:
            return self._spent >= COMPILE_SECONDS * nodes
        if self._runs:
            return True
        elements = work(self.program)
        # NumPy has no memory for all results of a program that is very large.
        is_huge = elements >= memory() // 8
        wasted = _speculations["wasted"] >= SPECULATIONS
        if not is_huge and (wasted or elements < WORTH_COMPILING):
            return False
        _speculations["wasted"] += 1
        self._guessed = True
        return True


def work(program: Program) -> int:
    """A rough count of the element-ops of a program."""
    return sum(_elements(node) for node in program.nodes)


def _elements(node: Node) -> int:
    if node.op.runs_bodies:
        steps: int = node.keywords.get("length", 1)
        return steps * sum(work(body) for body in held(node))
    if type(node.spec) is tuple:
        return sum(of.size for of in node.spec)
    if node.op.reduces:
        return node.inputs[0].size
    return node.size


if MODE == "always":
    # The first evaluation will compile, so the compiler is loaded with the rest of the library.
    from gradtape.runtime import compiled_plan as _compiled_plan  # noqa: F401

    host()
