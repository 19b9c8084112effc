"""Failures: errors of ops that run later than they were recorded tell the line that did it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradtape.graph.lines import mark, marked
from gradtape.graph.node import Node
from gradtape.graph.program import Program
from gradtape.ops.control.bodies import held
from gradtape.runtime.numpy_plan import NumpyPlan


class Lines:
    """The lines of those nodes of a program that may fail."""

    def __init__(self, program: Program, lines: Mapping[Node, str]) -> None:
        self.program = program
        own = set(program.nodes)
        inside = _ops_inside(program)
        # Of a callback's derivative the callback itself, which may have run before.
        self.lines = {
            node: line
            for node, line in lines.items()
            if node in own or node.op.family == "callback" or node.op in inside
        }

    def explain(self, error: BaseException, inputs: Sequence[Any]) -> None:
        """Add to an error of the program's plan where the op was recorded."""
        node = marked(error)
        if node is None:
            return
        mark(error, None)
        places = self._places(node)
        if len(places) > 1:
            places = self._certain(inputs) or places
        what = called(node)
        if not places:
            places = dict.fromkeys(
                line for other, line in self.lines.items() if _origin(other) is _origin(node)
            )
            what = f"a derivative of {what}"
        if places:
            error.add_note(f"gradtape: {what} recorded at {' or '.join(places)}")

    def _places(self, node: Node) -> dict[str, None]:
        """The lines of the nodes that this one of the plan may be.

        Inside a loop for many examples it has another shape than what was recorded.
        """
        same = [(other, line) for other, line in self.lines.items() if other.op is node.op]
        exact = [
            line
            for other, line in same
            if (other.params, other.spec) == (node.params, node.spec)
        ]  # fmt: skip
        if not exact and node not in self.program.nodes:
            exact = [line for _, line in same]
        return dict.fromkeys(exact)

    def _certain(self, inputs: Sequence[Any]) -> dict[str, None]:
        """Of several the one that fails where nothing is shared or compiled, if it can be tried."""
        if any(node.op.opaque for node in self.program.nodes):
            return {}
        try:
            NumpyPlan(self.program).run(inputs)
        except Exception as error:
            node = marked(error)
            line = None if node is None else self.lines.get(node)
            return {} if line is None else {line: None}
        return {}


def _ops_inside(program: Program) -> set[Any]:
    """The ops in bodies that a program holds, and in those that they hold."""
    stack = [body for node in program.nodes for body in held(node)]
    found: set[Any] = set()
    while stack:
        body = stack.pop()
        for node in body.nodes:
            found.add(node.op)
            stack += held(node)
    return found


def called(node: Node) -> str:
    """The name that the user called an op by."""
    return node.params[0] if node.op.name == "checked_positions" else node.op.name


def may_fail(node: Node) -> bool:
    """Whether something about a node can fail on values."""
    return node.op.may_fail or bool(held(node))


def _origin(node: Node) -> Any:
    """Of a callback the function that the user gave; of other ops nothing that is equal."""
    found = node.params[0] if node.op.family == "callback" else node
    while hasattr(found, "function"):
        found = found.function
    return found
