"""Walks: which functions of the library three calls pass through, and in how many files.

    GRADTAPE_RECORDER=python GRADTAPE_JIT=wait python -m tests.formalities.walks [--list]

The seventh call of a small tape, the first call of a `gt.function`, and a later `np.sum`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gradtape as gt

SOURCE = str(Path(gt.__file__).resolve().parent)


def walk(call: Callable[[], object]) -> list[tuple[str, str]]:
    """The file and name of each Python function of the library that a call enters, in order."""
    found: list[tuple[str, str]] = []

    def enter(frame, event, _):
        code = frame.f_code
        # Generated code has no file; modules of Python that are frozen into it are not ours.
        is_generated = code.co_filename[0] == "<" and not code.co_filename.startswith("<frozen")
        if event == "call" and (code.co_filename.startswith(SOURCE) or is_generated):
            found.append((code.co_filename.removeprefix(SOURCE + "/"), code.co_qualname))

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def small_tape() -> Callable[[], object]:
    """A tape of two variables."""
    w, b = gt.Variable([1.0, 2.0, 3.0]), gt.Variable(0.5)
    x = gt.asarray([0.1, 0.2, 0.3])

    def call():
        with gt.GradientTape() as tape:
            loss = gt.sum((gt.sin(w * x) + b) ** 2)
        slopes = tape.gradient(loss, [w, b])
        return [slope.numpy() for slope in slopes]

    for _ in range(6):
        call()
    return call


def first_function_call() -> Callable[[], object]:
    """A decorated function that has not been called."""
    w = gt.Variable([1.0, 2.0, 3.0])

    @gt.function
    def loss(x):
        return gt.sum(gt.sin(w * x) ** 2)

    x = gt.asarray([0.1, 0.2, 0.3])
    return lambda: loss(x)


def later_numpy_sum() -> Callable[[], object]:
    """NumPy's sum of a tensor, which was called before."""
    x = gt.asarray([[0.1, 0.2, 0.3]])
    for _ in range(6):
        np.sum(x, axis=1)
    return lambda: np.sum(x, axis=1)


WALKS = {
    "seventh call of a tape of two variables": small_tape,
    "first call of a gt.function": first_function_call,
    "later np.sum of a tensor": later_numpy_sum,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="each function that is entered")
    chosen = parser.parse_args()
    for title, prepare in WALKS.items():
        entered = walk(prepare())
        print(f"{title}: {len(entered)} calls in {len({file for file, _ in entered})} files")
        if chosen.list:
            print(*(f"    {file} {name}" for file, name in entered), sep="\n")


if __name__ == "__main__":
    main()
