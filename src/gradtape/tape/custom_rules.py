"""What functions with a derivative written by hand share: arguments, reads, and their node.

A function with such a derivative is recorded as it is, and its results are passed through one
`custom_derivative` op, whose derivative is the rule: see `with_rule`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from gradtape.autodiff.python_rules import PythonRules
from gradtape.ir import Node, Rows
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.elementwise.complexes import real
from gradtape.ops.families.casting import cast
from gradtape.pytree import flatten, unflatten
from gradtape.tensor import Tensor, TensorLike, Variable, asarray
from gradtape.trace import record, state

P = ParamSpec("P")
R = TypeVar("R")


class CustomRule(Protocol):
    """A derivative written in Python: the rule of a `custom_derivative` node of a recording."""

    def pull(
        self, rules: PythonRules, node: Node, cotangents: tuple[Node, ...], /
    ) -> Sequence[Node | Rows | None]:
        """Cotangents of the inputs of the node."""

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None], /
    ) -> Sequence[Node | Rows | None]:
        """Tangents of its outputs."""


class _VariableReads:
    """A stand-in for a tape that notes which variables a function reads."""

    def __init__(self) -> None:
        self.variables: dict[int, Variable] = {}

    def note_read(self, variable: Variable, node: Node) -> None:
        if variable.trainable:
            self.variables.setdefault(variable.number, variable)


class ArgumentTree:
    """Arguments whose tensors a rule differentiates by; other leaves, as integers, stay."""

    def __init__(self, tree: object) -> None:
        leaves, self.structure = flatten(tree)
        self.operands = [asarray(leaf) for leaf in leaves if is_operand(leaf)]
        # For each leaf: None for a tensor, anything else in a tuple of one.
        self.others = [None if is_operand(leaf) else (leaf,) for leaf in leaves]

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """The arguments with these tensors."""
        fresh = iter(tensors)
        leaves = [next(fresh) if other is None else other[0] for other in self.others]
        return unflatten(self.structure, leaves)


class CustomFunction(Generic[P, R]):
    """A function whose results get a derivative written by hand, as a decorator."""

    def __init__(self, f: Callable[P, Any]) -> None:
        if not callable(f):
            raise not_callable(type(self).__name__, f)
        # First, because it copies attributes, those of another decorator too.
        functools.update_wrapper(self, f)
        self._f = f
        # The part of the function that belongs to the structure of a program: its code. A closure
        # made anew in every step has the same code, so its steps find one plan.
        self._key = getattr(f, "__code__", f)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        bound: Callable[..., R] = self
        return self if instance is None else functools.partial(bound, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError

    def _called(
        self, given: Sequence[Any], by_name: dict[str, Any], passed: object
    ) -> tuple[Any, list[Variable]]:
        """The result of the function, and the variables that it read and that were not passed."""
        reads = _VariableReads()
        state.tapes.append(reads)
        try:
            result: Any = self._f(*given, **by_name)
        finally:
            state.tapes.remove(reads)
        numbers = {leaf.number for leaf in flatten(passed)[0] if isinstance(leaf, Variable)}
        return result, [v for v in reads.variables.values() if v.number not in numbers]


def fitted(name: str, of: str, slopes: Sequence[Node | None], nodes: Sequence[Node]) -> list[Any]:
    """The derivatives that a rule gave for nodes, in their dtypes; raises for other shapes."""
    found = list(slopes)
    for position, (slope, node) in enumerate(zip(slopes, nodes, strict=True)):
        if slope is not None and slope.shape != node.shape:
            raise ValueError(
                f"{name} {position} has shape {slope.shape}, its {of} {node.shape}. Return one of "
                "the same shape."
            )
        if isinstance(slope, Node) and node.spec.inexact and slope.dtype != node.dtype:
            found[position] = cast(real(slope) if node.dtype.kind == "f" else slope, node.dtype)
    return found


def with_rule(
    key: object,
    outputs: Sequence[TensorLike],
    inputs: Sequence[Tensor | Variable],
    rule: CustomRule,
) -> list[Tensor]:
    """The outputs again, whose derivatives by the inputs are those of `rule`."""
    if not outputs:
        return []
    handles = record(CUSTOM, (*map(asarray, outputs), *inputs), (len(outputs), key))
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


def not_callable(name: str, f: object) -> TypeError:
    """The error for a decorator that was applied to something that cannot be called."""
    return TypeError(f"{name}: {f!r} is not callable. Decorate a function or a method.")


def check_count(what: str, expected: int, got: Sequence[object]) -> None:
    """Raise a ValueError unless a rule gave one derivative for each argument or output."""
    if len(got) != expected:
        raise ValueError(
            f"custom derivative: expected {expected} derivatives, one for each of the {what}, "
            f"got {len(got)}."
        )
