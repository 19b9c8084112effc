"""Measured: what the parts of a profile have noted, and what is put together of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradtape.compiler.counts import Counters
from gradtape.ir.recorded_lines import Place
from gradtape.runtime.counters import counters
from gradtape.tools.profiler.collector import Collector, Reading
from gradtape.tools.profiler.groups import Baseline, Group, PlanRecord
from gradtape.tools.profiler.limits import Limits
from gradtape.tools.profiler.plan_log import Runs
from gradtape.tools.profiler.sampler import Sampler


@dataclass(frozen=True)
class Moment:
    """The counters and clocks when a profile began or ended, in seconds."""

    counters: Counters
    wall: float
    # Processor time of the process, and of the thread that profiles.
    cpu: float
    thread: float

    @classmethod
    def now(cls) -> Moment:
        """The present moment."""
        return cls(counters(), time.perf_counter(), time.process_time(), time.thread_time())


@dataclass(frozen=True)
class Measured:
    """What the parts of a profile have noted."""

    title: str
    place: Place | None
    collector: Collector
    sampler: Sampler
    log: Runs
    before: Moment
    after: Moment
    baselines: Mapping[int, Baseline]
    calls: Mapping[int, int]


@dataclass(frozen=True)
class FunctionRecord:
    """One signature of a `gt.function` that was called."""

    name: str
    place: Place | None
    last_line: int
    calls: int
    captures: int
    capture_seconds: float
    why: tuple[str, str, str] | None
    refused: str | None
    remedy: str
    native: bool


@dataclass(frozen=True)
class Findings:
    """What was measured, put together: what advice looks at. Times are those of steady calls."""

    measured: Measured
    readings: Mapping[Place | None, Reading]
    plans: Sequence[PlanRecord]
    groups: Sequence[Group]
    lines: Mapping[Place | None, dict[str, float]]
    functions: Sequence[FunctionRecord]
    limits: Limits
    wall: float
    rate: float
