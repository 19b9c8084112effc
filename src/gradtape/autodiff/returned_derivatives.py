"""Handing out: derivatives become applications of the recording in which they are asked for.

An outer tape finds them inside its window and differentiates them in turn, and tapes that do not
record now take them for constants. Both hold for the nodes that a derivative consists of as well: a
derivative of the derivative reads them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from gradtape.autodiff.python_rules import Replaced, Structural
from gradtape.compiler.counts import COUNTS
from gradtape.ir import PICK, Node, Op, Rows, of_structure, pick, topological
from gradtape.ir.hooks import hooks
from gradtape.ir.node import Params, is_slope
from gradtape.ir.origin import LINES, follow, is_noting
from gradtape.ops.custom.custom import BARRIER, CUSTOM
from gradtape.ops.elementwise.arithmetic import IDENTITY
from gradtape.runtime.probe import PROBE
from gradtape.trace.recording import Recording, state
from gradtape.trace.returned_nodes import ReturnedNodes

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

    A derivative itself may be a node that another tape was handed, a constant that derivatives
    share, or something the user computed: the derivative of x + y by x is the cotangent. What it
    consists of counts as applied at `position`. If no tape records now, and there is no position,
    it makes no difference what it consists of: nobody can ask for a derivative of it.
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
            # It is made on the line that asks, and belongs to the line that is differentiated.
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


def hold_remembered(
    recording: Recording, kind: str, key: tuple[Node, ...], complete: bool
) -> list[Any] | None:
    """What `hold_results` gives for derivatives that are remembered, in one look-up; or None.

    If they must be `complete`, there is no None among them.
    """
    known: list[_Application | None] | None
    known = recording.table.derived.get(of_structure(kind, *key))
    # The long way notes the derivation in a profile.
    if known is None or (complete and None in known) or PROBE.sink is not None:
        return None
    COUNTS.derivative_hits += 1
    target = key[0]
    if kind is GRADIENT and target.spec.size == 1:
        recording.targets[target] = None
    tensor, apply = hooks.handle_class, recording.application
    return [None if each is None else recording.hold(apply(*each), tensor) for each in known]


class _Copies(NamedTuple):
    """Copies of the nodes that derivatives consist of."""

    copies: dict[Node, Node]
    # The nodes by their copies, without outputs of nodes with several, which are not applications.
    parts: dict[Node, Node]
    # Nodes whose derivatives are closures that only a recording knows.
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
