"""Programs that an earlier process has compiled: for these, loading takes the place of compiling.

A program is known by a number that is computed from its text. The numbers lie in one file beside
the machine code. They decide only when a program is compiled, so a wrong one costs time and no
more: if the machine code is missing, it is compiled.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path

from gradtape.caches import remembered
from gradtape.compiler.objects.cache_folder import cache_folder
from gradtape.config import KNOWN_PROGRAMS, variable
from gradtape.version import __version__

NAME = "known-programs"
_BYTES = 8


def number_of(text: str) -> int:
    """The number of a program, in this version of gradtape and with this width of vectors."""
    data = f"{__version__}\n{variable('VECTOR_BITS')}\n{text}".encode()
    return zlib.crc32(data) << 32 | zlib.adler32(data)


def has_any() -> bool:
    """Whether any program is known: the number of one takes time to compute."""
    folder = cache_folder()
    return folder is not None and bool(_numbers(folder))


def is_known(number: int) -> bool:
    """Whether an earlier process has compiled the program of a number."""
    folder = cache_folder()
    return folder is not None and number in _numbers(folder)


def note(number: int) -> None:
    """Note that a program is compiled, and its machine code is on disk."""
    folder = cache_folder()
    if folder is None or number in _numbers(folder):
        return
    is_full = len(_numbers(folder)) >= KNOWN_PROGRAMS
    # A full or read-only disk is no error: the program is unknown then.
    with contextlib.suppress(OSError), open(folder / NAME, "wb" if is_full else "ab") as file:
        file.write(number.to_bytes(_BYTES, "little"))
    _numbers(folder).add(number)


@remembered(4)
def _numbers(folder: Path) -> set[int]:
    try:
        data = (folder / NAME).read_bytes()[: KNOWN_PROGRAMS * _BYTES]
    except OSError:
        return set()
    return {
        int.from_bytes(data[start : start + _BYTES], "little")
        for start in range(0, len(data), _BYTES)
    }
