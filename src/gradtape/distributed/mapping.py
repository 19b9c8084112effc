"""map: a function of many items, by many workers; results stream in, in order or as completed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from itertools import islice
from typing import Any

import numpy as np

from gradtape import Function, vmap
from gradtape.config import TASKS_AHEAD, TRACED_KINDS_OF_ITEMS
from gradtape.distributed import functions_sent, random_streams
from gradtape.distributed.functions_sent import Sent
from gradtape.distributed.ray_tasks import RayTasks
from gradtape.distributed.report import Report
from gradtape.distributed.shards import as_array, rows_in
from gradtape.distributed.tasks import (
    ProgramOfItem,
    Settings,
    TaskOutcome,
    run_tasks,
    size_of,
    takes_generator,
)
from gradtape.export import NotExportableError, exported
from gradtape.libraries import Progress, checked_progress
from gradtape.pytree import flatten, unflatten
from gradtape.typing import Count, ProgressChoice, Size

__all__ = ["Results", "map"]


class Results:
    """The results of a map as they stream in; `report` counts what workers did.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as threads:
    ...     results = gt.distributed.map(lambda x: x + 1, [1, 2], executor=threads)
    ...     print(next(results), next(results), results.report.tasks)
    2 3 2
    """

    def __init__(self, found: Iterator[Any], report: Report, total: int | None) -> None:
        self._found = found
        self.report = report
        self.total = total

    def __iter__(self) -> Results:
        return self

    def __next__(self) -> Any:
        return next(self._found)

    def close(self) -> None:
        """Cancel what has not begun."""
        close = getattr(self._found, "close", None)
        if close is not None:
            close()


def map(
    f: Callable[..., Any],
    xs: Iterable[Any],
    *,
    batch: Size | None = None,
    chunk: Size = 1,
    ordered: bool = True,
    refs: bool = False,
    seed: int | None = None,
    workers: Size | None = None,
    threads: Size = 1,
    retries: Count = 3,
    copy_variables: bool = False,
    progress: ProgressChoice = False,
    executor: futures.Executor | None = None,
    address: str | None = None,
) -> Results:
    """The results f(x) for each x, computed by workers: of Ray, or of an executor.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> starts = [np.array([0.5]), np.array([3.5])]
    >>> def lowest(start):
    ...     return gt.minimize(lambda x: gt.sum((x - 2.0) ** 2), start)
    >>> with ThreadPoolExecutor(2) as threads:
    ...     [x.round(6).tolist() for x in gt.distributed.map(lowest, starts, executor=threads)]
    [[2.0], [2.0]]

    | argument | meaning |
    |---|---|
    | batch | xs is an array or a nest of arrays: f is vmapped over `batch` rows at a time |
    | chunk | items per task; more of them where one takes less than a few milliseconds |
    | ordered | False gives pairs (number, result) as they are completed |
    | refs | results stay in Ray's object store, and references are given |
    | seed | the seed of the random stream of each item; by default one of the shared stream |
    | workers | how many tasks run at once; by default as many as there are CPUs |
    | threads | the CPUs of one task |
    | retries | how often Ray repeats a task whose worker died |
    | copy_variables | f may read Variables from outside: workers get copies |
    | progress | True, or another choice of `gt.set_progress`: how many results have arrived |
    | executor | any executor of `concurrent.futures`, in the place of Ray |
    | address | a cluster of Ray; without it the current one, or a new one on this machine |

    Tensors in results arrive as NumPy arrays. A `gt.function`, and everything with `batch`, is
    traced once by the driver and travels as a program; other functions are pickled. The shared
    random stream is that of the item, whichever worker computes it; a parameter `generator` of f
    gets it too, which is the way to draw in a pool of threads. Few results are held at a time.
    """
    if not callable(f):
        raise TypeError(f"map: {type(f).__name__} cannot be called. Pass a function.")
    if executor is not None and refs:
        raise ValueError("map: refs=True are references of Ray. Leave out executor=, or refs.")
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(
            f"map: executor is a {type(executor).__name__}. Pass an executor of concurrent.futures."
        )
    if not copy_variables:
        functions_sent.refuse_variables(
            "map", f, remedy="Pass values in xs, or copy_variables=True if f only reads them."
        )
    if batch is not None:
        items: Sequence[Any] | Iterable[Any] = rows_of(xs, batch)
        f = vmap(f)
    else:
        items = xs
    total = len(items) if isinstance(items, Sequence) else getattr(items, "__len__", lambda: None)()
    bar = Progress("map", total, checked_progress("map: progress=", progress), patience=0.0)
    report = Report("map")
    items, f = _as_programs(f, items, report, is_traced=batch is not None)
    settings = Settings(random_streams.base_seed(seed), os.getpid(), threads)
    tasks: RayTasks | ExecutorTasks
    if executor is None:
        tasks = RayTasks(f, settings, report, workers, retries, refs, address)
    else:
        tasks = ExecutorTasks(executor, f, settings, report, workers)
    pairs = _pairs(tasks, _chunks(items, chunk, report), ordered, report)
    return Results(_shown(pairs, ordered, bar), report, total)


class ExecutorTasks:
    """The tasks of one map by an executor."""

    def __init__(
        self,
        executor: futures.Executor,
        f: Callable[..., Any],
        settings: Settings,
        report: Report,
        workers: int | None,
    ) -> None:
        self._executor, self._settings, self._report = executor, settings, report
        in_threads = isinstance(executor, futures.ThreadPoolExecutor)
        self._function = f if in_threads else functions_sent.send("map", f)
        workers = workers or getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        self.held = self.at_once = TASKS_AHEAD * workers

    def submit(self, numbers: list[int], items: list[Any]) -> futures.Future[list[Any]]:
        """Begin a task; its handle."""
        if isinstance(self._function, Sent):
            self._report.bytes_sent += len(self._function.data)
        return self._executor.submit(run_tasks, self._function, numbers, items, self._settings)

    def unfinished(self, tasks: Sequence[futures.Future[Any]]) -> list[futures.Future[Any]]:
        """The tasks that have not ended, once at least one has."""
        return list(futures.wait(tasks, return_when=futures.FIRST_COMPLETED).not_done)

    def results(self, task: futures.Future[list[Any]]) -> tuple[TaskOutcome, Iterable[Any]]:
        """The outcome of a task that has ended, and the results of its items."""
        outcome, *results = task.result()
        return outcome, results

    def close(self, tasks: Iterable[futures.Future[Any]]) -> None:
        """Cancel tasks whose results are not needed."""
        for task in tasks:
            task.cancel()


def _pairs(
    tasks: RayTasks | ExecutorTasks,
    chunks: Iterator[tuple[list[int], list[Any]]],
    ordered: bool,
    report: Report,
) -> Iterator[tuple[int, Any]]:
    """Number and result of each item: in order, or as soon as they are there."""
    waiting: dict[Any, list[int]] = {}
    unfinished: list[Any] = []
    try:
        while True:
            while len(waiting) < tasks.held and len(unfinished) < tasks.at_once:
                chunk = next(chunks, None)
                if chunk is None:
                    break
                task = tasks.submit(*chunk)
                waiting[task] = chunk[0]
                unfinished.append(task)
            if not waiting:
                return
            # The first one if results are in order, else any that has ended.
            still = set(unfinished)
            task = next((each for each in waiting if ordered or each not in still), None)
            if task is None or task in still:
                unfinished = tasks.unfinished(unfinished)
                continue
            outcome, results = tasks.results(task)
            report.add(outcome.cost)
            if outcome.error is not None:
                raise outcome.error
            yield from zip(waiting.pop(task), results, strict=True)
    finally:
        tasks.close(waiting)


def _chunks(
    items: Iterable[Any], size: int, report: Report
) -> Iterator[tuple[list[int], list[Any]]]:
    numbered = enumerate(items)
    while pairs := list(islice(numbered, size)):
        held = [item for _, item in pairs]
        report.bytes_sent += size_of(held)
        yield [number for number, _ in pairs], held


def _shown(pairs: Iterator[tuple[int, Any]], ordered: bool, progress: Progress) -> Iterator[Any]:
    with progress:
        for number, result in pairs:
            progress.advance()
            yield result if ordered else (number, result)


class rows_of(Sequence[Any]):  # noqa: N801 - it is called like a function
    """A nest of arrays as a sequence of slices of `size` rows."""

    def __init__(self, tree: Any, size: int) -> None:
        leaves, self._structure = flatten(tree)
        self._leaves = [as_array(leaf) for leaf in leaves]
        self._count, self._size = rows_in("map: batch= takes arrays with", self._leaves), size

    def __len__(self) -> int:
        return -(-self._count // self._size)

    def __getitem__(self, at: Any) -> Any:
        if not 0 <= at < len(self):
            raise IndexError(at)
        rows = slice(at * self._size, (at + 1) * self._size)
        return unflatten(self._structure, [leaf[rows] for leaf in self._leaves])


def _as_programs(
    f: Any, items: Iterable[Any], report: Report, is_traced: bool
) -> tuple[Iterable[Any], Any]:
    """The items, and f as programs if it is to be traced by the driver and can be."""
    if not isinstance(f, Function) and not is_traced:
        return items, f
    if not isinstance(items, (Sequence, np.ndarray)):
        report.not_a_program = (
            "the items are not a sequence, whose kinds are known before the first call"
        )
        return items, f
    try:
        if takes_generator(f):
            raise NotExportableError("it draws random numbers")
        kinds: dict[Any, Any] = {}
        for item in items:
            leaves, structure = flatten(item)
            kinds.setdefault((structure, tuple((x.shape, x.dtype) for x in leaves)), item)
            if len(kinds) > TRACED_KINDS_OF_ITEMS:
                raise NotExportableError(
                    f"there are more than {TRACED_KINDS_OF_ITEMS} kinds of items"
                )
        python = f.python_function if isinstance(f, Function) else f
        fastmath = bool(getattr(f, "fastmath", False))
        programs = [exported(python, item, fastmath=fastmath) for item in kinds.values()]
        return items, ProgramOfItem(tuple(program.compile() for program in programs))
    except (NotExportableError, AttributeError) as reason:
        report.not_a_program = str(reason)
        return items, f
