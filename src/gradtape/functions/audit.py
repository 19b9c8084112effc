"""Audit: run every replayed call of a gt.function undecorated as well, and compare.

The state of all variables and generators, and the content of arguments, is put back between the two
runs. What the undecorated run leaves is what stays.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.errors import AuditError
from gradtape.functions.capture.stand_ins import rebind
from gradtape.pytree import flatten
from gradtape.recording.value import host_value
from gradtape.tensor.generator import Generator
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# Whether every gt.function is audited.
ALWAYS = os.environ.get("GRADTAPE_AUDIT", "").strip() not in ("", "0")

# Plans of one run and of the other may round differently.
_TOLERANCES = {"float32": 1e-4, "complex64": 1e-4, "float64": 1e-9, "complex128": 1e-9}


class CountedFunction:
    """A function, and how often it was run in Python."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.python_function = function
        self.runs = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        self.runs += 1
        return self.python_function(*args, **kwargs)


def audited(
    name: str,
    decorated: Callable[..., Any],
    counted: CountedFunction,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function decorated and, if that was a replay, undecorated; they must agree.

    A call that ran the function in Python is not compared: the user's effects would happen twice.
    """
    before, runs = _State((args, kwargs)), counted.runs
    fast = _outcome(decorated, args, kwargs)
    if counted.runs > runs:
        return _delivered(fast)
    after = _State((args, kwargs))
    before.restore()
    slow = _outcome(counted.python_function, args, kwargs)
    _compare(f"{name}: the result", fast, slow)
    after.compare(name, _State((args, kwargs)))
    return _delivered(slow)


def _outcome(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Exception | None]:
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error


def _delivered(outcome: tuple[Any, Exception | None]) -> Any:
    found, error = outcome
    if error is not None:
        raise error
    return found


class _State:
    """The values of all variables, generators, and tensors and arrays among the arguments."""

    def __init__(self, arguments: object) -> None:
        alive = gc.get_objects()
        self._variables = [(each, np.array(each.numpy())) for each in _of(Variable, alive)]
        self._generators = [(each, each.state) for each in _of(Generator, alive)]
        leaves = flatten(arguments)[0]
        self._tensors = [(each, np.array(each)) for each in _of((Tensor, np.ndarray), leaves)]

    def restore(self) -> None:
        """Let everything be as it was."""
        for variable, content in self._variables:
            variable.assign(content)
        for generator, state in self._generators:
            generator.rewind(state[2], generator.place)
        for tensor, content in self._tensors:
            if not np.array_equal(
                np.asarray(tensor), content, equal_nan=content.dtype.kind in "fc"
            ):
                rebind(tensor, host_value(content))

    def compare(self, name: str, other: _State) -> None:
        """Raise unless the state is the same as another one."""
        theirs = {id(each): content for each, content in (*other._variables, *other._tensors)}
        for each, content in (*self._variables, *self._tensors):
            label = each.name if isinstance(each, Variable) else "an argument"
            if id(each) in theirs:
                _compare(
                    f"{name}: {label} after the call", (content, None), (theirs[id(each)], None)
                )
        states = {id(each): state for each, state in other._generators}
        for each, state in self._generators:
            if states.get(id(each), state) != state:
                raise AuditError(
                    f"{name}: {each!r} is at {state} after the replay and at {states[id(each)]} "
                    "after the undecorated call. Please report this, with the function."
                )


def _of(kinds: Any, things: Iterable[Any]) -> list[Any]:
    # By the true class: `isinstance` would ask proxies and lazy objects.
    return [each for each in things if issubclass(type(each), kinds)]


def _compare(label: str, fast: tuple[Any, Any], slow: tuple[Any, Any]) -> None:
    """Raise unless two outcomes are the same, but for rounding."""
    if type(fast[1]) is not type(slow[1]):
        raise _different(label, fast[1] or fast[0], slow[1] or slow[0])
    mine, structure = flatten(fast[0])
    theirs, expected = flatten(slow[0])
    if structure != expected:
        raise _different(label, structure, expected)
    for one, other in zip(mine, theirs, strict=True):
        if not _agree(one, other):
            raise _different(label, one, other)


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) != isinstance(other, Tensor):
        return False
    if isinstance(one, (Tensor, np.ndarray, np.generic)):
        a, b = np.asarray(one), np.asarray(other)
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind not in "fc":
            return bool(np.array_equal(a, b))
        bound = _TOLERANCES.get(a.dtype.name, 1e-2)
        finite = b[np.isfinite(b)]
        scale = float(np.max(np.abs(finite))) if finite.size else 0.0
        return bool(np.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=True))
    if type(one) is not type(other):
        return False
    if isinstance(one, (float, complex)):
        return one == other or one != one or abs(one - other) <= 1e-9 * abs(other)
    return one is other or bool(one == other)


def _different(label: str, fast: object, slow: object) -> AuditError:
    return AuditError(
        f"{label} of the replay is {fast!r}, and {slow!r} undecorated. Something that the function "
        "read has changed without being noticed. Pass it as an argument or make it a Variable; if "
        "the function is not frozen, please report it."
    )
