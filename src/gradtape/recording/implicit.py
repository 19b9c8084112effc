"""Implicit differentiation: the derivative of a solution, from the equation that it solves.

If F(x, a) = 0 then dx = -(∂F/∂x)⁻¹ ∂F/∂a da. The solution is a number that some solver found, x₀.
Recorded beside it is the residual F(x₀, a), a graph, and the node that carries this rule: its value
is x₀, its inputs are x₀, the residual, and what else the residual reads (the frontier).

The rule differentiates the residual at x₀ and then puts the node itself, y, in the place of x₀. So
the derivative is a graph of y and a, in which y again has this rule: every order is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.errors import UndefinedRuleError
from gradtape.graph.node import LEAF, Node, apply, pick, placeholder
from gradtape.graph.recording import Recording
from gradtape.graph.walk import dependents, substitute, topological
from gradtape.ops.contraction import adjoint
from gradtape.ops.custom import CUSTOM
from gradtape.ops.linalg import solve_matrix
from gradtape.ops.movement import reshape_node
from gradtape.ops.systems import SYSTEM
from gradtape.recording.custom import PythonRules, Structural
from gradtape.recording.systems import LinearMap, System
from gradtape.sparsity.prepare import Coloured
from gradtape.transforms.cotangent import Rows
from gradtape.transforms.forward import forward
from gradtape.transforms.jacobian import Question, jacobian
from gradtape.transforms.reverse import reverse


def frontier(residual: Node, x: Node) -> list[Node]:
    """What the residual reads that does not depend on x, in a fixed order.

    A solution inside, of an equation that depends on x, stays whole: its own unknowns are inside.
    """
    order = topological([residual])
    unknowns: set[Node] = set()
    interior = {x}
    while True:
        interior = dependents(order, {x, *unknowns})
        inner = {n.inputs[0] for n in interior if n.op is CUSTOM and type(n.params[1]) is Implicit}
        if inner <= unknowns:
            break
        unknowns |= inner
    found: dict[Node, None] = {}
    for node in order:
        if node in interior and node is not x:
            found.update((parent, None) for parent in node.inputs if parent not in interior)
    return list(found)


def is_pure(residual: Node) -> bool:
    """Whether no derivative in the graph is a Python closure."""
    return all(
        isinstance(node.params[1], Structural) and node.params[1].pure
        for node in topological([residual])
        if node.op is CUSTOM
    )


@dataclass(frozen=True)
class Implicit(Structural):
    """The derivative of a solution. `name` is the function that the user called."""

    name: str
    # "direct" or an iteration; with colours, "direct" is a sparse decomposition.
    solver: str
    coloured: Coloured | None
    # The Jacobian is its own adjoint: that of a gradient is.
    symmetric: bool
    pure: bool

    def push(self, recording: Any, node: Node, tangents: Sequence[Any]) -> tuple[Any, ...]:
        """Forward mode."""
        _, residual, *given = node.inputs
        pairs = [
            (source, tangent)
            for source, tangent in zip(given, tangents[2:], strict=True)
            if tangent is not None
        ]
        rules = PythonRules(recording)
        sources, along = [s for s, _ in pairs], [t for _, t in pairs]
        (moved,) = forward([residual], sources, along, (), rules.push)
        if moved is None:
            return (None,)
        (right,) = self._at_solution(recording, node, [moved], along)
        return (-self._solve(recording, node, right, turned=False),)

    def pull(self, recording: Any, node: Node, cotangents: tuple[Any, ...]) -> list[Any]:
        """Reverse mode."""
        _, residual, *given = node.inputs
        weights = -self._solve(recording, node, cotangents[0], turned=True)
        # One thing that the residual reads may depend on another: each ends its own path here.
        ends = {other: placeholder(other.spec) for other in given}
        (ended,) = replaced(recording, [residual], ends)
        sources = list(ends.values())
        found = reverse([ended], [weights], sources, (), PythonRules(recording).pull)
        dense = [part.dense() if isinstance(part, Rows) else part for part in found]
        known = [part for part in dense if part is not None]
        back = {end: other for other, end in ends.items()}
        placed = iter(self._at_solution(recording, node, known, [weights], back))
        return [None, None, *[None if part is None else next(placed) for part in dense]]

    def batch_rule(self, inputs: Any, batched: Any, y: Node) -> Any:
        """There is none: the solver ran on the numbers of one example."""
        raise UndefinedRuleError(
            f"{self.name}: vmap cannot solve for many examples at once. Solve for all of them as "
            "one system, with x of shape (examples, unknowns), or call it in a loop."
        )

    def _at_solution(
        self,
        recording: Any,
        node: Node,
        graphs: Sequence[Node],
        stop: Sequence[Node],
        back: dict[Node, Node] | None = None,
    ) -> list[Node]:
        """Graphs at the numbers found, as graphs at the solution."""
        x, _, *given = node.inputs
        replacement = {other: other for other in (node, *given, *stop)}
        replacement.update(back or {})
        replacement[x] = pick(node, 0)
        return replaced(recording, graphs, replacement)

    def _solve(self, recording: Any, node: Node, right: Node, turned: bool) -> Node:
        """The Jacobian at the solution, or its adjoint, divided into a vector."""
        x, residual, *given = node.inputs
        rules = PythonRules(recording)
        if self.solver == "direct" and self.coloured is None:
            matrix = jacobian(residual, Question(x, "auto", (), rules.push, rules.pull))
            if matrix is None:
                raise self._unconnected()
            (matrix,) = self._at_solution(recording, node, [matrix], ())
            matrix = adjoint(matrix) if turned else matrix
            return reshape_node(solve_matrix(matrix, reshape_node(right, (x.size, 1))), x.shape)
        seed, back = placeholder(x.spec), placeholder(residual.spec)
        (pushed,) = forward([residual], [x], [seed], (), rules.push)
        if pushed is None:
            raise self._unconnected()
        pulled: Any = pushed
        if self.symmetric:
            back = seed
        else:
            (pulled,) = reverse([residual], [back], [x], (), rules.pull)
            pulled = pulled.dense() if isinstance(pulled, Rows) else pulled
        # Closures may have read other leaves than the residual does.
        stop = {x, *given, seed, back}
        extra = [n for n in topological([pushed, pulled], stop) if n.op is LEAF and n not in stop]
        reads = [x, *given, *extra]
        own = {node: placeholder(node.spec) for node in reads if type(node.spec) is not tuple}
        product, coproduct = substitute([pushed, pulled], own)
        others = tuple(own.values())
        system = System(
            LinearMap(seed, product, others),
            LinearMap(back, coproduct, others),
            self.solver,
            self.coloured,
        )
        operands = [pick(node, 0) if other is x else other for other in own]
        return apply(SYSTEM, (right, *operands), (system.adjoint() if turned else system,))

    def _unconnected(self) -> UndefinedRuleError:
        return UndefinedRuleError(
            f"{self.name}: the equation does not depend on the unknowns, so the solution has no "
            "derivative. Use the argument that is solved for."
        )


class Replaced:
    """A closure's rule for a copy of its node: what it derives is put in the same places."""

    def __init__(self, rule: Any, origin: Node, replacement: dict[Node, Node]) -> None:
        self.rule = rule
        self.origin = origin
        self.replacement = replacement

    def push(self, recording: Recording, node: Node, tangents: Sequence[Any]) -> list[Any]:
        found = self.rule.push(recording, self.origin, tangents)
        return self._placed(recording, found, tangents)

    def pull(self, recording: Recording, node: Node, cotangents: Sequence[Any]) -> list[Any]:
        found = self.rule.pull(recording, self.origin, cotangents)
        return self._placed(recording, found, cotangents)

    def _placed(self, recording: Recording, found: Sequence[Any], stop: Sequence[Any]) -> list[Any]:
        same = {node: node for node in stop if node is not None}
        known = [node for node in found if node is not None]
        placed = iter(replaced(recording, known, {**self.replacement, **same}))
        return [None if node is None else next(placed) for node in found]


def replaced(recording: Any, roots: Sequence[Node], replacement: dict[Node, Node]) -> list[Node]:
    """`substitute`, where nodes whose derivative is a closure take it along."""
    closures = [
        node
        for node in topological(roots, stop=replacement.keys())
        if node.op is CUSTOM and node not in replacement and _is_closure(recording, node)
    ]
    found = substitute([*roots, *closures], replacement)
    for origin, copy in zip(closures, found[len(roots) :], strict=True):
        if copy is not origin and copy not in recording.rules:
            recording.rules[copy] = Replaced(recording.rules[origin], origin, replacement)
    return found[: len(roots)]


def _is_closure(recording: Any, node: Node) -> bool:
    return recording is not None and not isinstance(node.params[1], Structural)
