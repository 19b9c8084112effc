"""Report: what a distributed computation did, as counters, as text, and as metrics of Ray."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any

from gradtape import counters
from gradtape.config import KEPT_DURATIONS, STRAGGLER_FACTOR, STRAGGLER_TASKS

_log = logging.getLogger("gradtape.distributed")


@dataclass(frozen=True)
class Cost:
    """The cost of one task for a worker."""

    seconds: float
    # Calls of the user's Python, plans and kernels that were made for it.
    traced: int = 0
    plans_built: int = 0
    kernels_compiled: int = 0
    kernels_loaded: int = 0
    bytes_out: int = 0
    pid: int = 0


# Counters of the library that belong to the cost of a task.
MADE = ("plans_built", "kernels_compiled", "kernels_loaded")


def cost_since(before: Any, seconds: float, **more: int) -> Cost:
    """The cost of a task in this process since a snapshot of the counters."""
    after = counters()
    made = {name: getattr(after, name) - getattr(before, name) for name in MADE}
    return Cost(seconds, **made, **more)


@dataclass
class Report:
    """Counters of one distributed computation; `print` it for a text.

    >>> report = gt.distributed.Report("map")
    >>> report.retries += 1
    >>> print(report)
    map: 0 tasks by 0 workers
      retries 1, workers replaced 0, workers lost 0, stragglers 0
      bytes sent 0, bytes received 0
      traced in Python 0, plans built 0, kernels compiled 0, kernels loaded 0
      seconds of work 0.000, seconds of exchange 0.000
    """

    name: str
    tasks: int = 0
    retries: int = 0
    replaced: int = 0
    lost: int = 0
    stragglers: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    traced: int = 0
    plans_built: int = 0
    kernels_compiled: int = 0
    kernels_loaded: int = 0
    work_seconds: float = 0.0
    exchange_seconds: float = 0.0
    # Why the function did not travel as a program, if it did not.
    not_a_program: str = ""
    pids: set[int] = field(default_factory=set)
    _durations: list[float] = field(default_factory=list, repr=False)

    def add(self, cost: Cost) -> None:
        """Add the cost of one task that has ended."""
        self.tasks += 1
        for name in ("traced", *MADE):
            setattr(self, name, getattr(self, name) + getattr(cost, name))
        self.bytes_received += cost.bytes_out
        self.work_seconds += cost.seconds
        if cost.pid:
            self.pids.add(cost.pid)
        known = self._durations
        if len(known) >= STRAGGLER_TASKS and cost.seconds > STRAGGLER_FACTOR * median(known):
            self.stragglers += 1
        known.append(cost.seconds)
        del known[:-KEPT_DURATIONS]

    def note_retries(self, count: int, what: str) -> None:
        """Count tasks that were computed again because a worker died."""
        self.retries += count
        if count:
            _log.info("%s: %s repeated after a worker died, %d times", self.name, what, count)

    def note_replaced(self, step: int) -> None:
        """A worker that died is back, without its state."""
        self.replaced += 1
        _log.info("%s: a worker died in step %d and was replaced", self.name, step)

    def note_lost(self, left: int) -> None:
        """A worker is gone for good."""
        self.lost += 1
        _log.warning("%s: a worker is lost, %d are left; add one to the cluster", self.name, left)

    def __str__(self) -> str:
        text = (
            f"{self.name}: {self.tasks} tasks by {len(self.pids)} workers\n"
            f"  retries {self.retries}, workers replaced {self.replaced}, workers lost "
            f"{self.lost}, stragglers {self.stragglers}\n"
            f"  bytes sent {self.bytes_sent:,}, bytes received {self.bytes_received:,}\n"
            f"  traced in Python {self.traced}, plans built {self.plans_built}, kernels compiled "
            f"{self.kernels_compiled}, kernels loaded {self.kernels_loaded}\n"
            f"  seconds of work {self.work_seconds:.3f}, seconds of exchange "
            f"{self.exchange_seconds:.3f}"
        )
        if self.not_a_program:
            text += f"\n  workers traced the function themselves: {self.not_a_program}"
        return text


# The counters that Ray's metrics show, as gradtape_<name>.
SHOWN = tuple(each.name for each in fields(Report) if each.type in ("int", "float"))


class RayMetrics:
    """Counters of a report as metrics of Ray, which its dashboard and Prometheus show."""

    def __init__(self, ray_metrics: Any, report: Report) -> None:
        self._report = report
        self._reported = dict.fromkeys(SHOWN, 0.0)
        self._counters = {
            name: ray_metrics.Counter(
                f"gradtape_{name}", f"{name} of gradtape's {report.name}", ("computation",)
            )
            for name in SHOWN
        }

    def update(self) -> None:
        """Add the growth of each counter to Ray's metrics."""
        for name, counter in self._counters.items():
            now = float(getattr(self._report, name))
            if now > self._reported[name]:
                counter.inc(now - self._reported[name], {"computation": self._report.name})
                self._reported[name] = now
