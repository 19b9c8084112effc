"""What gradtape is for, in half a minute: five questions, a training run, a sparse Jacobian.

Run it with `make demo`. Every result is compared with a value known in closed form or with a
threshold; the exit status is 1 if a comparison fails. Pictures and the report go to build/demo,
or to the folder that the command line names.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gradtape as gt
from gradtape import nn, optimizers

STEPS = 1000
# How long each form of an answer runs before it is measured, and how long it is measured.
WARM, SECONDS = 0.5, 0.2


@dataclass(frozen=True)
class Answer:
    """One question: what was checked, and seconds of a call in three forms."""

    question: str
    passed: bool
    detail: str
    ours: float
    op_by_op: float
    numpy: float


def check(what: str, passed: bool, detail: str) -> bool:
    print(f"  [{'ok' if passed else 'FAILED'}] {what}: {detail}")
    return bool(passed)


def best(f: Callable[[], object]) -> float:
    """The shortest call of a form that has run for a while, so that what pays is compiled."""
    start = time.perf_counter()
    while time.perf_counter() - start < WARM:
        f()
    shortest, end = float("inf"), time.perf_counter() + SECONDS
    while shortest == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def op_by_op(f: Callable[[], object]) -> Callable[[], object]:
    """The same code with every op computed on its own line."""

    def call() -> object:
        with gt.eager():
            return f()

    return call


def off(found: object, expected: object) -> float:
    """The largest difference, beside the size of what is expected."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        return float("inf")
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def answer(
    question: str,
    what: str,
    ours: Callable[[], object],
    by_hand: Callable[[], object],
    tolerance: float,
) -> Answer:
    """Compare three calls with the formula in NumPy, then time all forms."""
    error = 0.0
    for _ in range(3):
        pairs = zip(_listed(ours()), _listed(by_hand()), strict=True)
        error = max(error, *(off(found, expected) for found, expected in pairs))
    detail = f"{what}, off by {error:.0e}"
    times = best(ours), best(op_by_op(ours)), best(by_hand)
    return Answer(question, error < tolerance, detail, *times)


def _listed(results: object) -> list[object]:
    return list(results) if isinstance(results, list | tuple) else [results]


def jacobian_of_a_tape() -> Answer:
    array = np.random.default_rng(0).normal(size=(500, 500))
    x = gt.asarray(array)

    def ours():
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = [gt.sum(gt.square(x)), gt.mean(gt.exp(x))]
        return [j.numpy() for j in tape.jacobian(y, x)]

    def by_hand():
        np.sum(np.square(array)), np.mean(np.exp(array))
        return [2.0 * array, np.exp(array) / array.size]

    return answer(
        "Is a tape slower than a static graph for Jacobians?",
        "two rows of 250,000",
        ours,
        by_hand,
        1e-12,
    )


def preprocessing_under_the_tape() -> Answer:
    rng = np.random.default_rng(1)
    pixels, target = rng.uniform(0, 255, size=(64, 784)), rng.normal(size=(64, 10))
    first = rng.normal(size=(784, 10)) * 0.05
    weight, inputs, labels = gt.Variable(first), gt.asarray(pixels), gt.asarray(target)
    plain = first.copy()

    def ours():
        with gt.GradientTape() as tape:
            x = gt.clip(inputs / 255.0, 0.0, 1.0)
            loss = gt.mean((gt.relu(x @ weight) - labels) ** 2)
        weight.assign_sub(0.01 * tape.gradient(loss, weight))
        return gt.evaluate(weight.value)

    def by_hand():
        nonlocal plain
        x = np.clip(pixels / 255.0, 0.0, 1.0)
        score = x @ plain
        left = np.maximum(score, 0.0) - target
        np.mean(left**2)
        plain = plain - 0.01 * (x.T @ (2.0 / left.size * left * (score > 0)))
        return plain

    return answer(
        "Must preprocessing stay out of the tape?", "a training step", ours, by_hand, 1e-11
    )


def element_wise() -> Answer:
    array = np.random.default_rng(2).normal(size=1_000_000).astype(np.float32)
    x = gt.asarray(array)

    def ours():
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.where(x > 0.0, gt.sin(gt.exp(-x)), gt.exp(x) * x)
        return tape.gradient(y, x).numpy()

    def by_hand():
        e, g = np.exp(-array), np.exp(array)
        np.where(array > 0, np.sin(e), g * array)
        return np.where(array > 0, -np.cos(e) * e, g * array + g)

    return answer("Are element-wise gradients slow?", "a million elements", ours, by_hand, 1e-5)


