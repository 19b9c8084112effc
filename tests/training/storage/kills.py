"""SIGKILL at random moments of a checkpointing run: `make fuzz-checkpoints`.

One run is not killed. The others are killed and resumed in their folder until they reach the end,
and then begin in a new folder. Every line of every run must be a line of the run that was not
killed: the state after each step has the same bits.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Steps of a run, steps between checkpoints, and the width of the model: a file of 2 MB.
STEPS, EVERY, WIDTH = 200, 1, 300
# Most runs are killed at most so many seconds after the first step.
LIFETIME = 1.0
# Seconds after which a run that is not killed is stuck.
PATIENCE = 600.0


def start(folder: Path, cache: Path, steps: int) -> subprocess.Popen[str]:
    """Begin or resume a run in a folder."""
    command = [sys.executable, "-m", "tests.training.storage.killed_run"]
    numbers = map(str, (steps, EVERY, WIDTH))
    # Compiled kernels are kept, so that runs spend their time in training.
    environment = {**os.environ, "GRADTAPE_KERNEL_CACHE": str(cache)}
    return subprocess.Popen(
        [*command, str(folder), *numbers], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=environment,
    )  # fmt: skip


def lines_of(process: subprocess.Popen[str], draw: random.Random | None) -> list[str]:
    """What a run printed until it ended, or was killed at a random moment."""
    assert process.stdout is not None
    lines = []
    if draw is not None:
        # Some are killed earlier: while they import or read a checkpoint, or in the first step.
        for _ in range(draw.choices((0, 1, 2), (1, 1, 8))[0]):
            lines.append(process.stdout.readline())
        time.sleep(draw.uniform(0.0, LIFETIME))
        process.kill()
    found, _ = process.communicate(timeout=PATIENCE)
    lines += found.splitlines(keepends=True)
    # The last line may be cut off.
    return [line.strip() for line in lines if line.endswith("\n")]


class Kills:
    """Runs that are killed, beside one that is not."""

    def __init__(self, count: int, base: Path, steps: int) -> None:
        self.count, self.base, self.steps = count, base, steps
        self.cache = base / "kernels"
        self.found: Counter[str] = Counter()
        self.lock = threading.Lock()
        whole = start(base / "whole", self.cache, steps)
        right = lines_of(whole, None)
        assert whole.returncode == 0
        assert right[-1].startswith(f"end {steps} ")
        self.bits = {line.split()[1]: line.split()[2] for line in right}

    def work(self, worker: int, seed: int) -> None:
        """Kill and resume until there were enough kills, then let the last run reach its end."""
        draw = random.Random(f"{seed} {worker}")
        number = 0
        while not self._is_enough():
            number += 1
            folder = self.base / f"run{worker}.{number}"
            attempts = 0
            while self._attempt(folder, draw, attempts):
                attempts += 1
            shutil.rmtree(folder, ignore_errors=True)

    def _is_enough(self) -> bool:
        with self.lock:
            return self.found["kills"] >= self.count

    def _attempt(self, folder: Path, draw: random.Random, attempts: int) -> bool:
        """Begin or resume a run; False if it reached its end."""
        process = start(folder, self.cache, self.steps)
        lines = lines_of(process, None if self._is_enough() else draw)
        was_killed = process.returncode == -9
        unfinished = was_killed and any(folder.glob(f"*.{process.pid}.*.unfinished"))
        wrong = [line for line in lines if self.bits.get(line.split()[1]) != line.split()[2]]
        restored = any(line.startswith("begin") and line.split()[1] != "0" for line in lines)
        with self.lock:
            found = self.found
            found["kills"] += was_killed
            found["killed while a file was written"] += unfinished
            found["resumes from a checkpoint"] += restored
            found["steps compared"] += len(lines)
            found["runs that reached the end"] += not was_killed
            if was_killed and found["kills"] % 20 == 0:
                print(f"{found['kills']} kills, {found['differences']} differences", flush=True)
            if wrong or (not was_killed and process.returncode != 0):
                found["differences"] += 1
                print(f"{folder.name} differs: {wrong[:3]}, exit {process.returncode}")
        return was_killed


def run(count: int, seed: int = 0, workers: int = 1, steps: int = STEPS) -> Counter[str]:
    """So many kills, and how many resumed runs differed from the one that was not killed."""
    with tempfile.TemporaryDirectory() as name:
        kills = Kills(count, Path(name), steps)
        threads = [threading.Thread(target=kills.work, args=(n, seed)) for n in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return kills.found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    found = run(arguments.count, arguments.seed, arguments.workers)
    for name in (
        "kills", "killed while a file was written", "resumes from a checkpoint",
        "runs that reached the end", "steps compared", "differences",
    ):  # fmt: skip
        print(f"{found[name]:8,} {name}")
    return 1 if found["differences"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
