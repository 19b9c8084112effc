"""Check the answers, then time them: all forms of a workload, in interleaved rounds."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks import limits
from benchmarks.forms import Form
from benchmarks.process import Failed, Process, interpreter
from benchmarks.workload import Workload

SETTLE = 0.02  # seconds in which the previous process's threads stop spinning
ALWAYS_COMPILE = {"GRADTAPE_JIT": "always", "GRADTAPE_KERNEL_CACHE": "off"}


@dataclass
class Cell:
    """The results of one form: seconds of calls, of the first and the second call, peak bytes."""

    seconds: list[float] = field(default_factory=list)
    first: float | None = None
    second: float | None = None
    peak: int | None = None
    version: str | None = None
    trouble: str | None = None  # missing, failed or wrong
    wrong: bool = False
    said: str | None = None  # a remark on the answer, if several answers are right
    python_calls: int | None = None  # made by compiled plans in one call, if the library counts

    @property
    def best(self) -> float | None:
        return min(self.seconds) if self.seconds else None

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


@dataclass
class Measured:
    """A row group of the table. `parts` are the limit's parts in seconds."""

    name: str
    title: str
    cells: dict[str, Cell]
    limit: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    # A row about first calls or imports has seconds and no other measures.
    only_seconds: bool = False
    group: str = ""
    rounds: int = 1  # of the loop in one call


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int
    turn: float  # seconds
    fresh: int  # processes for first calls and imports


def measure(workload: Workload, forms: Sequence[Form], effort: Effort) -> Measured:
    """Start a process for each form, check every answer, and let the right ones take turns."""
    forms = [
        form
        for form in forms
        if workload.build(form.library) and form.title not in workload.left_out
    ]
    cells = {form.title: Cell() for form in forms}
    measured = Measured(
        workload.name, workload.title, cells, group=workload.group, rounds=workload.rounds
    )
    with contextlib.ExitStack() as outer:
        folder = outer.enter_context(tempfile.TemporaryDirectory())
        # A workload too large for all processes at once is measured form by form.
        together = [[], *([form] for form in forms)] if workload.alone else [forms]
        for place, some in enumerate(together):
            with contextlib.ExitStack() as stack:
                bounds = _start_limits(workload, stack, folder) if place == 0 else []
                running: dict[str, Process] = {}
                for form in some:
                    cell = measured.cells[form.title]
                    process = _start(workload, form, cell, folder, form.environment, stack)
                    if process is not None:
                        running[form.title] = process
                _take_turns(measured, bounds, running, effort)
    measured.limit = limits.total(workload.limit, measured.parts)
    return measured


def _take_turns(
    measured: Measured, bounds: list[Process], running: dict[str, Process], effort: Effort
) -> None:
    """Run rounds of turns, limits first; then ask for each form's memory and Python calls."""
    for _ in range(effort.rounds):
        for bound in bounds:
            for part, seconds in bound.ask("turn", seconds=effort.turn)["parts"].items():
                measured.parts[part] = min(measured.parts.get(part, seconds), seconds)
            time.sleep(SETTLE)
        for title, process in list(running.items()):
            try:
                measured.cells[title].seconds += process.ask("turn", seconds=effort.turn)["seconds"]
            except Failed as failure:
                measured.cells[title].trouble = str(failure)
                del running[title]
            time.sleep(SETTLE)
    for title, process in running.items():
        with contextlib.suppress(Failed):
            measured.cells[title].peak = process.ask("memory")["bytes"]
            measured.cells[title].python_calls = process.ask("python_calls")["count"]


def _start_limits(workload: Workload, stack: contextlib.ExitStack, folder: str) -> list[Process]:
    """Start the processes that measure limits; the first also writes the reference answer."""
    found = [stack.enter_context(Process("limit", "numpy", workload.name))]
    found[0].ask("reference", folder=folder)
    if workload.limit.copied or workload.limit.read or workload.limit.products:
        with contextlib.suppress(Failed):  # without torch, NumPy's figures count
            found.append(stack.enter_context(Process("limit", "torch", workload.name)))
    return found


