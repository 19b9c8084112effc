"""Checkpointer: numbered checkpoints in a folder, written beside the training that goes on."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import threading
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from gradtape.config import WRITER_NICENESS
from gradtape.errors import CheckpointError, DamagedFileError
from gradtape.libraries import check_exports, compiled_first, described, new_lock
from gradtape.training.storage import files, registry
from gradtape.training.storage.decode import new_tree, tree_into
from gradtape.training.storage.encode import Snapshot, snapshot
from gradtape.training.storage.folder_lock import FolderLock
from gradtape.training.storage.structure import refuse
from gradtape.typing import Count, PathLike, Size

__all__ = ["Checkpointer", "Restored"]

# Used where no lock is held that a handler could wait for.
_log = logging.getLogger("gradtape.training.storage")

_NAME = re.compile(r"checkpoint-(\d{10,})(\.safetensors|\.npz)")
_NOWHERE: Any = ...


@described(step="The number of the checkpoint.", tree="The tree that was saved.")
class Restored(NamedTuple):
    """The step and the tree of a checkpoint.

    >>> from gradtape.training.storage.checkpointer import Restored
    >>> Restored(7, {"w": 1.0}).step
    7
    """

    step: int
    tree: Any


class _Writing:
    """The file that is being written, and what went wrong with it."""

    def __init__(self, step: int, path: Path, content: Snapshot, keep: int) -> None:
        self.step, self.path, self.keep = step, path, keep
        self.content: Snapshot | None = content
        self.error: BaseException | None = None
        # Not a daemon: a program that ends lets the file become whole.
        self.thread = threading.Thread(target=self.run, name="gradtape-checkpoint", daemon=False)

    def run(self) -> None:
        """Write the file, then delete the oldest ones."""
        with contextlib.suppress(OSError, AttributeError):
            # Under Linux this is the priority of the thread alone.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), WRITER_NICENESS)
        try:
            assert self.content is not None
            files.write_whole(self.path, self.content, "Checkpointer.save")
            _log.info("checkpoint of step %d written: %s", self.step, self.path)
            delete_all_but(self.path.parent, self.keep)
        except BaseException as error:
            self.error = error
            _log.info("checkpoint of step %d failed: %r", self.step, error)
        finally:
            # The values of this step are not needed any more.
            self.content = None


class Checkpointer:
    """Checkpoints of a training run in a folder: written beside it, the latest `keep` are kept.

    >>> import tempfile
    >>> w, optimizer = gt.Variable(1.0), gt.optimizers.Adam(0.1)
    >>> state = {"w": w, "optimizer": optimizer}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with gt.Checkpointer(folder, keep=2, every=10) as checkpoints:
    ...         for step in range(25):
    ...             _ = optimizer.minimize(lambda: w * w, [w])
    ...             _ = checkpoints.save(step, state)
    ...         checkpoints.wait()
    ...         print(checkpoints.steps())
    ...         print(checkpoints.restore(into=state).step, int(optimizer.iterations))
    [10, 20]
    20 21

    `save` takes a snapshot, which copies no tensors, and returns; a thread writes it. A step that
    is not a multiple of `every` is passed over. An error of the thread is raised by the next call.
    The stream of `gt.random` is saved and restored with the tree. Within `with` plans are compiled
    before their first run, so that a run that was killed and resumed repeats the numbers of one
    that was not, bit for bit. `keep=None` keeps all. One process at a time writes to a folder.
    """

    def __init__(self, directory: PathLike, keep: Size | None = 3, every: Size = 1) -> None:
        self.directory = files.as_path("Checkpointer", directory)
        self.keep, self.every = keep, every
        if self.directory.exists() and not self.directory.is_dir():
            raise NotADirectoryError(f"Checkpointer: {str(self.directory)!r} is not a folder.")
        self._lock = new_lock()
        self._writing: _Writing | None = None
        self._folder = FolderLock(self.directory)
        self._closed = False
        self._process = os.getpid()
        self._mode: list[contextlib.AbstractContextManager[None]] = []

    # Writing.

    def is_due(self, step: Count) -> bool:
        """Whether `save` writes at a step.

        >>> gt.Checkpointer("runs", every=10).is_due(20)
        True
        """
        return step % self.every == 0

    def save(self, step: Count, tree: Any, force: bool = False) -> bool:
        """Begin to write a checkpoint if the step is due or `force` is set; returns whether so."""
        if not (force or step % self.every == 0):
            self._raise_error()
            return False
        with self._lock:
            if self._closed:
                raise CheckpointError(
                    "Checkpointer.save: the checkpointer is closed. Make another one."
                )
            # One file at a time: a disk that is slower than the training slows it down.
            self.wait()
            content = snapshot({"step": step, "random": registry.SHARED_STREAM, "tree": tree})
            self.directory.mkdir(parents=True, exist_ok=True)
            if self._folder.acquire():
                self._delete_unfinished()
            keep = 0 if self.keep is None else self.keep
            path = self.directory / f"checkpoint-{step:010d}{files.first_ending()}"
            self._writing = _Writing(step, path, content, keep)
            self._writing.thread.start()
        return True

    def wait(self) -> None:
        """Wait until the checkpoint that is being written is on the disk."""
        with self._lock:
            writing = self._writing
            if writing is not None and self._is_ours():
                writing.thread.join()
            self._raise_error()

    def _is_ours(self) -> bool:
        """Whether threads of this object can exist: a forked child has none of its parent's."""
        if self._process == os.getpid():
            return True
        self._process, self._writing = os.getpid(), None
        self._folder = FolderLock(self.directory)
        return False

    def _raise_error(self) -> None:
        writing = self._writing
        if writing is None or writing.error is None:
            return
        self._writing = None
        raise CheckpointError(
            f"Checkpointer: the checkpoint of step {writing.step} could not be written to "
            f"{str(writing.path)!r}: {writing.error}. Earlier ones are whole; mend the cause, such "
            "as a full disk, and go on."
        ) from writing.error

    def _delete_unfinished(self) -> None:
        """Remove what killed processes left. The folder is locked, so no process writes them."""
        for path in self.directory.glob(f".checkpoint-*{files.UNFINISHED}"):
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Wait for the last checkpoint, and let another process write to the folder.

        >>> checkpoints = gt.Checkpointer("runs")
        >>> checkpoints.close()
        """
        with self._lock:
            self._closed = True
            try:
                self.wait()
            finally:
                self._folder.release()

    def __enter__(self) -> Checkpointer:
        mode = compiled_first()
        mode.__enter__()
        self._mode.append(mode)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._mode:
            self._mode.pop().__exit__(None, None, None)
        try:
            self.close()
        except CheckpointError:
            # The error that ended the block is the one to see.
            if error is None:
                raise

    # Reading.

    def steps(self) -> list[int]:
        """The steps of the checkpoints that are there, in order."""
        return [step for step, _ in checkpoints_in(self.directory)]

    def latest(self) -> int | None:
        """The step of the newest checkpoint, or None.

        >>> print(gt.Checkpointer("runs").latest())
        None
        """
        steps = self.steps()
        return steps[-1] if steps else None

    def restore(self, into: Any = _NOWHERE, step: Count | None = None) -> Restored | None:
        """The newest checkpoint that is whole, or that of a step; None if there is none.

        With `into`, the objects of that tree take the values, as in `gt.load`. A damaged
        checkpoint is passed over with a warning, unless it is that of `step`.
        """
        with self._lock:
            self.wait()
            if step is not None:
                paths = dict(checkpoints_in(self.directory))
                if step not in paths:
                    raise CheckpointError(
                        f"Checkpointer.restore: there is no checkpoint of step {step} in "
                        f"{str(self.directory)!r}. There are {sorted(paths)}."
                    )
                return _read(paths[step], into)
            damaged: DamagedFileError | None = None
            for _, path in reversed(checkpoints_in(self.directory)):
                try:
                    return _read(path, into)
                except FileNotFoundError:
                    # The process that writes has deleted it since.
                    continue
                except DamagedFileError as error:
                    damaged = error
                    warnings.warn(
                        f"Checkpointer.restore: {error} An older one is used.", stacklevel=2
                    )
            if damaged is not None:
                raise damaged
            return None

    def __repr__(self) -> str:
        return f"Checkpointer({str(self.directory)!r}, keep={self.keep}, every={self.every})"


def checkpoints_in(directory: Path) -> list[tuple[int, Path]]:
    """The steps and files of a folder, in order; of two formats the first is taken."""
    found: dict[int, Path] = {}
    if directory.is_dir():
        for path in sorted(directory.iterdir(), reverse=True):
            match = _NAME.fullmatch(path.name)
            if match is not None:
                found.setdefault(int(match.group(1)), path)
    return sorted(found.items())


def delete_all_but(directory: Path, keep: int) -> None:
    """Delete the oldest checkpoints; 0 keeps all."""
    for _, path in checkpoints_in(directory)[:-keep] if keep else ():
        path.unlink(missing_ok=True)
        _log.info("checkpoint removed: %s", path)


def _read(path: Path, into: Any) -> Restored:
    # Copied, not mapped: a checkpoint may be deleted soon, and its disk space should be free then.
    file = files.open_file(path, mapped=False)
    content = file.content
    if content is None:
        refuse(path, "it is no checkpoint")
    tree, objects = content["tree"], content["objects"]
    if into is _NOWHERE:
        found = new_tree(tree, objects, file.array)
        if not isinstance(found, dict) or found.keys() != {"step", "random", "tree"}:
            refuse(path, "it is no checkpoint")
        registry.set_stream(registry.SHARED_STREAM, found["random"]).apply()
    else:
        guide = {"step": 0, "random": registry.SHARED_STREAM, "tree": into}
        found = tree_into(tree, objects, file.array, guide)
    return Restored(found["step"], found["tree"])


check_exports(globals(), __all__)
