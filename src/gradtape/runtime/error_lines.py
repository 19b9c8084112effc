"""Failures: an error of an op that runs late names the user's line that recorded the op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradtape.concurrency import is_interrupt
from gradtape.ir.node import Node
from gradtape.ir.op import Op
from gradtape.ir.origin import mark, marked
from gradtape.ir.program import Program
from gradtape.ops.arrays.positions import CHECKED
from gradtape.ops.control.bodies import held
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.value import LeafValue


class Lines:
    """The user's lines of the nodes of a program that may fail."""

    def __init__(self, program: Program, lines: Mapping[Node, str]) -> None:
        self.program = program
        own = set(program.nodes)
        inside = _ops_inside(program)
        # The derivative of a callback is explained by the line of the callback, which may have run
        # in an earlier program.
        self.lines = {
            node: line
            for node, line in lines.items()
            if node in own or node.op.calls_python or node.op in inside
        }

    def explain(self, error: BaseException, inputs: Sequence[LeafValue]) -> None:
        """Add a note with the line to an error of the program's plan."""
        node = marked(error)
        if node is None or is_interrupt(error):
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
        """The lines of the recorded nodes that a node of the plan may stand for.

        The optimiser rebuilds nodes, and inside a batched loop the shape differs, too.
        """
        same = [(other, line) for other, line in self.lines.items() if other.op is node.op]
        exact = [
            line for other, line in same if (other.params, other.spec) == (node.params, node.spec)
        ]
        if not exact and node not in self.program.nodes:
            exact = [line for _, line in same]
        return dict.fromkeys(exact)

    def _certain(self, inputs: Sequence[LeafValue]) -> dict[str, None]:
        """The line of the node that fails in an unoptimised run, if the program may run again."""
        if any(node.op.opaque for node in self.program.nodes):
            return {}
        try:
            NumpyPlan(self.program).run(inputs)
        except Exception as error:
            node = marked(error)
            line = None if node is None else self.lines.get(node)
            return {} if line is None else {line: None}
        return {}


def _ops_inside(program: Program) -> set[Op]:
    """The ops in the bodies of a program, and in the bodies inside these."""
    stack = [body for node in program.nodes for body in held(node)]
    found: set[Op] = set()
    while stack:
        body = stack.pop()
        for node in body.nodes:
            found.add(node.op)
            stack += held(node)
    return found


def called(node: Node) -> str:
    """The name by which the user called an op."""
    return node.params[0] if node.op is CHECKED else node.op.name


def may_fail(program: Program) -> bool:
    """Whether a node of a program can fail on values."""
    # A long program has few ops, and few of its nodes have params.
    if any(op.may_fail for op in {node.op for node in program.nodes}):
        return True
    return any(held(node) for node in program.nodes if node.params)


def _origin(node: Node) -> object:
    """The user's function inside a callback and its derivatives; the node itself for other ops."""
    found = node.params[0] if node.op.calls_python else node
    while hasattr(found, "function"):
        found = found.function
    return found
