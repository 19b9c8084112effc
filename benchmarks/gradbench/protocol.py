"""The tool's side of GradBench's protocol: one JSON message per line, one answer per line."""

from __future__ import annotations

import importlib
import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class Evaluated:
    """A function of a module. `prepare` and `report` are not timed."""

    prepare: Callable[[Any], Any]  # from the JSON input to the function's argument
    function: Callable[[Any], Any]
    report: Callable[[Any], Any]  # from the function's result to the JSON output

    def run(self, given: Any) -> dict[str, Any]:
        """Run as often and as long as the input asks, and answer with the last output."""
        argument = self.prepare(given)
        timed = isinstance(given, dict)
        least_runs = given.get("min_runs", 1) if timed else 1
        least_seconds = given.get("min_seconds", 0) if timed else 0
        spent: list[int] = []
        output: Any = None
        while len(spent) < max(1, least_runs) or sum(spent) < least_seconds * 1e9:
            start = time.perf_counter_ns()
            output = self.function(argument)
            spent.append(time.perf_counter_ns() - start)
        timings = [{"name": "evaluate", "nanoseconds": nanoseconds} for nanoseconds in spent]
        return {"success": True, "output": self.report(output), "timings": timings}


def serve(messages: TextIO, answers: TextIO) -> None:
    """Answer every message; a failure of one evaluation is an answer, not the end."""
    for line in messages:
        if not line.strip():
            continue
        message = json.loads(line)
        answers.write(json.dumps({"id": message["id"], **answer(message)}) + "\n")
        answers.flush()


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The answer to one message, without its id."""
    try:
        match message["kind"]:
            case "start":
                return {"tool": "gradtape"}
            case "define":
                functions_of(message["module"])
                return {"success": True}
            case "evaluate":
                functions = functions_of(message["module"])
                name = message["function"]
                if name not in functions:
                    known = ", ".join(functions)
                    raise ValueError(f"{message['module']} has no function {name!r}, but {known}")
                return functions[name].run(message["input"])
    except Exception as error:
        return {"success": False, "error": "".join(traceback.format_exception(error))}
    return {}


def functions_of(module: str) -> dict[str, Evaluated]:
    """The functions of an evaluation."""
    # gradtape is imported here, so that `start` is answered at once.
    modules = importlib.import_module("benchmarks.gradbench.modules").MODULES
    if module not in modules:
        raise ValueError(f"no module is called {module!r}. There are: {', '.join(modules)}")
    return modules[module]
