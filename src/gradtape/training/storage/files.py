"""Files: which format, written whole or not at all, opened whichever it is."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradtape.libraries import shown
from gradtape.training.storage import npz_file, safetensors_file
from gradtape.training.storage.encode import Snapshot
from gradtape.training.storage.structure import refuse, text_of
from gradtape.typing import PathLike

OpenFile = safetensors_file.SafetensorsFile | npz_file.NpzFile
ENDINGS = (safetensors_file.ENDING, npz_file.ENDING)
# Folders of unfinished files end like this, so that nothing takes one for a whole file.
UNFINISHED = ".unfinished"
_numbers = itertools.count()


def as_path(where: str, path: PathLike) -> Path:
    """The path that a user gave."""
    try:
        text = os.fspath(path)
        if not isinstance(text, str):
            raise TypeError
    except TypeError:
        raise TypeError(f"{where}: {shown(path)} is not a path. Pass a text or a Path.") from None
    if not text or "\0" in text:
        raise ValueError(f"{where}: {text!r} is not a path. Name a file.")
    return Path(text)


def first_ending() -> str:
    """The ending of the best format that is installed."""
    return safetensors_file.ENDING if safetensors_file.is_installed() else npz_file.ENDING


def writer_for(where: str, path: Path) -> Callable[[Path, str, Any], None]:
    """The function that writes the format which a file's ending names."""
    if path.suffix == npz_file.ENDING:
        return npz_file.write
    if path.suffix != safetensors_file.ENDING:
        raise ValueError(
            f"{where}: {str(path)!r} does not end in .safetensors or .npz. The ending names the "
            "format; choose one of them."
        )
    _require_safetensors(where, path)
    return safetensors_file.write


def _require_safetensors(where: str, path: Path) -> None:
    if not safetensors_file.is_installed():
        raise ImportError(
            f"{where}: {str(path)!r} needs the package safetensors. Install it with "
            "`pip install gradtape[storage]`, or use the ending .npz."
        )


def write_whole(path: Path, snapshot: Snapshot, where: str = "save") -> None:
    """Write a snapshot so that the path names the old file or the new one, never a part."""
    write, text = writer_for(where, path), text_of(snapshot)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, f"{where}: this is a folder, not a file", str(path))
    # A folder beside the place, so that renaming moves no data; the library of safetensors keeps a
    # temporary file of its own in it.
    name = f".{path.name}.{os.getpid()}.{next(_numbers)}{UNFINISHED}"
    folder = path.with_name(name)
    folder.mkdir()
    try:
        unfinished = folder / "file"
        unfinished.touch()
        mode = stat.S_IMODE(unfinished.stat().st_mode)
        write(unfinished, text, snapshot.arrays)
        unfinished.chmod(mode)
        _to_disk(unfinished)
        os.replace(unfinished, path)
        folder.rmdir()
        _to_disk(path.parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _to_disk(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_file(path: Path, verify: bool = True, mapped: bool = True) -> OpenFile:
    """A file that `save` wrote, or any file of its formats; the content says which it is."""
    with open(path, "rb") as file:
        start = file.read(9)
    if start[:2] == b"PK":
        return npz_file.NpzFile(path, verify, mapped)
    if len(start) == 9 and start[8:9] == b"{":
        _require_safetensors("load", path)
        return safetensors_file.SafetensorsFile(path, verify, mapped)
    refuse(path, "it is neither a safetensors nor an npz file")
