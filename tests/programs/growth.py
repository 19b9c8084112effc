"""Things made and dropped by the thousand: `python -m tests.programs.growth --count 10000`.

Each kind of thing is made and dropped in a loop, in a process of its own, with plans compiled at
their second run and at their first. After each tenth of the loop the process tells its resident
memory, its live objects and the time that one item took. A kind fails if the most memory or the
most objects of the last half are over 5 % more than those of the first half, or if an item of the
last half takes twice as long as one of the first. (Caches fill up in the first half: for that
there must be some thousands of items.)
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

import gradtape as gt

GROWTH = 1.05
TIME = 2.0
TENTHS = 10

Make = Callable[[int], object]
X = np.linspace(0.1, 0.9, 12)
OPS: list[Callable[[gt.Tensor], gt.Tensor]] = [
    gt.sin, gt.cos, gt.exp, gt.tanh, gt.square, gt.sqrt, gt.abs,
    lambda x: x + x, lambda x: x * x, lambda x: x[::-1],
]  # fmt: skip


def digits(number: int) -> list[int]:
    """Five digits that no other number has, and that do not follow those of its neighbours."""
    mixed = number * 38_677 % 100_000
    return [(mixed // 10**place) % 10 for place in range(5)]


def chained(number: int, x: gt.Tensor) -> gt.Tensor:
    """A chain of ops that no other number has."""
    for digit in digits(number):
        x = OPS[digit](x)
    return x


def structures() -> Make:
    """Undecorated chains of ops, none like another."""
    x = gt.asarray(X)
    return lambda number: chained(number, x).numpy()


def gradients() -> Make:
    """Gradients of chains of ops."""
    x = gt.asarray(X)
    return lambda number: gt.grad(lambda x: gt.sum(chained(number, x)))(x).numpy()


def functions() -> Make:
    """Compiled functions, each with other ops, called three times."""
    x = gt.asarray(X)

    def make(number: int) -> None:
        f = gt.function(lambda x: chained(number, x))
        for _ in range(3):
            f(x)

    return make


def closures() -> Make:
    """Compiled functions of one code that close over another number, called 40 times."""
    x = gt.asarray(X)

    def make(number: int) -> None:
        factor = float(number)
        f = gt.function(lambda x: x * factor)
        for _ in range(40):
            f(x)

    return make


def sources() -> Make:
    """Compiled functions of source code that was written for them."""
    x = gt.asarray(X)

    def make(number: int) -> None:
        space = {"gt": gt}
        exec(f"def f(x):\n    return gt.sin(x) * {float(number)}", space)
        f = gt.function(space["f"])
        for _ in range(3):
            f(x)

    return make


def tf_functions() -> Make:
    """TensorFlow's functions."""
    from gradtape import tf

    x = tf.constant(X)

    def make(number: int) -> None:
        f = tf.function(lambda x: tf.sin(x) * float(number))
        for _ in range(3):
            f(x)

    return make


def static_values() -> Make:
    """A compiled function with another static value at each call."""
    x = gt.asarray(X)
    f = gt.function(lambda x, name: x * float(name), static_argnames="name")
    return lambda number: f(x, str(number))


