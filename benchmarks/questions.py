"""Times behind the charts of the five questions, and of the example in README.

`python -m benchmarks.questions` writes them.

The functions are those of the pages in docs/questions. Every answer is checked first; forms run in
turns, and the shortest call counts.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import numpy as np

import gradtape as gt
import gradtape.tf as tf
from benchmarks.figures import RESULTS
from gradtape.compiler.objects.llvm import host

Call = Callable[[], object]
ROUNDS = 7
SECONDS = 0.15


def best(forms: Mapping[str, Call]) -> dict[str, float]:
    """Seconds of the shortest call of each form; the forms take turns."""
    for form in forms.values():
        for _ in range(40):
            form()
    found = dict.fromkeys(forms, float("inf"))
    for _ in range(ROUNDS):
        for name, form in forms.items():
            end = time.perf_counter() + SECONDS
            while (start := time.perf_counter()) < end:
                form()
                found[name] = min(found[name], time.perf_counter() - start)
    return found


def jacobian_of_two_results() -> dict[str, float]:
    """Two results of a matrix of a million, and both rows of the Jacobian."""
    x = tf.random.normal((1000, 1000))
    array = x.numpy()

    def results(x: Any) -> list[Any]:
        return [tf.reduce_sum(tf.square(x)), tf.reduce_mean(tf.exp(x))]

    def with_a_tape() -> list[np.ndarray]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = results(x)
        return [j.numpy() for j in tape.jacobian(y, x)]

    def with_gradients() -> list[np.ndarray]:
        return [row.numpy() for row in [tf.gradients(y, x)[0] for y in results(x)]]

    def numpy() -> list[np.ndarray]:
        np.sum(np.square(array)), np.mean(np.exp(array))
        return [2.0 * array, np.exp(array) / np.float32(array.size)]

    for found in (with_a_tape(), with_gradients()):
        for one, expected in zip(found, numpy(), strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-5)
    return best(
        {"NumPy, by hand": numpy, "tf.gradients": with_gradients, "tape.jacobian": with_a_tape}
    )


def jacobian_by_size() -> dict[str, dict[str, float]]:
    """A dense and a sparse Jacobian of a stencil, by the number of unknowns."""

    def heat(u: Any) -> Any:
        return u[2:] - 2.0 * u[1:-1] + u[:-2]

    found = {}
    for size in (125, 250, 500, 1000, 2000):
        u = gt.asarray(np.linspace(0.0, 1.0, size))
        dense, sparse = gt.jacobian(heat), gt.jacobian(heat, sparse=True)
        np.testing.assert_array_equal(sparse(u).toarray(), dense(u).numpy())
        found[str(size)] = best(
            {"dense": lambda u=u, f=dense: f(u).numpy(), "sparse": lambda u=u, f=sparse: f(u)}
        )
    return found


def element_wise() -> dict[str, dict[str, float]]:
    """The gradient of sin(exp(log|x|)), by the number of elements."""

    def composed(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.math.sin(tf.math.exp(tf.math.log(tf.math.abs(x))))
        return tape.gradient(y, x)

    def by_hand(a: np.ndarray) -> np.ndarray:
        size = np.abs(a)
        e = np.exp(np.log(size))
        np.sin(e)
        return np.cos(e) * e / size * np.sign(a)

    found = {}
    for size in (10, 100, 1_000, 10_000, 100_000, 1_000_000):
        array = np.random.default_rng(0).normal(size=size).astype(np.float32)
        x, decorated = tf.constant(array), tf.function(composed)
        np.testing.assert_allclose(composed(x).numpy(), by_hand(array), rtol=2e-3, atol=1e-5)
        found[str(size)] = best(
            {
                "NumPy, by hand": lambda a=array: by_hand(a),
                "tape": lambda x=x: composed(x).numpy(),
                "tape in a tf.function": lambda x=x, f=decorated: f(x).numpy(),
            }
        )
    return found


def training_step() -> dict[str, float]:
    """A step of training with its preprocessing in four places."""
    rng = np.random.default_rng(0)
    pixels = tf.constant(rng.uniform(0, 255, size=(64, 784)).astype(np.float32))
    targets = tf.constant(rng.normal(size=(64, 10)).astype(np.float32))
    weights = tf.Variable((rng.normal(size=(784, 10)) * 0.05).astype(np.float32))
    optimizer = tf.keras.optimizers.SGD(0.01)

    def preprocess(x: Any) -> Any:
        return tf.clip_by_value(x / 255.0, 0.0, 1.0)

    def loss_of(x: Any) -> Any:
        return tf.reduce_mean(tf.square(tf.matmul(x, weights) - targets))

    def outside() -> Any:
        x = preprocess(pixels)
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights], strict=True))
        return loss

    def inside() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(preprocess(pixels))
        optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights], strict=True))
        return loss

    def read_too_early() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(preprocess(pixels))
        float(loss)
        optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights], strict=True))
        return loss

    def steps(step: Callable[[], Any]) -> Call:
        def run() -> float:
            for _ in range(20):
                loss = step()
            return float(loss)

        return run

    seconds = best(
        {
            "preprocessing outside": steps(outside),
            "preprocessing inside": steps(inside),
            "inside, loss read before the gradient": steps(read_too_early),
            "inside, with tf.function": steps(tf.function(inside)),
        }
    )
    return {name: value / 20 for name, value in seconds.items()}


def readme_step() -> dict[str, float]:
    """A step of README's fit: with the decorator, without it, and in NumPy with its derivative."""
    x = np.linspace(0.0, 3.0, 200)
    y = 2.5 * np.exp(-1.3 * x)

    def fit() -> tuple[Callable[[], None], list[gt.Variable]]:
        amplitude, rate = gt.Variable(1.0), gt.Variable(1.0)

        def step() -> None:
            with gt.GradientTape() as tape:
                loss = gt.mean((amplitude * gt.exp(-rate * x) - y) ** 2)
            slopes = tape.gradient(loss, [amplitude, rate])
            for variable, slope in zip([amplitude, rate], slopes, strict=True):
                variable.assign_sub(0.3 * slope)

        return step, [amplitude, rate]

    def by_hand() -> tuple[Callable[[], None], list[float]]:
        found = [1.0, 1.0]

        def step() -> None:
            e = np.exp(-found[1] * x)
            left = found[0] * e - y
            slope = 2.0 * np.mean(left * e), -2.0 * np.mean(left * found[0] * e * x)
            found[0] -= 0.3 * slope[0]
            found[1] -= 0.3 * slope[1]

        return step, found

    plain, variables = fit()
    step, others = fit()
    decorated = gt.function(step)
    numpy, expected = by_hand()
    for each in (plain, decorated, numpy):
        for _ in range(500):
            each()
    for values in (variables, others):
        np.testing.assert_allclose([float(value) for value in values], expected, rtol=1e-9)

    def rounds(step: Callable[[], None], last: Callable[[], object]) -> Call:
        def run() -> None:
            for _ in range(100):
                step()
            last()

        return run

    seconds = best(
        {
            "NumPy, by hand": rounds(numpy, lambda: None),
            "undecorated": rounds(plain, lambda: float(variables[0])),
            "function": rounds(decorated, lambda: float(others[0])),
        }
    )
    return {name: value / 100 for name, value in seconds.items()}


def main() -> None:
    found = {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {host().bits}-bit vectors",
        "jacobian_of_two_results": jacobian_of_two_results(),
        "jacobian_by_size": jacobian_by_size(),
        "element_wise": element_wise(),
        "training_step": training_step(),
        "readme_step": readme_step(),
    }
    (RESULTS / "questions.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
