"""A realistic script with seven faults: a small model is trained, examined, scored and calibrated.

python -m tests.tools.profiler.seven_faults report.html

Each fault is one line with a comment `# fault: kind`, by which the test finds its line.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

import gradtape as gt

ROWS, COLUMNS, HIDDEN = 4000, 24, 16


def standardised(x):
    return gt.tanh((x - gt.mean(x, axis=0)) / gt.std(x, axis=0))  # fault: computed again


def trained(inputs, targets, w, v, steps=150):
    """Features are made in every step, and a gradient by the inputs is kept and never read."""
    losses = []
    for _ in range(steps):
        with gt.GradientTape() as tape:
            tape.watch(inputs)
            loss = gt.mean((gt.tanh(standardised(inputs) @ w) @ v - targets) ** 2)
        grads = tape.gradient(loss, [w, v, inputs])  # fault: never read
        w.assign_sub(0.1 * grads[0])
        v.assign_sub(0.1 * grads[1])
        losses.append(float(loss))
    return losses


def mean_error(inputs, targets, w, v):
    """A mean of values that are read one by one."""
    errors = gt.evaluate((gt.tanh(standardised(inputs) @ w) @ v - targets)[:, 0])
    total = 0.0
    for index in range(1000):
        total += float(errors[index] ** 2)  # fault: read back in a loop
    return total / 1000


def sensitivities(w, points=20):
    """The Jacobian of some outputs by one input, a gradient for each output."""
    found = []
    for point in range(points):
        x = gt.Variable(np.full(COLUMNS, 0.1 * point))
        with gt.GradientTape(persistent=True) as tape:
            outputs = gt.tanh(x @ w)
            elements = [outputs[index] for index in range(HIDDEN)]
        rows = []
        for each in elements:
            rows.append(tape.gradient(each, x).numpy())  # fault: Jacobian by a loop
        found.append(rows)
    return found


@gt.function
def score(batch, w):  # fault: captured again
    return gt.sum(gt.tanh(batch @ w) ** 2)


def scores(inputs, w, count=60):
    """The score of ever longer batches."""
    return [float(score(inputs[: 10 + index], w)) for index in range(count)]


def calibrated(steps=500):
    """Two numbers are fitted by a tape for each step."""
    line = gt.Variable([1.0, 0.0])
    times = gt.asarray(np.linspace(0.0, 1.0, 8))
    for _ in range(steps):
        with gt.GradientTape() as tape:
            misfit = gt.sum((line[0] * times + line[1] - gt.sin(times)) ** 2)
        line.assign_sub(0.05 * tape.gradient(misfit, line))  # fault: many tiny tapes
        if float(misfit) < 1e-9:
            break
    return line.numpy()


def diffused(u):
    return u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2]) * gt.exp(-u[1:-1])


def implicit_steps(steps=30, places=1500):
    """Newton steps with the dense Jacobian of a function of neighbours."""
    u = np.linspace(0.0, 1.0, places)
    jacobian = gt.jacobian(diffused)
    for _ in range(steps):
        matrix = jacobian(gt.asarray(u)).numpy()  # fault: dense Jacobian
        u[1:-1] -= 0.01 * (matrix @ u)
    return u


def main() -> None:
    rng = np.random.default_rng(0)
    inputs = gt.asarray(rng.standard_normal((ROWS, COLUMNS)))
    targets = gt.asarray(rng.standard_normal((ROWS, 1)))
    w = gt.Variable(0.1 * rng.standard_normal((COLUMNS, HIDDEN)))
    v = gt.Variable(0.1 * rng.standard_normal((HIDDEN, 1)))
    trained(inputs, targets, w, v)
    mean_error(inputs, targets, w, v)
    sensitivities(w)
    scores(inputs, w)
    calibrated()
    implicit_steps()


def faults() -> dict[str, int]:
    """The kinds of faults in this file, with their lines."""
    mark = "  # " + "fault: "
    lines = Path(__file__).read_text("utf-8").splitlines()
    return {text.split(mark)[1]: n for n, text in enumerate(lines, 1) if mark in text}


def profiled() -> gt.Profile:
    with warnings.catch_warnings(), gt.profile("a script with seven faults") as found:
        warnings.simplefilter("ignore")
        main()
    return found


if __name__ == "__main__":
    report = profiled()
    print(report)
    print(report.save(sys.argv[1] if len(sys.argv) > 1 else "report.html"))
