"""gt.fit: calls a user's step on every batch, and does the rest of a training run."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape import Tensor, Variable, pytree
from gradtape.config import PROGRESS_INTERVAL
from gradtape.libraries import as_real, check_exports, check_function, compiled_first, shown
from gradtape.training.batches import Batches, Shuffle, Stream
from gradtape.training.early_stopping import BestEpoch, EarlyStopping
from gradtape.training.history import History
from gradtape.training.progress import Epochs
from gradtape.training.read_ahead import ReadAhead
from gradtape.training.storage.checkpointer import Checkpointer
from gradtape.typing import Count, ProgressChoice, Size

__all__ = ["fit"]

_log = logging.getLogger("gradtape.training")


def fit(
    step: Callable[..., Any],
    data: Any,
    *,
    epochs: Count = 1,
    batch_size: Size = 32,
    shuffle: Shuffle = None,
    steps_per_epoch: Size | None = None,
    validation: Any = None,
    validate: Callable[..., Any] | None = None,
    early_stopping: EarlyStopping | None = None,
    optimizer: Any = None,
    schedule: Callable[[int], float] | None = None,
    state: Any = None,
    checkpoints: Any = None,
    resume: bool = True,
    read_ahead: Count | None = None,
    progress: ProgressChoice = "auto",
) -> History:
    """Call a step on every batch of the data, epoch after epoch, and return the history.

    >>> w, optimizer = gt.Variable(0.0), gt.optimizers.SGD(0.1)
    >>> @gt.function
    ... def step(x, y):
    ...     return optimizer.minimize(lambda: gt.mean((w * x - y) ** 2), [w])
    >>> x = np.linspace(-1.0, 1.0, 64)
    >>> history = gt.fit(step, (x, 3.0 * x), epochs=60, shuffle=0, progress=False)
    >>> round(float(w), 2), history.epochs, history["loss"][-1] < 1e-3
    (3.0, 60, True)

    | argument | meaning |
    |---|---|
    | step | takes the parts of a batch; returns the loss, or a dict of numbers |
    | data | arrays (cut into batches), an iterable of batches, or a function that returns one |
    | shuffle | a `gt.random.Generator` or a seed, for arrays |
    | steps_per_epoch | the number of batches of an epoch, for data without an end |
    | validation, validate | data and a step for them; their numbers are recorded as `val_...` |
    | early_stopping | a `gt.training.EarlyStopping` |
    | optimizer, schedule | before each epoch, the learning rate becomes `schedule(epoch)` |
    | state | a tree of everything that the step changes: model, optimiser, generators |
    | checkpoints | a `gt.Checkpointer` or a folder: `state` and the position are saved there |
    | resume | go on from the newest checkpoint, if there is one |
    | read_ahead | how many batches a thread makes ahead: by default 2, and 0 for arrays |
    | progress | "auto", "rich", "plain", "off" or a function, as in `gt.set_progress` |

    A tuple or list is passed to the step part by part, any other batch as it is. Losses are read
    when an epoch ends, so the step itself decides when it computes.
    """
    check_function("fit: step", step)
    source, held_out = _source(data, batch_size, shuffle), None
    if validate is not None:
        check_function("fit: validate", validate)
    if validation is not None:
        held_out = _source(validation, batch_size, None)
        if validate is None:
            raise ValueError("fit: validation data need validate=, a function that takes a batch.")
    if (optimizer is None) != (schedule is None):
        raise ValueError("fit: optimizer and schedule belong together. Pass both, or neither.")
    best = early_stopping is not None and early_stopping.restore_best
    if state is None and (checkpoints is not None or best):
        raise ValueError(
            "fit: checkpoints and restore_best need state=, a tree of everything that the step "
            "changes, such as {'model': model, 'optimizer': optimizer}."
        )
    if read_ahead is None:
        # A thread makes batches ahead: to cut an array takes less than to pass it on.
        read_ahead = 0 if isinstance(source, Batches) else 2
    watch = BestEpoch(early_stopping, state)
    run = _Run(step, source, epochs, steps_per_epoch, read_ahead, state, watch, Epochs(progress))
    with contextlib.ExitStack() as stack:
        stack.callback(run.progress.close)
        if checkpoints is not None:
            # A run that is resumed rounds like one that was not: see `Checkpointer`.
            stack.enter_context(compiled_first())
            run.checkpoints = checkpoints
            if not isinstance(checkpoints, Checkpointer):
                run.checkpoints = stack.enter_context(Checkpointer(checkpoints))
            if resume:
                run.resume()
        while run.goes_on():
            if schedule is not None:
                optimizer.learning_rate = float(schedule(source.epoch))
            run.train()
            run.finish_epoch({} if held_out is None else _measured(validate, held_out))
        if best:
            watch.restore()
    run.history.ended = "early stopping" if run.stopped else "all epochs"
    _log.info("fit ended after %d epochs: %s", run.history.epochs, run.history.ended)
    return run.history


def _source(data: Any, batch_size: Size, shuffle: Shuffle) -> Batches | Stream:
    if isinstance(data, (Batches, Stream)):
        return data
    leaves = pytree.flatten(data)[0] if isinstance(data, (tuple, dict)) else [data]
    if leaves and all(isinstance(leaf, (np.ndarray, Tensor, Variable)) for leaf in leaves):
        return Batches(data, batch_size, shuffle)
    if shuffle is not None and shuffle is not False:
        raise ValueError("fit: only arrays are shuffled here. Shuffle other data before.")
    if isinstance(data, (str, bytes, dict)) or not (callable(data) or hasattr(data, "__iter__")):
        raise TypeError(
            f"fit: data={shown(data)} gives no batches. Pass arrays, an iterable of batches, or a "
            "function that returns one."
        )
    return Stream(data)


def _call(step: Callable[..., Any], batch: Any) -> Any:
    return step(*batch) if isinstance(batch, (tuple, list)) else step(batch)


class _BatchMeans:
    """Numbers of an epoch's batches, weighted by their examples; tensors are read late."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.counts: list[int] = []
        self._seen = 0

    def add(self, result: Any, count: int) -> None:
        """Note what a step returned."""
        self.counts.append(count)
        if isinstance(result, Mapping):
            for name, value in result.items():
                self.values.setdefault(name, []).append(value)
        elif result is not None:
            self.values.setdefault("loss", []).append(result)

    def numbers(self) -> dict[str, list[float]]:
        """The values as floats."""
        for name, values in self.values.items():
            values[self._seen :] = [_number(name, x) for x in values[self._seen :]]
        self._seen = len(self.counts)
        return self.values

    def means(self) -> dict[str, float]:
        """The mean of each."""
        weights = np.array(self.counts, np.float64)
        return {
            name: float(np.dot(values, weights) / weights.sum())
            for name, values in self.numbers().items()
            if len(values) == len(weights) and weights.sum() > 0
        }

    def latest(self) -> float | None:
        """The loss of the last batch."""
        values = self.values.get("loss")
        return _number("loss", values[-1]) if values else None


