"""Ctrl-C at random moments of training loops: `python -m tests.programs.interrupts --count 1000`.

Another process sends SIGINT while a loop of training steps runs. Afterwards no interrupt may be
lost, no step half applied, no variable unreadable, and no tape still entered. The variables of a
program are equal, and after t steps each is -t: so half a step shows.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

import gradtape as gt
from gradtape.trace.recording import settle, state

# How long a loop may go on after the signal was sent before the interrupt counts as lost.
PATIENCE = 2.0

SENDER = """
import os, signal, sys, time
parent = os.getppid()
for line in sys.stdin:
    time.sleep(float(line))
    os.kill(parent, signal.SIGINT)
"""


class Training:
    """Variables that each step moves by one, and an Adam whose moments are equal."""

    def __init__(self, make: Callable[[Training], Callable[[], object]]) -> None:
        self.variables = [gt.Variable(np.zeros(size)) for size in (1, 5, 50)]
        self.others = [gt.Variable(np.zeros(3)) for _ in range(2)]
        self.descent = gt.optimizers.SGD(1.0)
        self.adam = gt.optimizers.Adam(0.01)
        self.descent.build(self.variables)
        self.adam.build(self.others)
        self.step = make(self)
        for _ in range(50):
            self.step()

    def is_whole(self) -> bool:
        """Whether all variables and slots are those after the same number of steps."""
        taken = int(self.descent.iterations.numpy())
        moved = all(np.all(v.numpy() == -taken) for v in self.variables)
        slots = [s.numpy() for s in self.adam.variables if s.shape]
        equal = all(np.array_equal(one, two) for one, two in zip(slots[:2], slots[2:], strict=True))
        return moved and equal and np.array_equal(*(v.numpy() for v in self.others))


def descend(each: Training) -> gt.Tensor:
    """One step of the first optimiser."""
    with gt.GradientTape() as tape:
        loss = gt.sum(gt.stack([gt.sum(v.value) for v in each.variables]))
    each.descent.apply_gradients(
        zip(tape.gradient(loss, each.variables), each.variables, strict=True)
    )
    return loss


def adapt(each: Training) -> gt.Tensor:
    """One step of the second optimiser."""
    with gt.GradientTape() as tape:
        loss = gt.sum(gt.stack([gt.sum(gt.exp(v.value)) for v in each.others]))
    each.adam.apply_gradients(zip(tape.gradient(loss, each.others), each.others, strict=True))
    return loss


def undecorated(each: Training) -> Callable[[], object]:
    """Both steps, nothing looked at."""
    return lambda: (descend(each), adapt(each))


def observed(each: Training) -> Callable[[], object]:
    """Both steps, with a look at the loss after each."""
    return lambda: (float(descend(each)), float(adapt(each)))


def decorated(each: Training) -> Callable[[], object]:
    """Two compiled functions."""
    one, two = gt.function(lambda: descend(each)), gt.function(lambda: adapt(each))
    return lambda: (one(), two())


def looped(each: Training) -> Callable[[], object]:
    """A step after a native loop of some milliseconds."""

    def step() -> object:
        found = gt.fori_loop(0, 20_000, lambda i, x: x * 0.5 + 1.0, gt.asarray(1.0))
        return float(found), descend(each), adapt(each)

    return step


PROGRAMS = (undecorated, observed, decorated, looped)


def interrupt(training: Training, send: Callable[[float], None], delay: float) -> bool:
    """Run steps until the interrupt comes; False if it does not."""
    end = time.monotonic() + delay + PATIENCE
    try:
        send(delay)
        while time.monotonic() < end:
            for _ in range(20):
                training.step()
    except KeyboardInterrupt:
        return True
    return False


def run(count: int, seed: int = 0) -> Counter[str]:
    """So many interrupts, and how many of them did harm."""
    found: Counter[str] = Counter({"interrupts": count})
    # A shell that starts a process in the background lets it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    trainings = [Training(make) for make in PROGRAMS]
    generator = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, "-S", "-c", SENDER], stdin=subprocess.PIPE, text=True
    ) as sender:
        assert sender.stdin is not None

        def send(delay: float) -> None:
            assert sender.stdin is not None
            sender.stdin.write(f"{delay}\n")
            sender.stdin.flush()

        for number in range(count):
            training = trainings[number % len(trainings)]
            found["lost"] += not interrupt(training, send, generator.uniform(0.0, 0.01))
            harm = None
            try:
                harm = None if training.is_whole() else "half steps"
            except Exception as error:
                harm = "broken variables"
                print(repr(error))
            if harm is not None:
                make = PROGRAMS[number % len(trainings)]
                print(f"{harm} in {make.__name__}")
                found[harm] += 1
                trainings[number % len(trainings)] = Training(make)
            settle()
            found["stuck tapes"] += bool(state.tapes or state.recording.active)
        sender.stdin.close()
    return found


HARM = ("lost", "half steps", "broken variables", "stuck tapes")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts = run(arguments.count, arguments.seed)
    print(
        f"{counts['interrupts']} interrupts: "
        + ", ".join(f"{counts[harm]} {harm}" for harm in HARM)
    )
    sys.exit(int(any(counts[harm] for harm in HARM)))
