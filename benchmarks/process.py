"""The client side of the pipes: start a server process, send requests, and end it."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class Failed(Exception):  # noqa: N818
    """The server reported an error, or ended."""


def write_bytecode() -> None:
    """Compile our sources to bytecode, as `pip install` does for gradtape and for its peers.

    Without it, and with PYTHONDONTWRITEBYTECODE, each process would parse the files of a checkout.
    """
    for folder in ("src", "benchmarks"):
        compileall.compile_dir(ROOT / folder, quiet=2)


def interpreter(library: str) -> str | None:
    """The Python that has the library: this one for gradtape, the peers' for the others."""
    if library in ("gradtape", "numpy"):
        return sys.executable
    return os.environ.get("GRADTAPE_PEERS_PYTHON")


class Process:
    """A server for one library, form and workload; leaving the context ends it."""

    def __init__(
        self,
        library: str,
        variant: str,
        workload: str,
        environment: Mapping[str, str] | None = None,
        module: str = "benchmarks.server",
    ) -> None:
        python = interpreter(variant if library == "limit" else library)
        if python is None:
            raise Failed("GRADTAPE_PEERS_PYTHON is not set")
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by close)
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [os.path.abspath(python), "-m", module, library, variant, workload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(paths)},
        )
        try:
            self.facts = self._read()
        except BaseException:
            self.close()
            raise

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the read below reports why the server ended
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            last = (self.errors.read().strip().splitlines() or ["without a word"])[-1]
            raise Failed(f"the process ended: {last[:200]}")
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
