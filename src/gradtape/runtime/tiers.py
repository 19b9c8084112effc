"""Tiers: a plan runs in NumPy at first, and is compiled when that is likely to pay.

Compiling takes milliseconds, as long as NumPy needs for millions of elements. A program is compiled
when it runs for the second time, or for the first time if it has so much work that NumPy would take
longer. The compiler thread does that (`codegen.compiler_thread`), NumPy goes on meanwhile, and the
plan changes over at the next run. So no call waits for the compiler, with these exceptions:

- `GRADTAPE_JIT=always` compiles every program at its first run, `GRADTAPE_JIT=wait` when `auto`
  would ask for it: the call waits, and what a call does does not depend on time;
- in the deterministic mode programs are compiled at their first run, because tiers may differ in
  the last bits;
- NumPy has no memory for all results of a program that is very large: the call compiles it;
- if NumPy takes long for a run, calls wait for a part of that time, because compiled code may be a
  hundred times as fast.
"""

from __future__ import annotations

import math
import os
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gradtape.codegen import compiler_thread, llvm
from gradtape.graph import Node, Program
from gradtape.graph.annotated_kinds import Bound
from gradtape.messages import Log
from gradtape.ops.control.bodies import held
from gradtape.optimize import optimize
from gradtape.optimize.simplify import share_subexpressions
from gradtape.process.give_way import going_first, is_in_background
from gradtape.process.locks import new_lock
from gradtape.process.uncollected import uncollected
from gradtape.recording.modes import modes
from gradtape.recording.value import Content
from gradtape.runtime.beyond_memory import memory
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.runtime.plan import BoundRun, Input, Layout
from gradtape.runtime.probe import PROBE

if TYPE_CHECKING:
    from gradtape.runtime.compiled_plan import CompiledPlan

# Element-ops past which compiling pays within one run: NumPy takes about as long for them.
WORTH_COMPILING = 30_000_000
# An op in the body of a loop takes NumPy at least as long as so many elements.
STEP_ELEMENTS = 1000
# NumPy computes ops of fewer elements than this, on average, in less time than all passes take.
SMALL_NODE = 4096
# After so many programs that were compiled at their first run and never ran again, programs are
# compiled at their second run only.
SPECULATIONS = 16

# A program of more ops than this is compiled only after NumPy has run it for as long as compiling
# would take, which is a second for so many ops.
LONG_PROGRAM = 20_000
COMPILE_SECONDS = 5e-5

# A first run in NumPy that takes so many seconds is reason enough to compile a program.
LONG_RUN = 0.1

# A run in NumPy that takes so many seconds goes first: the compiler thread leaves it the GIL. In
# exchange its call waits for the compiler, for a part of that time. So it takes less than twice as
# long as NumPy, unless LLVM takes a core from it. Without the wait, 10,000 ops that compile in
# 0.7 s took 3 to 5.
WORTH_WAITING = 5e-4
WAITS = 0.4
# Ops of so many elements take NumPy longer than the compiler ever keeps the GIL: both go on.
LONG_OP = 500_000

MODES = ("off", "auto", "wait", "always")
MODE = os.environ.get("GRADTAPE_JIT", "auto")
if MODE not in MODES:
    raise ValueError(f"GRADTAPE_JIT={MODE!r} is unknown. Use off, auto, wait or always.")

# The native recorder and native calls of functions are compiled as plans are.
compiler_thread.compile_shortcuts_meanwhile(MODE == "auto")

_OP, _SPEC = attrgetter("op"), attrgetter("spec")

_log = Log("runtime")
_lock = new_lock()
_speculations = {"wasted": 0}
_failures = {"told": False}


class _PlanJob(compiler_thread.Job):
    """Compiles a plan, unless nobody holds it any more."""

    def __init__(self, plan: TieredPlan) -> None:
        super().__init__()
        self._plan = weakref.ref(plan)

    def urgency(self) -> float:
        """The seconds that NumPy has spent on the plan."""
        plan = self._plan()
        return -1.0 if plan is None else plan.spent

    def work(self) -> None:
        """Compile the plan."""
        plan = self._plan()
        if plan is not None:
            plan.compile()


