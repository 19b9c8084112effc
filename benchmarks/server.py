"""The server process of one library in one form and one workload; requests come over pipes.

    python -m benchmarks.server LIBRARY VARIANT WORKLOAD

Requests and answers are JSON, one line each. Library `limit` serves the workload's limits
(variant `numpy` or `torch`); its NumPy variant also writes the reference answer.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import limits, memory
from benchmarks.forms import adaptor
from benchmarks.workload import Workload
from benchmarks.workloads import find

MOST_CALLS = 1000  # the most calls in one turn
CHUNK = 1 << 20  # the number of elements compared at once


def turn(
    call: Callable[[], object], seconds: float, before: Callable[[], object] = lambda: None
) -> list[float]:
    """Time calls, at least one, until the turn is over; return the seconds of each.

    The first is not counted, unless it took the whole turn.
    """
    clock = time.perf_counter
    start = clock()
    call()
    first = clock() - start
    if first > seconds:
        return [first]  # too slow to spend a call on warming caches and threads
    found: list[float] = []
    end = clock() + seconds
    while len(found) < MOST_CALLS:
        before()
        start = clock()
        call()
        stop = clock()
        found.append(stop - start)
        if stop > end:
            break
    return found


class LibraryServer:
    """Serves one library's form of a workload."""

    def __init__(self, library: str, variant: str, workload: Workload) -> None:
        self.workload = workload
        self.adaptor = adaptor(library, variant, workload.dtype)
        build = workload.build(library)
        assert build is not None, f"{workload.name} has no function for {library}"
        inputs = workload.inputs()
        self.resident = memory.resident()
        memory.forget_peak()
        self.call = build(inputs, self.adaptor.wrap)
        self.peak = 0
        self.result: Any = None
        # autograd may answer a float32 workload in float64; gradtape may not.
        self.dtypes = {workload.dtype, "float64"} if library == "autograd" else {workload.dtype}
        self.facts = {"version": version(library)}

    def first(self) -> dict[str, object]:
        """Time the first call; the library is imported and the inputs are made before."""
        start = time.perf_counter()
        self.result = self.call()
        self.adaptor.wait(self.result)
        return {"seconds": time.perf_counter() - start}

    def check(self, folder: str) -> dict[str, object]:
        """The largest error of the answer, after the workload's number of calls."""
        second: float | None = None
        for _ in range(self.workload.checked_after - 1):
            spent = self.again()
            second = spent if second is None else second
        self.peak = memory.peak()
        expected = [np.load(path, mmap_mode="r") for path in sorted(Path(folder).glob("*.npy"))]
        found = [self.adaptor.array(leaf) for leaf in leaves(self.result)]
        self.result = None
        said = {}
        if self.workload.judge is not None:
            found, said["said"] = self.workload.judge(self.workload.inputs(), found)
        answer = {**said, **compare(found, expected, self.workload, self.dtypes)}
        del found, expected
        memory.forget_peak()
        # The second call may compile what the first ran in NumPy, so it has a figure of its own.
        answer["second"] = self.again() if second is None else second
        self.result = None
        return answer

    def again(self) -> float:
        """Seconds of one more call."""
        start = time.perf_counter()
        self.result = self.call()
        self.adaptor.wait(self.result)
        return time.perf_counter() - start

    def turn(self, seconds: float) -> dict[str, object]:
        call, wait, together = self.call, self.adaptor.wait, self.workload.calls_together

        def calls() -> None:
            # Wait once, after the last call; freeing the results is part of the timed work.
            for _ in range(together - 1):
                call()
            wait(call())

        found = turn(calls, seconds, self.adaptor.before)
        return {"seconds": [spent / together for spent in found]}

    def memory(self) -> dict[str, object]:
        if memory.forget_peak():
            turns = self.workload.calls_together
            for _ in range(turns):
                self.result = self.call()
            self.adaptor.wait(self.result)
            self.peak = max(self.peak, memory.peak())
        return {"bytes": max(0, self.peak - self.resident)}

    def python_calls(self) -> dict[str, object]:
        """The number of Python calls that compiled plans make in one call, if it is counted."""
        before = self.adaptor.python_calls()
        self.again()
        after = self.adaptor.python_calls()
        return {"count": None if before is None or after is None else after - before}


class LimitServer:
    """Serves the ways to measure a workload's limit, and the reference answer."""

    def __init__(self, variant: str, workload: Workload) -> None:
        self.workload = workload
        self.ways = (limits.by_numpy if variant == "numpy" else limits.by_torch)(workload)
        self.facts = {"version": version(variant)}

    def reference(self, folder: str) -> dict[str, object]:
        arrays = self.workload.reference(self.workload.inputs())
        for place, array in enumerate(arrays):
            np.save(Path(folder) / f"{place:03}.npy", array)
        return {}

    def turn(self, seconds: float) -> dict[str, object]:
        share = seconds / max(1, sum(map(len, self.ways.values())))
        return {
            "parts": {
                part: min(min(turn(call, share)) for call in ways.values())
                for part, ways in self.ways.items()
            }
        }


def leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def compare(
    found: list[Any], expected: list[Any], workload: Workload, dtypes: set[str]
) -> dict[str, object]:
    """The largest error, relative to the element plus the root mean square of its array.

    For a workload with `by_norm`: the root mean square of the error divided by the array's.
    """
    if len(found) != len(expected):
        return {"wrong": f"{len(found)} results, {len(expected)} expected"}
    worst = 0.0
    for place, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape or a.dtype.name not in dtypes:
            wanted = f"{workload.dtype}{list(b.shape)}"
            return {"wrong": f"result {place} is {a.dtype.name}{list(a.shape)}, not {wanted}"}
        a, b = a.reshape(-1), b.reshape(-1)
        chunks = [slice(start, start + CHUNK) for start in range(0, b.size, CHUNK)]
        squares = sum(float(np.square(b[chunk], dtype="float64").sum()) for chunk in chunks)
        scale = (squares / max(1, b.size)) ** 0.5 or 1.0
        off = 0.0
        for chunk in chunks:
            wanted = b[chunk].astype("float64")
            error = np.abs(a[chunk] - wanted)
            if not np.all(np.isfinite(error)):
                return {"wrong": f"result {place} has values that are not finite"}
            off += float(np.square(error).sum())
            if not workload.by_norm:
                worst = max(worst, float((error / (np.abs(wanted) + scale)).max()))
        if workload.by_norm:
            worst = max(worst, (off / max(1, b.size)) ** 0.5 / scale)
    allowed = workload.allowed_error()
    if worst > allowed:
        return {"wrong": f"error {worst:.1e}, allowed {allowed:.0e}", "error": worst}
    return {"error": worst}


def version(library: str) -> str:
    for name in (library, f"{library}-cpu", f"{library}_cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return getattr(sys.modules.get(library), "__version__", "?")


def chosen(library: str, variant: str, name: str) -> LibraryServer | LimitServer:
    """The server of a library's form of a workload, or of the workload's limits."""
    workload = find(name)
    if library == "limit":
        return LimitServer(variant, workload)
    return LibraryServer(library, variant, workload)


def serve(make: Callable[[], Any]) -> None:
    """Make a server and answer requests: each names a method and its arguments."""
    # Output that libraries print must not mix with the answers, so it goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(content: dict[str, object]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        server = make()
    except Exception as error:
        return answer({"failed": describe(error)})
    answer(server.facts)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(getattr(server, request.pop("do"))(**request))
        except Exception as error:
            return answer({"failed": describe(error)})


def describe(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


if __name__ == "__main__":
    serve(lambda: chosen(*sys.argv[1:4]))
