"""Damaged, foreign and hostile files: `python -m tests.training.storage.damage --count 1000`.

For each kind of damage so many files are made. Each must be refused with a
`gt.errors.StorageError`, by `gt.load(path)` and by `gt.load(path, into=tree)`, and the tree must
keep every bit.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import pickle
import random
import resource
import struct
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.training.storage import npz_file, safetensors_file
from gradtape.training.storage.encode import Snapshot, snapshot
from gradtape.training.storage.structure import text_of

Draw = random.Random
# Reading a file may take this many bytes more than before: hostile shapes ask for far more.
MOST_MEMORY = 1 << 30


def make_tree() -> dict[str, Any]:
    """A tree of every kind of state."""
    model = gt.nn.Sequential([gt.nn.Dense(5, "tanh", in_features=3), gt.nn.Dropout(0.5, seed=1)])
    optimizer = gt.optimizers.Adam(0.1)
    optimizer.build(model.parameters())
    return {
        "model": model,
        "optimizer": optimizer,
        "generator": gt.random.Generator(3),
        "numbers": [1, 2.5, True, None, "text", 1j],
        "array": np.arange(12.0).reshape(3, 4),
        "tensor": gt.asarray([1.0, 2.0]),
        "complex": gt.asarray([1.0 + 2.0j]),
    }


def bits_of(tree: Any) -> str:
    """A digest of everything in a tree that loading could change."""
    found = snapshot(tree)
    text = hashlib.sha256(text_of(found).encode())
    for array in found.arrays.values():
        text.update(np.ascontiguousarray(array).tobytes())
    return text.hexdigest()


class Originals:
    """The bytes of whole files, and the snapshot that they hold."""

    def __init__(self, folder: Path) -> None:
        self.snapshot: Snapshot = snapshot(make_tree())
        self.text = text_of(self.snapshot)
        self.files = []
        for ending, writer in ((".npz", npz_file), (".safetensors", safetensors_file)):
            path = folder / f"whole{ending}"
            writer.write(path, self.text, self.snapshot.arrays)
            self.files.append(path.read_bytes())

    def one(self, draw: Draw) -> bytes:
        return draw.choice(self.files)

    def with_text(self, text: str, draw: Draw, folder: Path) -> bytes:
        """A file whose digest and checksums are right, around another structure."""
        writer = draw.choice((npz_file, safetensors_file))
        path = folder / "made"
        writer.write(path, text, self.snapshot.arrays)
        return path.read_bytes()


# Accidents.


def cut_off(whole: bytes, draw: Draw) -> bytes:
    return whole[: draw.randrange(len(whole))]


def longer(whole: bytes, draw: Draw) -> bytes:
    more = draw.randbytes(draw.randrange(1, 200))
    return draw.choice((whole + more, more + whole, whole + whole))


def flipped_bit(whole: bytes, draw: Draw) -> bytes:
    place = draw.randrange(len(whole))
    return whole[:place] + bytes([whole[place] ^ 1 << draw.randrange(8)]) + whole[place + 1 :]


def overwritten(whole: bytes, draw: Draw) -> bytes:
    start = draw.randrange(len(whole))
    size = min(draw.choice((1, 8, 64, 512)), len(whole) - start)
    new = draw.choice((bytes(size), b"\xff" * size, draw.randbytes(size)))
    found = whole[:start] + new + whole[start + size :]
    return found if found != whole else flipped_bit(whole, draw)


def lost_block(whole: bytes, draw: Draw) -> bytes:
    start = draw.randrange(len(whole))
    return whole[:start] + whole[start + draw.choice((1, 8, 64, 512)) :]


def exchanged_blocks(whole: bytes, draw: Draw) -> bytes:
    size = draw.choice((8, 64, 128))
    a, b = sorted(draw.sample(range(0, len(whole) - size, size), 2))
    first, second = whole[a : a + size], whole[b : b + size]
    found = whole[:a] + second + whole[a + size : b] + first + whole[b + size :]
    return found if found != whole else flipped_bit(whole, draw)


# Foreign files.


def foreign(whole: bytes, draw: Draw) -> bytes:
    kinds: list[Callable[[], bytes]] = [
        lambda: b"",
        lambda: draw.randbytes(draw.randrange(1, 400)),
        lambda: b"PK" + draw.randbytes(draw.randrange(1, 400)),
        lambda: pickle.dumps({"weights": [draw.random()]}),
        lambda: json.dumps({"a": draw.random()}).encode(),
        lambda: struct.pack("<Q", draw.randrange(1, 100)) + b"{" + draw.randbytes(60),
        lambda: _npz({"a": np.arange(draw.randrange(9))}),
        lambda: _npz({"a": np.array([{"code": 1}], dtype=object)}),
        lambda: _safetensors({}, b""),
        lambda: _safetensors({"a": _entry("F64", [1], 0, 8)}, bytes(8)),
    ]
    return draw.choice(kinds)()


def _npz(arrays: dict[str, np.ndarray], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=True)
    return file.getvalue()


def _entry(dtype: Any, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def _safetensors(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


# Hostile files.


def hostile_header(whole: bytes, draw: Draw) -> bytes:
    """A safetensors header that lies about its arrays, with the metadata of a whole file."""
    size = struct.unpack("<Q", whole[:8])[0]
    header, data = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    name = draw.choice([key for key in header if key != "__metadata__"])
    huge = draw.choice((2**31, 2**40, 2**62, 2**63, 2**64 - 1))
    entry = header[name]
    tricks: list[Callable[[], Any]] = [
        lambda: entry.update(shape=[huge, huge]),
        lambda: entry.update(shape=[huge]),
        lambda: entry.update(shape=[-1]),
        lambda: entry.update(data_offsets=[huge, huge + 8]),
        lambda: entry.update(data_offsets=[8, 0]),
        lambda: entry.update(data_offsets=[0, huge]),
        lambda: entry.update(data_offsets=[0, len(data)]),
        lambda: entry.update(dtype=draw.choice(("F128", "object", "../../x", 7))),
        lambda: header.pop(name),
        lambda: header.update({f"../../{name}": header.pop(name)}),
        lambda: header.update({"more": dict(entry)}),
        lambda: header.update(__metadata__={**header["__metadata__"], "gradtape": "{}"}),
        lambda: header["__metadata__"].pop("gradtape.checksums"),
        lambda: header["__metadata__"].pop("gradtape.digest"),
    ]
    draw.choice(tricks)()
    text = json.dumps(header).encode()
    if name in header and draw.random() < 0.1:
        # The same name twice: which of the two a reader takes is not defined.
        text = text[:-1] + f", {json.dumps(name)}: {json.dumps(entry)}}}".encode()
    if draw.random() < 0.05:
        text = b"{" + b'"a":[' * 100_000 + b"]" * 100_000 + b"}"
    return _safetensors(text, data)


def hostile_archive(whole: bytes, draw: Draw) -> bytes:
    """An archive with compressed members, names that climb, huge shapes, or two of one name."""
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
        comment = archive.comment
    plain = [name for name in members if not name.startswith("__gradtape")]
    name = draw.choice(plain)
    huge = draw.choice((2**31, 2**40, 2**60))
    dtype = draw.choice(("'<f8'", "'|O'", "'<c16'"))
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': ({huge}, {huge}), }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    shaped = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    trick = draw.choice(("bomb", "compressed", "climb", "twice", "huge", "pickle", "lost", "more"))
    kind = zipfile.ZIP_DEFLATED if trick in ("bomb", "compressed") else zipfile.ZIP_STORED
    if trick == "bomb":
        members[name] = members[name] + bytes(10_000_000)
    elif trick == "climb":
        members[f"../../{name}"] = members.pop(name)
    elif trick == "huge":
        members[name] = shaped
    elif trick == "pickle":
        file = io.BytesIO()
        np.save(file, np.array([object], dtype=object), allow_pickle=True)
        members[name] = file.getvalue()
    elif trick == "lost":
        members.pop(name)
    elif trick == "more":
        members["more.npy"] = members[name]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for key, content in members.items():
            archive.writestr(zipfile.ZipInfo(key, (1980, 1, 1, 0, 0, 0)), content, kind)
        if trick == "twice":
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.filename = name
            archive.filelist.append(info)
            archive.NameToInfo.pop(name)
            archive.writestr(info, members[name])
        archive.comment = comment
    return file.getvalue()


def hostile_structure(text: str, draw: Draw) -> str:
    """A structure with a right digest that names what is not there, or itself."""
    content = json.loads(text)
    objects, count = content["objects"], len(content["objects"])
    root = content["tree"][1]
    chain = [["list", [["@", count + n + 1]]] for n in range(5000)]
    bad: list[Callable[[], Any]] = [
        lambda: content.update(tree=["@", draw.randrange(count, 10**9)]),
        lambda: content.update(tree=["@", -1]),
        lambda: content.update(tree=["@", "0"]),
        lambda: content.update(tree=[draw.choice(("eval", "import", "call", "", "@@")), "os"]),
        lambda: content.update(tree={"a": 1}),
        lambda: content.update(tree=["code", "os.system"]),
        lambda: content.update(tree=["made", "os.system", [["command", "true"]]]),
        lambda: content.update(tree=["int", "zz"]),
        lambda: content.update(tree=["scalar", "float64", "AAAA"]),
        lambda: content.update(version=draw.choice((0, 2, -1, "1", None, 1.0, True, 10**30))),
        lambda: content.update(format=draw.choice(("", "other", None, 1))),
        lambda: content.update(objects=draw.choice(({}, None, "x", 7))),
        lambda: content.pop(draw.choice(("objects", "tree", "arrays", "version", "format"))),
        lambda: content["arrays"].update(more=["float64", [draw.choice((1, -1, 2**70, 1.5))]]),
        lambda: content["arrays"].pop(draw.choice(list(content["arrays"]))),
        lambda: content["arrays"].update({"tensor": ["float32", [2]]}),
        lambda: content["arrays"].update({"tensor": ["object", [2]]}),
        lambda: objects[root].__setitem__(1, [["a", ["@", root]]]),
        lambda: objects.__setitem__(root, ["list", [["@", root]]]),
        lambda: objects.__setitem__(root, ["tuple", [["@", root]]]),
        lambda: objects.__setitem__(root, ["state", "os.system", ["@", root]]),
        lambda: objects.__setitem__(root, ["state", "builtins.eval", "1"]),
        lambda: objects.__setitem__(root, ["state", "gradtape.random.Generator", "x"]),
        lambda: objects.__setitem__(root, ["state", "gradtape.random.Generator", None]),
        lambda: objects.__setitem__(root, ["fields", "subprocess.Popen", ["args"], ["true"]]),
        lambda: objects.__setitem__(root, ["pytree", "subprocess.Popen", None, []]),
        lambda: objects.__setitem__(root, ["variable", "nothing", "x", True, ""]),
        lambda: objects.__setitem__(root, ["variable", "tensor", 7, "yes", ""]),
        lambda: objects.__setitem__(root, ["tensor", "array", "subprocess.Popen"]),
        lambda: objects.__setitem__(root, ["tensor", "../../etc/passwd", ""]),
        lambda: objects.__setitem__(root, ["array", "array", "|O"]),
        lambda: objects.__setitem__(root, ["packed", "list", "float", "complex"]),
        lambda: objects.__setitem__(root, ["rows", "array", "array", [2**62], "float64"]),
        lambda: objects.__setitem__(root, ["set", [["@", root]]]),
        lambda: objects.__setitem__(root, ["dict", [["a", 1], ["a", 2]]]),
        lambda: objects.__setitem__(root, ["dict", 7]),
        lambda: objects.__setitem__(root, ["defaultdict", [], "eval"]),
        lambda: objects.__setitem__(root, None),
        lambda: objects.__setitem__(root, draw.choice(([], "list", 7, {}))),
        lambda: (objects.extend(chain), content.update(tree=["@", count])),
    ]
    draw.choice(bad)()
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"))


KINDS: dict[str, Callable[[bytes, Draw], bytes]] = {
    "cut off": cut_off,
    "longer": longer,
    "a bit flipped": flipped_bit,
    "bytes overwritten": overwritten,
    "a block lost": lost_block,
    "blocks exchanged": exchanged_blocks,
    "foreign": foreign,
}


def made(kind: str, originals: Originals, folder: Path, draw: Draw) -> bytes:
    """The bytes of one damaged file."""
    npz, safetensors = originals.files
    if kind == "hostile structure":
        return originals.with_text(hostile_structure(originals.text, draw), draw, folder)
    if kind == "hostile safetensors":
        return hostile_header(safetensors, draw)
    if kind == "hostile npz":
        return hostile_archive(npz, draw)
    return KINDS[kind](originals.one(draw), draw)


ALL_KINDS = (*KINDS, "hostile safetensors", "hostile npz", "hostile structure")


def refused(path: Path, *into: Any) -> str | None:
    """None if a file is refused with a clear error, else what happened."""
    try:
        gt.load(path, **({"into": into[0]} if into else {}))
    except gt.errors.StorageError as error:
        return None if str(error).startswith("load: ") else f"an unclear error: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "it was loaded"


def run(count: int, seed: int = 0, kinds: tuple[str, ...] = ALL_KINDS) -> dict[str, Counter[str]]:
    """So many files of each kind, and what became of them."""
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        originals, tree = Originals(folder), make_tree()
        before, path = bits_of(tree), folder / "damaged"
        for kind in kinds:
            counts = found[kind] = Counter()
            for number in range(count):
                draw = random.Random(f"{seed} {kind} {number}")
                path.write_bytes(made(kind, originals, folder, draw))
                wrong = refused(path) or refused(path, tree)
                counts["files"] += 1
                counts["refused"] += wrong is None
                if wrong is not None and counts["files"] - counts["refused"] < 4:
                    print(f"{kind}, number {number}: {wrong}")
                if bits_of(tree) != before:
                    counts["changed something"] += 1
                    tree = make_tree()
                    before = bits_of(tree)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    limit = used + MOST_MEMORY
    found = run(arguments.count, arguments.seed)
    bad = 0
    for kind, counts in found.items():
        files, refusals = counts["files"], counts["refused"]
        changed = counts["changed something"]
        print(f"{files:6,} files, {refusals:6,} refused, {changed} changed something: {kind}")
        bad += files - refusals + changed
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{(most - used) / 1e6:.0f} MB more memory at the most")
    return 1 if bad or most > limit else 0


if __name__ == "__main__":
    raise SystemExit(main())