def loops_and_state() -> Answer:
    array = np.linspace(0.5, 8.0, 20_000)

    @gt.function
    def cube_root(a):
        rounds = []  # a list that grows, and a loop on values
        with gt.GradientTape() as tape:
            tape.watch(a)
            x = a
            while gt.max(gt.abs(x * x * x - a)) > 1e-9:
                x = x - (x * x * x - a) / (3.0 * x * x)
                rounds.append(x)
            last = rounds[-1]
        return last, tape.gradient(last, a)

    def by_hand():
        points = [array]
        while np.max(np.abs(points[-1] ** 3 - array)) > 1e-9:
            x = points[-1]
            points.append(x - (x * x * x - array) / (3.0 * x * x))
        passed, slope = np.ones_like(array), np.zeros_like(array)
        for x in reversed(points[:-1]):  # back through each round
            slope = slope + passed / (3.0 * x * x)
            passed = passed * (2.0 / 3.0) * (1.0 - array / (x * x * x))
        return points[-1], slope + passed

    a = gt.asarray(array)
    return answer(
        "Does a tape follow loops, branches and lists?",
        "derivative through Newton's method",
        lambda: gt.evaluate(cube_root(a)),
        by_hand,
        1e-9,
    )


def one_jacobian_per_example() -> Answer:
    rng = np.random.default_rng(3)
    array, matrix = rng.normal(size=(256, 32)), rng.normal(size=(32, 32)) / 6.0
    x, w = gt.asarray(array), gt.asarray(matrix)

    def ours():
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.tanh(x @ w)
        return tape.batch_jacobian(y, x).numpy()

    def by_hand():
        y = np.tanh(array @ matrix)
        return (1.0 - y * y)[:, :, None] * matrix.T

    return answer(
        "gradient, jacobian, batch_jacobian: which?",
        "256 Jacobians of 32 × 32",
        ours,
        by_hand,
        1e-12,
    )


FORMS = """  gradtape   the code of the question, after its first calls
  op by op   the same code under gt.eager(): each op is computed on its own line
  NumPy      the formula and its derivative, written by hand"""


def questions(folder: Path) -> bool:
    print("Five questions. Milliseconds of a call, the shortest of many:")
    print(FORMS)
    cases = (
        jacobian_of_a_tape,
        preprocessing_under_the_tape,
        element_wise,
        loops_and_state,
        one_jacobian_per_example,
    )
    answers = [case() for case in cases]
    print(f"\n  {'':52} {'gradtape':>9} {'op by op':>9} {'NumPy':>9}")
    for each in answers:
        times = " ".join(f"{1e3 * t:9.3f}" for t in (each.ours, each.op_by_op, each.numpy))
        print(f"  {each.question:52} {times}")
    print()
    checked = [check(each.question, each.passed, each.detail) for each in answers]
    ahead = [each for each in answers if each.ours <= each.numpy]
    print(f"  gradtape is ahead of derivatives written by hand in {len(ahead)} of {len(answers)}.")
    for each in answers:
        if each not in ahead:
            print(f"  Behind by {each.ours / each.numpy:.1f}: {each.question}")
    if len(ahead) < len(answers):
        print("  Small undecorated programs pay for recording: @gt.function removes that.")
    draw_answers(answers, folder / "questions.png")
    return all(checked)


def pictures() -> Any:
    """Matplotlib's pyplot, if it is installed."""
    try:
        import matplotlib  # optional
    except ImportError:
        print("  no pictures: install matplotlib, or gradtape[plot]")
        return None
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def draw_answers(answers: list[Answer], path: Path) -> None:
    """Bars of the three forms."""
    pyplot = pictures()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(figsize=(8.0, 3.6))
    places = np.arange(len(answers))
    forms = {
        "gradtape": [each.ours for each in answers],
        "op by op": [each.op_by_op for each in answers],
        "NumPy, by hand": [each.numpy for each in answers],
    }
    for number, (name, seconds) in enumerate(forms.items()):
        axes.barh(places + 0.27 * number, [1e3 * each for each in seconds], 0.25, label=name)
    axes.set_yticks(places + 0.27, [each.question for each in answers])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("ms of a call")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"  as a picture: {path}")


def progress(done: int, total: int, note: str) -> None:
    """Draw a bar on stderr; where that is not a terminal, write one line per quarter."""
    if sys.stderr.isatty():
        filled = 30 * done // total
        bar = "█" * filled + "·" * (30 - filled)
        end = "\n" if done == total else ""
        print(f"\r  {bar} {done}/{total} {note}", end=end, file=sys.stderr, flush=True)
    elif 4 * done // total != 4 * (done - 1) // total:
        print(f"  {done}/{total} {note}", file=sys.stderr, flush=True)


