"""Random interleavings of equal computations over tapes, functions, variables and flushes.

The same few expressions are computed again and again: before tapes, inside them, while one has
stopped recording, inside captured functions, in another thread, computed at once or left pending.
Beside each tensor its value and its derivative by every tape are carried along as plain numbers,
one application at a time, so nothing is shared there by construction.
"""

from __future__ import annotations

import contextlib
import math
import random
import threading

import gradtape as gt

# Expressions over one or two operands, with the partial derivatives.
UNARY = {
    "square": (lambda a: a * a, lambda a: a * a, lambda a: 2 * a),
    "sin": (gt.sin, math.sin, math.cos),
    "half": (lambda a: a * 0.5, lambda a: a * 0.5, lambda a: 0.5),
    "shift": (lambda a: a + 1.0, lambda a: a + 1.0, lambda a: 1.0),
    "exp": (gt.exp, math.exp, math.exp),
}
BINARY = {
    "multiply": (lambda a, b: a * b, lambda a, b: (b, a)),
    "add": (lambda a, b: a + b, lambda a, b: (1.0, 1.0)),
    "subtract": (lambda a, b: a - b, lambda a, b: (1.0, -1.0)),
}


class Tracked:
    """A tensor, its value, and its derivative by the source of each tape that saw it made."""

    def __init__(self, tensor, value, slopes):
        self.tensor = tensor
        self.value = value
        self.slopes = slopes


class OpenTape:
    """A tape with its source, and whether it is recording."""

    def __init__(self, tape, persistent):
        self.tape = tape
        self.persistent = persistent
        self.sources = []
        self.recording = True
        self.entered = True
        self.consumed = False


