"""Random interleavings of equal computations over tapes, functions, variables and flushes.

The same few expressions are computed again and again: before tapes, inside them, while one has
stopped recording, inside captured functions, in callbacks and other threads, computed at once or
left pending. `unshared` runs the same program, one object for each application.

    python -m tests.programs.interleavings --count 10000 --seed 0
"""

from __future__ import annotations

import argparse
import collections
import sys
import threading
import time
import traceback
import warnings

import numpy as np
from tests.programs.equal_expressions import BINARY, UNARY
from tests.programs.random_program import RandomProgram, Tracked
from tests.programs.unshared import Unshared

import gradtape as gt

# Kinds of action of which each program takes a few: a mixture of all would rarely repeat itself.
KINDS = (
    "combine", "observe", "call", "pause", "reset", "variable", "assign", "elsewhere", "again",
    "callback", "accumulate", "transform", "use_gradient", "nest", "step", "use_several",
    "ask_in_function", "ask_elsewhere", "ask_under_tape",
)  # fmt: skip
# Those that run another recording in between.
BETWEEN = ("call", "call", "callback", "transform", "again")


class Interleaving(RandomProgram):
    """One random program; `run` gives the list of what was wrong."""

    def run(self) -> list[str]:
        chosen = self.random.sample(KINDS, self.random.randint(1, 1 if self.narrow else 5))
        if self.narrow:
            chosen.append(self.random.choice(BETWEEN))
        actions = [self.compute, self.compute, self.open, self.close, self.ask]
        actions += [getattr(self, kind) for kind in chosen] * (2 if self.narrow else 1)
        if self.deep:
            actions += [self.use_gradient, self.use_several, self.ask_under_tape, self.open] * 2
        for _ in range(self.random.randint(5, 18)):
            self.random.choice(actions)()
        while self._innermost() is not None:
            self.close()
        for tape in list(self.tapes):
            self._ask(tape)
        for tracked in self.pool[-6:]:
            self._check("value", tracked.tensor, tracked.made)
        return [f"{wrong}: {'; '.join(self.log)}" for wrong in self.wrong]

    # Computing.

    def compute(self) -> None:
        name, operand = self.random.choice(self.unary), self._some()
        f, of = UNARY[name]
        self._keep(f"{name}({operand.name})", f(operand.tensor), of(self.reference, operand.made))

    def combine(self) -> None:
        name = self.random.choice(sorted(BINARY))
        one, other = self._some(), self._some()
        made = self.reference.apply(name, one.made, other.made)
        said = f"{name}({one.name}, {other.name})"
        self._keep(said, BINARY[name](one.tensor, other.tensor), made)

    def call(self) -> None:
        """The same by a captured function: a new one, or one that is replayed."""
        name, operand = self.random.choice(self.unary), self._some()
        f, of = UNARY[name]
        fresh = gt.function(lambda a: f(a))
        decorated = fresh if self.random.random() < 0.5 else self.functions.setdefault(name, fresh)
        for _ in range(self.random.choice((1, 1, 3))):
            made = of(self.reference, operand.made)
            self._keep(f"function({name})({operand.name})", decorated(operand.tensor), made)

    def elsewhere(self) -> None:
        """The same in another thread, which has tapes of its own."""
        name, operand = self.random.choice(self.unary), self._some()
        f, of = UNARY[name]
        found = []

        def work():
            found.append(f(operand.tensor))
            with gt.GradientTape() as tape:
                tape.watch(operand.tensor)
                again = f(operand.tensor)
            found.append(tape.gradient(again, operand.tensor, unconnected_gradients="none"))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        apart = Unshared()
        constant = apart.number(operand.made.value)
        apart.watched[self] = [constant]
        apart.recording[self] = None
        slope = apart.gradient(self, of(apart, constant), constant)
        self._check("gradient in a thread", found[1], slope)
        made = self.reference.number(of(apart, constant).value)
        self._keep(f"thread: {name}({operand.name})", found[0], made)

    def callback(self) -> None:
        """The same inside a callback, which runs in the middle of a flush."""
        name, operand = self.random.choice(self.unary), self._some()
        f, of = UNARY[name]

        def work(array):
            x = gt.asarray(array)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return np.asarray(float(f(x)) + 0 * float(tape.gradient(y, x)))

        constant = self.reference.number(operand.made.value)
        want = self.reference.number(of(Unshared(), constant).value)
        tensor = gt.pure_callback(work, ((), np.float64), operand.tensor.numpy())
        self._keep(f"callback: {name}({operand.name})", tensor, want)
        if self.random.random() < 0.7:
            self._check("callback", tensor, want)

    def observe(self) -> None:
        tracked = self._some()
        self.log.append(f"look at {tracked.name}")
        self._check("value", tracked.tensor, tracked.made)

    def step(self) -> None:
        """A training step of its own: a tape over the same computation, asked at once."""
        self.open()
        self.compute()
        self.close()
        self.ask()

    # Variables.

    def variable(self) -> None:
        """Compute from the variable, as from any tensor, or watch it."""
        tape = self._innermost()
        if tape is not None and self._may_watch(tape) and self.random.random() < 0.4:
            self._watch(tape, Tracked(self.the_variable, self.variable_held, "v"))
            return
        name = self.random.choice(self.unary)
        f, of = UNARY[name]
        self._keep(f"{name}(v)", f(self.the_variable), of(self.reference, self.variable_held))

    def assign(self) -> None:
        if self._innermost() is not None:
            return  # gradients flow through assignments under a tape: another test has those
        operand = self._some()
        self.log.append(f"v.assign({operand.name})")
        self.the_variable.assign(operand.tensor)
        self.variable_held = self.reference.number(operand.made.value)

    # Transforms of functions.

    def transform(self) -> None:
        """A derivative of a function, which uses tapes of its own inside."""
        name, operand = self.random.choice(self.unary), self._some()
        kind = self.random.choice(("grad", "vjp", "jvp", "jacobian", "hessian", "function"))
        f, of = UNARY[name]
        x = operand.tensor
        if kind == "vjp":
            tensor = gt.vjp(f, x)[1](1.0)[0]
        elif kind == "jvp":
            tensor = gt.jvp(f, (x,), (1.0,))[1]
        elif kind == "function":
            tensor = gt.function(gt.grad(f))(x)
        else:
            tensor = getattr(gt, kind)(f)(x)
        reference, scopes = self.reference, [object(), object()]
        for scope in scopes[: 2 if kind == "hessian" else 1]:
            reference.recording[scope] = None
            reference.watched[scope] = [operand.made]
        made = of(reference, operand.made)
        for scope in scopes[: 2 if kind == "hessian" else 1]:
            found = reference.gradient(scope, made, operand.made)
            # The second derivative of a linear expression is a zero.
            made = reference.number(0.0) if found is None else found
        for scope in scopes:
            reference.recording.pop(scope, None)
        if kind in ("jvp", "jacobian", "hessian"):
            self.of_other_modes.add(made)
        self._keep(f"{kind}({name})({operand.name})", tensor, made)


def run(seed: int) -> list[str]:
    """What is wrong with one program: nothing, if all is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Interleaving(seed).run()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=5)
    given = parser.parse_args(arguments)
    began, bad, actions, refused = time.monotonic(), 0, 0, 0
    errors: collections.Counter[str] = collections.Counter()
    for seed in range(given.seed, given.seed + given.count):
        program = Interleaving(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wrong = program.run()
            except Exception as error:
                wrong = [f"{type(error).__name__}: {error}: {'; '.join(program.log)}"]
                errors[type(error).__name__] += 1
                if bad < given.show:
                    traceback.print_exc(limit=-4)
                program.leave()
        actions += len(program.log)
        refused += program.refused
        if wrong:
            bad += 1
            if bad <= given.show:
                print(f"seed {seed}: {wrong[0]}")
    took = time.monotonic() - began
    print(
        f"{given.count} interleavings, {actions} actions, {bad} with a mismatch, "
        f"errors {dict(errors)}, {refused} entries refused, {took:.0f} s"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
