"""The cost of recording: per op, for a small gradient beside PyTorch, and at import.

`make bench-recording` runs this. GRADTAPE_PEERS_PYTHON names the interpreter of an environment with
torch; it runs this same file as another process and is asked over pipes, so that neither library
lives in the other's process. Answers are compared before anything is timed.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

DEPTH = 50  # applications of y = sin(y) * 0.9 + x
OPS = 999  # recorded in a row, a multiple of three
WARM_UP = 30
ROUNDS = 300
TURN = 5  # gradients in a row before the other side's turn, so that neither is timed cold
IMPORTS = 7

Row = tuple[str, str, str]


def inputs(seed: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, 4).astype(dtype)


# The peer's side of the pipe.


def serve() -> None:
    """Answer requests, one JSON line each, with the last gradient and the seconds of each run."""
    import torch

    if os.environ.get("PEER_THREADS") == "1":
        torch.set_num_threads(1)
    facts = {"version": torch.__version__, "threads": torch.get_num_threads()}
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        seconds = []
        for turn in range(TURN):
            values = inputs(request["seed"] + turn, request["dtype"])
            x = torch.tensor(values, requires_grad=True)
            start = time.perf_counter()
            y = x
            for _ in range(DEPTH):
                y = torch.sin(y) * 0.9 + x
            found = torch.autograd.grad(y.sum(), x)[0].numpy()
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "answer": found.tolist()}), flush=True)


class Peer:
    """A process that runs `serve` under the peers' interpreter."""

    def __init__(self, interpreter: str, threads: str) -> None:
        environment = {**os.environ, "PEER_THREADS": threads}
        self.process = subprocess.Popen(
            [interpreter, __file__, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.facts = self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("recording: the peer process ended. Is torch installed there?")
        return json.loads(line)

    def gradient(self, seed: int, dtype: str) -> tuple[list[float], np.ndarray]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"seed": seed, "dtype": dtype}) + "\n")
        self.process.stdin.flush()
        found = self._read()
        return found["seconds"], np.array(found["answer"], dtype)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


# Our side.


def gradient(seed: int, dtype: str) -> tuple[list[float], np.ndarray]:
    """The same work in gradtape, undecorated: record, differentiate, observe."""
    import gradtape as gt

    seconds = []
    for turn in range(TURN):
        x = gt.asarray(inputs(seed + turn, dtype))
        start = time.perf_counter()
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(DEPTH):
                y = gt.sin(y) * 0.9 + x
        found = tape.gradient(y, x).numpy()
        seconds.append(time.perf_counter() - start)
    return seconds, found


def record_only(body: Callable[[Any, Any, int], Any], per_turn: int) -> list[float]:
    """Seconds per recorded op, round by round; the computation itself is not timed."""
    import gradtape as gt

    turns = OPS // per_turn
    found = []
    for round_ in range(WARM_UP + ROUNDS):
        x = gt.asarray(inputs(round_, "float64"))
        start = time.perf_counter()
        y = body(x, x, turns)
        middle = time.perf_counter()
        for _ in range(turns):
            pass
        end = time.perf_counter()
        y.numpy()
        if round_ >= WARM_UP:
            found.append(((middle - start) - (end - middle)) / (turns * per_turn))
    return found


def record_rows() -> list[Row]:
    import gradtape as gt

    sin = gt.sin

    def unary(y: Any, x: Any, turns: int) -> Any:
        for _ in range(turns):
            y = sin(y)
        return y

    def scaled(y: Any, x: Any, turns: int) -> Any:
        for _ in range(turns):
            y = y * 0.9
        return y

    def added(y: Any, x: Any, turns: int) -> Any:
        for _ in range(turns):
            y = y + x
        return y

    def together(y: Any, x: Any, turns: int) -> Any:
        for _ in range(turns):
            y = sin(y) * 0.9 + x
        return y

    cases = [
        ("record sin(y)", unary, 1),
        ("record y * 0.9", scaled, 1),
        ("record y + x", added, 1),
        ("record sin(y) * 0.9 + x, per op", together, 3),
    ]
    return [timed(name, record_only(body, count), 1e6, "µs") for name, body, count in cases]


def timed(name: str, seconds: list[float], scale: float, unit: str) -> Row:
    low, middle = min(seconds) * scale, statistics.median(seconds) * scale
    return name, f"{low:.3f} {unit}", f"{middle:.3f} {unit}"


def gradient_rows(peers: list[Peer], dtype: str) -> list[Row]:
    """Time gradients in interleaved turns: gradtape, then each peer, then gradtape again."""
    runners: list[Callable[[int, str], tuple[list[float], np.ndarray]]] = [gradient]
    runners += [peer.gradient for peer in peers]
    _, expected = gradient(0, dtype)
    for peer in peers:
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(peer.gradient(0, dtype)[1], expected, rtol=tolerance)
    seconds: list[list[float]] = [[] for _ in runners]
    for round_ in range(0, WARM_UP + ROUNDS, TURN):
        for times, run in zip(seconds, runners, strict=True):
            spent, _ = run(round_, dtype)
            if round_ >= WARM_UP:
                times += spent
    title = f"{DEPTH} rounds and gradient, {dtype}"
    rows = [timed(f"{title}: gradtape", seconds[0], 1e3, "ms")]
    for peer, times in zip(peers, seconds[1:], strict=True):
        threads = peer.facts["threads"]
        label = f"torch {peer.facts['version']}, {threads} thread{'s' * (threads > 1)}"
        rows.append(timed(f"{title}: {label}", times, 1e3, "ms"))
    if peers:
        # The faster of the peer's settings counts.
        low = min(map(min, seconds[1:])) / min(seconds[0])
        middle = min(map(statistics.median, seconds[1:])) / statistics.median(seconds[0])
        rows.append((f"{title}: torch / gradtape", f"{low:.2f} x", f"{middle:.2f} x"))
    return rows


def import_rows() -> list[Row]:
    """Time imports in new processes, in turns; the bare interpreter's start is subtracted."""
    statements: dict[str, list[float]] = {"pass": [], "import numpy": [], "import gradtape": []}
    with tempfile.TemporaryDirectory() as folder:
        # The first turn writes the bytecode, as an installation does, and is not counted.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(IMPORTS + 1):
            for statement, times in statements.items():
                start = time.perf_counter()
                subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
                if turn:
                    times.append(time.perf_counter() - start)
    bare = min(statements.pop("pass"))
    return [
        timed(statement, [spent - bare for spent in times], 1e3, "ms")
        for statement, times in statements.items()
    ]


def show(rows: list[Row]) -> None:
    table = [("", "minimum", "median"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    for name, low, middle in table:
        print(f"{name:<{widths[0]}}  {low:>{widths[1]}}  {middle:>{widths[2]}}")


def main() -> None:
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores; {ROUNDS} rounds after {WARM_UP}; 4-element tensors"
    )
    interpreter = os.environ.get("GRADTAPE_PEERS_PYTHON")
    if not interpreter:
        print("GRADTAPE_PEERS_PYTHON is not set: no peer is timed. `make bench-recording` sets it.")
    peers = [Peer(interpreter, threads) for threads in ("default", "1")] if interpreter else []
    rows = record_rows()
    for dtype in ("float64", "float32"):
        rows += gradient_rows(peers, dtype)
    for peer in peers:
        peer.close()
    show(rows + import_rows())


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
