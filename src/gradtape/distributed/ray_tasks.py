"""Tasks on Ray: submitted some at a time, retried by Ray when a worker dies, streamed back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from itertools import count
from typing import Any

from gradtape.config import TASKS_AHEAD
from gradtape.distributed import ray_cluster
from gradtape.distributed.functions_sent import Sent, send
from gradtape.distributed.report import RayMetrics, Report
from gradtape.distributed.tasks import Settings, TaskOutcome, install_kernels, run_tasks
from gradtape.export import kernel_files


class Attempts:
    """An actor that counts how often each task began: more than once is a retry by Ray."""

    def __init__(self) -> None:
        self._begun: dict[str, dict[int, int]] = {}

    def begin(self, map_name: str, task: int) -> None:
        """Note that a worker begins a task."""
        begun = self._begun.setdefault(map_name, {})
        begun[task] = begun.get(task, 0) + 1

    def end(self, map_name: str) -> int:
        """The number of restarts of the tasks of a map."""
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
        self,
        f: Any,
        settings: Settings,
        report: Report,
        workers: int | None,
        retries: int,
        refs: bool,
        address: str | None,
    ) -> None:
        self._ray = ray = ray_cluster.connect("map", address)
        self._settings, self._refs = settings, refs
        room = max(1, ray_cluster.cpus(ray) // settings.threads)
        busy = room if workers is None else min(workers, room)
        self.held = TASKS_AHEAD * busy
        # Where all CPUs may be used, Ray holds the next tasks ready.
        self.at_once = self.held if busy == room else busy
        sent = send("map", f)
        self._sent = ray.put(sent)
        report.bytes_sent += len(sent.data)
        self._attempts = (_attempts(ray), uuid.uuid4().hex)
        self._task = ray.remote(num_cpus=settings.threads, max_retries=retries)(_task)
        self._numbers = count()
        # References to the results of the tasks that were submitted.
        self._results: dict[Any, list[Any]] = {}
        self._report, self._metrics = report, RayMetrics(ray.util.metrics, report)
        self._kernels = None
        if needs_kernel_files(ray):
            files = kernel_files()
            report.bytes_sent += sum(map(len, files.values()))
            self._kernels = (sent.digest, [ray.put(files)])

    def submit(self, numbers: list[int], items: list[Any]) -> Any:
        """Begin a task; its handle."""
        task = self._task.options(num_returns=1 + len(items))
        head, *results = task.remote(
            self._sent,
            self._attempts,
            next(self._numbers),
            numbers,
            items,
            self._settings,
            self._kernels,
        )
        self._results[head] = results
        return head

    def unfinished(self, tasks: list[Any]) -> list[Any]:
        """The tasks that have not ended, once at least one has."""
        _, left = self._ray.wait(tasks, num_returns=1)
        return list(left)

    def results(self, task: Any) -> tuple[TaskOutcome, Iterable[Any]]:
        """The outcome of a task that has ended, and the results of its items."""
        self._metrics.update()
        references = self._results.pop(task)
        outcome: TaskOutcome = self._ray.get(task)
        return outcome, references if self._refs else map(self._ray.get, references)

    def close(self, tasks: Iterable[Any]) -> None:
        """Cancel tasks whose results are not needed, and count what was repeated."""
        for task in tasks:
            self._ray.cancel(task, force=False)
        actor, map_name = self._attempts
        self._report.note_retries(self._ray.get(actor.end.remote(map_name)), "tasks")
        self._metrics.update()