def shapes() -> Make:
    """A compiled function with another shape at each call, of which half come back."""
    f = gt.function(lambda x: gt.sum(gt.sin(x)))
    return lambda number: f(gt.asarray(np.ones(1 + (number % 7919) // 2)))


def index_patterns() -> Make:
    """Slices, lists and arrays of indices, none like another."""
    x = gt.asarray(np.arange(20_000.0))

    def make(number: int) -> None:
        x[number : number + 5].numpy()
        x[[number, 3, number // 2]].numpy()
        x[np.array([number, number + 1])].numpy()
        x[:: number + 1].numpy()

    return make


def global_values() -> Make:
    """A compiled function that reads an outside value, which changes before every call."""
    x, held = gt.asarray(X), [0.0]
    f = gt.function(lambda x: x * held[0])

    def make(number: int) -> None:
        held[0] = float(number)
        f(x)

    return make


def classes() -> Make:
    """Classes with compiled methods, whose objects are arguments."""
    x = gt.asarray(X)

    def make(number: int) -> None:
        class Model:
            @gt.function
            def apply(self, x: gt.Tensor) -> gt.Tensor:
                return x * 2.0

        model = Model()
        for _ in range(3):
            model.apply(x)

    return make


def class_arguments() -> Make:
    """One compiled function that is passed classes and objects of them."""
    x = gt.asarray(X)
    f = gt.function(lambda x, model: x * model.factor)

    def make(number: int) -> None:
        class Model:
            factor = 2.0

        f(x, Model)
        f(x, Model())

    return make


def callbacks() -> Make:
    """Python functions that are called as part of a program."""
    x = gt.asarray(X)

    def make(number: int) -> None:
        gt.pure_callback(lambda a: a * number, ((12,), gt.float64), x).numpy()
        gt.numpy_function(lambda a: a * number, [x], ((12,), gt.float64)).numpy()
        gt.py_function(lambda a: a * number, [x], ((12,), gt.float64)).numpy()

    return make


def custom_derivatives() -> Make:
    """Functions with derivatives of the user's."""

    def make(number: int) -> None:
        @gt.custom_gradient
        def f(x: gt.Tensor) -> object:
            return x * number, lambda dy: dy * number

        gt.grad(lambda x: gt.sum(f(x)))(gt.asarray(X)).numpy()

    return make


def loops() -> Make:
    """Bodies of scans and while loops, none like another."""
    x = gt.asarray(X)

    def make(number: int) -> None:
        gt.scan(
            lambda c, a: (c + chained(number, a[None])[0], c), gt.asarray(0.0), gt.asarray(X[:3])
        )
        found = gt.while_loop(
            lambda c: c[0] < 2, lambda c: (c[0] + 1, chained(number, c[1])), (gt.asarray(0), x)
        )
        found[1].numpy()

    return make


def jacobians() -> Make:
    """Sparse Jacobians with patterns that are all different."""
    size = 24
    x = gt.asarray(np.linspace(0.1, 0.9, size))

    def make(number: int) -> None:
        places = np.random.default_rng(number).integers(0, size, size)
        gt.jacobian(lambda x: gt.sin(x) * gt.take(x, places), sparse=True)(x)

    return make


def vmaps() -> Make:
    """Mapped functions."""
    x = gt.asarray(X)
    return lambda number: gt.vmap(lambda x: chained(number, x[None])[0])(x).numpy()


def training() -> Make:
    """Modules that are trained for three steps each."""
    inputs, labels = gt.asarray(np.ones((4, 3))), gt.asarray(np.ones((4, 1)))

    def make(number: int) -> None:
        model = gt.nn.Sequential([gt.nn.Dense(4), gt.nn.Dense(1)])
        optimizer = gt.optimizers.Adam(0.01)

        @gt.function
        def step() -> gt.Tensor:
            with gt.GradientTape() as tape:
                loss = gt.mean((model(inputs) - labels) ** 2)
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        for _ in range(3):
            step()

    return make


KINDS: dict[str, Callable[[], Make]] = {
    kind.__name__: kind
    for kind in (
        structures, gradients, functions, closures, sources, tf_functions, static_values, shapes,
        index_patterns, global_values, classes, class_arguments, callbacks, custom_derivatives,
        loops, jacobians, vmaps, training,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Tenth:
    """What one tenth of a loop left behind."""

    megabytes: float
    objects: int
    milliseconds: float


def resident() -> float:
    """Resident memory of this process in megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measured(kind: str, count: int) -> Iterator[Tenth]:
    """Make and drop so many things of a kind in this process."""
    warnings.simplefilter("ignore")
    make = KINDS[kind]()
    for tenth in range(TENTHS):
        first, last = tenth * count // TENTHS, (tenth + 1) * count // TENTHS
        # The time of this thread: the machine may be shared.
        start = time.thread_time()
        for number in range(first, last):
            make(number)
        seconds = time.thread_time() - start
        # The compiler thread holds what it works on.
        gt.wait_for_compiler()
        gc.collect()
        yield Tenth(resident(), len(gc.get_objects()), 1e3 * seconds / max(last - first, 1))


def faults(tenths: list[Tenth]) -> list[str]:
    """What grows although it should not."""
    first, last = tenths[: TENTHS // 2], tenths[TENTHS // 2 :]
    found = []
    for name in ("megabytes", "objects"):
        before, after = (max(getattr(each, name) for each in half) for half in (first, last))
        if after > GROWTH * before:
            found.append(f"{name} grew by {100 * (after / before - 1):.1f} %")
    # The first tenth loads the compiler.
    if median(each.milliseconds for each in last) > TIME * median(
        each.milliseconds for each in first[1:]
    ):
        found.append("items take longer and longer")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kinds", default=",".join(KINDS), help="names, separated by commas")
    parser.add_argument("--modes", default="auto,always", help="values of GRADTAPE_JIT")
    parser.add_argument("--inside", help="the kind to measure in this process")
    arguments = parser.parse_args()
    if arguments.inside:
        for tenth in measured(arguments.inside, arguments.count):
            print(json.dumps(vars(tenth)), flush=True)
        return 0
    failed = 0
    for mode in arguments.modes.split(","):
        for kind in arguments.kinds.split(","):
            failed += not report(kind, mode, arguments.count)
    print(f"{failed} kinds grow" if failed else "nothing grows")
    return int(failed > 0)


def report(kind: str, mode: str, count: int) -> bool:
    """Measure one kind in a process of its own, and print what it found."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.growth", "--inside", kind, "--count", str(count)],
        env={**os.environ, "GRADTAPE_JIT": mode},
        stdout=subprocess.PIPE,
        text=True,
    )
    tenths = [Tenth(**json.loads(line)) for line in done.stdout.splitlines()]
    wrong = [f"exit {done.returncode}"] if done.returncode else faults(tenths)
    print(f"{kind} ({mode}): {'; '.join(wrong) or 'flat'}")
    print("  MB     ", *(f"{tenth.megabytes:8.1f}" for tenth in tenths))
    print("  objects", *(f"{tenth.objects:8d}" for tenth in tenths))
    print("  ms each", *(f"{tenth.milliseconds:8.3f}" for tenth in tenths), flush=True)
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
