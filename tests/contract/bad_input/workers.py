"""Workers: processes that make bad calls, with limits of time and memory.

A worker that dies, or that is silent for too long, takes only its present call with it: the parent
notes a crash or a hang and starts another worker for the rest.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import tempfile
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.contract.bad_input import bad_calls, call_sites
from tests.contract.bad_input.bad_calls import SECONDS, BadCall, Outcome

# One call in so many is also made in the other modes.
EACH = 10
MEMORY = 6 * 2**30
# A call that no interrupt ends is a hang after so many seconds.
PATIENCE = 3 * SECONDS


def serve(channel: Connection, examples: dict[str, str]) -> None:
    """Make the calls that arrive, one after another."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(tempfile.gettempdir())
    codes: dict[str, Any] = {}
    made = 0
    while (call := channel.recv()) is not None:
        name = call.site.example
        if name not in codes:
            codes[name] = call_sites.compiled(examples[name])
        made += 1
        make = bad_calls.make if made % EACH else bad_calls.make_in_all_modes
        channel.send(make(call, codes[name]))


class Worker:
    """One process, and the call that it makes at present."""

    def __init__(self, examples: dict[str, str]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.channel, theirs = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(theirs, examples), daemon=True)
        self.process.start()
        theirs.close()
        self.call: BadCall | None = None

    def give(self, call: BadCall) -> None:
        self.call = call
        self.channel.send(call)

    def result(self) -> Outcome:
        """The outcome of the present call; a crash or a hang is one too."""
        try:
            if self.channel.poll(PATIENCE):
                return self.channel.recv()
        except EOFError:
            self.process.join()
            return Outcome("crash", text=f"exit code {self.process.exitcode}")
        self.process.kill()
        return Outcome("hang")


def outcomes(
    calls: Iterable[BadCall], examples: dict[str, str], number: int
) -> Iterator[tuple[BadCall, Outcome]]:
    """Each call with its outcome, from `number` processes at a time."""
    waiting = iter(calls)
    workers = [Worker(examples) for _ in range(number)]
    for worker in workers:
        _next(worker, waiting)
    while busy := {each.channel: each for each in workers if each.call is not None}:
        for channel in wait(list(busy), PATIENCE) or list(busy)[:1]:
            worker = busy[channel]  # type: ignore[index]
            call, worker.call = worker.call, None
            outcome = worker.result()
            assert call is not None
            yield call, outcome
            if outcome.verdict in ("crash", "hang"):
                workers[workers.index(worker)] = worker = Worker(examples)
            _next(worker, waiting)
    for worker in workers:
        worker.channel.send(None)


def _next(worker: Worker, waiting: Iterator[BadCall]) -> None:
    call = next(waiting, None)
    if call is not None:
        worker.give(call)
