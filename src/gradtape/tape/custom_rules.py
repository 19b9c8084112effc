"""What functions with a derivative written by hand share: arguments, reads, and their node.

A function with such a derivative is recorded as it is, and its results are passed through one
`custom_derivative` op, whose derivative is the rule: see `with_rule`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from gradtape.autodiff.python_rules import PythonRules
from gradtape.ir.node import Node
from gradtape.ir.rows import Rows
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.elementwise.complexes import real
from gradtape.ops.families.casting import cast
from gradtape.pytree import flatten
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable
from gradtape.trace.record import record
from gradtape.trace.thread_state import state


class PythonRule(Protocol):
    """A derivative written in Python: the rule of a `custom_derivative` node of a recording."""

    def pull(
        self, rules: PythonRules, node: Node, cotangents: tuple[Node, ...], /
    ) -> Sequence[Node | Rows | None]:
        """Cotangents of the inputs of the node."""

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None], /
    ) -> Sequence[Node | Rows | None]:
        """Tangents of its outputs."""


class Reads:
    """A stand-in for a tape, which learns which variables a function reads."""

    def __init__(self) -> None:
        self.variables: dict[int, Variable] = {}

    def note_read(self, variable: Variable, node: Node) -> None:
        if variable.trainable:
            self.variables.setdefault(variable.number, variable)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note the reads while this is entered."""
        state.tapes.append(self)
        try:
            yield
        finally:
            state.tapes.remove(self)

    def besides(self, leaves: Sequence[object]) -> list[Variable]:
        """The variables that were read, without those among the arguments."""
        passed = {leaf.number for leaf in leaves if isinstance(leaf, Variable)}
        return [v for v in self.variables.values() if v.number not in passed]


def key_of(f: Callable[..., object]) -> object:
    """The part of a function that belongs to the structure of a program: its code.

    A closure made anew in every step has the same code, so its steps find one plan.
    """
    return getattr(f, "__code__", f)


def with_rule(
    key: object,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor | Variable],
    rule: PythonRule,
) -> list[Tensor]:
    """The outputs again, whose derivatives by the inputs are those of `rule`."""
    if not outputs:
        return []
    handles = record(CUSTOM, (*outputs, *inputs), (len(outputs), key))
    node = handles[0].node
    # In the eager mode the results are computed now. Without a tape that closes the recording: no
    # derivative of them can be asked for.
    if node is not None:
        state.recording.rules[node.inputs[0]] = rule
    return list(handles)


def placed(
    name: str, f: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by position, as rules take them, and those only allowed by keyword.

    A rule gives derivatives by position, so an argument that can only be passed by keyword must not
    be one that a tape follows.
    """
    if not kwargs:
        return args, kwargs
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return args, kwargs
    found, rest = list(args), dict(kwargs)
    places = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    taken = len(args) - sum(p.kind is inspect.Parameter.POSITIONAL_ONLY for p in parameters)
    missing: list[object] = []
    for parameter in places[max(taken, 0) :]:
        if parameter.name in rest:
            found += [*missing, rest.pop(parameter.name)]
            missing = []
        elif parameter.default is inspect.Parameter.empty:
            break  # the call itself raises the TypeError
        else:
            missing.append(parameter.default)
    for keyword, value in rest.items():
        for leaf in flatten(value)[0]:
            tracked = isinstance(leaf, Tensor) and leaf.is_tracked()
            if tracked or (isinstance(leaf, Variable) and leaf.trainable):
                raise TypeError(
                    f"{name}: {keyword} can only be passed by keyword, and the rule gives "
                    "derivatives by place. Let the function take it by position, too, or pass "
                    "gt.stop_gradient of it."
                )
    return tuple(found), rest


def is_operand(leaf: object) -> bool:
    """Whether a leaf of the arguments is a tensor or becomes one; integers stay as they are."""
    return isinstance(leaf, (Tensor, Variable, float)) or hasattr(leaf, "__array__")


def check_callable(name: str, f: object) -> None:
    """Raise a TypeError if a decorator was applied to something that cannot be called."""
    if not callable(f):
        raise TypeError(f"{name}: {f!r} is not callable. Decorate a function or a method.")


def like(slope: Node, value: Node) -> Node:
    """A derivative cast to the dtype of the value it belongs to."""
    if slope.dtype == value.dtype:
        return slope
    return cast(real(slope) if value.dtype.kind == "f" else slope, value.dtype)


def check_count(what: str, expected: int, got: Sequence[object]) -> None:
    """Raise a ValueError unless a rule gave one derivative for each argument or output."""
    if len(got) != expected:
        raise ValueError(
            f"custom derivative: expected {expected} derivatives, one for each of the {what}, "
            f"got {len(got)}."
        )
