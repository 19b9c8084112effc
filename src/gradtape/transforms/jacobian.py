"""Jacobians: forward, reverse, or both with a product in between, by what the graph costs.

The Jacobian of one node by another is a graph of the same ops, target axes first. A target that is
joined from parts is differentiated part by part. Where everything passes through a value with few
elements (a waist), the Jacobian is the product of those on either side of it.

A complex source with a complex target is taken to be holomorphic: the result is f'(z). The rows of
a real target by a complex source are gradients, dL/dRe + i dL/dIm.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.graph.node import PICK, Node, apply, constant, placeholder
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import program
from gradtape.graph.spec import Shape, spec
from gradtape.graph.walk import dependents, topological
from gradtape.ops.contraction import matmul
from gradtape.ops.families import conjugate
from gradtape.ops.movement import permute, reshape_node
from gradtape.ops.shapes import broadcast_to
from gradtape.transforms.cotangent import Rows
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse
from gradtape.transforms.seeded import (
    Seeded,
    dense_form,
    identity_seeds,
    jacobian_forward,
    jacobian_reverse,
    respond,
    row_seeds,
)

# One way is not even looked at when the other has so many times fewer seeds.
CLEARLY_FEWER = 16
# A waist pays when it has so many times fewer elements than either end.
NARROW = 4
# What one multiply-add inside a matrix product costs, in element-wise ones.
PRODUCT_COST = 1 / 16


@dataclass(frozen=True)
class Question:
    """What to differentiate by what, and what counts as constant."""

    source: Node
    mode: str = "auto"
    blocked: Collection[Node] = ()
    # How custom derivatives written in Python are called, forward and backward.
    push: Any = None
    pull: Any = None


def jacobian(target: Node, question: Question) -> Node | None:
    """The Jacobian of shape target.shape + source.shape; None if the target does not depend."""
    source = question.source
    active = _active(target, question)
    if target not in active:
        return None
    if target is source:
        return jacobian_forward(identity_seeds(source.spec), source, source)
    joined = _of_joined(target, question) if target not in question.blocked else None
    if joined is not None:
        return joined
    waist = _waist(target, source, active) if question.mode == "auto" else None
    if waist is not None:
        return _through_waist(target, waist, question)
    ways = _ways(target, question)
    found = [_one_way(way, target, question) for way in ways]
    if len(found) == 1:
        return found[0]
    known = set(topological([target]))
    return min(found, key=lambda node: _cost(node, known))


def _active(target: Node, question: Question) -> set[Node]:
    wanted = {question.source}
    order = topological([target])
    return dependents((n for n in order if n not in question.blocked or n in wanted), wanted)


def _ways(target: Node, question: Question) -> tuple[str, ...]:
    """The modes worth building."""
    source = question.source
    if question.mode != "auto":
        return (question.mode,)
    by_dtype = _ways_by_dtype(target, source)
    if by_dtype is not None:
        return (by_dtype,)
    if target.size * CLEARLY_FEWER <= source.size:
        return ("reverse",)
    if source.size * CLEARLY_FEWER <= target.size:
        return ("forward",)
    return ("forward", "reverse")


def _ways_by_dtype(target: Node, source: Node) -> str | None:
    """Between real and complex values one way has one seed per element, the other two."""
    if source.dtype.kind == target.dtype.kind:
        return None
    return "reverse" if source.dtype.kind == "c" else "forward"


def _one_way(way: str, target: Node, question: Question) -> Node:
    return _forward(target, question) if way == "forward" else _reverse(target, question)


def forward_responses(targets: Sequence[Node], question: Question) -> list[Seeded | None]:
    """The responses of targets to every seed of the source."""
    source = question.source
    seed = placeholder(source.spec)
    pushed = forward(targets, [source], [seed], question.blocked, question.push)
    found = [node for node in pushed if node is not None]
    responses = iter(respond(found, seed, identity_seeds(source.spec), source.shape))
    return [None if node is None else next(responses) for node in pushed]


def _forward(target: Node, question: Question) -> Node:
    source = question.source
    if source.dtype.kind == "c" and target.dtype.kind == "f":
        # Seeds along the imaginary axis, too: a real target has two derivatives.
        seed = placeholder(source.spec)
        (along,) = forward([target], [source], [seed], question.blocked, question.push)
        (across,) = forward([target], [source], [seed * 1j], question.blocked, question.push)
        start = identity_seeds(source.spec)
        parts = [
            jacobian_forward(_respond_one(node, seed, start, source.shape), target, source)
            for node in (along, across)
        ]
        return parts[0] + parts[1] * 1j
    (response,) = forward_responses([target], question)
    return jacobian_forward(response, target, source)


def _respond_one(node: Node | None, seed: Node, start: Seeded, space: Any) -> Seeded | None:
    return None if node is None else respond([node], seed, start, space)[0]


def _reverse(target: Node, question: Question) -> Node:
    source = question.source
    found = _pulled(target, question, None)
    if target.dtype.kind == "c":
        if source.dtype.kind == "c":
            return conjugate(found)
        # A real source: the real part of the target, then the imaginary one.
        return found + _pulled(target, question, 1j) * 1j
    return found


def _pulled(target: Node, question: Question, factor: Any) -> Node:
    source = question.source
    seed = placeholder(target.spec)
    given = seed if factor is None else seed * factor
    (found,) = reverse([target], [given], [source], question.blocked, question.pull)
    if isinstance(found, Rows):
        found = found.dense()
    response = _respond_one(found, seed, identity_seeds(target.spec), target.shape)
    return jacobian_reverse(response, target, source)


def batch_jacobian(target: Node, question: Question) -> Node | None:
    """Row b of the target by row b of the source, for examples known to be independent.

    Seeds are the elements of one row; every example takes them at once, because what one example
    is given reaches no other.
    """
    source = question.source
    if target not in _active(target, question):
        return None
    rows = spec(target.shape[1:], target.dtype), spec(source.shape[1:], source.dtype)
    forward_costs_less = rows[1].size <= rows[0].size
    way = question.mode
    if way == "auto":
        way = _ways_by_dtype(target, source) or ("forward" if forward_costs_less else "reverse")
    if way == "forward":
        seed = placeholder(source.spec)
        (pushed,) = forward([target], [source], [seed], question.blocked, question.push)
        response = _respond_one(pushed, seed, row_seeds(source.spec), source.shape[1:])
        return _batch_first(response, target, source.shape[1:], seeds_last=True)
    seed = placeholder(target.spec)
    (pulled,) = reverse([target], [seed], [source], question.blocked, question.pull)
    if isinstance(pulled, Rows):
        pulled = pulled.dense()
    response = _respond_one(pulled, seed, row_seeds(target.spec), target.shape[1:])
    found = _batch_first(response, source, target.shape[1:], seeds_last=False)
    return conjugate(found) if found is not None and target.dtype.kind == "c" else found


def _batch_first(
    response: Seeded | None, node: Node, space: Shape, *, seeds_last: bool
) -> Node | None:
    """Responses of a batch, with the batch axis in front."""
    if response is None:
        return None
    count = len(space)
    full = broadcast_to(dense_form(response, node, space).value, (*space, *node.shape))
    seeds, rest = range(count), range(count + 1, full.ndim)
    order = (count, *rest, *seeds) if seeds_last else (count, *seeds, *rest)
    return full if order == tuple(range(full.ndim)) else permute(full, order)


def _of_joined(target: Node, question: Question) -> Node | None:
    """The Jacobian of a stack or concatenation, or of one that was reshaped."""
    source = question.source
    name = target.op.name
    if name == "reshape" and _is_joined(target.inputs[0]):
        inner = jacobian(target.inputs[0], question)
        return None if inner is None else reshape_node(inner, target.shape + source.shape)
    if not _is_joined(target):
        return None
    parts = [jacobian(part, question) for part in target.inputs]
    dtype = next(part.dtype for part in parts if part is not None)
    filled = tuple(
        constant(0, spec(operand.shape + source.shape, dtype)) if part is None else part
        for part, operand in zip(parts, target.inputs, strict=True)
    )
    return apply(target.op, filled, target.params)


def _is_joined(node: Node) -> bool:
    if node.op.name == "reshape":
        return _is_joined(node.inputs[0])
    return node.op.name in ("stack", "concat")


def _waist(target: Node, source: Node, active: set[Node]) -> Node | None:
    """The smallest value that every path from the source to the target passes through."""
    order = [node for node in topological([target]) if node in active]
    last_read = {parent: index for index, node in enumerate(order) for parent in node.inputs}
    furthest = 0
    found: Node | None = None
    for index, node in enumerate(order):
        # A cut: nothing before it is read after it.
        if furthest <= index and _may_be_cut(node, source, target) and _narrower(node, found):
            found = node
        furthest = max(furthest, last_read.get(node, 0))
    small = min(source.size, target.size)
    return found if found is not None and found.size * NARROW <= small else None


def _may_be_cut(node: Node, source: Node, target: Node) -> bool:
    plain = type(node.spec) is not tuple and node.op is not PICK
    return plain and node is not source and node is not target and node.spec.inexact


def _narrower(node: Node, than: Node | None) -> bool:
    return than is None or node.size < than.size


def _through_waist(target: Node, waist: Node, question: Question) -> Node:
    """dt/dw · dw/ds, as one matrix product."""
    inner = jacobian(waist, question)
    outer = jacobian(
        target, Question(waist, "auto", question.blocked, question.push, question.pull)
    )
    assert inner is not None
    assert outer is not None
    rows = reshape_node(outer, (target.size, waist.size))
    columns = reshape_node(inner, (waist.size, question.source.size))
    return reshape_node(matmul(rows, columns), target.shape + question.source.shape)


def _cost(node: Node, known: set[Node]) -> float:
    """Roughly the element-wise operations that it takes beyond computing `known`."""
    return sum(_work(step) for step in program([node], known).nodes)


def _work(node: Node) -> float:
    if type(node.spec) is tuple:
        return float(sum(of.size for of in node.spec))
    if node.op.name in ("matmul", "einsum"):
        a, b = node.inputs
        # Every product of elements: the geometric mean of the three sizes.
        return PRODUCT_COST * math.sqrt(float(a.size) * b.size * max(node.size, 1))
    if node.op.family == "reduction":
        return float(node.inputs[0].size)
    if node.op is REGISTRY["reshape"] or node.op.view:
        return 0.0
    return float(node.size)
