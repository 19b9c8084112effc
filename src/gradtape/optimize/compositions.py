"""Expand: ops that are made of others become those, for the compiled tier.

NumPy computes them in one op each, so this is no pass of `optimize`. Every value is computed once
in a program and then read from memory, so an extremum may be compared with what it was taken from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.dtypes import REAL_OF
from gradtape.graph.node import Node, scratch
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import Program
from gradtape.graph.walk import topological

_FLOAT = np.dtype(np.float64)
# Products of a matrix of so many elements with a vector are loops like any other.
SMALL_PRODUCT = 1024


def expand(program: Program) -> Program:
    """Before: `max_mask(x)`. After: `equal(x, max(x))`, or NaN."""
    if not any(node.op.name in RULES for node in program.nodes):
        return program
    writer = _Writer()
    new: dict[Node, Node] = {node: node for node in program.inputs}
    for node in program.nodes:
        inputs = tuple(new[parent] for parent in node.inputs)
        changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
        current = Node(node.op, inputs, node.params, node.spec) if changed else node
        rule = RULES.get(node.op.name)
        found = rule(writer, current) if rule is not None and _is_worth_it(current) else None
        if found is None:
            writer.nodes.append(current)
            found = current
        new[node] = found
    outputs = tuple(new[node] for node in program.outputs)
    used = set(topological(outputs, stop=set(program.inputs)))
    return Program(program.inputs, tuple(node for node in writer.nodes if node in used), outputs)


def _is_worth_it(node: Node) -> bool:
    operand = node.inputs[0]
    if type(operand.spec) is tuple:
        return True
    return operand.size > 0 and operand.ndim > 0 and operand.dtype.kind != "b"


class _Writer:
    """Appends nodes; one that was written before is used again."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[Any, Node] = {}

    def __call__(self, name: str, *inputs: Node, params: tuple[Any, ...] = ()) -> Node:
        key = (name, params, *inputs)
        found = self._known.get(key)
        if found is None:
            op = REGISTRY[name]
            of: Any = op.spec(*[node.spec for node in inputs], **op.keywords(params))
            found = self._known[key] = Node(op, inputs, params, of)
            self.nodes.append(found)
        return found

    def number(self, value: float, dtype: Any) -> Node:
        return self("full", params=((), value, dtype))

    def shaped(self, node: Node, like: Node) -> Node:
        """In the shape of another node, which has as many elements."""
        return node if node.shape == like.shape else self("reshape", node, params=(like.shape,))


def _mask_of(kind: str) -> Callable[[_Writer, Node], Node | None]:
    def rule(write: _Writer, node: Node) -> Node | None:
        (x,), (axes,) = node.inputs, node.params
        extreme = write(kind, x, params=(axes, True))
        chosen = write("equal", x, extreme)
        # Where there is a NaN it is the extremum.
        return write("logical_or", chosen, write("isnan", x)) if x.dtype.kind == "f" else chosen

    return rule


def _exponentials(write: _Writer, x: Node, axes: Any) -> tuple[Node, Node, Node]:
    """The maximum, exp of what lies below it, and the sum of those."""
    highest = write("max", x, params=(axes, True))
    # At the maximum also where both are infinite.
    zero = write.number(0, x.dtype)
    below = write("where", write("equal", x, highest), zero, write("subtract", x, highest))
    terms = write("exp", below)
    return highest, terms, write("sum", terms, params=(axes, True))


def _logsumexp(write: _Writer, node: Node) -> Node | None:
    (x,), (axes, _) = node.inputs, node.params
    highest, _, total = _exponentials(write, x, axes)
    return write.shaped(write("add", write("log", total), highest), node)


def _logsumexp_weights(write: _Writer, node: Node) -> Node | None:
    (x,), (axes,) = node.inputs, node.params
    highest, terms, total = _exponentials(write, x, axes)
    nothing = write("equal", highest, write.number(-np.inf, x.dtype))
    return write("where", nothing, write.number(0, x.dtype), write("divide", terms, total))


def _norm(write: _Writer, node: Node) -> Node | None:
    """The Euclidean norm: single precision in double, double precision scaled three ways at once.

    Powers of two scale exactly, so numbers whose squares are out of range lose nothing.
    """
    (x,), (order, axes, _) = node.inputs, node.params
    if order != 2.0:
        return None

    def root(scale: float | None) -> tuple[Node, Node]:
        """The norm of scaled numbers, scaled back, and its square before that."""
        squares = None
        for part in ("real", "imag") if x.dtype.kind == "c" else ("",):
            number = write(part, x) if part else x
            if number.dtype != _FLOAT:
                number = write("cast", number, params=(_FLOAT,))
            if scale is not None:
                number = write("multiply", number, write.number(scale, _FLOAT))
            square = write("square", number)
            squares = square if squares is None else write("add", squares, square)
        assert squares is not None
        total = write("sum", squares, params=(axes, True))
        found = write("sqrt", total)
        if scale is not None:
            found = write("multiply", found, write.number(1.0 / scale, _FLOAT))
        return found, total

    found, total = root(None)
    if REAL_OF[x.dtype] == _FLOAT:
        limits = np.finfo(_FLOAT)
        low = write.number(float(limits.tiny / limits.eps), _FLOAT)
        small, large = root(2.0**600)[0], root(2.0**-600)[0]
        fits = write("less", total, write.number(np.inf, _FLOAT))
        found = write("where", fits, found, large)
        # A NaN is not below anything, and stays.
        found = write("where", write("less_equal", total, low), small, found)
    else:
        found = write("cast", found, params=(REAL_OF[x.dtype],))
    return write.shaped(found, node)


def _pick(write: _Writer, node: Node) -> Node | None:
    """A part of a split tensor is a view of it."""
    parts, (position,) = node.inputs[0], node.params
    if parts.op.name != "split":
        return None
    (x,), (sizes, axis) = parts.inputs, parts.params
    starts = tuple(sum(sizes[:position]) if at == axis else 0 for at in range(x.ndim))
    shape = node.shape
    if x.op.name == "full":
        return write("full", params=(shape, *x.params[1:]))
    return write("slice", x, params=(starts, shape, (1,) * x.ndim, shape))


def _matmul(write: _Writer, node: Node) -> Node | None:
    """A small matrix times a vector: a library takes longer to be called than to compute it."""
    a, b = node.inputs
    if {a.ndim, b.ndim} != {1, 2} or a.size * b.size > SMALL_PRODUCT * node.inputs[0].shape[-1]:
        return None
    if node.dtype.kind != "f" or a.dtype != b.dtype:
        return None
    if a.ndim == 2:
        return write("sum", write("multiply", a, b), params=((1,), False))
    column = write("reshape", a, params=((*a.shape, 1),))
    return write("sum", write("multiply", column, b), params=((0,), False))


def composed(composition: Callable[..., Node]) -> Callable[[_Writer, Node], Node | None]:
    """The rule of an op that a function of nodes writes with other ops."""

    def rule(write: _Writer, node: Node) -> Node | None:
        with scratch():
            found = composition(*node.inputs, **node.keywords)
            if found.spec is not node.spec:
                return None
            ends = set(node.inputs)
            write.nodes += [one for one in topological([found], stop=ends) if one not in ends]
        return found

    return rule


RULES: dict[str, Callable[[_Writer, Node], Node | None]] = {
    "matmul": _matmul,
    "max_mask": _mask_of("max"),
    "min_mask": _mask_of("min"),
    "logsumexp": _logsumexp,
    "logsumexp_weights": _logsumexp_weights,
    "norm": _norm,
    "pick": _pick,
}
