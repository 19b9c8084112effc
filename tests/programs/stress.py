"""Many threads with the same functions and variables: what each does, and what must come out.

`Shop` holds what all threads share. Its tasks check their own results exactly, and note what they
did to the shared state; `audit` compares that state with the sum of the notes.
"""

import collections
import faulthandler
import gc
import io
import itertools
import sys
import tempfile
import threading
import time

import numpy as np

import gradtape as gt

WEIGHTS = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
ACCOUNTS = 6
# So small that threads change places in the middle of everything.
SWITCH = 1e-5


def close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


class Shop:
    """Functions and variables that all threads share."""

    def __init__(self):
        self.weights = gt.Variable(WEIGHTS)
        self.scale = gt.Variable(2.0, trainable=False)
        # Counted by assignments.
        self.total = gt.Variable(0)
        self.totals = gt.Variable(np.zeros(3))
        self.by_function = gt.Variable(0)
        self.positive, self.negative = gt.Variable(0), gt.Variable(0)
        # All elements are the same at any time.
        self.even = gt.Variable(np.zeros(1000))
        # What is taken from one is given to another.
        self.accounts = [gt.Variable(1000) for _ in range(ACCOUNTS)]
        self.generator = gt.random.Generator(7)
        # Functions that all threads call; each captures for itself.
        self.wave = gt.function(lambda x: gt.sum(gt.sin(x) * self.scale + x * x))
        self.loss = gt.function(lambda x, y: gt.mean((gt.tanh(x @ self.weights) - y) ** 2))
        self.count = gt.function(lambda n: self.by_function.assign_add(n).value)
        self.noise = gt.function(lambda x: x + self.generator.uniform((6,)))
        self.slopes = gt.function(self._slopes)
        self.root = gt.function(root)
        self.sort = gt.function(self._sort)
        self.transfer = gt.function(transfer)
        self.average = gt.function(average)
        self.inverse = gt.function(inverse)

    def _slopes(self, x, y):
        with gt.GradientTape() as tape:
            loss = self.loss(x, y)
        return loss, tape.gradient(loss, self.weights)

    def _sort(self, x):
        if x > 0.0:
            self.positive.assign_add(1)
            return x
        self.negative.assign_add(1)
        return -x


def root(a):
    x, steps = a, 0
    while gt.abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
        steps += 1
    return x, steps


def transfer(giver, taker, amount):
    if giver.value < amount:
        return amount * 0
    giver.assign_sub(amount)
    taker.assign_add(amount)
    return amount


def average(xs):
    def step(mean, x):
        mean = mean + 0.25 * (x - mean)
        return mean, mean

    return gt.scan(step, xs[0], xs)


def inverse(a):
    try:
        return gt.linalg.inv(a)
    except np.linalg.LinAlgError:
        return gt.zeros_like(a)


