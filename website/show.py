"""Run a page or a script in a process of its own, and keep what it shows until something changes.

`python -m website.show path` writes what each block printed and drew, as JSON.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from website.code_blocks import Shown, run_page
from website.gallery import run_script

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "build" / "shown"


def shown_by(path: Path) -> dict[int, Shown]:
    """What the blocks of a page, or the cells of a script, show, by their number."""
    key = hashlib.sha256(path.read_bytes() + _library().encode()).hexdigest()[:24]
    kept = CACHE / f"{path.stem}-{key}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(_run(path), "utf-8")
    found = json.loads(kept.read_text("utf-8"))
    return {int(index): Shown(**one) for index, one in found.items()}


def _run(path: Path) -> str:
    # The results go through a file: code on a page may print to the terminal from other processes.
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "shown.json"
        done = subprocess.run(
            [sys.executable, "-m", "website.show", str(path), str(result)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{path.relative_to(ROOT)} does not run:\n{done.stderr}")
        return result.read_text("utf-8")


@lru_cache(maxsize=1)
def _library() -> str:
    """A digest of the library and of what runs pages: another version may show something else."""
    digest = hashlib.sha256()
    runner = ROOT / "website" / "code_blocks.py"
    for path in [runner, *sorted((ROOT / "src" / "gradtape").rglob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main(path: str, result: str) -> None:
    """Run one file."""
    source = Path(path)
    if source.suffix == ".py":
        shown = dict(enumerate(run_script(source)))
    else:
        shown = run_page(source)
    text = json.dumps({index: dataclasses.asdict(one) for index, one in shown.items()})
    Path(result).write_text(text, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