@dataclass
class _Run:
    """One run: where it is, and what it has measured."""

    step: Callable[..., Any]
    source: Any
    epochs: Count
    # Batches of an epoch at most, and batches that are made ahead.
    most: int | None
    ahead: int
    state: Any
    watch: BestEpoch
    progress: Epochs
    checkpoints: Any = None
    history: History = field(default_factory=History)
    means: _BatchMeans = field(default_factory=_BatchMeans)
    steps: int = 0
    stopped: bool = False

    def goes_on(self) -> bool:
        """Whether there is another epoch."""
        return not self.stopped and self.source.epoch < self.epochs

    def train(self) -> None:
        """The remaining batches of an epoch."""
        source, means, step = self.source, self.means, self.step
        self.progress.begin(source.epoch, self.epochs, self.most or len(source))
        shown_at = time.perf_counter() + PROGRESS_INTERVAL
        with _batches(source, self.ahead) as batches:
            while self.most is None or source.position < self.most:
                batch = next(batches, _END)
                if batch is _END:
                    break
                count = source.count_of(batch)
                means.add(_call(step, batch), count)
                source.took_one()
                self.steps += 1
                if self.checkpoints is not None and self.checkpoints.is_due(self.steps):
                    self.checkpoints.save(self.steps, self.saved())
                if time.perf_counter() > shown_at:
                    self.progress.move(source.position, means.latest())
                    shown_at = time.perf_counter() + PROGRESS_INTERVAL
        if not means.counts:
            raise ValueError("fit: the data gave no batch. Pass data with at least one.")

    def finish_epoch(self, more: Mapping[str, float]) -> None:
        """Record the epoch."""
        logs = {**self.means.means(), **{f"val_{name}": value for name, value in more.items()}}
        self.means = _BatchMeans()
        self.history.add(logs)
        self.progress.end(self.source.position, logs)
        if _log.isEnabledFor(logging.INFO):
            numbers = ", ".join(f"{name} {value:.6g}" for name, value in logs.items())
            _log.info("epoch %d/%d: %s", self.source.epoch + 1, self.epochs, numbers)
        self.stopped = self.watch.stops(logs)
        self.source.took_all()
        if self.checkpoints is not None and not self.goes_on():
            self.checkpoints.save(self.steps, self.saved(), force=True)

    # Checkpoints.

    def saved(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {
            "state": self.state,
            "batches": self.source,
            "run": [
                {
                    "steps": self.steps,
                    "stopped": self.stopped,
                    "history": self.history.numbers,
                    "epochs": self.history.epochs,
                    "values": self.means.numbers(),
                    "counts": self.means.counts,
                    "watch": self.watch.saved(),
                }
            ],
        }

    def resume(self) -> None:
        """Go on from the newest checkpoint, if there is one."""
        # What `run` holds is plain, so the file alone says what it is.
        guide = {"state": self.state, "batches": self.source, "run": None}
        found = self.checkpoints.restore(into=guide)
        if found is None:
            return
        (run,) = found.tree["run"]
        self.steps, self.stopped = run["steps"], run["stopped"]
        _log.info("fit goes on from the checkpoint of step %d", self.steps)
        self.history.numbers, self.history.epochs = run["history"], run["epochs"]
        self.means.values, self.means.counts = run["values"], run["counts"]
        self.means._seen = len(run["counts"])
        self.watch.take(run["watch"])


_END: Any = object()


@contextlib.contextmanager
def _batches(source: Any, ahead: int) -> Iterator[Iterator[Any]]:
    if not ahead or getattr(source, "_once", False):
        # An iterator that runs once would lose the batches that were read ahead.
        yield iter(source.left())
        return
    with ReadAhead(iter(source.left()), ahead) as batches:
        yield batches


def _measured(validate: Any, source: Any) -> dict[str, float]:
    """The means of a validation step's numbers over its data."""
    means = _BatchMeans()
    for batch in source.left():
        means.add(_call(validate, batch), source.count_of(batch))
        source.took_one()
    source.took_all()
    return means.means()


def _number(name: str, value: Any) -> float:
    try:
        return as_real(name, value)
    except TypeError:
        raise TypeError(
            f"fit: the step returned {shown(value)} as {name}, not a number. Return the loss, or a "
            "dict of numbers."
        ) from None


check_exports(globals(), __all__)
