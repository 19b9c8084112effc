"""Saving beside the disk's own rate, training beside a save, and gt.fit beside a loop by hand.

`python -m benchmarks.storage` prints three tables. Answers are compared before anything is timed,
the two sides of each comparison take turns, and of many rounds the best counts. `--gigabytes`,
`--rounds` and `--folder` change what is measured; `--only save,train,fit` measures a part.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradtape as gt

CHUNK = 1 << 23


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turns(
    sides: dict[str, Callable[[], object]],
    rounds: int,
    clean: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """The seconds of each side, one after the other in every round; `clean` is not timed."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            clean()
            found[name].append(timed(run))
    return found


# Saving.


def write_raw(path: Path, arrays: list[np.ndarray]) -> None:
    """The disk's own rate: the same bytes in plain writes, until they are on the disk."""
    with open(path, "wb", buffering=0) as file:
        for array in arrays:
            content = memoryview(array).cast("B")
            for start in range(0, len(content), CHUNK):
                file.write(content[start : start + CHUNK])
        os.fsync(file.fileno())


def measure_saving(folder: Path, gigabytes: float, rounds: int) -> None:
    """1 GB of parameters: gt.save and gt.load beside plain writes of the same bytes."""
    count = 16
    size = int(gigabytes * 1e9 / 8 / count)
    generator = np.random.default_rng(0)
    arrays = [generator.random(size) for _ in range(count)]
    tree = {f"layer{n}": gt.asarray(array) for n, array in enumerate(arrays)}
    nbytes = sum(array.nbytes for array in arrays)
    path, plain = folder / "model.safetensors", folder / "model.npz"
    gt.save(tree, path)
    for name, tensor in gt.load(path).items():
        assert np.array_equal(tensor.numpy(), tree[name].numpy())
    found = in_turns(
        {
            "plain writes": lambda: write_raw(folder / "raw", arrays),
            "gt.save, safetensors": lambda: gt.save(tree, path),
        },
        rounds,
        lambda: [each.unlink(missing_ok=True) for each in (folder / "raw", path)],
    )
    gt.save(tree, path)
    found |= in_turns(
        {
            "gt.save, npz": lambda: gt.save(tree, plain),
            "gt.load, mapped, verified": lambda: gt.load(path),
            "gt.load, mapped, verify=False": lambda: gt.load(path, verify=False),
            "gt.load, copied, verified": lambda: gt.load(path, mmap=False),
        },
        max(1, rounds // 3),
    )
    raw = min(found["plain writes"])
    print(f"\n{nbytes / 1e9:.2f} GB, best of {rounds} rounds in turns")
    print(f"{'':32}{'seconds':>9}{'GB/s':>8}{'of the disk':>13}")
    for name, seconds in found.items():
        best = min(seconds)
        share = f"{raw / best:12.2f}" if "save" in name or "plain" in name else ""
        print(f"{name:32}{best:9.2f}{nbytes / best / 1e9:8.2f}{share:>13}")
    pairs = zip(found["plain writes"], found["gt.save, safetensors"], strict=True)
    ratios = sorted(disk / save for disk, save in pairs)
    print(f"{'median of the rounds: save / disk':32}{ratios[len(ratios) // 2]:30.2f}")


# Training beside a save.


def training(width: int, batch: int = 64) -> tuple[Any, Callable[[], Any], dict[str, Any]]:
    """A compiled step of about a millisecond on one thread, and all that it changes."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(batch, width)), generator.normal(size=(batch, 1))
    model = gt.nn.Sequential(
        [
            gt.nn.Dense(width, "tanh", in_features=width),
            gt.nn.Dense(width, "tanh", in_features=width),
            gt.nn.Dense(1, in_features=width),
        ]
    )
    optimizer = gt.optimizers.SGD(1e-4)

    @gt.function
    def step(x: Any, y: Any) -> Any:
        return optimizer.minimize(lambda: gt.mean((model(x) - y) ** 2), model.parameters())

    a, b = gt.asarray(x), gt.asarray(y)
    for _ in range(100):
        float(step(a, b))
    return step, lambda: step(a, b), {"model": model, "optimizer": optimizer}


def measure_training(folder: Path, megabytes: int, rounds: int) -> None:
    """Blocks of steps, with a checkpoint that is written beside each block and without."""
    _, step, state = training(256)
    # Parameters that the step does not touch, so that the file has a size of its own.
    state["table"] = gt.Variable(np.random.default_rng(0).random(megabytes * 125_000))
    steps = 3000
    checkpoints = gt.Checkpointer(folder / "run", keep=2)
    number = [0]

    def alone() -> None:
        for _ in range(steps):
            loss = step()
        float(loss)

    snapshot: list[float] = []

    def beside() -> None:
        number[0] += 1
        start = time.perf_counter()
        checkpoints.save(number[0], state)
        snapshot.append(time.perf_counter() - start)
        for _ in range(steps):
            loss = step()
        float(loss)

    def by_hand() -> None:
        gt.save(state, folder / "sync.safetensors")
        for _ in range(steps):
            loss = step()
        float(loss)

    found: dict[str, list[float]] = {"alone": [], "beside": [], "waiting": []}
    for _ in range(rounds):
        found["alone"].append(timed(alone))
        found["beside"].append(timed(beside))
        checkpoints.wait()
        found["waiting"].append(timed(by_hand))
    checkpoints.close()
    alone_best = min(found["alone"])
    print(f"\n{steps} steps of {alone_best / steps * 1e3:.2f} ms, a checkpoint of {megabytes} MB")
    print(f"{'':32}{'ms a step':>10}{'lost':>9}")
    for name, words in (("alone", "no checkpoint"), ("beside", "gt.Checkpointer, beside"),
                        ("waiting", "gt.save, waited for")):  # fmt: skip
        best = min(found[name])
        print(f"{words:32}{best / steps * 1e3:10.3f}{(best / alone_best - 1) * 100:8.1f}%")
    print(f"{'the snapshot in the loop':32}{min(snapshot) * 1e3:10.3f} ms")


# gt.fit.


def measure_fit(rounds: int) -> None:
    """An epoch of gt.fit beside a loop by hand over the same batches."""
    step, _, _ = training(256)
    batch, count = 64, 100
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(batch * count, 256)), generator.normal(size=(batch * count, 1))

    def by_hand() -> float:
        bits = gt.random.Generator(1).bits((len(x),)).numpy()
        order = np.argsort(bits, kind="stable")
        losses = []
        for start in range(0, len(x), batch):
            rows = order[start : start + batch]
            losses.append(step(x[rows], y[rows]))
        return float(np.mean([float(loss) for loss in losses]))

    def fitted(ahead: int) -> Callable[[], object]:
        return lambda: gt.fit(
            step, (x, y), batch_size=batch, shuffle=1, read_ahead=ahead, progress="off"
        )

    sides = {
        "a loop by hand": by_hand,
        "gt.fit, read_ahead=0": fitted(0),
        "gt.fit, read_ahead=2": fitted(2),
    }
    found = in_turns(sides, rounds)
    hand = min(found["a loop by hand"])
    print(f"\n{count} steps an epoch, best of {rounds} rounds in turns")
    print(f"{'':32}{'us a step':>10}{'more':>9}")
    for name, seconds in found.items():
        best = min(seconds)
        print(f"{name:32}{best / count * 1e6:10.1f}{(best / hand - 1) * 100:8.1f}%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--folder", default=None, help="a folder on the disk to measure")
    parser.add_argument("--only", default="save,train,fit")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    # One core computes and the other writes, reads ahead and computes checksums.
    gt.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        if "save" in chosen:
            measure_saving(folder, arguments.gigabytes, arguments.rounds)
        if "train" in chosen:
            measure_training(folder, arguments.megabytes, arguments.rounds)
    if "fit" in chosen:
        measure_fit(10 * arguments.rounds)


if __name__ == "__main__":
    main()
