"""Tasks: what a worker runs. One call computes some items of a map and measures the cost."""

from __future__ import annotations

import inspect
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape import Tensor, Variable, counters, set_num_threads
from gradtape.distributed import functions_sent, random_streams
from gradtape.distributed.functions_sent import Sent
from gradtape.distributed.report import Cost, cost_since
from gradtape.export import ExportedProgram, install_kernel_files
from gradtape.libraries import compiled_first
from gradtape.pytree import flatten, map_leaves
from gradtape.random import Generator


@dataclass(frozen=True)
class TaskOutcome:
    """The end of a task: its cost, and the error that stopped it, if any."""

    cost: Cost
    error: BaseException | None = None


@dataclass(frozen=True)
class Settings:
    """Data that all tasks of one map have in common."""

    seed: int
    # The process of the driver: tasks of a pool of threads run there and change no settings of it.
    driver: int
    threads: int = 1


@dataclass(frozen=True)
class ProgramOfItem:
    """A function of one item that travelled as programs, one for each kind of item."""

    programs: tuple[ExportedProgram, ...]

    def __call__(self, x: Any) -> Any:
        x = as_arrays(x)
        shapes = [(tuple(leaf.shape), leaf.dtype) for leaf in flatten(x)[0]]
        for program in self.programs:
            if shapes == [(of.shape, of.dtype) for of in program.inputs]:
                return program(x)
        raise TypeError(f"map: no program for an item of shapes {shapes}. Pass items of one kind.")


def run_tasks(
    function: Sent | Callable[..., Any],
    numbers: Sequence[int],
    items: Sequence[Any],
    settings: Settings,
) -> list[Any]:
    """The outcome, and then the results of the items in their order."""
    before, start = counters(), time.perf_counter()
    is_apart = os.getpid() != settings.driver
    results: list[Any] = []
    failed = None
    traced = 0
    try:
        f = functions_sent.receive(function) if isinstance(function, Sent) else function
        traced = 0 if getattr(f, "programs", None) else len(items)
        wants_generator = takes_generator(f)
        if is_apart:
            set_num_threads(settings.threads)
        copies = functions_sent.variables_in(f) if isinstance(function, Sent) else []
        for number, item in zip(numbers, items, strict=True):
            try:
                results.append(_one(f, number, item, settings, is_apart, wants_generator))
                _refuse_assignments(copies)
            except Exception as error:
                failed = _sendable(number, error)
                break
    except Exception as error:  # the function could not be received
        failed = _sendable(numbers[0] if numbers else 0, error)
    results += [None] * (len(items) - len(results))
    moved = sum(map(size_of, results))
    cost = cost_since(
        before, time.perf_counter() - start, traced=traced, bytes_out=moved, pid=os.getpid()
    )
    return [TaskOutcome(cost, failed), *results]


def _one(
    f: Any, number: int, item: Any, settings: Settings, is_apart: bool, wants_generator: bool
) -> Any:
    more = {}
    if wants_generator:
        state = random_streams.stream(settings.seed, number)
        more["generator"] = Generator.from_state(state)
    if not is_apart:
        return as_arrays(f(item, **more))
    random_streams.begin(settings.seed, (number,))
    # Every run of a plan is compiled, so results do not depend on how many a worker ran before.
    with compiled_first():
        return as_arrays(f(item, **more))


def takes_generator(f: Any) -> bool:
    """Whether a function has a parameter `generator`, for the random stream of its item."""
    try:
        return "generator" in inspect.signature(f).parameters
    except (TypeError, ValueError):
        return False


def as_arrays(tree: Any) -> Any:
    """A result with arrays for tensors: the work that is pending in a worker stays there."""
    return map_leaves(
        lambda leaf: leaf.numpy() if isinstance(leaf, (Tensor, Variable)) else leaf, tree
    )


def _refuse_assignments(copies: Sequence[tuple[str, Variable]]) -> None:
    names = [path for path, variable in copies if variable._assigned]
    if names:
        raise RuntimeError(
            f"map: the function assigned {', '.join(names)} in a worker, where the change is lost. "
            "Return the new value instead."
        )


def _sendable(number: int, error: BaseException) -> BaseException:
    """An error that can be pickled, without frames, with a note that has their text."""
    text = "".join(traceback.format_exception(error))
    try:
        functions_sent.pickler().dumps(error)
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"in item {number} of map, in a worker:\n{text}")
    return error.with_traceback(None)


def size_of(tree: Any) -> int:
    """The bytes of the arrays in a nest, and 8 for anything else."""
    return sum(int(getattr(leaf, "nbytes", 8)) for leaf in flatten(tree)[0])


_installed: set[str] = set()


def install_kernels(digest: str, files: dict[str, bytes]) -> None:
    """Put kernels of the driver into the cache of this machine, once."""
    if digest not in _installed:
        _installed.add(digest)
        install_kernel_files(files)
