"""A reference in which nothing is shared: scalar programs with tapes, every application an object.

Each application knows which scopes (tapes and accumulators) were recording when it was made, and
has its value at once. A derivative by a scope walks the applications that the scope recorded, and
is made of applications itself, so that outer scopes differentiate it in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

Scope = object


class Made:
    """One application, or a number that was given."""

    __slots__ = ("inputs", "name", "scopes", "value")

    def __init__(self, name: str, inputs: tuple[Made, ...], scopes: frozenset, value: float):
        self.name = name
        self.inputs = inputs
        self.scopes = scopes
        self.value = value


# The value of each op, and the cotangents of its operands. All are scalars, so a tangent is carried
# forward by the same factors.
VALUES: dict[str, Callable[..., float]] = {
    "multiply": lambda a, b: a * b,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "negative": lambda a: -a,
    "sin": math.sin,
    "cos": math.cos,
    "exp": math.exp,
    "half": lambda a: a * 0.5,
    "shift": lambda a: a + 1.0,
}


class Unshared:
    """A program that is being run: which scopes record, and what they watch."""

    def __init__(self) -> None:
        self.recording: dict[Scope, None] = {}
        self.watched: dict[Scope, list[Made]] = {}
        # The applications of the derivative that is being made: in one derivative, equal ones are
        # one, and their cotangents are added before they are carried on.
        self._deriving: dict[tuple, Made] | None = None

    def number(self, value: float) -> Made:
        return Made("given", (), frozenset(), value)

    def apply(self, name: str, *inputs: Made) -> Made:
        scopes = frozenset(self.recording)
        known = {} if self._deriving is None else self._deriving
        found = known.get((name, inputs, scopes))
        if found is None:
            value = VALUES[name](*[each.value for each in inputs])
            found = known[name, inputs, scopes] = Made(name, inputs, scopes, value)
        return found

    def _pull(self, made: Made, g: Made) -> list[Made]:
        apply, inputs = self.apply, made.inputs
        if made.name == "multiply":
            return [apply("multiply", g, inputs[1]), apply("multiply", g, inputs[0])]
        if made.name == "add":
            return [g, g]
        if made.name == "subtract":
            return [g, apply("negative", g)]
        if made.name == "sin":
            return [apply("multiply", g, apply("cos", inputs[0]))]
        if made.name == "cos":
            return [apply("negative", apply("multiply", g, apply("sin", inputs[0])))]
        if made.name == "exp":
            return [apply("multiply", g, made)]
        return [{"negative": lambda: apply("negative", g), "half": lambda: apply("half", g)}.get(
            made.name, lambda: g)()]  # fmt: skip

    def _path(self, scope: Scope, target: Made, sources: Iterable[Made]) -> list[Made]:
        """What the target is made of by applications of the scope, from the sources on."""
        found: dict[int, bool] = {id(source): True for source in sources}
        order: list[Made] = []

        def visit(made: Made) -> bool:
            known = found.get(id(made))
            if known is None:
                # All inputs are visited: the order has to list them all.
                inputs = [visit(each) for each in made.inputs] if scope in made.scopes else []
                known = found[id(made)] = any(inputs)
                if known:
                    order.append(made)
            return known

        visit(target)
        return order

    def depends(self, scope: Scope, target: Made, source: Made) -> bool:
        """Whether the scope says that a target depends on a source that counts."""
        watched = self.watched[scope]
        counts = any(source is each for each in watched) or self._path(scope, source, watched)
        return target is source or bool(counts and self._path(scope, target, [source]))

    def gradient(self, scope: Scope, target: Made, source: Made, seed: Made | None = None):
        """The derivative of a target by a source as the scope has recorded it, or None."""
        return self.gradients(scope, target, [source], seed)[0]

    def gradients(
        self, scope: Scope, target: Made, sources: list[Made], seed: Made | None = None
    ) -> list[Made | None]:
        """The derivatives of a target by some sources, which are asked for at once."""
        seed = self.number(1.0) if seed is None else seed
        self._deriving = {}
        try:
            slopes = [self._slope(scope, target, source, seed) for source in sources]
        finally:
            self._deriving = None
        return [None if slope is None else self.result(slope) for slope in slopes]

    def _slope(self, scope: Scope, target: Made, source: Made, seed: Made) -> Made | None:
        if not self.depends(scope, target, source):
            return None
        if target is source:
            return seed
        order = self._path(scope, target, [source])
        inside = {id(made) for made in (source, *order)}
        slopes = {id(target): seed}
        for made in reversed(order):
            for parent, slope in zip(made.inputs, self._pull(made, slopes[id(made)]), strict=True):
                if id(parent) in inside:
                    known = slopes.get(id(parent))
                    slopes[id(parent)] = slope if known is None else self.apply("add", known, slope)
        return slopes[id(source)]

    def result(self, slope: Made) -> Made:
        """A derivative is a tensor of its own, also if it equals one that was there before."""
        return Made("identity", (slope,), frozenset(self.recording), slope.value)

    def tangent(self, scope: Scope, target: Made, sources: list[tuple[Made, Made]]):
        """The derivative of a target along tangents of some sources, or None.

        It is carried along with the computation, so it belongs to the scopes that recorded that.
        """
        now, self._deriving = self.recording, {}
        try:
            return self._carried(scope, target, sources)
        finally:
            self.recording, self._deriving = now, None

    def _carried(self, scope: Scope, target: Made, sources: list[tuple[Made, Made]]):
        found = {id(source): tangent for source, tangent in sources}
        for made in self._path(scope, target, [source for source, _ in sources]):
            total, self.recording = None, dict.fromkeys(made.scopes)
            for position, parent in enumerate(made.inputs):
                if id(parent) in found:
                    slope = self._pull(made, found[id(parent)])[position]
                    total = slope if total is None else self.apply("add", total, slope)
            found[id(made)] = total
        known = found.get(id(target))
        return None if known is None else self.result(known)
