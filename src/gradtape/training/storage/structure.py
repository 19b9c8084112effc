"""The text of a file: JSON with a format version, the tree, the objects and a list of the arrays.

The text is guarded by a digest, and each array by a checksum of its bytes. What the text says of an
array (dtype and shape) is compared with what the file says.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import numpy as np

from gradtape.errors import DamagedFileError
from gradtape.training.storage.encode import DTYPES, Snapshot

FORMAT = "gradtape"
VERSION = 1
# The safetensors library refuses longer headers, in which the text stands.
LONGEST = 90_000_000
DTYPE_NAMES = {dtype.name: dtype for dtype in DTYPES}


def text_of(snapshot: Snapshot) -> str:
    """The JSON text of a snapshot. It is ASCII, so that it has one form in every file."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "tree": snapshot.tree,
        "objects": snapshot.objects,
        "arrays": {
            name: [array.dtype.name, list(array.shape)] for name, array in snapshot.arrays.items()
        },
    }
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    if len(text) > LONGEST:
        raise ValueError(
            f"save: the plain data of the tree, without arrays, takes {len(text):,} bytes, and at "
            f"most {LONGEST:,} can be saved. Keep numbers in arrays."
        )
    return text


def digest(text: str) -> str:
    """The checksum of the text."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def checksum(array: np.ndarray) -> str:
    """The checksum of an array: CRC-32 of its bytes, which is faster than the disk."""
    content: Any = array.reshape(-1).view(np.uint8) if array.size else b""
    return f"{zlib.crc32(content):08x}"


def refuse(path: object, why: str, cause: BaseException | None = None) -> NoReturn:
    """Raise the error for a file that cannot be read."""
    raise DamagedFileError(
        f"load: {path}: {why}. Nothing was loaded; use another copy of the file."
    ) from cause


def check_names(path: object, said: Mapping[str, Any], names: Collection[str], sums: str) -> None:
    """Raise if a file has other arrays than its structure says, or not a checksum for each."""
    if set(names) != set(said):
        refuse(path, "the arrays in it are not those that its structure names")
    if len(sums) != 8 * len(said):
        refuse(path, "its checksums are missing")


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no name occurs twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def parse(path: object, text: str, guard: str) -> dict[str, Any]:
    """The content of a text, if it is as it was written and of a version that is known."""
    try:
        if digest(text) != guard:
            refuse(path, "the structure does not match its digest: the file is damaged")
        content = json.loads(text, object_pairs_hook=unique_names)
        version = content["version"]
        if content["format"] != FORMAT or type(version) is not int or version < 1:
            refuse(path, "it was not written by gradtape")
        if version > VERSION:
            refuse(path, f"it has version {version} of the format, and {VERSION} is known here")
        if not isinstance(content["objects"], list) or "tree" not in content:
            refuse(path, "its structure has no tree, or no table of objects")
        for name, (dtype, shape) in content["arrays"].items():
            whole = all(type(n) is int and 0 <= n < 2**62 for n in shape)
            if dtype not in DTYPE_NAMES or not whole or not isinstance(name, str):
                refuse(path, f"the array {name!r} has a dtype or shape that cannot be")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        if isinstance(error, DamagedFileError):
            raise
        refuse(path, f"its structure cannot be read ({error})", error)
    return content
