"""Tasks on Ray: submitted some at a time, retried by Ray when a worker dies, streamed back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from gradtape.distributed import kernel_files, ray_cluster
from gradtape.distributed.functions_sent import Sent
from gradtape.distributed.report import RayMetrics, Report
from gradtape.distributed.tasks import Outcome, Settings, install_kernels, run_tasks

# Tasks that are under way or wait with their results, for each worker.
AHEAD = 2

Chunk = tuple[list[int], list[Any]]


class Attempts:
    """An actor that counts how often each task began: more than once is a retry by Ray."""

    def __init__(self) -> None:
        self._begun: dict[str, dict[int, int]] = {}

    def begin(self, map_name: str, task: int) -> None:
        """Note that a worker begins a task."""
        begun = self._begun.setdefault(map_name, {})
        begun[task] = begun.get(task, 0) + 1

    def end(self, map_name: str) -> int:
        """How many times tasks of a map began again."""
        begun = self._begun.pop(map_name, {})
        return sum(begun.values()) - len(begun)


def _attempts(ray: Any) -> Any:
    """The one actor of this driver that counts attempts: to start it takes a second."""
    options = {"name": f"gradtape-attempts-{os.getpid()}", "get_if_exists": True, "num_cpus": 0}
    return ray.remote(Attempts).options(**options).remote()


def _task(
    sent: Sent, attempts: Any, task: int, numbers: Any, items: Any, settings: Settings, kernels: Any
) -> list[Any]:
    import ray  # this runs in a worker of Ray

    actor, map_name = attempts
    # Waited for: a message of a worker that dies the next moment would be lost.
    ray.get(actor.begin.remote(map_name, task))
    if kernels is not None:
        digest, references = kernels
        install_kernels(digest, ray.get(references[0]))
    return run_tasks(sent, numbers, items, settings)


def needs_kernel_files(ray: Any) -> bool:
    """Whether workers may run on machines that do not share the driver's folder of kernels."""
    return len([node for node in ray.nodes() if node["Alive"]]) > 1


class RayTasks:
    """The tasks of one map on a cluster."""

    def __init__(
        self, ray: Any, sent: Sent, settings: Settings, report: Report, workers: int, retries: int
    ) -> None:
        self._ray, self._settings, self._report = ray, settings, report
        self._held = AHEAD * workers
        # Where all CPUs may be used, Ray holds the next tasks ready.
        self._at_once = (
            self._held if workers == ray_cluster.cpus(ray) // settings.threads else workers
        )
        self._sent = ray.put(sent)
        report.bytes_sent += len(sent.data)
        self._attempts = (_attempts(ray), uuid.uuid4().hex)
        self._task = ray.remote(num_cpus=settings.threads, max_retries=retries)(_task)
        self._metrics = RayMetrics(ray.util.metrics, report)
        self._kernels = None
        if needs_kernel_files(ray):
            files = kernel_files.used_here()
            report.bytes_sent += files.size
            self._kernels = (sent.digest, [ray.put(files)])

    def run(self, chunks: Iterator[Chunk], ordered: bool, refs: bool) -> Iterator[tuple[int, Any]]:
        """Number and result of each item: in order, or as soon as they are there."""
        waiting: dict[Any, tuple[list[int], list[Any]]] = {}
        unfinished: list[Any] = []
        number = 0
        try:
            while True:
                while len(waiting) < self._held and len(unfinished) < self._at_once:
                    chunk = next(chunks, None)
                    if chunk is None:
                        break
                    head, *rest = self._submit(number, chunk)
                    waiting[head] = (chunk[0], rest)
                    unfinished.append(head)
                    number += 1
                if not waiting:
                    break
                # The first one if results are in order, else any that is finished.
                still = set(unfinished)
                head = next((each for each in waiting if ordered or each not in still), None)
                if head is None or head in still:
                    _, unfinished = self._ray.wait(unfinished, num_returns=1)
                    continue
                yield from self._results(head, *waiting.pop(head), refs)
        finally:
            actor, map_name = self._attempts
            for head in waiting:
                self._ray.cancel(head, force=False)
            self._report.note_retries(self._ray.get(actor.end.remote(map_name)), "tasks")
            self._metrics.tell()

    def _submit(self, number: int, chunk: Chunk) -> list[Any]:
        numbers, items = chunk
        task = self._task.options(num_returns=1 + len(items))
        return task.remote(
            self._sent, self._attempts, number, numbers, items, self._settings, self._kernels
        )

    def _results(
        self, head: Any, numbers: Sequence[int], rest: Sequence[Any], refs: bool
    ) -> Iterator[tuple[int, Any]]:
        outcome: Outcome = self._ray.get(head)
        self._report.add(outcome.cost)
        raise_failure(outcome)
        self._metrics.tell()
        for number, reference in zip(numbers, rest, strict=True):
            yield number, reference if refs else self._ray.get(reference)


def raise_failure(outcome: Outcome) -> None:
    """Raise the error of an item, with a note where it came from."""
    failure = outcome.failure
    if failure is not None:
        failure.error.add_note(f"in item {failure.number} of map, in a worker:\n{failure.text}")
        raise failure.error


def connect(name: str, address: str | None, workers: int | None, threads: int) -> tuple[Any, int]:
    """Ray, and how many workers may be busy at once."""
    ray = ray_cluster.connect(name, address)
    there = max(1, ray_cluster.cpus(ray) // threads)
    return ray, there if workers is None else min(workers, there)
