"""Jacobians: forward, reverse, or both with a product in between, whichever graph costs least.

The Jacobian of one node by another is a graph of the same ops, target axes first. A target that is
joined from parts is differentiated part by part. Where everything passes through a value with few
elements (a waist), the Jacobian is the product of those on either side of it.

A complex source with a complex target is taken to be holomorphic: the result is f'(z). The rows of
a real target by a complex source are gradients, dL/dRe + i dL/dIm. The columns of a complex target
by a real source are derivatives, dRe/dx + i dIm/dx. The dtype is that of the source, made complex
if the target is.

Dense Jacobians, gradients and Hessians of a recording, kept by structure.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from gradtape.autodiff import seeded
from gradtape.autodiff.modes import dense_vjp, forward
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.seeded_rules import respond
from gradtape.autodiff.window import Isolated, Request, Window
from gradtape.config import (
    CLEARLY_FEWER_SEEDS,
    MOST_REPEATED_PARTS,
    MULTIPLY_ADD_COST,
    NARROW_WAIST,
    TRANSPOSED_ELEMENT_COST,
)
from gradtape.dtypes import COMPLEX_OF, DType
from gradtape.errors import UndefinedRuleError
from gradtape.ir import Shape, View, dependents, of_structure, spec, topological
from gradtape.ir.node import PICK, Node, apply, constant, placeholder
from gradtape.ir.program import program
from gradtape.ops.arrays.movement import permute, reshape_node
from gradtape.ops.families import broadcast_to, cast
from gradtape.ops.families.elementwise import conjugate
from gradtape.ops.matrices.contraction import matmul
from gradtape.records import dataclass

_Made = TypeVar("_Made")


def jacobian(target: Node, request: Request) -> Node | None:
    """The Jacobian of shape target.shape + source.shape; None if the target does not depend."""
    found = _jacobian(target, request)
    return found if found is None else cast(found, jacobian_dtype(target, request.source))


def jacobian_dtype(target: Node, source: Node) -> DType:
    """The dtype of the source, made complex if the target is, in both modes."""
    return COMPLEX_OF.get(source.dtype, source.dtype) if target.dtype.kind == "c" else source.dtype


def _jacobian(target: Node, request: Request) -> Node | None:
    source = request.source
    active = _active(target, request)
    if target not in active:
        return None
    if target is source:
        return _in_mode(target, request, "reverse")
    if _is_joined(target) and not _repeats(target, request, len(active)):
        return _of_joined(target, request)
    real = source.dtype.kind == target.dtype.kind == "f"
    waist = _waist(target, source, active) if request.mode == "auto" and real else None
    if waist is not None:
        return _through_waist(target, waist, request)
    found = _by_ways(_ways(target, request), target, request)
    connected = [node for node in found if node is not None]
    if len(connected) < len(found):
        return None  # all paths end, as at a stop_gradient
    if len(connected) == 1:
        return connected[0]
    known = set(topological([target]))
    return min(connected, key=lambda node: _cost(node, known))


def _active(target: Node, request: Request) -> set[Node]:
    wanted = {request.source}
    order = topological([target])
    return dependents((n for n in order if n not in request.blocked or n in wanted), wanted)


def _ways(target: Node, request: Request) -> tuple[str, ...]:
    """The modes worth building."""
    source = request.source
    if request.mode != "auto":
        return (request.mode,)
    by_dtype = way_by_dtype(target, source)
    if by_dtype is not None:
        return (by_dtype,)
    if target.size * CLEARLY_FEWER_SEEDS <= source.size:
        return ("reverse",)
    if source.size * CLEARLY_FEWER_SEEDS <= target.size:
        return ("forward",)
    # At equal cost reverse mode: its result needs no transposition.
    return ("reverse", "forward")


def way_by_dtype(target: Node, source: Node) -> str | None:
    """Between real and complex values one way has one seed per element, the other two."""
    if source.dtype.kind == target.dtype.kind:
        return None
    return "reverse" if source.dtype.kind == "c" else "forward"


def _by_ways(ways: tuple[str, ...], target: Node, request: Request) -> list[Node | None]:
    """The Jacobian in each mode for which all ops have rules; at least one, or the reason."""
    one = partial(_in_mode, target, request)
    if len(ways) == 1:
        return [either_way(ways[0], request.mode, one)]
    found = []
    for way in ways:
        with contextlib.suppress(UndefinedRuleError):
            found.append(one(way))
    # No mode is possible: the first one raises its error again.
    return found or [one(ways[0])]


def either_way(way: str, mode: str, make: Callable[[str], _Made]) -> _Made:
    """The result of `make` for one mode or, if an op has no rule in that mode, for the other.

    Reverse mode cannot go back through a loop whose number of steps is unknown, forward mode can.
    """
    try:
        return make(way)
    except UndefinedRuleError:
        if mode != "auto":
            raise
        try:
            return make("reverse" if way == "forward" else "forward")
        except UndefinedRuleError:
            pass
        raise


def _in_mode(target: Node, request: Request, way: str, by_row: bool = False) -> Node | None:
    """The Jacobian by products with unit seeds, one for each element of one end.

    Elements of a row are seeds for all rows at once, if it is that of each row by itself.
    """
    like = request.source if way == "forward" else target
    start, space = seeded.identity_seeds(like.spec), like.shape
    if by_row:
        start, space = seeded.row_seeds(like.spec), like.shape[1:]
    found = products(target, request, way, start, space)
    if found is None:
        return None
    count = len(space)
    seeds, rows, rest = (
        range(count),
        range(count, count + by_row),
        range(count + by_row, found.ndim),
    )
    order = (*rows, *rest, *seeds) if way == "forward" else (*rows, *seeds, *rest)
    return found if order == tuple(range(found.ndim)) else permute(found, order)


def products(
    target: Node, request: Request, way: str, start: seeded.Seeded, space: Shape
) -> Node | None:
    """Products of the Jacobian (`forward`) or of its transpose (`reverse`) with all seeds.

    Seeds are elements of `space`, whose axes come first in the result. None if the target does not
    depend on the source.
    """
    source, blocked = request.source, request.blocked
    end, result = (source, target) if way == "forward" else (target, source)
    shape = (*space, *result.shape)
    # A single seed is known: the derivative along it is the response.
    is_single = math.prod(space) == 1
    if is_single:
        full = seeded.dense_form(start, end, space).value
        seed = reshape_node(broadcast_to(full, (*space, *end.shape)), end.shape)
    else:
        seed = placeholder(end.spec)

    def along(given: Node) -> Node | None:
        if way == "forward":
            (found,) = forward([target], [source], [given], blocked, request.rules)
        else:
            found = dense_vjp(target, given, source, blocked, request.rules)
        if found is None or is_single:
            return None if found is None else reshape_node(found, shape)
        response = respond(found, seed, start, space)
        if response is None:
            return constant(0, spec(shape, result.dtype))
        return broadcast_to(seeded.dense_form(response, result, space).value, shape)

    found = along(seed)
    if found is None:
        return None
    kinds = source.dtype.kind + target.dtype.kind
    if kinds == ("cf" if way == "forward" else "fc"):
        # It takes the derivative along the imaginary axis, too.
        across = along(seed * 1j)
        assert across is not None
        found += across * 1j
    elif way == "reverse" and kinds == "cc":
        found = conjugate(found)
    return cast(found, jacobian_dtype(target, source))


def fewer_seeds(target: Node, source: Node, mode: str) -> str:
    """The way that takes fewer products, unless the caller chose a mode."""
    if mode != "auto":
        return mode
    return way_by_dtype(target, source) or ("forward" if source.size < target.size else "reverse")


def batch_jacobian(target: Node, request: Request) -> Node | None:
    """Row b of the target by row b of the source, for examples known to be independent.

    Seeds are the elements of one row. Every example takes them at once, because the seed of one
    example reaches no other example.
    """
    source = request.source
    if target not in _active(target, request):
        return None

    one = partial(_in_mode, target, request, by_row=True)
    return either_way(fewer_seeds(target, source, request.mode), request.mode, one)


def _of_joined(target: Node, request: Request) -> Node | None:
    """The Jacobian of a stack or concatenation, or of one that was reshaped."""
    source = request.source
    if target.op.view is View.RESHAPE:
        inner = jacobian(target.inputs[0], request)
        return None if inner is None else reshape_node(inner, target.shape + source.shape)
    parts = [jacobian(part, request) for part in target.inputs]
    if all(part is None for part in parts):
        return None
    of = jacobian_dtype(target, source)
    filled = tuple(
        constant(0, spec(operand.shape + source.shape, of)) if part is None else cast(part, of)
        for part, operand in zip(parts, target.inputs, strict=True)
    )
    return apply(target.op, filled, target.params)


def _repeats(target: Node, request: Request, whole: int) -> bool:
    """Whether part by part the same nodes would be differentiated again and again."""
    while target.op.view is View.RESHAPE:
        (target,) = target.inputs
    if len(target.inputs) <= MOST_REPEATED_PARTS:
        return False
    parts = sum(len(_active(part, request)) for part in target.inputs)
    return parts > MOST_REPEATED_PARTS * whole


def _is_joined(node: Node) -> bool:
    if node.op.view is View.RESHAPE:
        return _is_joined(node.inputs[0])
    return node.op.join is not None


def _waist(target: Node, source: Node, active: set[Node]) -> Node | None:
    """The smallest value that every path from the source to the target passes through."""
    order = [node for node in topological([target]) if node in active]
    last_read = {parent: index for index, node in enumerate(order) for parent in node.inputs}
    furthest = 0
    found: Node | None = None
    for index, node in enumerate(order):
        # A cut: nothing before it is read after it.
        is_inner = furthest <= index and node is not source and node is not target
        # Through a complex value the chain rule is not a product of the two matrices.
        is_real = type(node.spec) is not tuple and node.op is not PICK and node.dtype.kind == "f"
        if is_inner and is_real and (found is None or node.size < found.size):
            found = node
        furthest = max(furthest, last_read.get(node, 0))
    small = min(source.size, target.size)
    return found if found is not None and found.size * NARROW_WAIST <= small else None


def _through_waist(target: Node, waist: Node, request: Request) -> Node | None:
    """dt/dw · dw/ds, as one matrix product."""
    inner = jacobian(waist, request)
    outer = jacobian(target, Request(waist, "auto", request.blocked, request.rules))
    if inner is None or outer is None:
        return None
    rows = reshape_node(outer, (target.size, waist.size))
    columns = reshape_node(inner, (waist.size, request.source.size))
    return reshape_node(matmul(rows, columns), target.shape + request.source.shape)


def _cost(node: Node, known: set[Node]) -> float:
    """Roughly the element-wise operations that it takes beyond computing `known`."""
    transposed = TRANSPOSED_ELEMENT_COST * node.size if node.op.view is View.PERMUTE else 0.0
    return transposed + sum(_work(step) for step in program([node], known).nodes)


def _work(node: Node) -> float:
    if type(node.spec) is tuple:
        return float(sum(of.size for of in node.spec))
    if node.op.labels is not None:
        a, b = node.inputs
        # Every product of elements: the geometric mean of the three sizes.
        return MULTIPLY_ADD_COST * math.sqrt(float(a.size) * b.size * max(node.size, 1))
    if node.op.reduces:
        return float(node.inputs[0].size)
    if node.op.view is not None:
        return 0.0
    return float(node.size)


@dataclass(frozen=True)
class IsolatedGradient:
    """A gradient of an isolated target, to be differentiated by the source `by` in it."""

    node: Node
    by: Node
    isolated: Isolated


def derive_jacobian(window: Window, target: Node, source: Node, mode: str) -> Node | None:
    """The dense Jacobian of one node by another; None where nothing connects them."""

    def derive(rules: PythonRules) -> Node | None:
        if not window.differentiable(target, source):
            return None
        return jacobian(target, window.request(source, mode, rules))

    return window.remembered(of_structure("jacobian", target, source, mode), derive)


def derive_batch_jacobian(window: Window, target: Node, source: Node, mode: str) -> Node | None:
    """The Jacobian of each example; examples must be independent."""

    def derive(rules: PythonRules) -> Node | None:
        if not window.differentiable(target, source):
            return None
        return batch_jacobian(target, window.request(source, mode, rules))

    return window.remembered(of_structure("batch_jacobian", target, source, mode), derive)


def derive_gradient(window: Window, target: Node, source: Node) -> Node | None:
    """The gradient of the sum of a target, dense."""
    slope = derive_slope(window, target, source, source)
    return None if slope is None else slope.isolated.restored([slope.node])[0]


def derive_slope(window: Window, target: Node, source: Node, by: Node) -> IsolatedGradient | None:
    """The gradient of the sum of a target by `source`, to be differentiated by another source."""

    def derive(rules: PythonRules) -> IsolatedGradient | None:
        if not window.differentiable(target, source):
            return None
        isolated = window.isolated(target, (source, by))
        inner, (first, second) = isolated.target, isolated.sources
        found = dense_vjp(inner, constant(1, inner.spec), first, (), rules)
        return None if found is None else IsolatedGradient(found, second, isolated)

    return window.remembered(of_structure("slope", target, source, by), derive)


def derive_hessian(window: Window, target: Node, first: Node, second: Node) -> Node | None:
    """The derivative by `second` of the gradient by `first`.

    None where the target does not depend on one of them, zeros where only the gradient does not.
    """

    def derive(rules: PythonRules) -> Node | None:
        slope = derive_slope(window, target, first, second)
        if slope is None or derive_slope(window, target, second, second) is None:
            return None
        found = jacobian(slope.node, window.of_derivative().request(slope.by, "auto", rules))
        if found is None:
            return constant(0, spec(first.shape + second.shape, second.dtype))
        return slope.isolated.restored([found])[0]

    return window.remembered(of_structure("hessian", target, first, second), derive)