def spirals(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points on two spirals that wind around each other, and which one each lies on."""
    labels = rng.integers(0, 2, count)
    angle = np.sqrt(rng.uniform(0.02, 1.0, count)) * 3.0 * np.pi
    radius = np.where(labels, angle, -angle) / 10.0
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return (points + 0.01 * rng.normal(size=points.shape)).astype(np.float32), labels


def training(folder: Path) -> bool:
    print(f"Training 2-64-64-2 on two spirals, {STEPS} steps of AdamW, nothing decorated")
    rng = np.random.default_rng(0)
    gt.random.seed(0)
    points, labels = spirals(4000, rng)
    unseen, unseen_labels = spirals(1000, rng)
    model = nn.Sequential([nn.Dense(64, "silu"), nn.Dense(64, "silu"), nn.Dense(2)])
    rate = optimizers.schedules.CosineDecay(
        0.0, STEPS - STEPS // 10, warmup_target=0.01, warmup_steps=STEPS // 10
    )
    optimizer = optimizers.AdamW(rate, weight_decay=1e-3, global_clipnorm=1.0)

    def train_step():
        rows = rng.integers(0, len(points), 128)
        with gt.GradientTape() as tape:
            logits = model(points[rows])
            loss = nn.losses.sparse_categorical_crossentropy(labels[rows], logits, from_logits=True)
        weights = model.parameters()
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    start, seen, losses = time.perf_counter(), 0.0, []
    for step in range(1, STEPS + 1):
        loss = train_step()
        # A read after the update; between loss and gradient it would split the step in two.
        if step % 25 == 0:
            seen = float(loss)
            losses.append(seen)
        progress(step, STEPS, f"loss {seen:.4f}")
    seconds = time.perf_counter() - start
    right = np.mean(np.argmax(model(unseen).numpy(), axis=1) == unseen_labels)
    print(f"  {STEPS / seconds:.0f} steps/s")
    passed = check("accuracy on points not seen above 97 %", right > 0.97, f"{100 * right:.1f} %")
    draw_training(model, points, labels, losses, folder / "training.png")
    return report(folder, train_step) and passed


def draw_training(
    model: nn.Module, points: np.ndarray, labels: np.ndarray, losses: list[float], path: Path
) -> None:
    """The loss, and the regions that the network has learned."""
    pyplot = pictures()
    if pyplot is None:
        return
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8.0, 3.4))
    left.semilogy(np.arange(1, len(losses) + 1) * 25, losses)
    left.set_xlabel("step")
    left.set_title("loss")
    side = np.linspace(-1.05, 1.05, 200, dtype=np.float32)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    regions = np.argmax(model(grid).numpy(), axis=1).reshape(200, 200)
    right.contourf(side, side, regions, levels=[-0.5, 0.5, 1.5], alpha=0.3)
    right.scatter(*points[:600].T, c=labels[:600], s=4)
    right.set_title("two spirals, and what was learned")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"  as a picture: {path}")


def report(folder: Path, train_step: Callable[[], object]) -> bool:
    """Profile a few more steps, and write the page about them."""
    try:
        profile = gt.profile().start()
    except RuntimeError as error:  # `gradtape profile demo.py` measures this run already
        print(f"  {error}")
        return True
    for _ in range(50):
        loss = train_step()
    float(loss)
    profile.stop()
    page = folder / "report.html"
    profile.save(page)
    return check("report page", page.stat().st_size > 1000, f"{page}: open it in a browser")


def sparse_jacobian(folder: Path) -> bool:
    side = 24
    print(f"A sparse Jacobian: diffusion on a grid of {side} × {side}, found from the program")

    def diffusion(u):
        u = gt.reshape(u, (side, side))
        padded = gt.pad(u, [(1, 1), (1, 1)])
        around = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
        return gt.reshape(around - 4.0 * u + u**3, (-1,))

    point = np.linspace(0.0, 1.0, side * side)
    jacobian = gt.prepare_jacobian(diffusion, point, sparse=True)
    for line in gt.spy(jacobian.pattern, width=48).splitlines():
        print("   ", line)
    found = jacobian(point)
    direction = np.cos(np.arange(point.size))
    product = gt.jvp(diffusion, (gt.asarray(point),), (gt.asarray(direction),))[1].numpy()
    error = off(found @ direction, product)
    detail = f"{found.shape[0]} × {found.shape[1]}, {found.nnz} entries, off by {error:.0e}"
    passed = check(f"{jacobian.colours} products instead of {point.size}", error < 1e-12, detail)
    if pictures() is not None:
        picture = folder / "jacobian.png"
        axes = gt.spy(jacobian.pattern, plot=True)
        axes.figure.savefig(picture, dpi=120)
        print(f"  as a picture: {picture}")
    return passed


def main(folder: Path) -> int:
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    results = [questions(folder), training(folder), sparse_jacobian(folder)]
    verdict = "all checks passed" if all(results) else "SOME CHECKS FAILED"
    print(f"Done in {time.perf_counter() - start:.1f} s: {verdict}.")
    return 0 if all(results) else 1


if __name__ == "__main__":
    default = Path(__file__).resolve().parents[1] / "build" / "demo"
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else default))
