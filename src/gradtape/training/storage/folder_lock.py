"""FolderLock: one writer at a time for a folder, until it lets go or its process is gone."""

from __future__ import annotations

import os
import sys
import weakref
from pathlib import Path

from gradtape.errors import CheckpointError
from gradtape.libraries import new_lock

# A lock of the system is a process's as a whole, so locks of this process are distinguished here.
_held: weakref.WeakValueDictionary[str, FolderLock] = weakref.WeakValueDictionary()
_guard = new_lock()


class FolderLock:
    """A lock on a folder. The system frees it when the process ends, however it ends.

    Record locks are not inherited by forked children, so that a child of a killed process does not
    keep the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / ".lock"
        self._descriptor: int | None = None
        self._owner = 0

    def acquire(self) -> bool:
        """Take the lock, or raise; False if it was held already."""
        with _guard:
            if self._descriptor is not None and self._owner == os.getpid():
                return False
            key = os.path.realpath(self._file)
            other = _held.get(key)
            if other is not None and other is not self and other._owner == os.getpid():
                raise CheckpointError(
                    f"Checkpointer: another Checkpointer of this process writes to "
                    f"{str(self._file.parent)!r}. Close it first, or use another folder."
                )
            self._descriptor = _locked(self._file)
            self._owner = os.getpid()
            _held[key] = self
            return True

    def release(self) -> None:
        """Let go of the lock, if it is held."""
        with _guard:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None and self._owner == os.getpid():
                _held.pop(os.path.realpath(self._file), None)
                os.close(descriptor)

    def __del__(self) -> None:
        if self._descriptor is not None and self._owner == os.getpid() and not sys.is_finalizing():
            os.close(self._descriptor)


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        # A module of Unix: elsewhere folders are not locked.
        import fcntl
    except ImportError:
        return descriptor
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    except OSError as error:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace")
        os.close(descriptor)
        raise CheckpointError(
            f"Checkpointer: process {holder} writes checkpoints to {str(path.parent)!r}. "
            "Use a folder for each run, or end that process."
        ) from error
    return descriptor
