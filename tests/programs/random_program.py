"""Random programs over few tensors, with tapes that are entered, left, paused and asked.

`RandomProgram` runs beside the reference, which runs the same program; `interleavings` adds the
actions that compute.
"""

from __future__ import annotations

import math
import random
import threading

from tests.programs.equal_expressions import PLAIN, SPECIAL
from tests.programs.unshared import Made, Unshared

import gradtape as gt


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


class RandomProgram:
    """The state of a random program: tensors, tapes, what was done and what was wrong."""

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
        # In a deep program most actions are derivatives of derivatives.
        self.deep = self.random.random() < 0.4
        values = self.random.sample([0.5, 0.7, 0.9], 1 if self.narrow else 2)
        self.pool = [
            Tracked(gt.asarray(value), self.reference.number(value), f"x{position}")
            for position, value in enumerate(values)
        ]
        self.unary = self.random.sample(PLAIN, 1 if self.narrow else 2)
        if self.random.random() < 0.15:
            self.unary[0] = self.random.choice(SPECIAL)
        if self.deep:
            # Expressions whose derivatives have intermediate results that the next one reads.
            self.unary[0] = self.random.choice(("wave", "exp", "cube"))
        self.functions: dict[str, object] = {}
        self.variable_held = self.reference.number(0.6)
        self.the_variable = gt.Variable(0.6)
        self.tapes: list[OpenTape] = []
        self.of_other_modes: set[Made] = set()

    def _check(self, what: str, tensor, made: Made | None) -> None:
        got = None if tensor is None else float(tensor)
        want = None if made is None else made.value
        if (got is None) != (want is None) or (
            got is not None and not math.isclose(got, want, rel_tol=1e-8, abs_tol=1e-9)
        ):
            self.wrong.append(f"{what} {got} instead of {want} after {len(self.log)} actions")

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

    def open(self) -> None:
        if sum(tape.entered for tape in self.tapes) >= 3:
            return
        self._watch(self._new_tape(), self._some())

    def _new_tape(self) -> OpenTape:
        persistent = self.random.random() < 0.5
        name = f"{'persistent' if persistent else 'tape'}{len(self.log)}"
        made = gt.GradientTape(persistent=persistent, watch_accessed_variables=False)
        tape = OpenTape(name, made, persistent)
        self._enter(tape)
        return tape

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
        if (tape := self._persistent()) is not None:
            self._use(*self._ask(tape))

    def _persistent(self) -> OpenTape | None:
        ready = [tape for tape in self.tapes if tape.persistent and tape.pausing is None]
        return self.random.choice(ready) if ready else None

    def _use(self, tensor, made: Made | None) -> None:
        if made is not None and tensor is not None and abs(made.value) < 4:
            self.pool.append(Tracked(tensor, made, f"g{len(self.log)}"))

    def _depends_on_mode(self, made: Made) -> bool:
        """Whether something is made of a derivative that reverse mode need not have given.

        Its value is the same, but not its intermediate results, which are constants to tapes that
        begin later: the derivative of such a derivative by them depends on the mode.
        """
        waiting, seen = [made], set()
        while waiting:
            made = waiting.pop()
            if made in self.of_other_modes:
                return True
            waiting += [each for each in made.inputs if each not in seen]
            seen.update(made.inputs)
        return False

    def use_several(self) -> None:
        """Ask for derivatives by several sources at once, and go on computing with them."""
        tape = self._persistent()
        if tape is None or tape.tangent is not None:
            return
        sources = [self.random.choice(tape.sources) for _ in range(2)]
        target = self._target(tape, sources[0])
        tensors = tape.tape.gradient(
            target.tensor, [source.tensor for source in sources], unconnected_gradients="none"
        )
        slopes = self.reference.gradients(tape, target.made, [source.made for source in sources])
        for source, tensor, made in zip(sources, tensors, slopes, strict=True):
            self.log.append(f"g{len(self.log) + 1} = {tape.name}.{target.name} by {source.name}")
            self._compare(tensor, made)
            if not self._depends_on_mode(target.made):
                self._use(tensor, made)

    def ask_under_tape(self) -> None:
        """Ask a tape inside one that began later, and this one for a derivative of the answer."""
        tape = self._persistent()
        if tape is None or sum(tape.entered for tape in self.tapes) >= 3:
            return
        source = self.random.choice(tape.sources)
        later = self._new_tape()
        self._watch(later, source)
        for _ in range(self.random.choice((1, 1, 2))):
            self._use(*self._ask(tape, source=source))
        self.close()
        self._ask(later, target=self.pool[-1])

    def ask_in_function(self) -> None:
        """Ask a tape inside a captured function."""
        tape = self._persistent()
        if tape is not None and tape.tangent is None:
            self._use(*self._ask(tape, lambda ask: gt.function(ask)()))

    def ask_elsewhere(self) -> None:
        """Ask a tape in another thread, which records nothing."""
        tape = self._persistent()
        if tape is None or self._innermost() is not None:
            return

        def ask_there(ask):
            found = []
            thread = threading.Thread(target=lambda: found.append(ask()))
            thread.start()
            thread.join()
            return found[0]

        self._use(*self._ask(tape, ask_there))

    def _target(self, tape: OpenTape, source: Tracked) -> Tracked:
        """A target that mostly depends on the source."""
        connected = [
            each
            for each in self.pool
            if each is not source and self.reference.depends(tape, each.made, source.made)
        ]
        slopes = [each for each in connected if each.name[0] == "g"]
        if slopes and self.deep and self.random.random() < 0.5:
            return self.random.choice(slopes)
        likely = self.random.random() < 0.85 and connected
        return self.random.choice(connected) if likely else self._some()

    def _ask(self, tape: OpenTape, by=lambda ask: ask(), target=None, source=None):
        if tape.consumed:
            return None, None
        source = source or self.random.choice(tape.sources)
        target = target or self._target(tape, source)
        seed = self._some() if self.random.random() < 0.2 and tape.tangent is None else None
        how = "gradient"
        if tape.tangent is None and self.random.random() < 0.3:
            how = self.random.choice(("jvp", "hvp") if seed else ("jvp", "jacobian", "hessian"))
        made = self._answer(tape, how, target.made, source.made, seed and seed.made)
        y, x, given = target.tensor, source.tensor, seed.tensor if seed else None
        if tape.tangent is not None:
            tensor = by(lambda: tape.tape.jvp(y))
        elif how in ("jacobian", "hessian"):
            tensor = by(
                lambda: getattr(tape.tape, how)(y, x, "none" if how == "jacobian" else "zero")
            )
        else:
            last = gt.asarray(1.0) if how == "jvp" and given is None else given
            silent = {"unconnected_gradients": "none"} if how == "gradient" else {}
            tensor = by(lambda: getattr(tape.tape, how)(y, x, last, **silent))
        tape.consumed = not tape.persistent
        of = f"({target.name}, {source.name}, {seed.name if seed else None})"
        self.log.append(f"g{len(self.log) + 1} = {tape.name}.{how}{of}")
        self._compare(tensor, made)
        if made is not None and how != "gradient":
            self.of_other_modes.add(made)
        return tensor, None if self._depends_on_mode(target.made) else made

    def _answer(self, tape: OpenTape, how: str, target: Made, source: Made, seed: Made | None):
        """The derivative as the reference gives it."""
        reference = self.reference
        if tape.tangent is not None:
            return reference.tangent(tape, target, [(source, reference.number(tape.tangent))])
        if how in ("hessian", "hvp"):
            # The first derivative is part of the question: it counts as recorded.
            now = dict(reference.recording)
            reference.recording[tape] = None
            found = reference.gradient(tape, target, source)
            reference.recording = now
            target = reference.number(0.0) if found is None else found
        made = reference.gradient(tape, target, source, seed)
        unconnected = None if how in ("gradient", "jacobian") else reference.number(0.0)
        return unconnected if made is None else made

    def _compare(self, tensor, made: Made | None) -> None:
        if self.random.random() < 0.7:
            self._check("derivative", tensor, made)
        elif (tensor is None) != (made is None):
            self.wrong.append(f"derivative {tensor} instead of {made and made.value}")

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
