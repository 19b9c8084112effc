"""The probe: calls of a running profile.

Code that runs once per plan, per flush, per derivative or per capture reads `PROBE.sink`, which is
None unless something is profiled. Code that runs per op never reads it. Times of native
instructions do not pass here: native code counts them itself (`compiler/emit/plans/timing.py`).
"""

from __future__ import annotations

from typing import Any

from gradtape.concurrency import WeakTable


class _Probe:
    """The sink: a collector of a profile (`tools.profiler.collector`), or None."""

    sink: Any = None


PROBE = _Probe()

# Every compiled plan of the process, by id.
_compiled: WeakTable[int, Any] = WeakTable()


def note_compiled_plan(plan: Any) -> None:
    """Let profiles find a compiled plan, as long as it lives."""
    _compiled.setdefault(id(plan), plan)


def compiled_plans() -> list[Any]:
    """All compiled plans that are alive."""
    return _compiled.values()


def listen(sink: Any) -> Any:
    """Install or clear the sink of a profile; returns the previous one."""
    before, PROBE.sink = PROBE.sink, sink
    return before