class TieredPlan:
    """One program as a NumPy plan and, once that pays, as a compiled plan."""

    __slots__ = (
        "__weakref__", "_compiled", "_fast", "_guessed", "_job", "_least", "_plain", "_runs",
        "_work", "program", "spent",
    )  # fmt: skip

    def __init__(self, program: Program, fast: bool = False) -> None:
        self.program = program
        self._fast = fast
        self._work: int | None = None
        self._plain: NumpyPlan | None = None
        self._compiled: CompiledPlan | None = None
        self._runs = 0
        self._guessed = False
        # The request to compile it in the background, once that was made.
        self._job: _PlanJob | None = None
        # Seconds that NumPy has spent on it so far, and in the shortest run.
        self.spent = 0.0
        self._least = math.inf

    def run(self, inputs: Sequence[Input]) -> list[Content]:
        """Evaluate on Values and Python numbers."""
        compiled = self._compiled
        if compiled is None and MODE != "off":
            compiled = self._newly_compiled()
        if compiled is not None and MODE != "off":
            if self._guessed and self._runs:
                _speculations["wasted"] -= 1
                self._guessed = False
            self._runs += 1
            return compiled.run(inputs)
        self._runs += 1
        if self._plain is None:
            self._plain = uncollected(self._planned_in_numpy)
        start = time.perf_counter()
        if compiler_thread.waiting_jobs() and self._goes_first():
            with going_first():
                results = self._run_in_numpy(self._plain, inputs)
        else:
            results = self._run_in_numpy(self._plain, inputs)
        took = time.perf_counter() - start
        self.spent += took
        self._least = min(self._least, took)
        if took >= LONG_RUN and self._job is None and _compiles_meanwhile():
            self._hope()
        return results

    def _run_in_numpy(self, plan: NumpyPlan, inputs: Sequence[Input]) -> list[Content]:
        if PROBE.sink is None:
            return plan.run(inputs)
        begin = time.perf_counter_ns()
        results, times = plan.timed_run(inputs)
        PROBE.sink.ran_in_numpy(self, times, begin)
        return results

    def _goes_first(self) -> bool:
        """Whether the compiler thread would slow a run in NumPy down: many short ops in all."""
        nodes = len(self.program.nodes)
        return self._least >= WORTH_WAITING and self.work() < LONG_OP * nodes

    def _planned_in_numpy(self) -> NumpyPlan:
        return NumpyPlan(for_numpy(self.program, self._fast, self.work()))

    def work(self) -> int:
        """A rough count of the element-ops of the program."""
        if self._work is None:
            self._work = work(self.program)
        return self._work

    def compile(self) -> CompiledPlan:
        """Compile the plan now, unless it is compiled."""
        with _lock:
            if self._compiled is None:
                with llvm.importing():
                    # Imported here because it loads the compiler.
                    from gradtape.runtime.compiled_plan import compiled_plan

                begin = time.perf_counter_ns()
                self._compiled = compiled_plan(optimize(self.program, self._fast), self._fast)
                _log.debug(
                    "compiled a plan of %d ops in %.1f ms, %s",
                    len(self.program.nodes),
                    (time.perf_counter_ns() - begin) * 1e-6,
                    "in the background" if is_in_background() else "while a call waited",
                )
                if PROBE.sink is not None:
                    PROBE.sink.compiled(self, begin)
            return self._compiled

    def _newly_compiled(self) -> CompiledPlan | None:
        """The compiled plan, if it pays and is there; else it is asked for if it pays."""
        job = self._job
        if job is not None and job.finished and job.error is not None:
            _tell(job.error)
            return None
        if job is None and not self._should_compile():
            return None
        if not _compiles_meanwhile() or (job is None and self._is_huge()):
            return self.compile()
        if job is None:
            job = self._submit()
            if job is None:
                return None
        elif not job.finished:
            compiler_thread.resume()
        # Without an end where every run so far has failed: such a call does not wait.
        if WORTH_WAITING <= self._least < math.inf:
            begin = time.perf_counter_ns()
            compiler_thread.wait_for(job, WAITS * self._least)
            if PROBE.sink is not None:
                PROBE.sink.waited(begin)
        return self._compiled

    def _submit(self) -> _PlanJob | None:
        """Ask the compiler thread for the compiled plan; None if it has too much to do."""
        job = _PlanJob(self)
        if compiler_thread.submit(job):
            self._job = job
            return job
        return None

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
    def in_numpy(self) -> NumpyPlan | None:
        """The NumPy plan, if it has run in NumPy."""
        return self._plain

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
        if self._compiled is None and self._job is not None and modes.compile_first:
            # Whether the thread is done already must make no difference.
            self.compile()
        if self._compiled is None or MODE == "off":
            return None
        if _compiles_meanwhile():
            # Kernels depend on the order of lengths at times: such a plan is compiled later.
            try:
                with llvm.without_compiling():
                    compiled = self._compiled.resized(inputs, sizes, self._fast)
            except llvm.MustCompileError:
                return None
        else:
            compiled = self._compiled.resized(inputs, sizes, self._fast)
        if compiled is None:
            return None
        found = TieredPlan(compiled.program, self._fast)
        found._compiled = compiled
        return found

    def _should_compile(self) -> bool:
        if MODE == "always" or modes.compile_first:
            return True
        nodes = len(self.program.nodes)
        if nodes > LONG_PROGRAM:
            return self.spent >= COMPILE_SECONDS * nodes
        if self._runs:
            return True
        wasted = _speculations["wasted"] >= SPECULATIONS
        if not self._is_huge() and (wasted or self.work() < WORTH_COMPILING):
            return False
        self._guess()
        return True

    def _hope(self) -> None:
        """After a long first run: nobody could know before how long a loop would take."""
        long = len(self.program.nodes) > LONG_PROGRAM
        if not long and _speculations["wasted"] < SPECULATIONS and self._submit() is not None:
            self._guess()

    def _guess(self) -> None:
        """Note that the plan is compiled in the hope of a second run."""
        _speculations["wasted"] += 1
        self._guessed = True

    def _is_huge(self) -> bool:
        """Whether NumPy has no memory for all results, so that the program must be compiled."""
        return not self._runs and self.work() >= memory() // 8