class Interleaving:
    """One random program; `run` gives the list of what was wrong."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.wrong: list[str] = []
        self.log: list[str] = []
        # Few values, so that equal computations come again.
        self.pool = [
            Tracked(gt.asarray(value), value, {})
            for value in self.random.sample([0.5, 0.7, 0.9], self.random.choice((1, 1, 2)))
        ]
        self.unary = self.random.sample(sorted(UNARY), self.random.choice((1, 2)))
        self.variables = [gt.Variable(0.6)]
        self.held = 0.6
        self.tapes: list[OpenTape] = []
        self.stack = contextlib.ExitStack()

    def run(self) -> list[str]:
        # A few kinds of action for each program: a mixture of all would rarely repeat itself.
        rare = [
            self.combine, self.observe, self.call, self.pause, self.read, self.assign,
            self.elsewhere, self.again,
        ]  # fmt: skip
        actions = [self.compute, self.compute, self.open, self.close, self.ask]
        actions += self.random.sample(rare, self.random.randint(1, 4))
        for _ in range(self.random.randint(4, 16)):
            self.random.choice(actions)()
        while any(tape.entered for tape in self.tapes):
            self.close()
        for tape in self.tapes:
            self._ask(tape)
        for tracked in self.pool[-6:]:
            self._observe(tracked)
        return [f"{wrong} after {', '.join(self.log)}" for wrong in self.wrong]

    # Computing.

    def _some(self) -> Tracked:
        # Mostly the same few tensors: equal computations are what this is about.
        few = self.pool[:1] if self.random.random() < 0.6 else self.pool[:2] + self.pool[-4:]
        return self.random.choice(few)

    def _keep(self, tracked: Tracked) -> None:
        if abs(tracked.value) < 1e3:
            self.pool.append(tracked)

    def _slopes(self, operands, partials):
        """By each tape that records, the derivative; tapes that do not, see a constant."""
        found = {}
        for tape in self.tapes:
            if not (tape.entered and tape.recording):
                continue
            for source in range(len(tape.sources)):
                key = (id(tape), source)
                terms = [
                    partial * operand.slopes[key]
                    for operand, partial in zip(operands, partials, strict=True)
                    if key in operand.slopes
                ]
                if terms:
                    found[key] = sum(terms)
        return found

    def compute(self) -> None:
        name, operand = self.random.choice(self.unary), self._some()
        f, value, partial = UNARY[name]
        if abs(operand.value) > 5:
            return
        self.log.append(name)
        slopes = self._slopes([operand], [partial(operand.value)])
        self._keep(Tracked(f(operand.tensor), value(operand.value), slopes))

    def combine(self) -> None:
        name = self.random.choice(sorted(BINARY))
        f, partials = BINARY[name]
        one, other = self._some(), self._some()
        self.log.append(name)
        slopes = self._slopes([one, other], partials(one.value, other.value))
        self._keep(Tracked(f(one.tensor, other.tensor), f(one.value, other.value), slopes))

    def call(self) -> None:
        """The same by a captured function."""
        name, operand = self.random.choice(self.unary), self._some()
        if abs(operand.value) > 5:
            return
        _, value, partial = UNARY[name]
        self.log.append(f"function {name}")
        slopes = self._slopes([operand], [partial(operand.value)])
        # A new function is captured at its first call: that run records the same ops once more.
        decorated = gt.function(UNARY[name][0])
        for _ in range(self.random.choice((1, 1, 3))):
            found = decorated(operand.tensor)
        self._keep(Tracked(found, value(operand.value), slopes))

    def elsewhere(self) -> None:
        """The same in another thread, which no tape here sees."""
        name, operand = self.random.choice(self.unary), self._some()
        if abs(operand.value) > 5:
            return
        f, value, _ = UNARY[name]
        self.log.append(f"thread {name}")
        found = []
        thread = threading.Thread(target=lambda: found.append(f(operand.tensor)))
        thread.start()
        thread.join()
        self._keep(Tracked(found[0], value(operand.value), {}))

    def read(self) -> None:
        variable = self.random.choice(self.variables)
        self.log.append("read")
        self._keep(Tracked(variable * 1.0, self.held, {}))

    def assign(self) -> None:
        operand = self._some()
        if self.tapes and any(tape.entered for tape in self.tapes):
            return  # derivatives pass through assignments under a tape: another test has those
        self.log.append("assign")
        self.variables[0].assign(operand.tensor)
        self.held = operand.value

    def observe(self) -> None:
        self.log.append("look")
        self._observe(self._some())

    def _observe(self, tracked: Tracked) -> None:
        found = float(tracked.tensor)
        if not math.isclose(found, tracked.value, rel_tol=1e-9, abs_tol=1e-12):
            self.wrong.append(f"value {found} instead of {tracked.value}")

    # Tapes.

    def open(self) -> None:
        if sum(tape.entered for tape in self.tapes) >= 2:
            return
        persistent = self.random.random() < 0.5
        tape = OpenTape(
            gt.GradientTape(persistent=persistent, watch_accessed_variables=False), persistent
        )
        tape.tape.__enter__()
        source = self._some()
        tape.tape.watch(source.tensor)
        tape.sources.append(source)
        self.log.append("open" + (" persistent" if persistent else ""))
        self.tapes.append(tape)
        # From here on the source counts for this tape; what was made of it before does not.
        watched = Tracked(source.tensor, source.value, {**source.slopes, (id(tape), 0): 1.0})
        self.pool[self.pool.index(source)] = watched
        tape.sources[0] = watched

    def _innermost(self) -> OpenTape | None:
        return next((tape for tape in reversed(self.tapes) if tape.entered), None)

    def close(self) -> None:
        tape = self._innermost()
        if tape is None:
            return
        if not tape.recording:
            self._resume(tape)
        self.log.append("close")
        tape.tape.__exit__(None, None, None)
        tape.entered = False

    def again(self) -> None:
        """Enter a persistent tape again that has ended, with no other around it."""
        ended = [tape for tape in self.tapes if not tape.entered and tape.persistent]
        if ended and self._innermost() is None:
            tape = self.random.choice(ended)
            self.log.append("enter again")
            tape.tape.__enter__()
            tape.entered = True
            # The innermost is the last of the list.
            self.tapes.remove(tape)
            self.tapes.append(tape)

    def pause(self) -> None:
        tape = self._innermost()
        if tape is None:
            return
        if tape.recording:
            tape.pausing = tape.tape.stop_recording()
            tape.pausing.__enter__()
            tape.recording = False
            self.log.append("pause")
        else:
            self._resume(tape)

    def _resume(self, tape: OpenTape) -> None:
        tape.pausing.__exit__(None, None, None)
        tape.recording = True
        self.log.append("resume")

    def ask(self) -> None:
        ended = [tape for tape in self.tapes if not tape.entered and not tape.consumed]
        if ended:
            self._ask(self.random.choice(ended))

    def _ask(self, tape: OpenTape) -> None:
        if tape.consumed:
            return
        connected = [each for each in self.pool if (id(tape), 0) in each.slopes]
        likely = self.random.random() < 0.8 and connected
        target = self.random.choice(connected) if likely else self._some()
        self.log.append("ask")
        found = tape.tape.gradient(target.tensor, tape.sources[0].tensor)
        tape.consumed = not tape.persistent
        want = target.slopes.get((id(tape), 0))
        if target.tensor is tape.sources[0].tensor:
            want = 1.0
        got = None if found is None else float(found)
        same = (got is None) == (want is None) and (
            got is None or math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-12)
        )
        if not same:
            self.wrong.append(f"gradient {got} instead of {want}")
