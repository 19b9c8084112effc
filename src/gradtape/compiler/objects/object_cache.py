"""Object files of compiled modules on disk: a known program compiles nothing in a new process.

An entry is found by the IR text, the processor and the versions of gradtape's format, llvmlite and
LLVM. It is written to a file of its own and renamed, so processes may share the folder; an entry
that is damaged or foreign is ignored and removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from gradtape.compiler.objects.cache_folder import cache_folder
from gradtape.config import OBJECT_CACHE_BYTES, OBJECT_NAMES_USED, OBJECT_WRITES_PER_LOOK
from gradtape.ir.logs import Log

_log = Log("compiler")

# Changes whenever entries are written in another form.
_MAGIC = b"gradtape objects 1\n"
_DIGEST = 32
_DAY = 86_400.0

_written = {"entries": 0}
_used: dict[str, None] = {}


def key(*parts: str) -> str:
    """The name of an entry: a digest of everything that its machine code depends on."""
    digest = hashlib.sha256(_MAGIC)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def load(name: str) -> tuple[list[str], bytes] | None:
    """The names of an entry's functions and its object file, or None."""
    folder = cache_folder()
    if folder is None:
        return None
    path = folder / name
    try:
        data = path.read_bytes()
        found = _unpacked(data)
        if found is None:
            _log.info("kernel cache: entry %s is damaged or foreign, ignored and removed", name)
            path.unlink()
        elif time.time() - path.stat().st_mtime > _DAY:
            os.utime(path)
    except OSError:
        _log.debug("kernel cache: miss of %s", name)
        return None
    if found is not None:
        _log.debug("kernel cache: hit of %s, %d bytes", name, len(data))
        _note_use(name)
    return found


def _note_use(name: str) -> None:
    _used[name] = None
    if len(_used) > OBJECT_NAMES_USED:
        _used.pop(next(iter(_used)), None)


def names_used() -> list[str]:
    """The names of entries that this process has loaded or written."""
    return list(_used)


def install(name: str, data: bytes) -> bool:
    """Write an entry that another machine made, if it is whole and missing here."""
    found, folder = _unpacked(data), cache_folder()
    if found is None or folder is None or Path(name).name != name or (folder / name).exists():
        return False
    save(name, *found)
    return True


def save(name: str, functions: Iterable[str], content: bytes) -> None:
    """Write an entry. A full or read-only disk is no error: the entry is missing then."""
    folder = cache_folder()
    if folder is None:
        return
    body = "\n".join(functions).encode() + b"\0" + content
    try:
        temporary = folder / f"new-{os.getpid()}-{threading.get_ident()}"
        try:
            with open(temporary, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            os.replace(temporary, folder / name)
            _note_use(name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        _log.info("kernel cache: entry %s could not be written: %s", name, str(error))
        return
    if _written["entries"] % OBJECT_WRITES_PER_LOOK == 0:
        shrink(folder, OBJECT_CACHE_BYTES)
    _written["entries"] += 1


def shrink(folder: Path, limit: int) -> None:
    """Remove the least recently used entries until three quarters of the limit are left."""
    found: list[tuple[float, int, Path]] = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    _log.info("kernel cache: %d bytes are over the limit of %d, the oldest go", total, limit)
    for _, size, path in sorted(found, key=lambda entry: entry[0]):
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
        if total <= limit // 4 * 3:
            return


def _unpacked(data: bytes) -> tuple[list[str], bytes] | None:
    start = len(_MAGIC) + _DIGEST
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    names, _, content = body.partition(b"\0")
    return names.decode().split("\n"), content