class Worker:
    """One thread: its own numbers, and notes of what it did to what is shared."""

    def __init__(self, shop, number):
        self.shop = shop
        self.number = number
        self.numbers = np.random.default_rng(number)
        self.notes = collections.Counter()
        self.own = gt.Variable(np.zeros(3))
        self.stream = gt.random.Generator(number)
        self.twin = gt.random.Generator(number)
        self.weight, self.optimizer = gt.Variable([1.0, -2.0]), gt.optimizers.Adam(0.1)
        self.reference = (np.array([1.0, -2.0]), np.zeros(2), np.zeros(2), 0)

    # Tasks.

    def shapes(self):
        x = self.numbers.standard_normal((1 + self.number % 5, 1 + self.notes["shapes"] % 4))
        close(self.shop.wave(gt.asarray(x)), np.sum(2.0 * np.sin(x) + x * x))

    def tapes(self):
        x, y = self.numbers.standard_normal((5, 4)), self.numbers.standard_normal((5, 3))
        guess = np.tanh(x @ WEIGHTS)
        expected = np.mean((guess - y) ** 2)
        slope = x.T @ (2.0 * (guess - y) * (1.0 - guess**2)) / guess.size
        given = gt.asarray(x), gt.asarray(y)
        with gt.GradientTape() as tape:
            loss = gt.mean((gt.tanh(given[0] @ self.shop.weights) - given[1]) ** 2)
        by_weights = tape.gradient(loss, self.shop.weights)
        for found, gradient in ((loss, by_weights), self.shop.slopes(*given)):
            close(found, expected)
            close(gradient, slope)

    def assignments(self):
        shop = self.shop
        shop.total.assign_add(self.number)
        shop.totals.assign_add(np.array([1.0, float(self.number), -1.0]))
        shop.count(gt.asarray(3))
        self.notes["total"] += self.number
        self.notes["counted"] += 3
        self.own.assign_add(np.ones(3))
        self.notes["own"] += 1
        close(self.own.numpy(), float(self.notes["own"]))

    def whole_values(self):
        even = self.shop.even
        if self.notes["whole_values"] % 2:
            even.assign(np.full(1000, self.numbers.standard_normal()))
        values = even.numpy()
        assert np.all(values == values[0])
        with gt.GradientTape() as tape:
            value = even.value
            y = gt.sum(value * value)
        # What the tape noted and what was read are of one moment.
        close(y, np.sum(tape.gradient(y, even).numpy() ** 2) / 4.0)

    def guards(self):
        a = float(self.numbers.uniform(0.1, 50.0))
        x, steps = self.shop.root(gt.asarray(a))
        close(x, a**0.5)
        assert 0 <= steps < 12
        value = float(self.numbers.standard_normal())
        close(self.shop.sort(gt.asarray(value)), abs(value))
        self.notes["positive" if value > 0.0 else "negative"] += 1

    def transfers(self):
        giver, taker = self.numbers.choice(ACCOUNTS, 2, replace=False)
        accounts = self.shop.accounts
        amount = int(self.numbers.integers(1, 5))
        moved = self.shop.transfer(accounts[giver], accounts[taker], gt.asarray(amount))
        assert int(moved) in (0, amount)

    def jacobians(self):
        x = self.numbers.standard_normal(4)

        def f(x):
            return gt.sin(x) * x[0] + gt.sum(x * x)

        expected = np.diag(np.cos(x) * x[0]) + 2.0 * x
        expected[:, 0] += np.sin(x)
        close(gt.jacobian(f)(gt.asarray(x)), expected)
        hessian = gt.hessian(lambda x: gt.sum(x**3) * x[1])(gt.asarray(x))
        by_hand = np.diag(6.0 * x * x[1])
        by_hand[1] += 3.0 * x**2
        by_hand[:, 1] += 3.0 * x**2
        close(hessian, by_hand)

    def sparse_jacobians(self):
        size = 6 + self.number % 3
        x = self.numbers.standard_normal(size)

        def f(x):
            return x[1:] * x[:-1] + gt.sin(x[1:])

        found = gt.jacobian(f, sparse=True)(gt.asarray(x)).toarray()
        expected = np.zeros((size - 1, size))
        rows = np.arange(size - 1)
        expected[rows, rows] = x[1:]
        expected[rows, rows + 1] = x[:-1] + np.cos(x[1:])
        close(found, expected)

    def optimizers(self):
        w, m, v, t = self.reference
        target = self.numbers.standard_normal(2)
        self.optimizer.minimize(
            lambda: gt.sum((self.weight - gt.asarray(target)) ** 2), [self.weight]
        )
        g, t = 2.0 * (w - target), t + 1
        m, v = m + 0.1 * (g - m), v + 0.001 * (g * g - v)
        w = w - 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-7)
        self.reference = (w, m, v, t)
        close(self.weight.numpy(), w, 1e-7)

    def draws(self):
        base = float(self.number)
        found = self.shop.noise(gt.asarray(base)).numpy()
        assert np.all((base <= found) & (found < base + 1.0))
        self.notes["drawn"] += 1
        close(self.stream.normal((5,)), self.twin.normal((5,)).numpy(), 0.0)

    def scans(self):
        xs = self.numbers.standard_normal(9)
        last, means = self.shop.average(gt.asarray(xs))
        mean, expected = xs[0], []
        for x in xs:
            mean = mean + 0.25 * (x - mean)
            expected.append(mean)
        close(means, expected)
        close(last, expected[-1])

    def failures(self):
        a = np.diag([1.0, float(self.notes["failures"] % 2)])
        close(self.shop.inverse(gt.asarray(a)), a if a[1, 1] else 0.0 * a)

    def large_values(self):
        if self.number % 16 == 0:
            x = np.full(200_000, 1.0 + self.number)
            close(gt.sum(gt.sqrt(gt.asarray(x)) * 2.0), 400_000 * (1.0 + self.number) ** 0.5)

    def housekeeping(self):
        if self.number == 0:
            gc.collect()
        elif self.number == 1 and self.notes["housekeeping"] % 8 == 0:
            # Everybody plans and compiles again.
            gt.clear_plans()
        elif self.number == 2:
            gt.empty_cache()

    TASKS = (
        "shapes", "tapes", "assignments", "whole_values", "guards", "transfers", "jacobians",
        "sparse_jacobians", "optimizers", "draws", "scans", "failures", "large_values",
        "housekeeping",
    )  # fmt: skip

    def work(self, end):
        """Every task once, and then on until the end."""
        turn = itertools.cycle(np.roll(self.TASKS, self.number).tolist())
        for number, task in enumerate(turn):
            if number >= len(self.TASKS) and time.monotonic() >= end:
                return
            getattr(self, task)()
            self.notes[task] += 1


