"""Random interleavings of equal computations over tapes, functions, variables and flushes.

The same few expressions are computed again and again: before tapes, inside them, while one has
stopped recording, inside captured functions, in callbacks and other threads, computed at once or
left pending. `unshared` runs the same program, one object for each application.

    python -m tests.programs.interleavings --count 10000 --seed 0
"""

from __future__ import annotations

import argparse
import collections
import math
import random
import sys
import threading
import time
import traceback
import warnings

import numpy as np
from tests.programs.unshared import Made, Unshared

import gradtape as gt


@gt.custom_gradient
def custom(a):
    """A square whose derivative is a Python closure."""
    return a * a, lambda dy: dy * 2.0 * a


def square(reference: Unshared, a: Made) -> Made:
    return reference.apply("multiply", a, a)


# Expressions of one operand: for tensors, and as applications of the reference.
UNARY = {
    "square": (lambda a: a * a, square),
    "custom": (custom, square),
    "checkpoint": (lambda a: gt.checkpoint(lambda a: a * a)(a), square),
    "branch": (lambda a: gt.cond(gt.asarray(True), lambda a: a * a, lambda a: a, a), square),
    "sin": (gt.sin, lambda r, a: r.apply("sin", a)),
    "half": (lambda a: a * 0.5, lambda r, a: r.apply("half", a)),
    "shift": (lambda a: a + 1.0, lambda r, a: r.apply("shift", a)),
    "exp": (gt.exp, lambda r, a: r.apply("exp", a)),
    "wave": (lambda a: gt.sin(a * a), lambda r, a: r.apply("sin", square(r, a))),
}
# Those that take more time are taken less often.
SPECIAL = ("branch", "checkpoint", "custom")
PLAIN = sorted(set(UNARY).difference(SPECIAL))
BINARY = {
    "multiply": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
}
# Kinds of action of which each program takes a few: a mixture of all would rarely repeat itself.
KINDS = (
    "combine", "observe", "call", "pause", "reset", "variable", "assign", "elsewhere", "again",
    "callback", "accumulate", "transform", "use_gradient", "nest", "step",
)  # fmt: skip
# Those that run another recording in between.
BETWEEN = ("call", "call", "callback", "transform", "again")


class Tracked:
    """A tensor with its application in the reference, and a name for reports."""

    def __init__(self, tensor, made: Made, name: str):
        self.tensor = tensor
        self.made = made
        self.name = name


class OpenTape:
    """A tape, or an accumulator, with what it watches."""

    def __init__(self, name, tape, persistent=True, tangent=None):
        self.name = name
        self.tape = tape
        self.persistent = persistent
        self.tangent = tangent
        self.sources: list[Tracked] = []
        self.entered = self.recording = True
        self.consumed = False
        self.pausing = None


