"""Windows: the part of a recording that a tape differentiates, and derivatives kept for it.

A tape differentiates what was recorded while it was recording, its window. Nodes recorded outside
count as constants. `Window` holds these nodes with the watched sources; together with the nodes of
a request they are the key under which a derivative is kept in the table of interned nodes.

Returned derivatives become applications of the current recording.

An outer tape finds them inside its window and differentiates them in turn, and tapes that do not
record now take them for constants. Both hold for the nodes that a derivative consists of as well: a
derivative of the derivative reads them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from gradtape.autodiff.modes import forward, reverse
from gradtape.autodiff.python_rules import PythonRules, Replaced, Structural, replaced
from gradtape.compiler.counts import COUNTS
from gradtape.ir import Fact, Op, Rows, dependents, of_structure, topological
from gradtape.ir.hooks import hooks
from gradtape.ir.node import PICK, Node, Params, apart_from_recorded, apply, is_slope, pick
from gradtape.ir.origin import LINES, follow, is_noting
from gradtape.ops.custom.custom import BARRIER, CUSTOM
from gradtape.ops.elementwise.arithmetic import IDENTITY, STOP_GRADIENT
from gradtape.records import dataclass
from gradtape.runtime.profiler_sink import PROBE
from gradtape.trace.pause_collector import uncollected
from gradtape.trace.recording import Recording, state
from gradtape.trace.returned_nodes import ReturnedNodes

R = TypeVar("R")


@dataclass(frozen=True)
class Request:
    """By which node to differentiate, in which mode, and which nodes count as constants."""

    source: Node
    mode: str = "auto"
    blocked: Collection[Node] = ()
    # The derivatives of custom nodes.
    rules: PythonRules | None = None


class _Deriving(threading.local):
    """The derivations that this thread is in the middle of, outermost first."""

    def __init__(self) -> None:
        self.rules: list[PythonRules] = []


_deriving = _Deriving()


def _depends(node: Node, sources: tuple[Node, ...]) -> bool:
    """Whether a source depends on another source."""
    return any(other in sources for other in topological([node])[:-1])


@dataclass(frozen=True)
class Isolated:
    """A copy of a target in which all nodes outside the window are constants, with its sources."""

    target: Node
    sources: tuple[Node, ...]
    # The recorded node behind each constant: outer tapes differentiate through it.
    back: Mapping[Node, Node]
    recording: Recording

    def restored(self, nodes: Sequence[Node]) -> list[Node]:
        """Derivatives of the target, in terms of the recorded nodes."""
        if not self.back:
            return list(nodes)
        with apart_from_recorded():
            return replaced(self.recording, nodes, dict(self.back))


@dataclass(frozen=True)
class Window:
    """The part of a recording that a tape differentiates."""

    recording: Recording
    # The nodes that the tape did not record: constants.
    outside: frozenset[Node]
    # The sources that the tape watches; None: every source counts.
    watched: tuple[Node, ...] | None
    # What the derivatives found in this window are restored by, if it is that of a derivative.
    isolated_by: Isolated | None = None

    def connected(self, source: Node, targets: tuple[Node, ...]) -> bool:
        """Whether a source counts: it is watched, or depends on a watched source."""
        if self.watched is None or source in self.watched:
            return True
        return source in reached((*targets, source), self.outside, self.watched)

    def differentiable(self, target: Node, source: Node) -> bool:
        """Whether both have a dtype with derivatives, and the source counts."""
        inexact = target.spec.inexact and source.spec.inexact
        return bool(inexact and self.connected(source, (target,)))

    def isolated(self, target: Node, sources: tuple[Node, ...]) -> Isolated:
        """The target with the nodes outside the window made constants.

        A second derivative needs the copy. The first derivative may contain the very nodes that
        were recorded outside, such as cos(x) in the derivative of sin(x), and there they are not
        constants.
        """
        if not self.outside:
            return Isolated(target, sources, {}, self.recording)
        replacement: dict[Node, Node] = {}
        back: dict[Node, Node] = {}
        with apart_from_recorded():
            for node in topological([target, *sources]):
                if node in sources and not _depends(node, sources):
                    # The walk ends at a source, and the copy must contain the source itself.
                    replacement[node] = node
                elif type(node.spec) is not tuple and self._is_outside(node):
                    held = replacement[node] = apply(STOP_GRADIENT, (node,))
                    back[held] = node
            first, *rest = replaced(self.recording, [target, *sources], replacement)
        return Isolated(first, tuple(rest), back, self.recording)

    def _is_outside(self, node: Node) -> bool:
        return node in self.outside or (node.op is PICK and node.inputs[0] in self.outside)

    def of_derivative(self, isolated: Isolated | None = None) -> Window:
        """The window for differentiating a derivative of an isolated target: nothing is outside."""
        return Window(self.recording, frozenset(), self.watched, isolated)

    def restored(self, nodes: Sequence[Node]) -> list[Node]:
        """Derivatives found in this window, in terms of the recorded nodes."""
        return list(nodes) if self.isolated_by is None else self.isolated_by.restored(nodes)

    def remembered(self, fact: Fact, derive: Callable[[PythonRules], R]) -> R:
        """The fact, derived once; one that ran a user's Python rule is never kept."""
        derived = self.recording.table.derived
        kind, structure, contents, settings = fact
        key = Fact(kind, (*structure, self.outside, self.watched), contents, settings)
        if key in derived:
            COUNTS.derivative_hits += 1
            kept: R = derived[key]
            return kept
        COUNTS.derivatives_built += 1
        rules = PythonRules(self.recording)
        _deriving.rules.append(rules)
        try:
            with apart_from_recorded():
                # Rules are code of the user's, which may take long.
                found = derive(rules) if self.recording.rules else uncollected(derive, rules)
        finally:
            _deriving.rules.pop()
        if not rules.used:
            derived[key] = found
        elif _deriving.rules:
            # The derivation that needs this one must not be kept either.
            _deriving.rules[-1].used = True
        return found

    def request(self, source: Node, mode: str, rules: PythonRules) -> Request:
        """The arguments of a Jacobian by one source."""
        return Request(source, mode, self.outside, rules)