def audit(shop, notes):
    """Compare the shared state with what the threads have noted."""
    assert int(shop.total) == notes["total"]
    done = float(notes["assignments"])
    assert shop.totals.tolist() == [done, float(notes["total"]), -done]
    assert int(shop.by_function) == notes["counted"]
    assert int(shop.positive) == notes["positive"]
    assert int(shop.negative) == notes["negative"]
    assert sum(int(account) for account in shop.accounts) == 1000 * ACCOUNTS
    assert all(int(account) >= 0 for account in shop.accounts)
    # Six numbers take two blocks.
    assert shop.generator.state[2] == 2 * notes["drawn"]


def run(shop, threads, seconds, patience):
    """Let the threads work; what they noted together. If one hangs, where all are is told."""
    begin = threading.Barrier(threads)
    workers = [Worker(shop, number) for number in range(threads)]
    errors = []

    def work(worker):
        try:
            begin.wait(patience)
            worker.work(time.monotonic() + seconds)
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        running = [threading.Thread(target=work, args=(w,), daemon=True) for w in workers]
        for thread in running:
            thread.start()
        last = time.monotonic() + seconds + patience
        for thread in running:
            thread.join(max(0.0, last - time.monotonic()))
        if any(thread.is_alive() for thread in running):
            raise AssertionError(f"threads hang:\n{stacks()}")
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]
    return sum((worker.notes for worker in workers), collections.Counter())


def stacks():
    """Where every thread is."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0, io.SEEK_SET)
        return file.read()


# What belongs to threads, to their tapes or to their values. Plans and kernels are kept for others.
OWN = (
    "Buffer", "Capture", "Captured", "Generator", "GradientTape", "Recording", "PathStep", "Table",
    "Tensor", "TensorView", "Value", "Variable",
)  # fmt: skip


def living():
    """How many objects of these classes there are."""
    gt.clear_plans()
    gc.collect()
    gt.empty_cache()  # idle buffers are objects, too
    return collections.Counter(
        type(thing).__name__
        for thing in gc.get_objects()
        if str(type(thing).__module__).startswith("gradtape.") and type(thing).__name__ in OWN
    )