class Interleaving:
    """One random program; `run` gives the list of what was wrong."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.reference = Unshared()
        self.wrong: list[str] = []
        self.log: list[str] = []
        # How many times a tape could not be entered again.
        self.refused = 0
        # Few values and few expressions, so that equal computations come again. In a narrow program
        # almost every action is the same expression of the same tensor.
        self.narrow = self.random.random() < 0.5
        values = self.random.sample([0.5, 0.7, 0.9], 1 if self.narrow else 2)
        self.pool = [
            Tracked(gt.asarray(value), self.reference.number(value), f"x{position}")
            for position, value in enumerate(values)
        ]
        self.unary = self.random.sample(PLAIN, 1 if self.narrow else 2)
        if self.random.random() < 0.15:
            self.unary[0] = self.random.choice(SPECIAL)
        self.functions: dict[str, object] = {}
        self.variable_held = self.reference.number(0.6)
        self.the_variable = gt.Variable(0.6)
        self.tapes: list[OpenTape] = []

    def run(self) -> list[str]:
        chosen = self.random.sample(KINDS, self.random.randint(1, 1 if self.narrow else 5))
        if self.narrow:
            chosen.append(self.random.choice(BETWEEN))
        actions = [self.compute, self.compute, self.open, self.close, self.ask]
        actions += [getattr(self, kind) for kind in chosen] * (2 if self.narrow else 1)
        for _ in range(self.random.randint(5, 18)):
            self.random.choice(actions)()
        while self._innermost() is not None:
            self.close()
        for tape in list(self.tapes):
            self._ask(tape)
        for tracked in self.pool[-6:]:
            self._check("value", tracked.tensor, tracked.made)
        return [f"{wrong}: {'; '.join(self.log)}" for wrong in self.wrong]

    def _check(self, what: str, tensor, made: Made | None) -> None:
        got = None if tensor is None else float(tensor)
        want = None if made is None else made.value
        if (got is None) != (want is None) or (
            got is not None and not math.isclose(got, want, rel_tol=1e-8, abs_tol=1e-9)
        ):
            self.wrong.append(f"{what} {got} instead of {want} after {len(self.log)} actions")

    # Computing.

    def _some(self) -> Tracked:
        # Mostly the same few tensors: equal computations are what this is about.
        rate = 0.85 if self.narrow else 0.5
        few = self.pool[:1] if self.random.random() < rate else self.pool[:2] + self.pool[-4:]
        found = self.random.choice(few)
        return found if abs(found.made.value) < 4 else self.pool[0]

    def _keep(self, said: str, tensor, made: Made) -> None:
        tracked = Tracked(tensor, made, f"t{len(self.log)}")
        # What is dropped is pending and held by nobody: that, too, is a case.
        if abs(made.value) < 1e3 and self.random.random() < 0.8:
            self.pool.append(tracked)
            said = f"{tracked.name} = {said}"
        self.log.append(said)

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
            found.append(tape.gradient(again, operand.tensor))

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
        self._keep(f"{kind}({name})({operand.name})", tensor, made)

    # Tapes.

    def open(self) -> None:
        if sum(tape.entered for tape in self.tapes) >= 3:
            return
        persistent = self.random.random() < 0.5
        name = f"{'persistent' if persistent else 'tape'}{len(self.log)}"
        made = gt.GradientTape(persistent=persistent, watch_accessed_variables=False)
        tape = OpenTape(name, made, persistent)
        self._enter(tape)
        self._watch(tape, self._some())

    def _enter(self, tape: OpenTape) -> None:
        self.log.append(f"enter {tape.name}")
        tape.tape.__enter__()
        tape.entered = tape.recording = True
        if tape in self.tapes:
            self.tapes.remove(tape)
        # The innermost is the last of the list.
        self.tapes.append(tape)
        self.reference.recording[tape] = None
        self.reference.watched.setdefault(tape, [])

    def _watch(self, tape: OpenTape, source: Tracked) -> None:
        self.log.append(f"{tape.name}.watch({source.name})")
        tape.tape.watch(source.tensor)
        tape.sources.append(source)
        self.reference.watched[tape].append(source.made)

    def nest(self) -> None:
        """One more source for the innermost tape."""
        tape = self._innermost()
        if tape is not None and self._may_watch(tape):
            self._watch(tape, self._some())

    def _may_watch(self, tape: OpenTape) -> bool:
        return tape.tangent is None and tape.recording and not tape.consumed

    def _innermost(self) -> OpenTape | None:
        return next((tape for tape in reversed(self.tapes) if tape.entered), None)

    def close(self) -> None:
        tape = self._innermost()
        if tape is None:
            return
        if tape.pausing is not None:
            self._resume(tape)
        self.log.append(f"leave {tape.name}")
        tape.tape.__exit__(None, None, None)
        tape.entered = tape.recording = False
        self.reference.recording.pop(tape, None)

    def leave(self) -> None:
        """Leave all tapes after an error."""
        while (tape := self._innermost()) is not None:
            tape.entered = False
            tape.tape.__exit__(None, None, None)

    def again(self) -> None:
        """Enter a persistent tape again that has ended, also inside others."""
        ended = [tape for tape in self.tapes if not tape.entered and tape.persistent]
        if ended:
            tape = self.random.choice(ended)
            try:
                self._enter(tape)
            except RuntimeError as error:
                if "cannot be entered again inside" not in str(error):
                    raise
                self.refused += 1

    def pause(self) -> None:
        tape = self._innermost()
        if tape is None or tape.tangent is not None:
            return
        if tape.pausing is not None:
            self._resume(tape)
        elif tape.recording:
            self.log.append(f"pause {tape.name}")
            tape.pausing = tape.tape.stop_recording()
            tape.pausing.__enter__()
            tape.recording = False
            self.reference.recording.pop(tape, None)

    def _resume(self, tape: OpenTape) -> None:
        self.log.append(f"resume {tape.name}")
        tape.pausing.__exit__(None, None, None)
        tape.pausing = None
        tape.recording = True
        self.reference.recording[tape] = None

    def reset(self) -> None:
        tape = self._innermost()
        if tape is None or not tape.recording or tape.tangent is not None or tape.consumed:
            return
        self.log.append(f"reset {tape.name}")
        tape.tape.reset()
        # To the reference it is another scope from here on.
        self.tapes.remove(tape)
        self.reference.recording.pop(tape, None)
        new = OpenTape(tape.name, tape.tape, tape.persistent)
        self.tapes.append(new)
        self.reference.recording[new] = None
        self.reference.watched[new] = []
        self._watch(new, self._some())

    def ask(self) -> None:
        ready = [tape for tape in self.tapes if not tape.consumed and tape.pausing is None]
        ready = [tape for tape in ready if not tape.entered or tape.persistent]
        if ready:
            self._ask(self.random.choice(ready))

    def use_gradient(self) -> None:
        """Ask, and go on computing with the answer."""
        ready = [tape for tape in self.tapes if tape.persistent and tape.pausing is None]
        if ready:
            tensor, made = self._ask(self.random.choice(ready))
            if made is not None and tensor is not None and abs(made.value) < 4:
                self.pool.append(Tracked(tensor, made, f"g{len(self.log)}"))

    def _ask(self, tape: OpenTape):
        if tape.consumed:
            return None, None
        reference = self.reference
        source = self.random.choice(tape.sources)
        connected = [
            each
            for each in self.pool
            if each is not source and reference.depends(tape, each.made, source.made)
        ]
        likely = self.random.random() < 0.85 and connected
        target = self.random.choice(connected) if likely else self._some()
        if tape.tangent is not None:
            seed = None
            tensor = tape.tape.jvp(target.tensor)
            tangent = reference.number(tape.tangent)
            made = reference.tangent(tape, target.made, [(source.made, tangent)])
        else:
            seed = self._some() if self.random.random() < 0.2 else None
            tensor = tape.tape.gradient(
                target.tensor, source.tensor, None if seed is None else seed.tensor
            )
            made = reference.gradient(
                tape, target.made, source.made, None if seed is None else seed.made
            )
        tape.consumed = not tape.persistent
        of = f"({target.name}, {source.name}, {seed.name if seed else None})"
        self.log.append(f"g{len(self.log) + 1} = {tape.name}.gradient{of}")
        if self.random.random() < 0.7:
            self._check("derivative", tensor, made)
        elif (tensor is None) != (made is None):
            self.wrong.append(f"derivative {tensor} instead of {made and made.value}, {of}")
        return tensor, made

    def accumulate(self) -> None:
        if sum(tape.entered for tape in self.tapes) >= 3:
            return
        source, tangent = self._some(), self.random.choice((1.0, 2.0))
        name = f"accumulator{len(self.log)}"
        tape = OpenTape(name, gt.ForwardAccumulator(source.tensor, tangent), tangent=tangent)
        self._enter(tape)
        self.log[-1] += f" of {source.name}"
        tape.sources.append(source)
        self.reference.watched[tape].append(source.made)


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
