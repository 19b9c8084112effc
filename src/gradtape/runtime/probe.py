"""The probe: the one place where a running profile is told what happens; nobody listens otherwise.

Code that runs once per plan, per flush, per derivative or per capture looks at `PROBE.sink`, which
is None unless something is profiled. Code that runs per op never looks. Times of native
instructions do not pass here: native code counts them itself (`compiler/emit/plans/timing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gradtape.concurrency import WeakTable
from gradtape.ir.node import Node
from gradtape.ir.program import Program


class Sink(Protocol):
    """What a profile is told. Times are of `time.perf_counter_ns`."""

    def begin(self) -> int:
        """The time now; a flush begins."""
        ...

    def flushed(
        self,
        recording: Any,
        bound: Any,
        held: Sequence[Any],
        results: Mapping[Node, Any],
        begin: int,
    ) -> None:
        """A flush has given its handles their values; `bound` is None if no plan had to run."""
        ...

    def bound(self, program: Program, plan: Any) -> None:
        """A program found or got its plan."""
        ...

    def built(self, plan: Any, begin: int, cause: str) -> None:
        """A program needed a new plan, and why no known plan served."""
        ...

    def compiled(self, plan: Any, begin: int) -> None:
        """A plan was compiled."""
        ...

    def ran_in_numpy(self, plan: Any, times: Sequence[int], begin: int) -> None:
        """A plan ran in tier 0, and the nanoseconds of each step."""
        ...

    def derived(self, recording: Any, targets: Sequence[Node], begin: int, found: bool) -> None:
        """A gradient was asked for; `found` says that its graph was known."""
        ...

    def captured(self, captured: Any, begin: float) -> None:
        """A function ran as a capture that began at this time of `time.perf_counter`."""
        ...

    def viewed(self, buffer: object) -> None:
        """Somebody reads a computed value as an array."""
        ...

    def coloured(self, coloured: Any) -> None:
        """A sparse derivative is computed, with these colours."""
        ...


class _Probe:
    __slots__ = ("sink",)

    sink: Sink | None


PROBE = _Probe()
PROBE.sink = None

# Every compiled plan of the process, by id.
_compiled: WeakTable[int, Any] = WeakTable()


def note_compiled_plan(plan: Any) -> None:
    """Let profiles find a compiled plan, for as long as somebody holds it."""
    _compiled.setdefault(id(plan), plan)


def compiled_plans() -> list[Any]:
    """All compiled plans that are alive."""
    return _compiled.values()


def listen(sink: Sink | None) -> Sink | None:
    """Tell a profile what happens, or nobody; returns who was told before."""
    before, PROBE.sink = PROBE.sink, sink
    return before
