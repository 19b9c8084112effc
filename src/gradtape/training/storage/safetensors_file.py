"""Files of the safetensors format, written and checked by the library of that name.

The text of the tree and the checksums of the arrays stand in the header's metadata.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gradtape.config import MAPPED_ARRAY_BYTES
from gradtape.training.storage.structure import (
    DTYPE_NAMES,
    check_names,
    checksum,
    digest,
    parse,
    refuse,
    unique_names,
)

ENDING = ".safetensors"
TEXT, GUARD, SUMS = "gradtape", "gradtape.digest", "gradtape.checksums"
# The words of the format; complex128 has none and is kept as pairs of float64.
WORDS = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
LONGEST_HEADER = 100_000_000


def is_installed() -> bool:
    """Whether the library is there."""
    return find_spec("safetensors") is not None


def _stored(array: np.ndarray) -> np.ndarray:
    """An array in a dtype of the format."""
    if array.dtype == np.complex128:
        return array.reshape(-1).view(np.float64).reshape(*array.shape, 2)
    return array


def write(path: Path, text: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file."""
    # An optional package.
    from safetensors import TensorSpec, serialize_file

    stored = {name: _stored(array) for name, array in arrays.items()}
    specs = {
        name: TensorSpec(
            dtype=array.dtype.name,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in stored.items()
    }
    sums = "".join(map(checksum, stored.values()))
    serialize_file(specs, path, metadata={TEXT: text, GUARD: digest(text), SUMS: sums})


class SafetensorsFile:
    """A file that is open for reading: `content` is its structure, `array` gives its arrays."""

    def __init__(self, path: Path, verify: bool = True, mapped: bool = True) -> None:
        self.path = path
        header, self._start = _header(path)
        _check_with_library(path)
        self._metadata = header.pop("__metadata__", {})
        self.entries: dict[str, Any] = header
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self._may_map = mapped
        self.content: dict[str, Any] | None = None
        if TEXT in self._metadata:
            guard = self._metadata.get(GUARD, "")
            self.content = parse(path, self._metadata[TEXT], guard)
            self._check(self.content["arrays"], verify)

    def _check(self, said: Mapping[str, Any], verify: bool) -> None:
        sums = self._metadata.get(SUMS, "")
        check_names(self.path, said, self.names(), sums)
        for number, (name, (dtype, shape)) in enumerate(said.items()):
            word, size = self.entries[name]["dtype"], list(self.entries[name]["shape"])
            expected = [*shape, 2] if dtype == "complex128" else list(shape)
            if word != WORDS.get(dtype, "F64") or size != expected:
                refuse(self.path, f"the array {name!r} is {word} {size}, and not {dtype} {shape}")
            if verify and checksum(self._raw(name)) != sums[8 * number : 8 * number + 8]:
                refuse(self.path, f"the array {name!r} does not match its checksum")

    def _raw(self, name: str) -> np.ndarray:
        entry = self.entries[name]
        begin, end = entry["data_offsets"]
        dtype = np.dtype(next(own for own, word in WORDS.items() if word == entry["dtype"]))
        shape, count = entry["shape"], math.prod(entry["shape"])
        if end - begin != count * dtype.itemsize:
            refuse(self.path, f"the array {name!r} has another length than its shape says")
        found = np.frombuffer(self._map, dtype, count, self._start + begin) if count else None
        return np.empty(shape, dtype) if found is None else found.reshape(shape)

    def array(self, name: str, own: bool) -> np.ndarray:
        """An array by name; with `own` a copy that may be written to."""
        raw = self._raw(name)
        if self.content is not None:
            dtype, shape = self.content["arrays"][name]
            raw = raw.reshape(-1).view(DTYPE_NAMES[dtype]).reshape(shape)
        mapped = self._may_map and raw.nbytes >= MAPPED_ARRAY_BYTES and raw.flags.aligned
        return raw if mapped and not own else raw.copy()

    def names(self) -> list[str]:
        """The names of the arrays."""
        return list(self.entries)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a file, and where its data begins."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            refuse(path, "the header is longer than the file: it is cut off or not safetensors")
        text = file.read(length)
    try:
        header = json.loads(text, object_pairs_hook=unique_names)
        metadata = header.get("__metadata__", {})
        plain = all(isinstance(word, str) for word in metadata.values())
        if not isinstance(header, dict) or not plain:
            raise ValueError("its metadata is not text")
        for name, entry in header.items():
            if name != "__metadata__" and entry["dtype"] not in WORDS.values():
                raise ValueError(f"{name!r} has the dtype {entry['dtype']!r}")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        refuse(path, f"the header cannot be read ({error})", error)
    return header, 8 + length


def _check_with_library(path: Path) -> None:
    """Let the library check that arrays lie in the file, one after the other, without overlap."""
    # An optional package.
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):
            pass
    except (SafetensorError, ValueError, OverflowError) as error:
        refuse(path, f"it is not a whole safetensors file ({error})", error)
