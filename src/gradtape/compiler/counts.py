"""Counts of what the compiler and the runtime did; tests and users read them instead of clocks."""

from __future__ import annotations

from array import array

from gradtape.display import Displayed, Fields
from gradtape.records import dataclass


@dataclass
class Counters(Displayed):
    """Counts of the work of the runtime since the process began.

    >>> before = gt.counters()
    >>> y = gt.sin(gt.asarray([0.0, 1.0])).numpy()
    >>> gt.counters().plans_run - before.plans_run
    1
    """

    # Plans run, and ops evaluated in them.
    plans_run: int = 0
    ops_run: int = 0
    # Programs whose structure needed a new plan, and programs that found one.
    plans_built: int = 0
    plan_hits: int = 0
    # Kernels compiled, kernels whose machine code was on disk, and kernels that a newly compiled
    # plan found by their structure.
    kernels_compiled: int = 0
    kernels_loaded: int = 0
    kernels_reused: int = 0
    # Modules of machine code that were compiled, or loaded from disk: kernels and all else.
    compiled_in_calls: int = 0
    # Calls of Python by compiled plans, for ops without native code and for callbacks.
    python_calls: int = 0
    # Programs that could not be compiled, and so run in NumPy.
    compile_failures: int = 0
    # Bytes fresh from the system, bytes served from the pool, and bytes idle in it now.
    bytes_allocated: int = 0
    bytes_recycled: int = 0
    bytes_held: int = 0
    # Gradient graphs derived, and gradient graphs found by the structure of the recording.
    derivatives_built: int = 0
    derivative_hits: int = 0
    # Nodes of graphs that walks and optimiser passes have visited.
    nodes_visited: int = 0
    # Graphs of one example that were batched, and batched graphs found by their structure.
    batches_built: int = 0
    batch_hits: int = 0

    def _fields(self) -> Fields:
        return [(name, f"{value:,}") for name, value in vars(self).items()]

    def __str__(self) -> str:
        width = max(map(len, vars(self)))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in self._fields())


COUNTS = Counters()
# Plans and ops of native calls, which machine code counts.
NATIVE = array("q", [0, 0])
