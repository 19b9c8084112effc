"""Checkpoints in TensorFlow's words: Checkpoint, CheckpointManager, latest_checkpoint.

The files are those of `gt.save`; a path without an ending names one, as TensorFlow's prefixes do.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradtape import Tensor as CoreTensor, Variable as CoreVariable
from gradtape.libraries import check_exports, spec
from gradtape.random import Generator
from gradtape.tf.base.errors import NotFoundError
from gradtape.tf.programs import trackable
from gradtape.tf.programs.variable import Variable
from gradtape.trace.value import Value
from gradtape.training.storage import files
from gradtape.training.storage.encode import snapshot
from gradtape.training.storage.weights import read_arrays
from gradtape.typing import Count, NonNegative, Size

__all__ = ["Checkpoint", "CheckpointManager", "latest_checkpoint"]

PathLike = files.PathLike


def _place(prefix: PathLike) -> Path:
    """The file that a prefix names when it is written."""
    path = files.as_path("Checkpoint", prefix)
    if path.suffix in files.ENDINGS:
        return path
    return path.with_name(path.name + files.first_ending())


def _existing(prefix: PathLike) -> Path:
    """The file that a prefix names when it is read."""
    path = files.as_path("Checkpoint", prefix)
    for ending in ("", *files.ENDINGS):
        found = path.with_name(path.name + ending)
        if found.is_file():
            return found
    raise NotFoundError(f"{path}: there is no such checkpoint.")


def values_of(root: Any) -> dict[str, CoreTensor]:
    """The values below an object by path; a stream's is its state."""
    found = {}
    for name, cell in trackable.cells_of(root).items():
        if isinstance(cell, Generator):
            first, second, counter = cell.state
            words = [first, second, counter % 2**64, counter >> 64]
            array = np.array(words, np.uint64)
            found[name] = CoreTensor(None, None, Value(array, spec(array.shape, array.dtype)))
        else:
            found[name] = CoreTensor(None, None, cell.current())
    return found


def write_values(root: Any, path: Path) -> None:
    """Write the values below an object to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(path, snapshot(values_of(root)), "Checkpoint")


def difference(cell: Any, array: np.ndarray) -> str | None:
    """Why a value does not fit a variable or a stream; None if it does."""
    if isinstance(cell, Generator):
        return None if array.shape == (4,) and array.dtype == np.uint64 else "is no stream there"
    here = cell._handle.spec
    if here.shape != array.shape:
        return f"has shape {array.shape} there and {here.shape} here"
    if here.dtype != array.dtype:
        return f"has dtype {array.dtype} there and {here.dtype} here"
    return None


def fill(cell: Any, array: np.ndarray) -> None:
    """Give a variable or a stream a value that fits."""
    if isinstance(cell, Generator):
        first, second, low, high = array.tolist()
        cell.restore((first, second, low + (high << 64)))
        return
    value = Value(array, spec(array.shape, array.dtype))
    # As the value that it begins with: a captured function must not assign it at every call.
    CoreVariable.hold_again([cell], [CoreTensor(None, None, value)])


def _checked_fill(cell: Any, array: np.ndarray) -> None:
    problem = difference(cell, array)
    if problem is not None:
        raise ValueError(f"Checkpoint: {getattr(cell, 'name', 'a stream')} {problem}.")
    fill(cell, array)


class _Status:
    """The matches of a restored checkpoint; TensorFlow's assertions check them."""

    def __init__(self, root: Any, unread: dict[str, Any], missing: list[str], matched: int) -> None:
        self._root, self._unread, self._missing = root, unread, missing
        self._matched = matched

    def assert_consumed(self) -> _Status:
        """Raise unless everything in the file and every variable here were matched."""
        self.assert_existing_objects_matched()
        if self._unread:
            raise AssertionError(
                f"Unresolved values in the checkpoint: {', '.join(sorted(self._unread))}. The "
                "objects do not have such variables, or not yet."
            )
        return self

    def assert_existing_objects_matched(self) -> _Status:
        """Raise unless every variable here was in the file."""
        if self._missing:
            raise AssertionError(
                f"Variables without a value in the checkpoint: {', '.join(self._missing)}."
            )
        return self

    def assert_nontrivial_match(self) -> _Status:
        """Raise if nothing was matched."""
        if not self._matched:
            raise AssertionError("Nothing in the checkpoint matches a variable here.")
        return self

    def expect_partial(self) -> _Status:
        """Say that not all is expected to match."""
        return self

    def initialize_or_restore(self, session: object = None) -> None:
        """Nothing is left to do."""

    run_restore_ops = initialize_or_restore


