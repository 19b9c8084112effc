"""The cost of a new program: 1,000 ops traced, differentiated, compiled; and of a new shape.

Every call has a program, or a shape, that the process has not seen, and computes the same numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Workload, Wrap

ROUNDS, FEW_ROUNDS = 333, 33
SIZE = 1000


def inputs() -> Arrays:
    return {"x": np.random.default_rng(21).uniform(-1, 1, SIZE + 5000).astype("float32")}


def derivative(x: np.ndarray, rounds: int) -> np.ndarray:
    y, dy = x, np.ones_like(x)
    for _ in range(rounds):
        y, dy = np.tanh(y) * 0.9 + x, 0.9 * (1 - np.tanh(y) ** 2) * dy + 1
    return dy


def thousand_reference(inputs: Arrays) -> list[np.ndarray]:
    return [derivative(inputs["x"][:SIZE].astype("float64"), ROUNDS)]


def shape_reference(inputs: Arrays) -> list[np.ndarray]:
    return [derivative(inputs["x"][:SIZE].astype("float64"), FEW_ROUNDS)]


def chain(tanh: Callable[[Any], Any], x: Any, rounds: int, turned: int = -1) -> Any:
    """Three ops a round; round `turned` swaps the operands of the sum, for a new program."""
    y = x
    for number in range(rounds):
        step = tanh(y) * 0.9
        y = x + step if number == turned else step + x
    return y


def _gradtape_step(gt: Any, x: Any, rounds: int, turned: int) -> Any:
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = chain(gt.tanh, x, rounds, turned)
    return tape.gradient(y, x)


def _compile_at_once() -> None:
    # By default a program is compiled when it repeats; here the first call has to compile.
    from gradtape.runtime import tiers

    tiers.MODE = "always"


def thousand_gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    _compile_at_once()
    x = gt.asarray(inputs["x"][:SIZE])
    turns = itertools.count()

    def call() -> object:
        turned = next(turns) % ROUNDS
        return wrap(lambda x: _gradtape_step(gt, x, ROUNDS, turned))(x)

    return call


def shape_gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    _compile_at_once()
    gradient = wrap(lambda x: _gradtape_step(gt, x, FEW_ROUNDS, -1))
    arrays = _arrays(inputs, gt.asarray)
    return lambda: gradient(next(arrays))[:SIZE]


def _arrays(inputs: Arrays, convert: Callable[[Any], Any]) -> Any:
    """Arrays of growing length, so that each call has a new shape."""
    return (convert(inputs["x"][: SIZE + k % 5000]) for k in itertools.count())


def thousand_jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(inputs["x"][:SIZE])
    turns = itertools.count()

    def call() -> object:
        turned = next(turns) % ROUNDS
        return wrap(jax.grad(lambda x: jnp.sum(chain(jnp.tanh, x, ROUNDS, turned))))(x)

    return call


def shape_jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    gradient = wrap(jax.grad(lambda x: jnp.sum(chain(jnp.tanh, x, FEW_ROUNDS))))
    arrays = _arrays(inputs, jnp.asarray)
    return lambda: gradient(next(arrays))[:SIZE]


def thousand_tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    x = tf.constant(inputs["x"][:SIZE])
    turns = itertools.count()

    def call() -> object:
        turned = next(turns) % ROUNDS
        return wrap(lambda x: _tensorflow_step(tf, x, ROUNDS, turned))(x)

    return call


def shape_tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    gradient = wrap(lambda x: _tensorflow_step(tf, x, FEW_ROUNDS, -1))
    arrays = _arrays(inputs, tf.constant)
    return lambda: gradient(next(arrays))[:SIZE]


def _tensorflow_step(tf: Any, x: Any, rounds: int, turned: int) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = chain(tf.tanh, x, rounds, turned)
    return tape.gradient(y, x)


for build in (thousand_gradtape, shape_gradtape):
    build.__name__ = "gradtape"
for build in (thousand_jax, shape_jax):
    build.__name__ = "jax"
for build in (thousand_tensorflow, shape_tensorflow):
    build.__name__ = "tensorflow"

WORKLOADS = (
    Workload(
        name="compile-thousand",
        title="a new program of 1,000 ops and its gradient: traced, compiled, run",
        dtype="float32",
        inputs=inputs,
        reference=thousand_reference,
        builds=(thousand_gradtape, thousand_jax, thousand_tensorflow),
        tolerance=1e-4,
        slow=True,
    ),
    Workload(
        name="second-shape",
        title="100 ops and their gradient under the compiler, a new length at each call",
        dtype="float32",
        inputs=inputs,
        reference=shape_reference,
        builds=(shape_gradtape, shape_jax, shape_tensorflow),
        tolerance=1e-4,
        slow=True,
    ),
)
