"""Measured: what the parts of a profile have noted, and what is put together of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.compiler.counts import Counters
from gradtape.ir.node import retire_tables
from gradtape.ir.origin import SourcePlace, note_lines, user_place
from gradtape.runtime.counters import counters
from gradtape.runtime.flush import leave_full_table
from gradtape.runtime.plan_cache import plan_holders
from gradtape.runtime.profiler_sink import PROBE, compiled_plans, listen
from gradtape.tools.profiler.collector import Collector, Reading
from gradtape.tools.profiler.groups import Group, PlanRecord, baseline
from gradtape.tools.profiler.limits import MachineLimits
from gradtape.tools.profiler.plan_log import PlanLog
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


class Measured:
    """The measurements from here on, until `stop`."""

    def __init__(self, title: str) -> None:
        self.title, self.place = title, user_place()
        # Nodes that exist have no lines; a new table makes them anew, with their lines.
        retire_tables()
        leave_full_table()
        self._held = compiled_plans()
        self.baselines = {id(each): baseline(each) for each in self._held}
        self.calls = {id(each): each.calls for each in captures()}
        self.sampler, self._log = Sampler(), PlanLog()
        self.collector = Collector(self.sampler)
        self.before = Moment.now()
        note_lines(True)
        listen(self.collector)
        self._log.start()
        self.sampler.start()

    @property
    def is_running(self) -> bool:
        """Whether things are still noted."""
        return PROBE.sink is self.collector

    def stop(self) -> None:
        """Note no more, except the lines of nodes that passes make: see `note_lines`."""
        self.sampler.stop()
        self.after = Moment.now()
        self.wall = self.after.wall - self.before.wall
        self.log = self._log.stop()
        listen(None)


def captures(holder: Any = None) -> list[Any]:
    """The captures that this thread has of a function, or of all."""
    holders: list[Any] = list(plan_holders()) if holder is None else [holder]
    known = (each for one in holders for each in one._local.by_key.values())
    found = {id(each): each for first in known for each in (first, *first.siblings)}
    return list(found.values())


@dataclass(frozen=True)
class FunctionRecord:
    """One signature of a `gt.function` that was called."""

    name: str
    place: SourcePlace | None
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
    """All measurements, for advice. Times are those of steady calls."""

    measured: Measured
    readings: Mapping[SourcePlace | None, Reading]
    plans: Sequence[PlanRecord]
    groups: Sequence[Group]
    lines: Mapping[SourcePlace | None, dict[str, float]]
    functions: Sequence[FunctionRecord]
    limits: MachineLimits
    wall: float
    # The part of it without compiling and waiting.
    busy: float
    rate: float
