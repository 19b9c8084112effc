"""A workload: inputs, a reference answer, one function per library, and a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Arrays = dict[str, Any]
Wrap = Callable[..., Any]
Call = Callable[[], Any]
# A build takes the NumPy inputs and the form's compiler (`jax.jit`, `tf.function`, or nothing) and
# returns the function that is timed. It has its library's name, and imports the library inside.
Build = Callable[[Arrays, Wrap], Call]


@dataclass(frozen=True)
class Limit:
    """The limit of the machine: the sum of the times that the parts take alone."""

    copied: int = 0  # bytes read and written once
    read: int = 0  # bytes read once
    products: tuple[tuple[int, int, int], ...] = ()  # (m, k, n) of each matrix product
    lines: Callable[[Any], Any] | None = (
        None  # the user's Python, run on an object that does nothing
    )


@dataclass(frozen=True)
class Workload:
    """One row group of the table. `name` is for `--only`, `title` for people."""

    name: str
    title: str
    dtype: str
    inputs: Callable[[], Arrays]
    # The answer after `checked_after` calls, derived by hand in NumPy, in the order of the results.
    reference: Callable[[Arrays], list[Any]]
    builds: tuple[Build, ...]
    limit: Limit = Limit()
    # If many answers are right: the arrays to compare with the reference instead, and a remark.
    judge: Callable[[Arrays, list[Any]], tuple[list[Any], str]] | None = None
    checked_after: int = 1
    # The number of calls timed together, with one wait at the end; above 1 for training steps.
    calls_together: int = 1
    tolerance: float | None = None
    by_norm: bool = False  # compare each array by its norm, not element by element
    slow: bool = False  # left out by --quick
    alone: bool = False  # too large for all processes to hold it at once
    left_out: tuple[str, ...] = ()  # titles of forms that are not measured
    rounds: int = 1  # of the loop in one call, for a time per round
    group: str = ""  # for `--group`; `workloads.GROUPS` sets it
    tiny: Callable[[], Arrays] | None = None  # inputs of the same kind and few elements, for tests

    def build(self, library: str) -> Build | None:
        """The function of one library, if this workload has one."""
        found: Mapping[str, Build] = {build.__name__: build for build in self.builds}
        return found.get(library)

    def allowed_error(self) -> float:
        """The largest allowed relative error; see `server.compare`."""
        if self.tolerance is not None:
            return self.tolerance
        return {"float32": 1e-5, "float64": 1e-11}[self.dtype]
