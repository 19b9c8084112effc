"""Reads: which elements of its operands each element of a result depends on.

That is what the `sparsity` rule of an op gives. It says how the result is connected, never by what
values: one answer holds for all points. A rule is called as `sparsity(y, operands, **params)`, with
the node and one `Operand` for each input, and returns

- a tuple with `Reads`, `Running`, `Listed` or None (no dependence) for each operand,
- or `Joined`, for ops that only move the elements of all their operands,
- or a list with one of these for each output, if the op has several.

Elements are numbered as if flattened. A rule may claim more than is true, never less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.graph.node import Node
from gradtape.graph.spec import Shape, Spec

Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Operand:
    """An input as a rule sees it; `value` is what is known of integers, or None."""

    spec: Spec
    # Whether anything is asked about this operand: for others a rule may answer None.
    active: bool
    look_up: Callable[[], Any] = lambda: None

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def ndim(self) -> int:
        return self.spec.ndim

    @property
    def size(self) -> int:
        return self.spec.size

    @property
    def inexact(self) -> bool:
        return self.spec.inexact

    @property
    def value(self) -> Any:
        return self.look_up()


@dataclass(frozen=True, eq=False)
class Reads:
    """Elements of an operand fall into groups; each element of the result reads all of one group.

    `groups[i]` is the group of the operand's element i, of `count` groups; None where each element
    is a group of its own. `positions[k]` is the group that element k of the result reads; None
    where it reads group k. -1 stands for no group.
    """

    positions: Any = None
    groups: Any = None
    count: int = 0


@dataclass(frozen=True, eq=False)
class Running:
    """Along an axis each element of the result reads the operand up to there, or from there on."""

    axis: int
    reverse: bool


@dataclass(frozen=True, eq=False)
class Listed:
    """A sparse matrix (SciPy's CSR) that has an entry where an element of the result, its row,
    reads one of the operand, its column."""

    matrix: Any


@dataclass(frozen=True, eq=False)
class Joined:
    """Element k of the result is number `positions[k]` of all operands laid end to end, or none."""

    positions: Any


# Each element reads its own counterpart.
SAME = Reads()


def numbered(shape: Shape) -> Any:
    """The number of each element."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def stretched(shape: Shape, result: Shape) -> Reads:
    """Broadcasting."""
    if shape == result:
        return SAME
    return Reads(np.broadcast_to(numbered(shape), result).reshape(-1))


def agreeing(shape: Shape, result: Shape, pairs: Pairs) -> Reads:
    """An element reads those that agree with it along pairs of axes (operand's, result's).

    Along all other axes of the operand it reads everything. An axis of length 1 agrees with any.
    """
    lengths = [shape[own] for own, _ in pairs]
    count = int(np.prod(lengths, dtype=np.int64))
    return Reads(
        positions=_mixed([other for _, other in pairs], lengths, result),
        groups=_mixed([own for own, _ in pairs], lengths, shape),
        count=count,
    )


def _mixed(axes: list[int], lengths: list[int], shape: Shape) -> Any:
    """For each element of `shape` its place along some axes, as one number."""
    total = np.zeros((1,) * len(shape), np.int64)
    for axis, length in zip(axes, lengths, strict=True):
        place = np.arange(shape[axis]) if length != 1 else np.zeros(shape[axis], np.int64)
        total = total * length + place.reshape(
            tuple(-1 if at == axis else 1 for at in range(len(shape)))
        )
    return np.broadcast_to(total, shape).reshape(-1)


def everything(shape: Shape, result: Shape) -> Reads:
    """Each element reads all of the operand."""
    return agreeing(shape, result, ())


def each(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A sparsity rule from `rule(operand, result, **params)`, which answers for one operand.

    `result` is the spec of the output in question.
    """

    def sparsity(y: Node, operands: tuple[Operand, ...], **params: Any) -> Any:
        def answers(result: Spec) -> tuple[Any, ...]:
            return tuple(
                rule(one, result, **params) if one.active and result.inexact else None
                for one in operands
            )

        if type(y.spec) is tuple:
            return [answers(result) for result in y.spec]
        return answers(y.spec)

    return sparsity


def nothing(y: Node, operands: tuple[Operand, ...], **params: Any) -> Any:
    """The rule of ops whose derivative is zero."""
    nowhere = (None,) * len(operands)
    return [nowhere] * len(y.spec) if type(y.spec) is tuple else nowhere


elements = each(lambda operand, result, **_: stretched(operand.shape, result.shape))
dense = each(lambda operand, result, **_: everything(operand.shape, result.shape))


def _reduced(operand: Operand, result: Spec, axis: tuple[int, ...], **_: Any) -> Reads:
    kept = [at for at in range(operand.ndim) if at not in axis]
    if result.ndim == operand.ndim:
        pairs = [(at, at) for at in kept]
    else:
        pairs = [(at, number) for number, at in enumerate(kept)]
    found = agreeing(operand.shape, result.shape, pairs)
    # Each element of the result is a group, in order: nothing is left to look up.
    return Reads(None, found.groups, found.count)


def _lanes(operand: Operand, result: Spec, **params: Any) -> Reads:
    axes = params["axes"] if "axes" in params else params["axis"]
    mixed = axes if isinstance(axes, tuple) else (axes,)
    pairs = [(at, at) for at in range(operand.ndim) if at not in mixed]
    return agreeing(operand.shape, result.shape, pairs)


# The params of these are called `axis`, or `axes` for `lanes`.
reduced = each(_reduced)
lanes = each(_lanes)
running = each(lambda operand, result, axis, reverse: Running(axis, reverse))


def _items(operand: Operand, result: Spec, **_: Any) -> Reads:
    return agreeing(operand.shape, result.shape, [(at, at) for at in range(operand.ndim - 2)])


# Matrices, each mixed as a whole, in a stack of them.
matrices = each(_items)


def moved(y: Node, operands: tuple[Operand, ...], **params: Any) -> Any:
    """The rule of ops that move elements: their own kernel moves the numbers of the elements.

    Numbers start at 1, so that the 0 with which kernels fill up means no element. Operands that
    are integers say where to, and must be known.
    """
    arrays: list[Any] = []
    offset = 1
    for operand in operands:
        if operand.inexact:
            arrays.append(numbered(operand.shape) + offset)
        else:
            value = operand.value
            if value is None:
                return dense(y, operands, **params)
            arrays.append(value)
        offset += operand.size
    found = y.op.numpy(*arrays, **params)
    if isinstance(found, tuple):
        return [Joined(np.reshape(one, -1) - 1) for one in found]
    return Joined(np.reshape(found, -1) - 1)
