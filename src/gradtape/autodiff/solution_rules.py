"""Implicit differentiation: the derivative of a solution, from the equation that it solves.

If F(x, a) = 0 then dx = -(∂F/∂x)⁻¹ ∂F/∂a da. A solver finds the solution x₀ as an array. Recorded
beside it are the residual F(x₀, a), a graph, and the node that carries this rule: its value is x₀,
its inputs are x₀, the residual, and the other nodes that the residual reads (the frontier).

Inside vmap, x₀ is itself a node, `solve_equation`, which solves when the program runs.

The rule differentiates the residual at x₀ and then puts the node itself, y, in the place of x₀. So
the derivative is a graph of y and a, in which y again has this rule: every order is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gradtape.autodiff.cotangent import dense
from gradtape.autodiff.jacobian import batch_jacobian, jacobian
from gradtape.autodiff.linear_systems import LinearMap, System
from gradtape.autodiff.modes import dense_vjp, forward, reverse
from gradtape.autodiff.python_rules import PythonRules, Structural, replaced
from gradtape.autodiff.sparse.choose_colouring import Coloured
from gradtape.autodiff.window import Request
from gradtape.errors import UndefinedRuleError
from gradtape.ir import dependents, spec, substitute, topological
from gradtape.ir.node import LEAF, Node, apply, pick, placeholder
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.families.batching import spread
from gradtape.ops.matrices.contraction import adjoint
from gradtape.ops.matrices.linalg import SOLVE
from gradtape.ops.matrices.sparse_solve import SYSTEM
from gradtape.records import dataclass


def frontier(residual: Node, x: Node) -> list[Node]:
    """The nodes that the residual reads and that do not depend on x, in a fixed order.

    If the residual contains the solution of another equation that depends on x, the unknowns of
    that equation belong to the interior, not to the frontier.
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
    """Whether the graph has no derivative that is a Python closure."""
    return all(
        isinstance(node.params[1], Structural) and node.params[1].pure
        for node in topological([residual])
        if node.op is CUSTOM
    )


@dataclass(frozen=True)
class Implicit(Structural):
    """The derivative of a solution. `name` is the function that the user called."""

    name: str
    # "direct" or an iteration; with a colouring, "direct" is a sparse decomposition.
    solver: str
    coloured: Coloured | None
    # Whether the Jacobian is its own adjoint, as the Jacobian of a gradient is.
    symmetric: bool
    pure: bool
    # The number of leading axes that count examples, each with an equation of its own.
    examples: int = 0

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None]
    ) -> tuple[Node | None, ...]:
        """Forward mode."""
        _, residual, *given = node.inputs
        (moved,) = forward([residual], given, tangents[2:], (), rules)
        if moved is None:
            return (None,)
        along = [tangent for tangent in tangents[2:] if tangent is not None]
        (right,) = self._at_solution(rules, node, [moved], along)
        return (-self._solve(rules, node, right, by_adjoint=False),)

    def pull(
        self, rules: PythonRules, node: Node, cotangents: tuple[Node, ...]
    ) -> list[Node | None]:
        """Reverse mode."""
        _, residual, *given = node.inputs
        weights = -self._solve(rules, node, cotangents[0], by_adjoint=True)
        # One node of the frontier may depend on another: paths must end at each of them.
        ends = {other: placeholder(other.spec) for other in given}
        # The node that solves reads the frontier, too, but no derivative goes through it.
        x = node.inputs[0]
        (ended,) = replaced(rules.recording, [residual], {**ends, x: x})
        found = [dense(part) for part in reverse([ended], [weights], [*ends.values()], (), rules)]
        known = [part for part in found if part is not None]
        back = {end: other for other, end in ends.items()}
        placed = iter(self._at_solution(rules, node, known, [weights], back))
        return [None, None, *[None if part is None else next(placed) for part in found]]

    def batch_rule(self, inputs: tuple[Node, ...], batched: tuple[bool, ...], y: Node) -> Node:
        """Examples have an equation each, provided that each has a solution of its own."""
        if not batched[0]:
            raise UndefinedRuleError(
                f"{self.name}: vmap cannot solve for many examples once there is a solution for "
                "one. Call it inside the function that is mapped, or in a loop."
            )
        x, residual, *given = inputs
        if not batched[1]:
            residual = spread(residual, x.shape[0])
        rule = replace(self, examples=self.examples + 1)
        return apply(CUSTOM, (x, residual, *given), (1, rule))

    def _at_solution(
        self,
        rules: PythonRules,
        node: Node,
        graphs: Sequence[Node],
        stop: Sequence[Node],
        back: dict[Node, Node] | None = None,
    ) -> list[Node]:
        """Graphs of x₀ as graphs of the solution node."""
        x, _, *given = node.inputs
        replacement = {other: other for other in (node, *given, *stop)}
        replacement.update(back or {})
        replacement[x] = pick(node, 0)
        return replaced(rules.recording, graphs, replacement)

    def _solve(self, rules: PythonRules, node: Node, right: Node, by_adjoint: bool) -> Node:
        """The solution of a system with the Jacobian at the solution, or with its adjoint."""
        if self.solver == "direct" and self.coloured is None:
            return self._solve_dense(rules, node, right, by_adjoint)
        x, residual, *given = node.inputs
        # All examples together are one system with a block-diagonal matrix.
        flat = spec((x.size,), x.dtype)
        seed, back = placeholder(flat), placeholder(flat)
        (pushed,) = forward([residual], [x], [reshape_node(seed, x.shape)], (), rules)
        if pushed is None:
            raise self._unconnected()
        pushed = reshape_node(pushed, flat.shape)
        pulled = pushed
        if self.symmetric:
            back = seed
        else:
            weights = reshape_node(back, residual.shape)
            transposed = dense_vjp(residual, weights, x, (), rules)
            assert transposed is not None  # forward mode found a path
            pulled = reshape_node(transposed, flat.shape)
        # The derivatives of closures may read leaves that the residual does not read.
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
        params = (system.adjoint() if by_adjoint else system,)
        found = apply(SYSTEM, (reshape_node(right, flat.shape), *operands), params)
        return reshape_node(found, x.shape)

    def _solve_dense(self, rules: PythonRules, node: Node, right: Node, by_adjoint: bool) -> Node:
        """`_solve` with a dense matrix, or one for each example."""
        x, residual, *_ = node.inputs
        if not self.examples:
            matrix = jacobian(residual, Request(x, "auto", (), rules))
            back = {}
        else:
            size = x.shape[-1]
            count = math.prod(x.shape[: self.examples])
            flat = placeholder(spec((count, size), x.dtype))
            (moved,) = replaced(rules.recording, [residual], {x: reshape_node(flat, x.shape)})
            request = Request(flat, "auto", (), rules)
            matrix = batch_jacobian(reshape_node(moved, flat.shape), request)
            back = {flat: reshape_node(pick(node, 0), flat.shape)}
        if matrix is None:
            raise self._unconnected()
        (matrix,) = self._at_solution(rules, node, [matrix], (), back)
        matrix = adjoint(matrix) if by_adjoint else matrix
        column = reshape_node(right, (*matrix.shape[:-1], 1))
        return reshape_node(apply(SOLVE, (matrix, column)), x.shape)

    def _unconnected(self) -> UndefinedRuleError:
        return UndefinedRuleError(
            f"{self.name}: the equation does not depend on the unknowns, so the solution has no "
            "derivative. Use the argument that is solved for."
        )
