"""Tiers: a plan runs in NumPy at first, and is compiled when that has paid (`when_to_compile`).

The call that decides it compiles on its own thread, and runs compiled code then. A second thread
that reaches its decision meanwhile goes on in NumPy. Other times to compile:

- `GRADTAPE_JIT=always` compiles every program at its first run, `GRADTAPE_JIT=wait` at its second:
  what a call does does not depend on time;
- in the deterministic mode programs are compiled at their first run, because tiers may differ in
  the last bits;
- NumPy has no memory for all results of a program that is very large: the first call compiles it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from gradtape.annotated_kinds import Bound
from gradtape.compiler.counts import COUNTS
from gradtape.compiler.lower.memory_limit import memory
from gradtape.compiler.lower.plan import Input, SlotLayout
from gradtape.compiler.objects import llvm
from gradtape.compiler.passes import loops_of, optimize
from gradtape.compiler.passes.simplify import share_subexpressions
from gradtape.compiler.passes.units import Fused
from gradtape.concurrency import is_interrupt, new_lock
from gradtape.config import FIRST_LOADED_PLAN_COST, KNOWN_COMPILE_RENT, SMALL_NUMPY_OP, variable
from gradtape.ir import Node, Program
from gradtape.ir.logs import Log
from gradtape.runtime import when_to_compile
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.runtime.profiler_sink import PROBE
from gradtape.runtime.when_to_compile import CompilePolicy, Outline, work
from gradtape.trace.modes import modes
from gradtape.trace.pause_collector import uncollected
from gradtape.trace.value import Content

if TYPE_CHECKING:
    from gradtape.runtime.compiled_plan import CompiledPlan


MODES = ("off", "auto", "wait", "always")
MODE = variable("JIT", "auto", MODES)

_OP = attrgetter("op")

_log = Log("runtime")
_lock = new_lock()


class TieredPlan:
    """One program as a NumPy plan and, once that pays, as a compiled plan."""

    def __init__(
        self,
        program: Program,
        fast: bool = False,
        outline: Outline | None = None,
        sizes: tuple[int, ...] = (),
    ) -> None:
        self.program = program
        self.fast = fast
        self._outline = Outline() if outline is None else outline
        # The lengths of axes in which programs of the outline differ.
        self._sizes = sizes
        self._runs = 0
        self._work: int | None = None
        self.in_numpy: NumpyPlan | None = None
        self.compiled: CompiledPlan | None = None
        self._failed = False
        # NumPy's time after which the cost of compiling is estimated, and that cost.
        self._least = when_to_compile.least_cost(program)
        self._expected: float | None = None
        # The optimised program, and its loops if they are known.
        self._loops: tuple[Program, Fused] | None = None

    def run(self, inputs: Sequence[Input]) -> list[Content]:
        """Evaluate on Values and Python numbers."""
        compiled = self.compiled
        if compiled is None and self._should_compile():
            compiled = self._try_to_compile()
        if compiled is not None and MODE != "off":
            return compiled.run(inputs)
        self._runs += 1
        if self.in_numpy is None:
            found = uncollected(for_numpy, self.program, self.fast, self.work())
            self.in_numpy = uncollected(NumpyPlan, found)
        begin = CompilePolicy.clock()
        results = self._run_in_numpy(self.in_numpy, inputs)
        self._outline.pay(CompilePolicy.clock() - begin)
        return results

    def _run_in_numpy(self, plan: NumpyPlan, inputs: Sequence[Input]) -> list[Content]:
        if PROBE.sink is None:
            return plan.run(inputs)
        begin = time.perf_counter_ns()
        results, times = plan.timed_run(inputs)
        PROBE.sink.ran_in_numpy(self, times, begin)
        return results

    def work(self) -> int:
        """A rough count of the element-ops of the program."""
        if self._work is None:
            self._work = work(self.program)
        return self._work

    def _should_compile(self) -> bool:
        if MODE == "off" or self._failed:
            return False
        if MODE == "always" or modes.compile_first:
            return True
        if not self._runs and self._is_huge():
            return True
        if MODE == "wait":
            return bool(self._runs)
        spent = self._outline.spent
        if not self._runs:
            # The count of its elements is the only estimate of its time.
            spent += when_to_compile.run_in_numpy(self.program, self.work())
        pays = when_to_compile.pays
        if not pays(
            spent,
            self._least,
            FIRST_LOADED_PLAN_COST,
            KNOWN_COMPILE_RENT,
        ):
            return False
        if self._outline.is_known():
            return True
        return pays(spent, self._least, FIRST_LOADED_PLAN_COST) and pays(spent, self._cost())

    def _cost(self) -> float:
        """The seconds that compiling is expected to take."""
        if self._expected is None:
            # Imported here because it is part of the compiler.
            from gradtape.compiler.lower.fused_loops import fusible

            program = uncollected(optimize, self.program, self.fast)
            vary = self._sizes_vary()
            self._loops = program, uncollected(loops_of, program, fusible, vary)[1]
        if self._loops is not None:
            # Loops may have been compiled for other programs meanwhile.
            self._expected = when_to_compile.cost(self._loops[1])
        assert self._expected is not None
        self._least = self._expected
        return self._expected

    def _sizes_vary(self) -> bool:
        """Whether code for all sizes is worth more than the fastest for this one.

        In the deterministic mode the bits of a program must not depend on which size came first.
        """
        return self._outline.has_other_sizes(self._sizes) and not modes.compile_first

    def _try_to_compile(self) -> CompiledPlan | None:
        """The compiled plan; None if another thread compiles, or if compiling has failed."""
        automatic = MODE == "auto" and not modes.compile_first and not self._is_huge()
        if not automatic:
            return self.compile()
        if not _lock.acquire(blocking=False):
            return None
        try:
            return self.compile()
        except Exception as error:
            if is_interrupt(error):
                raise
            self._failed = True
            _count_failure(error)
            return None
        finally:
            _lock.release()

    def compile(self) -> CompiledPlan:
        """Compile the plan now, unless it is compiled."""
        with _lock:
            if self.compiled is None:
                begin, processor = time.perf_counter_ns(), time.process_time()
                with llvm.importing():
                    # Imported here because it loads the compiler.
                    from gradtape.runtime.compiled_plan import compiled_plan
                first, CompilePolicy.loaded = not CompilePolicy.loaded, True
                optimised = (
                    self._loops[0]
                    if self._loops
                    else uncollected(optimize, self.program, self.fast)
                )
                vary = self._sizes_vary()
                self.compiled = uncollected(compiled_plan, optimised, self.fast, vary)
                self._outline.model = self, self._sizes
                self._outline.note_compiled()
                when_to_compile.note_compiled(self.compiled.lowered.fused)
                if self._expected is not None and not first:
                    # Several processors compile; and other processes may take them meanwhile.
                    wall = (time.perf_counter_ns() - begin) * 1e-9
                    took = min(time.process_time() - processor, wall)
                    when_to_compile.calibrate(self._expected, took)
                self._loops = None
                _log.debug(
                    "compiled a plan of %d ops in %.1f ms",
                    len(self.program.nodes),
                    (time.perf_counter_ns() - begin) * 1e-6,
                )
                if PROBE.sink is not None:
                    PROBE.sink.compiled(self, begin)
            return self.compiled

    @property
    def layout(self) -> SlotLayout | None:
        """How the slots of the compiled plan are filled, if it is compiled and one stretch."""
        return None if self.compiled is None or MODE == "off" else self.compiled.layout

    def resized(self, inputs: tuple[Node, ...], sizes: dict[int, int]) -> TieredPlan | None:
        """The plan of the program with other sizes, if compiled code does not depend on them."""
        if self.compiled is None or MODE == "off":
            return None
        compiled = self.compiled.resized(inputs, sizes, self.fast)
        if compiled is None:
            return None
        found = TieredPlan(compiled.program, self.fast, self._outline)
        found.compiled = compiled
        return found

    def _is_huge(self) -> bool:
        """Whether NumPy has no memory for all results, so that the program must be compiled."""
        return self.work() >= memory() // 8


def for_numpy(program: Program, fast: bool, elements: int) -> Program:
    """The form in which NumPy runs a program that computes `elements` in all.

    Most passes take longer than NumPy does for a few thousand elements: small programs skip them.
    With `fast` a pass changes the last bits, so it has to run here, too.
    """
    small = elements < SMALL_NUMPY_OP * len(program.nodes)
    # Programs with loops, callbacks or random numbers always get the passes: these drop outputs of
    # loops that nothing reads, and calls of the user's functions whose results are constants.
    plain = small and all(op.self_contained for op in set(map(_OP, program.nodes)))
    if plain and not fast:
        return share_subexpressions(program)
    return optimize(program, fast)


def wait_for_compiler(timeout: Bound | None = None) -> bool:
    """True: calls compile what they need themselves, so there is nothing to wait for.

    It exists for programs that were written when a thread compiled beside them.

    >>> gt.wait_for_compiler()
    True
    """
    return True


def is_compiled_at_first(program: Program) -> bool:
    """Whether NumPy does not even run a program for the first time."""
    return TieredPlan(program)._should_compile()


def _count_failure(error: Exception) -> None:
    """Count a failure of the compiler, and warn of the first; the program runs in NumPy."""
    COUNTS.compile_failures += 1
    _log.info("compiling failed, the program runs in NumPy: %s", repr(error))
    if COUNTS.compile_failures > 1 or isinstance(error, MemoryError):
        return  # NumPy says itself what it has no memory for
    warnings.warn(
        f"a program could not be compiled: {error!r}. It runs in NumPy, as will others that fail; "
        "gt.counters().compile_failures counts them.",
        stacklevel=2,
    )