def derive_reverse(
    recording: Recording,
    targets: Sequence[Node],
    cotangents: Sequence[Node],
    sources: Sequence[Node],
    outside: frozenset[Node],
    watched: tuple[Node, ...] | None,
) -> list[Node | Rows | None]:
    """Cotangents of the sources. A source counts if it is watched or depends on one that is."""
    sink = PROBE.sink
    begin = 0 if sink is None else time.perf_counter_ns()
    recording.targets.update((target, None) for target in targets if target.spec.size == 1)
    if watched is not None and all(source in watched for source in sources):
        watched = None
    is_new = False

    def derive(rules: PythonRules) -> list[Node | Rows | None]:
        nonlocal is_new
        is_new = True
        wanted = list(sources)
        if watched is not None:
            connected = reached((*targets, *sources), outside, watched)
            # The derivative of a target by itself is one, watched or not.
            wanted = [source for source in sources if source in connected or source in targets]
        results = reverse(targets, cotangents, wanted, outside, rules)
        by_source = dict(zip(wanted, results, strict=True))
        return [by_source.get(source) for source in sources]

    fact = of_structure("reverse", tuple(targets), tuple(cotangents), tuple(sources))
    found = Window(recording, outside, watched).remembered(fact, derive)
    if sink is not None:
        sink.derived(recording, targets, begin, found=not is_new)
    return found


def derive_forward(
    recording: Recording,
    targets: Sequence[Node],
    sources: Sequence[Node],
    tangents: Sequence[Node],
    outside: frozenset[Node],
) -> list[Node | None]:
    """Tangents of the targets."""
    fact = of_structure("forward", tuple(targets), tuple(sources), tuple(tangents))
    return Window(recording, outside, None).remembered(
        fact, lambda rules: forward(targets, sources, tangents, outside, rules)
    )


def reached(nodes: Sequence[Node], outside: Collection[Node], watched: Sequence[Node]) -> set[Node]:
    """The watched nodes, and the nodes that depend on them through nodes inside the window."""
    sources = frozenset(watched)
    order = (node for node in topological(nodes) if node not in outside or node in sources)
    return dependents(order, sources)


# An op, its inputs and its params.
_Application = tuple[Op, tuple[Node, ...], Params]


def hold_results(recording: Recording, results: Sequence[Node | Rows | None]) -> list[Any]:
    """Handles on the derivatives that one call returns; None where nothing connects."""
    kind = hooks.handle_class
    values = [result.values if isinstance(result, Rows) else result for result in results]
    nodes = iter(applied(recording, [value for value in values if value is not None]))
    held: list[Any] = []
    for result in results:
        handle = None if result is None else recording.hold(next(nodes), kind)
        if isinstance(result, Rows):
            indices = recording.hold(result.indices, kind)
            handle = kind.rows_class(indices, handle, result.spec)
        held.append(handle)
    return held


