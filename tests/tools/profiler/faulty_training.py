"""A badly written training script, with a switch that mends each of its faults.

    python -m tests.tools.profiler.faulty_training          measures the gain of each mended fault
    python -m tests.tools.profiler.faulty_training --page report.html

Each fault is one line with a comment `# fault: name`, by which tests find its line.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

import gradtape as gt
from gradtape.runtime import tiers
from gradtape.tools.profiler.steady import typical

ROWS, COLUMNS, HIDDEN = 20_000, 32, 16
STEPS = 60

Run = Callable[[bool, float], None]

# Seconds of each step of the latest run.
TIMES: list[float] = []


def steps(count: int) -> Iterator[int]:
    """The numbers of some steps, whose processor times are noted: others may use the machine."""
    TIMES.clear()
    for number in range(count):
        begin = time.thread_time()
        yield number
        TIMES.append(time.thread_time() - begin)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((ROWS, COLUMNS)), rng.standard_normal((ROWS, 1))


def computed_again(mended: bool, scale: float) -> None:
    """Features are standardised under the tape, in every step."""
    inputs, targets = map(gt.asarray, data())
    w = gt.Variable(np.full((COLUMNS, 1), 0.1))

    def features(x):
        return gt.tanh(gt.exp(-x * x) + gt.sin(x))  # fault: computed again

    prepared = gt.evaluate(features(inputs))
    for _ in steps(int(STEPS * scale)):
        with gt.GradientTape() as tape:
            x = prepared if mended else features(inputs)
            loss = gt.mean((x @ w - targets) ** 2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        loss.numpy()


def never_read(mended: bool, scale: float) -> None:
    """The gradient by the inputs is asked for, kept alive, and never read."""
    inputs, targets = map(gt.asarray, data())
    w = gt.Variable(np.full((COLUMNS, HIDDEN), 0.1))
    v = gt.Variable(np.full((HIDDEN, 1), 0.1))
    for _ in steps(int(STEPS * scale)):
        with gt.GradientTape() as tape:
            tape.watch(inputs)
            loss = gt.mean((gt.tanh(inputs @ w) @ v - targets) ** 2)
        sources = [w, v] if mended else [w, v, inputs]
        grads = tape.gradient(loss, sources)  # fault: never read
        w.assign_sub(0.01 * grads[0])
        v.assign_sub(0.01 * grads[1])
        loss.numpy()


def read_back(mended: bool, scale: float) -> None:
    """A sum is made of floats that are read one by one."""
    values = gt.evaluate(gt.asarray(np.linspace(0.0, 1.0, 2000)))
    for _ in steps(max(1, int(3 * scale))):
        if mended:
            float(gt.sum(values * 2.0))
            continue
        total = 0.0
        for index in range(1000):
            total += float(values[index] * 2.0)  # fault: read back in a loop


def captured_again(mended: bool, scale: float) -> None:
    """Batches of ever new lengths, and a string that is new in every call."""

    @gt.function
    def step(x, name):  # fault: captured again
        return gt.sum(gt.tanh(x * 2.0) * gt.exp(-x))

    x = gt.asarray(np.linspace(0.0, 1.0, 1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in steps(int(60 * scale)):
            step(x, "batch" if mended else f"batch {number}")


def kept_in_python(mended: bool, scale: float) -> None:
    """A decorated function appends to a list outside, so it runs in Python."""
    log: list[float] = []
    x = gt.evaluate(gt.asarray(np.linspace(0.0, 1.0, 8)))

    @gt.function
    def step(x):  # fault: kept in Python
        y = x
        for _ in range(60):
            y = gt.sin(y) * 1.01 + 0.01
        if not mended:
            log.append(1.0)
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in steps(int(400 * scale)):
            step(x).numpy()


def jacobian_by_a_loop(mended: bool, scale: float) -> None:
    """The rows of a Jacobian, one gradient each."""
    x = gt.Variable(np.linspace(0.0, 1.0, 40))
    for _ in steps(max(1, int(20 * scale))):
        with gt.GradientTape(persistent=True) as tape:
            y = gt.tanh(x * gt.sum(x)) + gt.sin(x)
            elements = [] if mended else [y[index] for index in range(40)]
        if mended:
            tape.jacobian(y, x).numpy()
            continue
        for element in elements:
            tape.gradient(element, x).numpy()  # fault: Jacobian by a loop


def wider_than_needed(mended: bool, scale: float) -> None:
    """float64 where the time is that of memory."""
    dtype = gt.float32 if mended else gt.float64
    x = gt.asarray(np.linspace(0.0, 1.0, 4_000_000), dtype=dtype)
    y = gt.evaluate(x * 2.0)
    for step in steps(int(40 * scale)):
        z = gt.evaluate(x * y + float(step))  # fault: float64
        z[0].numpy()


def stops_fusion(mended: bool, scale: float) -> None:
    """A callback between fused loops."""
    x = gt.asarray(np.linspace(0.1, 1.0, 400_000))
    for step in steps(int(30 * scale)):
        y = x * (1.0 + step)
        if mended:
            z = gt.log1p(y)
        else:
            z = gt.numpy_function(np.log1p, [y], gt.float64)  # fault: stops fusion
        gt.sum(z * 2.0).numpy()


FAULTS: dict[str, Run] = {
    "computed again": computed_again,
    "never read": never_read,
    "read back in a loop": read_back,
    "captured again": captured_again,
    "kept in Python": kept_in_python,
    "Jacobian by a loop": jacobian_by_a_loop,
    "float64": wider_than_needed,
    "stops fusion": stops_fusion,
}


def line_of(fault: str) -> int:
    """The line of a fault in this file."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if f"# fault: {fault}" in line
                and "`" not in line]  # fmt: skip
    return found