class Checkpoint:
    """A group of objects whose variables are saved together.

    >>> import os, tempfile
    >>> step, w = tf.Variable(0), tf.Variable([1.0, 2.0])
    >>> checkpoint = tf.train.Checkpoint(step=step, w=w)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = checkpoint.save(os.path.join(folder, "ckpt"))
    ...     _ = w.assign([0.0, 0.0])
    ...     _ = checkpoint.restore(path).assert_consumed()
    >>> os.path.basename(path), w.numpy().tolist()
    ('ckpt-1', [1.0, 2.0])

    Variables that layers and optimizers make after `restore` get their saved values then. Values
    are found by the attributes that lead to them.
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        for name, value in (*([("root", root)] if root is not None else []), *kwargs.items()):
            if not trackable.is_trackable(value) and not isinstance(value, Checkpoint):
                raise ValueError(
                    f"`Checkpoint` was expecting {name} to be a trackable object (an object with "
                    f"variables), got {value!r}. Keep numbers in a tf.Variable."
                )
        self._root = root
        self.__dict__.update(kwargs)
        self._tracked = list(kwargs)
        self._counter: Variable | None = None

    @property
    def save_counter(self) -> Variable:
        """The number of calls of `save`, a variable that is saved too."""
        if self._counter is None:
            self._counter = Variable(np.int64(0), trainable=False, name="save_counter")
            trackable.variables_were_made()
        return self._counter

    @property
    def variables(self) -> list[Any]:
        """All variables and streams of the objects."""
        return list(_cells(self).values())

    def write(self, file_prefix: PathLike, options: object = None) -> str:
        """Write the values to a file, and give its prefix."""
        write_values(_tree(self), _place(file_prefix))
        return os.fspath(file_prefix)

    def save(self, file_prefix: PathLike, options: object = None) -> str:
        """Write the values to the next numbered file, and give its prefix."""
        self.save_counter.assign_add(1)
        prefix = f"{os.fspath(file_prefix)}-{int(self.save_counter.numpy())}"
        return self.write(prefix)

    def read(self, save_path: PathLike, options: object = None) -> _Status:
        """Give the variables the values of a file; those that do not fit raise, before any has."""
        arrays = read_arrays(_existing(save_path))
        if "save_counter" in arrays:
            _ = self.save_counter
        cells = _cells(self)
        fitting = {name: cell for name, cell in cells.items() if name in arrays}
        problems = [
            f"{name} {problem}"
            for name, cell in fitting.items()
            if (problem := difference(cell, arrays[name])) is not None
        ]
        if problems:
            raise ValueError(f"Checkpoint: {'; '.join(problems)}. Nothing was restored.")
        trackable.stop_waiting(self)
        for name, cell in fitting.items():
            fill(cell, arrays[name])
        unread = {name: array for name, array in arrays.items() if name not in cells}
        missing = [name for name in cells if name not in arrays and name != "save_counter"]
        if unread:
            trackable.wait_for(trackable.Waiting(self, unread, _cells, _checked_fill))
        return _Status(self, unread, missing, len(fitting))

    def restore(self, save_path: PathLike | None, options: object = None) -> _Status:
        """The same as `read`; without a path nothing is read, and nothing is asserted."""
        if save_path is None:
            return _Status(self, {}, [], 0)
        return self.read(save_path)


def _tree(checkpoint: Checkpoint) -> dict[str, Any]:
    """The objects of a checkpoint by name; the root's are at the top."""
    found: dict[str, Any] = {}
    if checkpoint._root is not None:
        found["root"] = checkpoint._root
    for name in checkpoint._tracked:
        value = getattr(checkpoint, name)
        found[name] = _tree(value) if isinstance(value, Checkpoint) else value
    if checkpoint._counter is not None:
        found["save_counter"] = checkpoint._counter
    return found


