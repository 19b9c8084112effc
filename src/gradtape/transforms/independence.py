"""Independence: whether examples along the first axis stay apart on the way to a target.

Every value that depends on the source is followed with the place of its batch index: `outer`, the
number of elements in front of it in row-major order, which a reshape does not change. An op that
combines different examples ends the proof, and so does one of which nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gradtape.graph.node import PICK, Node
from gradtape.graph.program import Program
from gradtape.graph.spec import Shape
from gradtape.graph.walk import dependents, topological
from gradtape.ops.custom.custom import CUSTOM, passes_through

MIXES = "{op} mixes examples"
UNPROVED = "cannot prove that {op} keeps examples apart"


class DependenceError(Exception):
    """Why examples could not be shown to be independent, and which op it is."""

    def __init__(self, why: str, node: Node, op: str | None = None) -> None:
        self.why = why
        self.node = node
        self.op = node.op.name if op is None else op
        super().__init__(why.format(op=self.op))


class _LostError(Exception):
    """No axis of a value counts examples."""


@dataclass(frozen=True)
class Batch:
    """Where the examples of a value are: behind so many elements, so many of them."""

    outer: int
    count: int

    def axis(self, node: Node) -> int:
        """The axis that counts examples."""
        before = 1
        for axis, length in enumerate(_shape(node)):
            if before == self.outer and length == self.count:
                return axis
            before *= length
        raise _LostError


def _shape(node: Node) -> Shape:
    return node.spec[0].shape if type(node.spec) is tuple else node.shape


def check_independence(
    target: Node,
    source: Node,
    blocked: Collection[Node] = (),
    follows: Callable[[Node], bool] | None = None,
) -> None:
    """Raise DependenceError unless row b of the target depends on row b of the source alone.

    `blocked` nodes are constants. `follows` says of a node with a derivative written in Python
    whether that is the derivative of the computation itself.
    """
    count = source.shape[0]
    if count <= 1:
        return
    found: dict[Node, Any] = {source: Batch(1, count)}
    order = _on_the_way(target, source, blocked)
    try:
        _follow(order, found, follows)
    except DependenceError as error:
        called = _as_called(error.node, order)
        if called is None:
            raise
        raise DependenceError(error.why, error.node, f"{called}: {error.op}") from None
    if target in found and found[target] != Batch(1, count):
        raise DependenceError(MIXES, target)


def _as_called(node: Node, order: Sequence[Node]) -> str | None:
    """What a user called that was recorded as this op, where that has another name."""
    name, inputs = node.op.name, node.inputs
    users = [user for user in order if node in user.inputs]
    names = {user.op.name for user in users}
    if name == "sum":
        if inputs[0].op.name == "exp" and "log" in names:
            return "log_softmax"
        if any(user.op.name == "divide" and user.inputs == (inputs[0], node) for user in users):
            return "softmax"
        if any(user.op.name == "divide" and user.inputs[0] is node for user in users):
            return "mean"
    if name == "slice" and any(step < 0 for step in node.keywords["steps"]):
        return "flip"
    if name == "order_statistic":
        length = inputs[0].shape[node.keywords["axis"][0]]
        middle = {(length - 1) // 2, length // 2}
        return "median" if set(node.keywords["ranks"]) == middle else "quantile"
    return "custom_gradient" if node.op is CUSTOM else None


def _follow(
    order: Sequence[Node],
    found: dict[Node, Any],
    follows: Callable[[Node], bool] | None = None,
) -> None:
    """Find the place of the batch in every node that has one; in a list for several outputs."""
    for node in order:
        if node in found or not _carries(node):
            continue
        if _is_solution(node):
            if node.inputs[1] in found:
                found[node] = [_solved(node, found[node.inputs[1]])]
            continue
        if node.op is CUSTOM:
            if any(parent in found for parent in node.inputs) and not (follows and follows(node)):
                raise DependenceError(UNPROVED, node)
            continue
        passed = passes_through(node)
        if passed is not None and node.inputs[0] not in found:
            if passed in found:
                found[node] = found[passed]
            continue
        places = [found.get(parent) for parent in node.inputs]
        if any(place is not None for place in places):
            place = _through(node, places)
            if place is not None:
                found[node] = place


def _is_solution(node: Node) -> bool:
    """Whether it solves an equation for each of many examples."""
    return node.op is CUSTOM and bool(getattr(node.params[1], "examples", False))


def _solved(node: Node, place: Batch) -> Batch:
    """A solution for each example: it mixes what its equation does, and all of its unknowns."""
    name = node.params[1].name
    try:
        if place.axis(node.inputs[1]) >= node.params[1].examples:
            raise DependenceError(MIXES, node, name)
    except _LostError:
        raise DependenceError(UNPROVED, node, name) from None
    return place


def _on_the_way(target: Node, source: Node, blocked: Collection[Node]) -> list[Node]:
    """The nodes by which a derivative gets from the source to the target, in order."""
    order = topological([target])
    active = dependents((n for n in order if n not in blocked or n is source), {source})
    wanted = {target}
    for node in reversed(order):
        if node in wanted and node in active and node is not source and _carries(node):
            wanted.update(node.inputs)
    return [n for n in order if n in wanted and n in active and n is not source and _carries(n)]


def _carries(node: Node) -> bool:
    if node.op.name in ("stop_gradient", "solve_equation"):
        return False
    return type(node.spec) is tuple or node.spec.inexact


def _through(node: Node, places: list[Any]) -> Any:
    if node.op is PICK and isinstance(places[0], list):
        return places[0][node.params[0]]
    if node.op is PICK:
        return next(place for place in places if place is not None)
    rule = _BY_NAME.get(node.op.name) or _BY_FAMILY.get(node.op.family)
    if rule is None:
        raise DependenceError(UNPROVED, node)
    try:
        return rule(node, places)
    except _LostError:
        raise DependenceError(UNPROVED, node) from None


def _mixes(node: Node) -> NoReturn:
    if node.op.name == "take_along_axis" and node.inputs[1].op.name == "argsort":
        raise DependenceError(MIXES, node, "sort")  # as the user calls it
    raise DependenceError(MIXES, node)


def _placed(node: Node, axis: int, count: int) -> Batch:
    return Batch(math.prod(_shape(node)[:axis]), count)


def _same(node: Node, found: Collection[Batch]) -> Batch:
    first, *others = found
    if any(other != first for other in others):
        _mixes(node)
    return first


def _elementwise(node: Node, places: list[Batch | None]) -> Batch:
    found = []
    for parent, place in zip(node.inputs, places, strict=True):
        if place is None:
            continue
        if parent.shape == node.shape:
            found.append(place)
            continue
        axis = place.axis(parent) + node.ndim - parent.ndim
        found.append(_placed(node, axis, place.count))
    return _same(node, found)


def _axes(node: Node) -> tuple[int, ...]:
    axes = node.keywords["axis"]
    return (axes,) if isinstance(axes, int) else tuple(axes)


def _reduction(node: Node, places: list[Batch | None]) -> Batch:
    (place,) = [place for place in places if place is not None]
    axis = place.axis(node.inputs[0])
    axes = _axes(node)
    if axis in axes:
        _mixes(node)
    if _shape(node) == node.inputs[0].shape or node.keywords.get("keepdims", False):
        return _placed(node, axis, place.count)
    return _placed(node, axis - sum(gone < axis for gone in axes), place.count)


def _along_axis(node: Node, places: list[Batch | None]) -> Batch:
    """Ops that act along one axis and keep the others: cumulative ones, rolls, selections."""
    found = []
    for parent, place in zip(node.inputs, places, strict=True):
        if place is not None:
            axis = place.axis(parent)
            if axis in _axes(node):
                _mixes(node)
            found.append(_placed(node, axis, place.count))
    return _same(node, found)


def _permute(node: Node, places: list[Batch | None]) -> Batch:
    place = places[0]
    assert place is not None
    return _placed(node, node.params[0].index(place.axis(node.inputs[0])), place.count)


def _reshape(node: Node, places: list[Batch | None]) -> Batch:
    assert places[0] is not None
    return places[0]


def _joined(node: Node, places: list[Batch | None]) -> Batch:
    (along,) = node.params
    shifted = node.op.name == "stack"
    found = []
    for parent, place in zip(node.inputs, places, strict=True):
        if place is None:
            continue
        axis = place.axis(parent)
        if shifted:
            axis += axis >= along
        elif axis == along:
            _mixes(node)
        found.append(_placed(node, axis, place.count))
    return _same(node, found)


def _slice(node: Node, places: list[Batch | None]) -> Batch:
    """Reading or writing a part: the batch axis must be there whole and in order."""
    starts, lengths, steps, _ = node.params
    name = node.op.name
    # The side with one axis for each start: the operand, but for `unslice` the result.
    whole = node if name == "unslice" else node.inputs[0]
    found = []
    for position, place in enumerate(places):
        if place is None:
            continue
        is_whole = name != "unslice" and position == 0
        own = node.inputs[position]
        if is_whole:
            axis = place.axis(own)
        else:
            axis = _axis_of_part(own, place, lengths, node)
        if (starts[axis], lengths[axis], steps[axis]) != (0, whole.shape[axis], 1):
            _mixes(node)
        if name == "slice":
            found.append(Batch(math.prod(lengths[:axis]), place.count))
        else:
            found.append(_placed(node, axis, place.count))
    return _same(node, found)


def _axis_of_part(own: Node, place: Batch, lengths: tuple[int, ...], node: Node) -> int:
    before = 1
    if own.size == math.prod(lengths):
        for axis, length in enumerate(lengths):
            if before == place.outer and length == place.count:
                return axis
            before *= length
    raise _LostError


def _gather(node: Node, places: list[Batch | None]) -> Batch:
    x, indices = node.inputs[0], node.inputs[1]
    place = places[0]
    assert place is not None
    axis, along = place.axis(x), _axes(node)[0]
    if axis == along:
        _mixes(node)
    moved = axis + indices.ndim - 1 if axis > along else axis
    return _placed(node, moved, place.count)


def _scatter(node: Node, places: list[Batch | None]) -> Batch:
    """Writing or adding values at positions along an axis, whole lines of which are one example."""
    x, indices, values = node.inputs
    along = _axes(node)[0]
    found = []
    for position, parent in ((0, x), (2, values)):
        place = places[position]
        if place is None:
            continue
        axis = place.axis(parent)
        if position and axis >= along + indices.ndim:
            axis -= indices.ndim - 1
        elif axis >= along and (position or axis == along):
            _mixes(node)
        found.append(_placed(node, axis, place.count))
    return _same(node, found)


def _cross(node: Node, places: list[Batch | None]) -> Batch:
    """Operands broadcast, and the axis of the components is counted from the end."""
    found = []
    for parent, place in zip(node.inputs, places, strict=True):
        if place is None:
            continue
        axis = place.axis(parent) - parent.ndim
        if axis == node.params[0]:
            _mixes(node)
        found.append(_placed(node, axis + node.ndim, place.count))
    return _same(node, found)


def _labelled(node: Node, places: list[Batch | None], terms: list[Any], output: Any) -> Batch:
    found = []
    for parent, place, labels in zip(node.inputs, places, terms, strict=True):
        if place is None:
            continue
        label = labels[place.axis(parent)]
        if label not in output:
            _mixes(node)
        found.append(label)
    if len({*found}) > 1:
        _mixes(node)
    count = next(place for place in places if place is not None).count
    return _placed(node, output.index(found[0]), count)


def _matmul(node: Node, places: list[Batch | None]) -> Batch:
    a, b = node.inputs
    batch = [f"batch{number}" for number in range(max(a.ndim, b.ndim, 2) - 2)]
    left = ["k"] if a.ndim == 1 else [*batch[len(batch) - (a.ndim - 2) :], "row", "k"]
    right = ["k"] if b.ndim == 1 else [*batch[len(batch) - (b.ndim - 2) :], "k", "column"]
    output = [*batch, *(["row"] if a.ndim > 1 else []), *(["column"] if b.ndim > 1 else [])]
    return _labelled(node, places, [left, right], output)


def _einsum(node: Node, places: list[Batch | None]) -> Batch:
    inputs, _, output = node.params[0].partition("->")
    return _labelled(node, places, inputs.split(","), output)


def _library(node: Node, places: list[Batch | None]) -> Batch:
    """Matrices in the last two axes; everything in front is a stack of them."""
    found = []
    for position, (parent, place) in enumerate(zip(node.inputs, places, strict=True)):
        if place is None:
            continue
        axis = place.axis(parent)
        vector = position == 1 and parent.ndim == 1
        if vector or axis >= parent.ndim - 2:
            _mixes(node)
        lead = len(_batch_shape(node)) - (parent.ndim - 2)
        found.append(Batch(math.prod(_batch_shape(node)[: axis + lead]), place.count))
    return _same(node, found)


def _batch_shape(node: Node) -> Shape:
    return max((parent.shape[:-2] for parent in node.inputs if parent.ndim > 1), key=len)


def _fft(node: Node, places: list[Batch | None]) -> Batch:
    place = places[0]
    assert place is not None
    axis = place.axis(node.inputs[0])
    axes = node.keywords.get("axes", None) or (node.keywords.get("axis"),)
    if axis in axes:
        _mixes(node)
    return _placed(node, axis, place.count)


def _inside(body: Program, places: Sequence[Batch | None]) -> list[Batch | None]:
    """The places in the outputs of a body, from those in its inputs."""
    pairs = zip(body.inputs, places, strict=True)
    found: dict[Node, Any] = {node: place for node, place in pairs if place is not None}
    _follow(body.nodes, found)
    return [found.get(node) for node in body.outputs]


def _carried(
    node: Node, body: Program, fixed: list[Any], carried: list[Any], elements: list[Any]
) -> list[Any]:
    """The places in the outputs of a body whose first outputs are inputs of the next step."""
    while True:
        found = _inside(body, [*fixed, *carried, *elements])
        later = [
            old if new is None else new if old is None else _same(node, [old, new])
            for old, new in zip(carried, found, strict=False)
        ]
        if later == carried:
            return [*later, *found[len(carried) :]]
        carried = later


def _scan(node: Node, places: list[Any]) -> list[Any]:
    body, constants, carries, length, *_ = node.params
    first = constants + carries
    elements = []
    for parent, place in zip(node.inputs[first:], places[first:], strict=True):
        if place is not None and place.axis(parent) == 0:
            _mixes(node)
        elements.append(None if place is None else Batch(place.outer // length, place.count))
    found = _carried(node, body, places[:constants], places[constants:first], elements)
    rows = [
        None if place is None else Batch(place.outer * length, place.count)
        for place in found[carries:]
    ]
    return [*found[:carries], *rows]


def _while(node: Node, places: list[Any]) -> list[Any]:
    _, body, constants, _ = node.params
    return [*_carried(node, body, places[:constants], places[constants:], []), None]


def _branch(node: Node, places: list[Any]) -> list[Any]:
    found = [_inside(body, places[1:]) for body in node.params[0]]
    known = [[place for place in one if place is not None] for one in zip(*found, strict=True)]
    return [_same(node, one) if one else None for one in known]


Rule = Callable[[Node, list[Any]], Any]
_BY_FAMILY: dict[str, Rule] = {
    "elementwise": _elementwise,
    "reduction": _reduction,
    "cumulative": _along_axis,
    "library": _library,
}
_BY_NAME: dict[str, Rule] = {
    "permute_dims": _permute,
    "reshape": _reshape,
    # What stays of a triangle is where it was.
    "tril": _reshape,
    "triu": _reshape,
    "recompute": _reshape,
    "broadcast_to": _elementwise,
    "stack": _joined,
    "concat": _joined,
    "slice": _slice,
    "unslice": _slice,
    "set_slice": _slice,
    "roll": _along_axis,
    "resize_axis": _along_axis,
    "split": _along_axis,
    "take_along_axis": _along_axis,
    "add_along_axis": _along_axis,
    "gather": _gather,
    "scatter_add": _scatter,
    "scatter_set": _scatter,
    "cross": _cross,
    "scan": _scan,
    "while": _while,
    "branch": _branch,
    "matmul": _matmul,
    "einsum": _einsum,
    "fft": _fft,
    "rfft": _fft,
    "irfft": _fft,
    "weigh_inner_frequencies": _fft,
}