def seconds(run: Run, mended: bool, scale: float) -> float:
    """The time of a run, of which every step counts as a steady one.

    Each run begins cold, as a script does. In its first steps NumPy goes on while a thread
    compiles, or calls wait for that, and any step may be interrupted: neither is part of a fault.
    """
    gc.collect()
    gt.clear_plans()
    gt.wait_for_compiler()
    run(mended, scale)
    return typical(TIMES[len(TIMES) // 2 :]) * len(TIMES)


def profiled(fault: str, scale: float = 1.0) -> gt.Profile:
    """The profile of one fault."""
    gc.collect()
    gt.clear_plans()
    gt.wait_for_compiler()
    with gt.profile(fault) as found:
        FAULTS[fault](False, scale)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="write the report of all faults together")
    chosen = parser.parse_args()
    if chosen.page:
        with gt.profile("a badly written training script") as found:
            for run in FAULTS.values():
                run(False, 1.0)
        print(found)
        print(found.save(chosen.page))
        return 0
    bad = 0
    print(f"GRADTAPE_JIT={tiers.MODE}")
    # Workers that wait for a processor would be part of every time.
    gt.set_num_threads(1)
    for run in FAULTS.values():
        run(False, 0.1)
    for fault, run in FAULTS.items():
        found = [profiled(fault).advice for _ in range(3)]
        told = [each for advice in found for each in advice if each["kind"] == fault]
        told.sort(key=lambda each: each["seconds"])
        told = told[len(told) // 2 :]
        times = [(seconds(run, False, 1.0), seconds(run, True, 1.0)) for _ in range(5)]
        # The two runs of a pair meet the same neighbours on the machine.
        gain = median(one - other for one, other in times)
        if not told:
            bad += 1
            print(f"{fault:22} NOT FOUND; mending it saves {gain * 1e3:.0f} ms")
            continue
        ratio = told[0]["seconds"] / gain if gain > 0 else float("inf")
        bad += not 0.5 <= ratio <= 2
        print(
            f"{fault:22} line {told[0]['line']:3} (it is in {line_of(fault):3})  told "
            f"{told[0]['seconds'] * 1e3:7.1f} ms, mended {gain * 1e3:7.1f} ms, ratio {ratio:.2f}"
        )
    return bad


if __name__ == "__main__":
    raise SystemExit(main())
