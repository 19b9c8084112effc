"""Independence: whether examples along the first axis stay apart on the way to a target.

Every value that depends on the source is followed with the place of its batch, by the rule
`examples` of each op (gradtape.ops.families.independence). An op that combines different examples
ends the proof, and so does one that has no such rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from gradtape.ir import OPERATORS, PICK, Node, Op, Program, dependents, topological
from gradtape.ir.op_facts import Accumulation, View
from gradtape.ops.control.branch import BRANCH
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.while_loop import WHILE
from gradtape.ops.custom.custom import CUSTOM, passes_through
from gradtape.ops.custom.solutions import SOLVE_EQUATION
from gradtape.ops.elementwise.arithmetic import STOP_GRADIENT
from gradtape.ops.elementwise.unary import exp, log
from gradtape.ops.families import independence
from gradtape.ops.reductions.extrema import ORDER_STATISTIC
from gradtape.trace.record import op_of

# The place of the batch in a node; of a node with several outputs that of each, or one for all.
Place = independence.Batch | list[independence.Batch | None]


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
    found: dict[Node, Place] = {source: independence.Batch(1, count)}
    order = _on_the_way(target, source, blocked)
    try:
        _follow(order, found, follows)
    except independence.DependenceError as error:
        called = _as_called(error.node, order)
        if called is None:
            raise
        raise independence.DependenceError(error.why, error.node, f"{called}: {error.op}") from None
    if target in found and found[target] != independence.Batch(1, count):
        raise independence.DependenceError(independence.MIXES, target)


def _as_called(node: Node, order: Sequence[Node]) -> str | None:
    """The public name of the function that was recorded as this op, where it differs."""
    inputs = node.inputs
    users = [user for user in order if node in user.inputs]
    quotients = [user for user in users if user.op is OPERATORS.divide]
    if node.op.reduction is Accumulation.SUM:
        if inputs[0].op is op_of(exp) and any(user.op is op_of(log) for user in users):
            return "log_softmax"
        if any(user.inputs == (inputs[0], node) for user in quotients):
            return "softmax"
        if any(user.inputs[0] is node for user in quotients):
            return "mean"
    if node.op.view is View.SLICE and any(step < 0 for step in node.keywords["steps"]):
        return "flip"
    if node.op is ORDER_STATISTIC:
        length = inputs[0].shape[node.keywords["axis"][0]]
        middle = {(length - 1) // 2, length // 2}
        return "median" if set(node.keywords["ranks"]) == middle else "quantile"
    return "custom_gradient" if node.op is CUSTOM else None


def _follow(
    order: Sequence[Node], found: dict[Node, Place], follows: Callable[[Node], bool] | None = None
) -> None:
    """Find the place of the batch in every node that has one; in a list for several outputs."""
    for node in order:
        if node in found or not _carries(node):
            continue
        if _is_solution(node):
            if node.inputs[1] in found:
                found[node] = [_solved(node, _one(found[node.inputs[1]]))]
            continue
        if node.op is CUSTOM:
            if any(parent in found for parent in node.inputs) and not (follows and follows(node)):
                raise independence.DependenceError(independence.UNPROVED, node)
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


def _solved(node: Node, place: independence.Batch | None) -> independence.Batch:
    """The place in solutions for each example; the unknowns of one example are all mixed."""
    name = node.params[1].name
    assert place is not None
    try:
        if place.axis(node.inputs[1]) >= node.params[1].examples:
            raise independence.DependenceError(independence.MIXES, node, name)
    except independence.LostError:
        raise independence.DependenceError(independence.UNPROVED, node, name) from None
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
    """Whether a derivative passes through a node."""
    if node.op is STOP_GRADIENT or node.op is SOLVE_EQUATION:
        return False
    return type(node.spec) is tuple or bool(node.spec.inexact)


def _one(place: Place | None) -> independence.Batch | None:
    """The place in a node with one output."""
    assert not isinstance(place, list)
    return place


def _through(node: Node, places: Sequence[Place | None]) -> Place | None:
    if node.op is PICK:
        several = places[0]
        return several[node.params[0]] if isinstance(several, list) else several
    given = [_one(place) for place in places]
    try:
        if node.op in _BODIES:
            return _BODIES[node.op](node, given)
        if node.op.examples is not None:
            found: independence.Batch = node.op.examples(node, given)
            return found
    except independence.LostError:
        pass
    raise independence.DependenceError(independence.UNPROVED, node)


def _inside(body: Program, places: independence.Places) -> list[independence.Batch | None]:
    """The places in the outputs of a body, from those in its inputs."""
    pairs = zip(body.inputs, places, strict=True)
    found: dict[Node, Place] = {node: place for node, place in pairs if place is not None}
    _follow(body.nodes, found)
    return [_one(found.get(node)) for node in body.outputs]


def _carried(
    node: Node,
    body: Program,
    fixed: independence.Places,
    carried: independence.Places,
    elements: independence.Places,
) -> list[independence.Batch | None]:
    """The places in the outputs of a body whose first outputs are inputs of the next step."""
    while True:
        found = _inside(body, [*fixed, *carried, *elements])
        later = [
            old if new is None else new if old is None else independence.same(node, [old, new])
            for old, new in zip(carried, found, strict=False)
        ]
        if later == list(carried):
            return [*later, *found[len(carried) :]]
        carried = later


def _scan(node: Node, places: independence.Places) -> list[independence.Batch | None]:
    scan = Scan.of(node)
    fixed, carried, of_sequences = scan.parts(places)
    elements = []
    for parent, place in zip(scan.parts(node.inputs)[2], of_sequences, strict=True):
        if place is not None and place.axis(parent) == 0:
            independence.mixes(node)
        elements.append(
            None if place is None else independence.Batch(place.outer // scan.length, place.count)
        )
    found = _carried(node, scan.body, fixed, carried, elements)
    rows = [
        None if place is None else independence.Batch(place.outer * scan.length, place.count)
        for place in found[scan.carries :]
    ]
    return [*found[: scan.carries], *rows]


def _while(node: Node, places: independence.Places) -> list[independence.Batch | None]:
    _, body, constants, _ = node.params
    return [*_carried(node, body, places[:constants], places[constants:], []), None]


def _branch(node: Node, places: independence.Places) -> list[independence.Batch | None]:
    found = [_inside(body, places[1:]) for body in node.params[0]]
    known = [[place for place in one if place is not None] for one in zip(*found, strict=True)]
    return [independence.same(node, one) if one else None for one in known]


# Loops and branches are followed through their bodies.
_BODIES: dict[Op, Callable[[Node, independence.Places], list[independence.Batch | None]]] = {
    SCAN: _scan,
    WHILE: _while,
    BRANCH: _branch,
}