def for_numpy(program: Program, fast: bool, elements: int) -> Program:
    """A program of so many element-ops as NumPy runs it.

    Most passes take longer than NumPy does for a few thousand elements: small programs skip them.
    With `fast` a pass changes the last bits, so it has to run here, too.
    """
    small = elements < SMALL_NODE * len(program.nodes)
    # Programs with loops, callbacks or random numbers always get the passes: these drop outputs of
    # loops that nothing reads, and calls of the user's functions whose results are constants.
    plain = small and all(op.self_contained for op in set(map(_OP, program.nodes)))
    if plain and not fast:
        return share_subexpressions(program)
    return optimize(program, fast)


def wait_for_compiler(timeout: Bound | None = None) -> bool:
    """Wait until everything that repeated calls have asked for is compiled; see `GRADTAPE_JIT`.

    Calls never need this: they run in NumPy while a thread compiles. A benchmark does, between its
    first calls and those that it measures. With a timeout in seconds, False says that the compiler
    was not done in time.

    >>> f = gt.function(lambda x: gt.sin(x) * 2.0)
    >>> _ = f(gt.asarray([1.0])), f(gt.asarray([2.0]))
    >>> gt.wait_for_compiler()
    True
    """
    return compiler_thread.wait(timeout)


def is_compiled_at_first(program: Program) -> bool:
    """Whether NumPy does not even run a program for the first time."""
    if MODE != "off" and (MODE == "always" or modes.compile_first or _is_huge(program)):
        return True
    return not _compiles_meanwhile() and work(program) >= WORTH_COMPILING


def _is_huge(program: Program) -> bool:
    return work(program) >= memory() // 8


def _compiles_meanwhile() -> bool:
    """Whether calls go on in NumPy while the compiler thread compiles."""
    return MODE == "auto" and not modes.compile_first


def _tell(error: Exception) -> None:
    """Say once that compiling has failed; the program runs in NumPy."""
    if _failures["told"] or isinstance(error, MemoryError):
        return  # NumPy says itself what it has no memory for
    _failures["told"] = True
    warnings.warn(
        f"a program could not be compiled: {error!r}. It runs in NumPy, as will others that fail; "
        "gt.counters().compile_failures counts them.",
        stacklevel=2,
    )


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


if MODE == "always":
    # The first evaluation will compile, so the compiler is loaded with the rest of the library.
    from gradtape.runtime import compiled_plan as _compiled_plan  # noqa: F401

    llvm.host()