def _start(
    workload: Workload,
    form: Form,
    cell: Cell,
    folder: str,
    environment: Mapping[str, str],
    stack: contextlib.ExitStack,
) -> Process | None:
    """Start a process and check its first answer; if it fails, note the trouble, return None."""
    try:
        process = stack.enter_context(
            Process(form.library, form.variant, workload.name, environment)
        )
        cell.version = process.facts["version"]
        first = process.ask("first")["seconds"]
        checked = process.ask("check", folder=folder)
    except Failed as failure:
        cell.trouble = str(failure)
        return None
    if "wrong" in checked:
        cell.trouble, cell.wrong = f"wrong answer: {checked['wrong']}", True
        process.close()
        return None
    cell.first, cell.second = first, checked.get("second")
    cell.said = checked.get("said")
    return process


def measure_first_calls(
    name: str, workload: Workload, forms: Sequence[Form], effort: Effort, compiled: bool
) -> Measured:
    """Time the first call of a workload in new processes.

    If it is to be `compiled`, gradtape compiles in that call and finds no machine code on disk, and
    forms that compile nothing are left out.
    """
    forms = [form for form in forms if form.compiles or not compiled]
    cells = {form.title: Cell() for form in forms if workload.build(form.library)}
    title = f"first {'compiled ' if compiled else ''}call, {workload.title}"
    measured = Measured(name, title, cells, only_seconds=True)
    with tempfile.TemporaryDirectory() as folder:
        with Process("limit", "numpy", workload.name) as process:
            process.ask("reference", folder=folder)
        for _ in range(effort.fresh):
            for form in forms:
                cell = cells.get(form.title)
                if cell is None or cell.trouble:
                    continue
                ours = ALWAYS_COMPILE if compiled and not form.peer else {}
                environment = {**form.environment, **ours}
                with contextlib.ExitStack() as stack:
                    _start(workload, form, cell, folder, environment, stack)
                if cell.first is not None:
                    cell.seconds.append(cell.first)
    return measured


def measure_imports(forms: Sequence[Form], effort: Effort) -> Measured:
    """Time imports in new processes; the start of the bare interpreter is subtracted."""
    shown: dict[str, Form] = {}
    for form in forms:
        if form.library != "numpy":  # which is the limit
            shown.setdefault(form.library, form)
    cells = {form.title: Cell() for form in shown.values()}
    measured = Measured("import", "import", cells, only_seconds=True)
    statements = [(form.title, form.library, form.environment) for form in shown.values()]
    # JAX users import both modules.
    modules = {"jax": "jax, jax.numpy", "autograd": "autograd.numpy"}
    bare: dict[str, float] = {}
    numpy: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        # The first turn writes the bytecode, as an installation does, and is not counted.
        for turn in range(effort.fresh + 1):
            for title, library, environment in [*statements, ("", "numpy", {})]:
                python = interpreter(library)
                if python is None or (title and cells[title].trouble):
                    continue
                whole = {**os.environ, **environment, "PYTHONPYCACHEPREFIX": folder}
                whole.pop("PYTHONDONTWRITEBYTECODE", None)
                empty = _run(python, "pass", whole)
                spent = _run(python, f"import {modules.get(library, library)}", whole)
                if spent is None or empty is None:
                    if title:
                        cells[title].trouble = f"{library} cannot be imported"
                    continue
                bare[python] = min(empty, bare.get(python, empty))
                if turn:
                    (cells[title].seconds if title else numpy).append(spent - bare[python])
    measured.limit = min(numpy) if numpy else None
    measured.title = "import (limit: import numpy)"
    return measured


def _run(python: str, statement: str, environment: Mapping[str, str]) -> float | None:
    """Seconds that a new interpreter takes for a statement; None if it fails."""
    start = time.perf_counter()
    done = subprocess.run(
        [os.path.abspath(python), "-c", statement],
        env=dict(environment),
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return time.perf_counter() - start if done.returncode == 0 else None
