"""Tiers: a plan runs in NumPy at first, and is compiled when that is likely to pay."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradtape.graph.locks import new_lock
from gradtape.graph.node import Node
from gradtape.graph.program import Program
from gradtape.ops.control.bodies import held
from gradtape.runtime.numpy_plan import Plan

# Element-ops past which compiling pays within one run: about what takes NumPy as long.
WORTH_COMPILING = 30_000_000
# Compiled at first sight and never used again this often: then a second sight is required.
SPECULATIONS = 16

# A program of more ops than this is compiled only when NumPy has taken about as long on it.
LONG_PROGRAM = 5000
COMPILE_SECONDS = 5e-5

MODE = os.environ.get("GRADTAPE_JIT", "auto")
if MODE not in ("off", "auto", "always"):
    raise ValueError(f"GRADTAPE_JIT={MODE!r} is unknown. Use off, auto or always.")

_lock = new_lock()
_speculations = {"wasted": 0}


class Tiered:
    """One program, as a plan of tier 0 and, when it pays, of tier 1."""

    __slots__ = ("_compiled", "_fast", "_guessed", "_plain", "_runs", "_spent", "program")

    def __init__(self, program: Program, fast: bool = False) -> None:
        self.program = program
        self._fast = fast
        self._plain: Plan | None = None
        self._compiled: Any = None
        self._runs = 0
        self._guessed = False
        # Seconds spent on it in NumPy so far.
        self._spent = 0.0

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Evaluate on Values and Python scalars."""
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
                    from gradtape.codegen.kernels.builder import rounding
                    from gradtape.runtime.compiled_plan import CompiledPlan

                    with rounding(self._fast):
                        self._compiled = CompiledPlan(self.program)
            return self.run(inputs)
        self._runs += 1
        if self._plain is None:
            self._plain = Plan(self.program)
        start = time.perf_counter()
        results = self._plain.run(inputs)
        self._spent += time.perf_counter() - start
        return results

    def bound(
        self, fixed: Mapping[int, Any], install: Callable[[Any], None]
    ) -> Callable[..., list[Any]]:
        """The run with some inputs fixed, as a function of the others, one by one.

        As soon as the plan is compiled, a faster function of the same kind is installed.
        """
        count = len(self.program.inputs)
        positions = [position for position in range(count) if position not in fixed]
        template = [fixed.get(position) for position in range(count)]

        def in_full(*given: Any) -> list[Any]:
            inputs = template.copy()
            for position, value in zip(positions, given, strict=True):
                inputs[position] = value
            return self.run(inputs)

        def run(*given: Any) -> list[Any]:
            if self._compiled is not None and MODE != "off":
                install(self._compiled.bound(fixed, in_full) or in_full)
            return in_full(*given)

        return run

    @property
    def layout(self) -> Any:
        """How the slots of the compiled plan are filled, if it is compiled and one stretch."""
        return None if self._compiled is None or MODE == "off" else self._compiled.layout

    def resized(self, inputs: tuple[Node, ...], sizes: dict[int, int]) -> Tiered | None:
        """The same with other sizes, if it was compiled and nothing depends on them."""
        if self._compiled is None or MODE == "off":
            return None
        from gradtape.codegen.kernels.builder import rounding

        with rounding(self._fast):
            compiled = self._compiled.resized(inputs, sizes)
        if compiled is None:
            return None
        found = Tiered(compiled.program, self._fast)
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
        if _speculations["wasted"] >= SPECULATIONS or work(self.program) < WORTH_COMPILING:
            return False
        _speculations["wasted"] += 1
        self._guessed = True
        return True


def work(program: Program) -> int:
    """A rough count of element-ops."""
    return sum(_elements(node) for node in program.nodes)


def _elements(node: Node) -> int:
    if node.op.runs_bodies:
        steps = node.keywords.get("length", 1)
        return steps * sum(work(body) for body in held(node))
    if type(node.spec) is tuple:
        return sum(of.size for of in node.spec)
    if node.op.reduces:
        return node.inputs[0].size
    return node.spec.size


if MODE == "always":
    # The first evaluation will compile: what it needs is loaded with the rest of the library.
    from gradtape.codegen.llvm import host

    host()