def applied(
    recording: Recording, results: Sequence[Node], position: int | None = None
) -> list[Node]:
    """A node of its own for each derivative, applied here and now.

    A derivative itself may be a node that another tape returned, a constant that derivatives
    share, or something the user computed: the derivative of x + y by x is the cotangent. What it
    consists of counts as applied at `position`. If no tape records now, and there is no position,
    it makes no difference what it consists of: it has no derivative.
    """
    copies: dict[Node, Node] = {}
    elsewhere = recording.active and recording.thread != state.thread
    if position is not None or state.tapes or elsewhere:
        position = len(recording.log) if position is None else position
        copies = _parted(recording, tuple(results), position)
    return [_root(recording, result, copies) for result in results]


def _root(recording: Recording, result: Node, copies: dict[Node, Node]) -> Node:
    whole = result.inputs[0] if result.op is PICK else result
    if is_slope(whole) and whole.inputs and whole not in recording.rules:
        inputs = tuple(copies.get(parent, parent) for parent in whole.inputs)
        slope, whole = whole, recording.application(whole.op, inputs, whole.params)
        if LINES.noting:
            # It is made on the line of the request, and belongs to the line that is differentiated.
            follow(slope, whole, instead=True)
        return whole if result.op is not PICK else pick(whole, result.params[0])
    return recording.application(IDENTITY, (copies.get(result, result),), ())


# Kinds of derivatives that are remembered.
GRADIENT = "returned gradient"
JACOBIAN = "returned jacobian"


def remember(
    recording: Recording, kind: str, key: tuple[Node, ...], results: Sequence[Node | Rows | None]
) -> None:
    """Note how derivatives are applied if no tape records, under their target and sources.

    The key must determine them: a recording without rules in Python, of which nothing is a constant
    to the tape. They are kept unless something in them needs more than one application.
    """
    applications: list[_Application | None] = []
    for result in results:
        if result is None:
            applications.append(None)
        elif isinstance(result, Rows) or result.op is PICK:
            return
        elif is_slope(result) and result.inputs:
            applications.append((result.op, result.inputs, result.params))
        else:
            applications.append((IDENTITY, (result,), ()))
    recording.table.derived[of_structure(kind, *key)] = applications


class _Copies(NamedTuple):
    """Copies of the nodes that derivatives consist of."""

    copies: dict[Node, Node]
    # The nodes by their copies, without outputs of nodes with several, which are not applications.
    parts: dict[Node, Node]
    # Nodes whose derivatives are closures that only a recording has.
    closures: list[Node]


def _parted(recording: Recording, results: tuple[Node, ...], position: int) -> dict[Node, Node]:
    """Copies of all nodes of some derivatives that are not applied yet: now they are."""
    if recording.log.returned is None:
        recording.log.returned = ReturnedNodes()
    counts = recording.log.returned.counts
    count = counts[results] = counts.get(results, 0) + 1
    # As with twins, the next run of the program finds the same copies in the same order.
    key = of_structure("parts", results, count)
    found = recording.table.derived.once(key, lambda: _copied(recording, results))
    for node in found.closures:
        if node in recording.rules:
            rule = Replaced(recording.rules[node], node, found.copies)
            recording.rules[found.copies[node]] = rule
    if found.parts:
        recording.log.returned.add(position, found.parts)
    return found.copies


class _Applied(Container[Node]):
    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __contains__(self, node: object) -> bool:
        return type(node) is Node and self.recording.log.position(node) is not None


def _copied(recording: Recording, results: tuple[Node, ...]) -> _Copies:
    found = _Copies({}, {}, [])
    applications, noting = _Applied(recording), is_noting()
    for node in topological(results, stop=applications):
        if not node.inputs or node in applications:
            continue
        inputs = tuple(found.copies.get(parent, parent) for parent in node.inputs)
        if node.op is PICK:
            found.copies[node] = pick(inputs[0], node.params[0])
            continue
        copy = found.copies[node] = Node(node.op, inputs, node.params, node.spec)
        if node.op is not BARRIER:  # which is its operand, to every tape
            found.parts[copy] = node
        # So that it counts for the size of the table.
        recording.table.slopes["part", copy] = copy
        if node.op is CUSTOM and not isinstance(node.params[1], Structural):
            found.closures.append(node)
        if noting:
            follow(node, copy)
    return found
