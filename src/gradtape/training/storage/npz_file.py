"""Files of NumPy's npz format: a zip archive, not compressed, with one npy file for each array.

The text of the tree is an array of bytes among the others. The comment of the archive guards the
bytes that belong to no array: headers of members and the list of members.
"""

from __future__ import annotations

import errno
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from gradtape.errors import DamagedFileError
from gradtape.training.storage.structure import (
    DTYPE_NAMES,
    check_names,
    checksum,
    digest,
    parse,
    refuse,
)

ENDING = ".npz"
TEXT, GUARD, SUMS = "__gradtape__", "__gradtape_digest__", "__gradtape_checksums__"
MEMBERS = (TEXT, GUARD, SUMS)
COMMENT = "gradtape frame {:08x}"
WHEN = (1980, 1, 1, 0, 0, 0)
# A header of an npy file that describes numbers is far shorter.
LONGEST_HEADER = 4096


def write(path: Path, text: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file."""
    sums = "".join(checksum(array) for array in arrays.values())
    texts = {TEXT: text, GUARD: digest(text), SUMS: sums}
    members = {name: np.frombuffer(word.encode(), np.uint8) for name, word in texts.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {**members, **arrays}.items():
            info = zipfile.ZipInfo(f"{name}.npy", WHEN)
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array(member, np.asarray(array), allow_pickle=False)
        archive.comment = COMMENT.format(0).encode()
    with open(path, "r+b") as file:
        with zipfile.ZipFile(file) as archive:
            frame = _frame(file, archive.infolist(), len(archive.comment))
        comment = COMMENT.format(frame).encode()
        file.seek(-len(comment), os.SEEK_END)
        file.write(comment)


def _data_start(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    """The offset of the content of a member."""
    file.seek(info.header_offset)
    fixed = file.read(30)
    if len(fixed) != 30 or fixed[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile("a member has no header")
    name, extra = struct.unpack("<HH", fixed[26:30])
    return info.header_offset + 30 + name + extra


def _frame(file: BinaryIO, infos: list[zipfile.ZipInfo], comment: int) -> int:
    """CRC-32 of everything but the contents of members and the comment of the archive."""
    size, end, found = file.seek(0, os.SEEK_END), 0, 0
    for info in sorted(infos, key=lambda each: each.header_offset):
        start = _data_start(file, info)
        if info.header_offset != end:
            raise zipfile.BadZipFile("there are gaps between members")
        file.seek(end)
        found = zlib.crc32(file.read(start - end), found)
        end = start + info.file_size
    if end > size - comment:
        raise zipfile.BadZipFile("members reach beyond the file")
    file.seek(end)
    return zlib.crc32(file.read(size - comment - end), found)


class NpzFile:
    """A file that is open for reading: `content` is its structure, `array` gives its arrays."""

    def __init__(self, path: Path, verify: bool = True, mapped: bool = True) -> None:
        self.path = path
        self.content: dict[str, Any] | None = None
        try:
            with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
                self._infos = self._checked(archive, os.fstat(file.fileno()).st_size)
                if f"{TEXT}.npy" in self._infos:
                    self._check_frame(file, archive)
            if f"{TEXT}.npy" in self._infos:
                text, guard, self._sums = (
                    self._read(name).tobytes().decode("ascii") for name in MEMBERS
                )
                self.content = parse(path, text, guard)
                check_names(path, self.content["arrays"], self.names(), self._sums)
        except DamagedFileError:
            raise
        except _UNREADABLE as error:
            refuse(path, f"it is not a whole npz file ({error})", error)
        except OSError as error:
            # A place before the beginning of the file; other errors are the disk's.
            if error.errno != errno.EINVAL:
                raise
            refuse(path, "it is not a whole npz file", error)
        # Nothing is mapped, so every array is read now: a later damage is not met half way.
        self._arrays = {name: self._verified(name, verify) for name in self.names()}

    def _checked(self, archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
        infos = archive.infolist()
        found = {info.filename: info for info in infos}
        if len(found) != len(infos):
            raise zipfile.BadZipFile("two members have one name")
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x41:
                raise zipfile.BadZipFile("members are compressed or encrypted")
            if info.file_size != info.compress_size or info.file_size > size:
                raise zipfile.BadZipFile("a member is longer than the file")
        if sum(info.file_size for info in infos) > size:
            raise zipfile.BadZipFile("members overlap")
        return found

    def _check_frame(self, file: BinaryIO, archive: zipfile.ZipFile) -> None:
        frame = _frame(file, archive.infolist(), len(archive.comment))
        if archive.comment != COMMENT.format(frame).encode():
            raise zipfile.BadZipFile("the list of its members is damaged")

    def _read(self, name: str) -> np.ndarray:
        info = self._infos[f"{name}.npy"]
        with zipfile.ZipFile(self.path) as archive, archive.open(info) as member:
            found = npy.read_array(member, allow_pickle=False, max_header_size=LONGEST_HEADER)
            if member.read(1):
                raise ValueError(f"{name!r} has another length than its shape says")
        if found.dtype.newbyteorder("=") not in DTYPE_NAMES.values():
            raise ValueError(f"{name!r} has the dtype {found.dtype}")
        return np.array(found, dtype=found.dtype.newbyteorder("="), order="C")

    def _verified(self, name: str, verify: bool) -> np.ndarray:
        try:
            found = self._read(name)
        except _UNREADABLE as error:
            refuse(self.path, f"the array {name!r} cannot be read ({error})", error)
        if self.content is not None:
            said = self.content["arrays"]
            dtype, shape = said[name]
            if found.dtype != DTYPE_NAMES[dtype] or list(found.shape) != list(shape):
                refuse(self.path, f"the array {name!r} is not {dtype} {shape}")
            place = 8 * list(said).index(name)
            if verify and checksum(found) != self._sums[place : place + 8]:
                refuse(self.path, f"the array {name!r} does not match its checksum")
        return found

    def array(self, name: str, own: bool) -> np.ndarray:
        """An array by name; with `own` a copy that may be written to."""
        return self._arrays[name].copy() if own else self._arrays[name]

    def names(self) -> list[str]:
        """The names of the arrays."""
        names = [info.removesuffix(".npy") for info in self._infos]
        return [name for name in names if name not in MEMBERS]


_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    AttributeError,
    MemoryError,
)
