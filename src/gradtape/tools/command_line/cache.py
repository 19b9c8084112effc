"""cache: the machine code on disk: where it is, how large, and how to drop it.

  gradtape cache            the folder and its size
  gradtape cache list       its entries, the newest first
  gradtape cache clear      remove them all; they are compiled again when they are needed

`GRADTAPE_KERNEL_CACHE` names another folder, or is `off`.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from gradtape.compiler.objects.cache_folder import cache_folder
from gradtape.tools.command_line.output import print_json, show
from gradtape.tools.profiler.formats import size


def add(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "what", nargs="?", choices=("size", "list", "clear"), default="size", help="what to do"
    )


def run(chosen: argparse.Namespace) -> int:
    """List, measure or clear the folder."""
    folder = cache_folder()
    if folder is None:
        _tell(chosen, {"folder": None, "entries": 0, "bytes": 0})
        return 0
    entries = _entries(folder)
    total = sum(nbytes for _, _, nbytes in entries)
    found: dict[str, object] = {"folder": str(folder), "entries": len(entries), "bytes": total}
    if chosen.what == "clear":
        for path, _, _ in entries:
            path.unlink(missing_ok=True)
        found["cleared"] = True
    if chosen.what != "list":
        _tell(chosen, found)
        return 0
    found["list"] = [
        {"name": path.name, "bytes": nbytes, "used": used} for path, used, nbytes in entries
    ]
    rows = [(path.name[:16], size(nbytes), used) for path, used, nbytes in entries]
    show(chosen.json, found, str(folder), ("entry", "size", "last used"), rows)
    return 0


def _entries(folder: Path) -> list[tuple[Path, str, int]]:
    """Path, time of last use and size of each entry, the newest first."""
    found = []
    for path in folder.iterdir():
        try:
            status = path.stat()
        except OSError:  # another process has removed it
            continue
        found.append((status.st_mtime, path, status.st_size))
    found.sort(reverse=True)
    return [
        (path, datetime.datetime.fromtimestamp(used).isoformat(" ", "minutes"), nbytes)
        for used, path, nbytes in found
    ]


def _tell(chosen: argparse.Namespace, found: dict[str, object]) -> None:
    if chosen.json:
        print_json(found)
    elif found["folder"] is None:
        print("No machine code is kept on disk: GRADTAPE_KERNEL_CACHE is off, or there is no home.")
    else:
        nbytes = found["bytes"]
        assert isinstance(nbytes, int)
        done = "Removed" if found.get("cleared") else "There are"
        print(f"{done} {found['entries']} entries, {size(nbytes)}, in {found['folder']}.")