def _cells(checkpoint: Checkpoint) -> dict[str, trackable.Cell]:
    return trackable.cells_of(_tree(checkpoint))


_NUMBERED = re.compile(r"(.+)-(\d+)")


def _numbered(directory: Path) -> list[tuple[int, int, str]]:
    """Number, time and prefix of the checkpoints in a folder, in order."""
    found = []
    for path in directory.iterdir() if directory.is_dir() else ():
        match = _NUMBERED.fullmatch(path.stem) if path.suffix in files.ENDINGS else None
        if match is not None and not path.name.startswith("."):
            number = int(match.group(2))
            found.append((number, path.stat().st_mtime_ns, os.fspath(path.with_suffix(""))))
    return sorted(found)


def latest_checkpoint(checkpoint_dir: PathLike, latest_filename: str | None = None) -> str | None:
    """The prefix of the checkpoint with the highest number in a folder, or None.

    >>> print(tf.train.latest_checkpoint("no_such_folder"))
    None
    """
    found = _numbered(files.as_path("latest_checkpoint", checkpoint_dir))
    return found[-1][2] if found else None


class CheckpointManager:
    """Keeps the latest checkpoints of a folder and deletes older ones.

    >>> import tempfile
    >>> checkpoint = tf.train.Checkpoint(step=tf.Variable(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    ...     for _ in range(4):
    ...         _ = manager.save()
    ...     [path.rpartition("-")[2] for path in manager.checkpoints]
    ['3', '4']
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: PathLike,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: NonNegative | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Variable | None = None,
        checkpoint_interval: Size | None = None,
        init_fn: Callable[[], object] | None = None,
    ) -> None:
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(
                f"`max_to_keep` must be either None or a positive number, got {max_to_keep}."
            )
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError(
                "`step_counter` should be passed if `checkpoint_interval` is not None."
            )
        self.checkpoint = checkpoint
        self._directory = files.as_path("CheckpointManager", directory)
        self._keep, self._name = max_to_keep, checkpoint_name
        self._hours = keep_checkpoint_every_n_hours
        self._step, self._interval, self._init = step_counter, checkpoint_interval, init_fn
        self._last_step: int | None = None
        self._last_kept = time.time()

    @property
    def directory(self) -> str:
        """The folder."""
        return os.fspath(self._directory)

    @property
    def checkpoints(self) -> list[str]:
        """The prefixes of the checkpoints that are there, oldest first."""
        start = f"{self._name}-"
        found = [prefix for _, _, prefix in _numbered(self._directory)]
        return [prefix for prefix in found if os.path.basename(prefix).startswith(start)]

    @property
    def latest_checkpoint(self) -> str | None:
        """The prefix of the newest checkpoint, or None."""
        found = self.checkpoints
        return found[-1] if found else None

    def save(
        self,
        checkpoint_number: Count | None = None,
        check_interval: bool = True,
        options: object = None,
    ) -> str | None:
        """Write a checkpoint, delete the oldest, and give the prefix; None if it is too early."""
        if self._interval is not None and check_interval:
            step = int(self._step.numpy())  # type: ignore[union-attr]
            if self._last_step is not None and step < self._last_step + self._interval:
                return None
            self._last_step = step
        prefix = self._directory / self._name
        if checkpoint_number is None:
            path = self.checkpoint.save(prefix)
        else:
            number = int(checkpoint_number)
            self.checkpoint.save_counter.assign_add(1)
            path = self.checkpoint.write(f"{os.fspath(prefix)}-{number}")
        self._delete_old()
        return path

    def _delete_old(self) -> None:
        for prefix in self.checkpoints[: -self._keep] if self._keep else ():
            path = _existing(prefix)
            written = path.stat().st_mtime
            if self._hours is not None and written - self._last_kept >= 3600 * self._hours:
                self._last_kept = written
                path.rename(path.with_name(f"kept-{path.name}"))
                continue
            path.unlink(missing_ok=True)

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint and give its prefix, or call `init_fn`."""
        latest = self.latest_checkpoint
        if latest is not None:
            self.checkpoint.restore(latest)
            if self._step is not None:
                self._last_step = int(self._step.numpy())
            return latest
        if self._init is not None:
            self._init()
        return None


check_exports(globals(), __all__)
