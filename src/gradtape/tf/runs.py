"""Runs: calls that were noted down are made, in a session or, on zeros, to learn their shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradtape import random
from gradtape.errors import ArgumentError
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import EFFECT, PLAIN, graphs
from gradtape.tf.graphs import Placeholder, Symbolic, local
from gradtape.tf.tensor import adopt
from gradtape.tf.variable import Variable


def _mentions(nest: Any, building: bool) -> bool:
    """Whether a nest of arguments holds something without a value, or a variable while building."""
    if isinstance(nest, Symbolic):
        return True
    if isinstance(nest, Variable):
        return building
    if isinstance(nest, (list, tuple)):
        return any(_mentions(item, building) for item in nest)
    if isinstance(nest, dict):
        return any(_mentions(item, building) for item in nest.values())
    if isinstance(nest, slice):
        return any(_mentions(x, building) for x in (nest.start, nest.stop, nest.step))
    return False


def take(function: Callable[..., Any], args: Any, kwargs: Any, kind: str) -> Any:
    """Make a call, or note it down if something in it has no value yet."""
    if local.run is not None:
        return adopt(function(*local.run.given(args), **local.run.given(kwargs)))
    building = local.building is not None
    if (building and kind is not PLAIN) or _mentions((args, kwargs), building):
        return _unpacked(Symbolic(function, args, kwargs, kind is EFFECT))
    return adopt(function(*args, **kwargs))


def _unpacked(call: Symbolic) -> Any:
    """A call that gives a list or a tuple is as many calls that pick from it."""
    found = probe(call, 2)
    if not isinstance(found, (list, tuple)):
        return call
    absent = getattr(call.function, "__name__", "") in ("gradients", "hessians")
    parts: list[Any] = [
        # What nothing connects is known to be nothing already.
        None if absent and part is None else _unpacked(Symbolic(_picked, (call, number), {}))
        for number, part in enumerate(found)
    ]
    return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)


def _picked(whole: Any, number: int) -> Any:
    return whole[number]


class Run:
    """One run of a session: what is fed, and what was computed so far."""

    def __init__(self, feeds: dict[int, Any]) -> None:
        self.values: dict[int, Any] = dict(feeds)

    def given(self, nest: Any) -> Any:
        """A nest with everything symbolic in it replaced by its value."""
        if isinstance(nest, Symbolic):
            return self.value(nest)
        if isinstance(nest, dict):
            return type(nest)((key, self.given(item)) for key, item in nest.items())
        if type(nest) in (list, tuple):
            return type(nest)(self.given(item) for item in nest)
        if isinstance(nest, tuple) and hasattr(nest, "_fields"):
            return type(nest)(*(self.given(item) for item in nest))
        if isinstance(nest, slice):
            return slice(*(self.given(x) for x in (nest.start, nest.stop, nest.step)))
        return nest

    def value(self, wanted: Symbolic) -> Any:
        """The value of a call; calls it depends on are made first, not by recursion."""
        waiting = [wanted]
        while waiting:
            call = waiting[-1]
            if id(call) in self.values:
                waiting.pop()
                continue
            missing = [
                each for each in (*call.before, *symbolic_parts((call.args, call.kwargs)))
                if id(each) not in self.values
            ]  # fmt: skip
            if missing:
                waiting += reversed(missing)
                continue
            waiting.pop()
            self.values[id(call)] = self._made(call)
        return self.values[id(wanted)]

    def _made(self, call: Symbolic) -> Any:
        if isinstance(call, Placeholder):
            return self._fed(call)
        result = call.function(*self.given(call.args), **self.given(call.kwargs))
        return self.given(result)

    def _fed(self, call: Placeholder) -> Any:
        if call.default is not None:
            return call.default
        raise ArgumentError(
            f"You must feed a value for placeholder {call.name!r}, with dtype {call.dtype.name} "
            f"and shape {call.shape}: sess.run(..., feed_dict={{x: value}})."
        )


class Probing(Run):
    """A run on zeros, with unknown lengths of some size: it is recorded, and never computed."""

    def __init__(self, size: int) -> None:
        super().__init__({})
        self.size = size
        self.recording = Recording()
        # Numbers are as good as names only while what they stand for lives.
        self.kept: list[Symbolic] = []

    def _made(self, call: Symbolic) -> Any:
        self.kept.append(call)
        try:
            return self._shape_of(call)
        except Exception:
            return None

    def _shape_of(self, call: Symbolic) -> Any:
        if isinstance(call, Placeholder):
            lengths = [self.size if n is None else n for n in call.shape.as_list()]
            return convert(np.zeros(lengths, call.dtype))
        name = getattr(call.function, "__name__", "")
        if name in ("py_function", "numpy_function"):
            return None
        if name == "while_loop":
            # On zeros it might never end; what it carries keeps its structure.
            carried = call.kwargs["loop_vars"] if "loop_vars" in call.kwargs else call.args[2]
            return self.given(carried)
        if call.effect:
            return call.args[0].value if name.startswith("assign") else None
        return super()._made(call)


def probe(call: Symbolic, size: int) -> Any:
    """What a call gives for unknown lengths of some size: of interest are shape and dtype."""
    run = local.probes.get(size)
    if run is None:
        run = local.probes[size] = Probing(size)
    outer, tapes = state.recording, state.tapes
    stream = random._shared.get("generator")
    counter = None if stream is None else stream._counter
    if run.recording.closed:
        run.recording = Recording()
    state.recording, state.tapes = run.recording, []
    try:
        with running(run):
            return run.value(call)
    finally:
        run.recording = state.recording
        # What entered from outside was computed there, which may have ended that recording.
        state.recording, state.tapes = Recording() if outer.closed else outer, tapes
        if stream is not None and counter is not None:
            stream._counter = counter


def symbolic_parts(nest: Any) -> list[Symbolic]:
    """What a nest holds that has no value."""
    if isinstance(nest, Symbolic):
        return [nest]
    if isinstance(nest, dict):
        nest = tuple(nest.values())
    if isinstance(nest, slice):
        nest = (nest.start, nest.stop, nest.step)
    if isinstance(nest, (list, tuple)):
        return [found for item in nest for found in symbolic_parts(item)]
    return []


@contextlib.contextmanager
def running(run: Run) -> Iterator[None]:
    """Make every call inside at once, on the values of a run."""
    before, local.run = local.run, run
    try:
        yield
    finally:
        local.run = before


def settle(value: Any) -> Any:
    """The value of now of what a variable begins with."""
    if isinstance(value, Symbolic):
        run = Run({})
        with running(run):
            return run.value(value)
    return value


def register(variable: Variable) -> None:
    """A variable was made while graphs are in use."""
    if local.building is not None:
        local.building.variables.append(variable)


graphs.take, graphs.settle, graphs.register = take, settle, register
graphs.is_running = lambda: local.run is not None
