"""Implicit differentiation: the derivative of a solution, from the equation that it solves.

If F(x, a) = 0 then dx = -(∂F/∂x)⁻¹ ∂F/∂a da. A solver finds the solution x₀ as an array. Recorded
beside it are the residual F(x₀, a), a graph, and the node that carries this rule: its value is x₀,
its inputs are x₀, the residual, and the other nodes that the residual reads (the frontier).

Inside vmap, x₀ is itself a node, `solve_equation`, which solves when the program runs.

The rule differentiates the residual at x₀ and then puts the node itself, y, in the place of x₀. So
the derivative is a graph of y and a, in which y again has this rule: every order is right.

Systems of linear equations whose map is a graph: solved by iteration, or as sparse matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gradtape.autodiff.batch import batch_all
from gradtape.autodiff.jacobian import batch_jacobian, jacobian
from gradtape.autodiff.modes import dense, dense_vjp, forward, reverse
from gradtape.autodiff.python_rules import PythonRules, Structural, replaced
from gradtape.autodiff.sparse.choose_colouring import Coloured
from gradtape.autodiff.sparse.pattern import SparseMatrix
from gradtape.autodiff.window import Request
from gradtape.dtypes import Array
from gradtape.errors import ConvergenceError, UndefinedRuleError
from gradtape.ir import Program, dependents, spec, substitute, topological
from gradtape.ir.node import LEAF, Key, Node, apply, pick, placeholder
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.families.batching import spread
from gradtape.ops.matrices.contraction import adjoint
from gradtape.ops.matrices.linalg import SOLVE
from gradtape.ops.matrices.sparse_solve import SYSTEM
from gradtape.records import dataclass
from gradtape.runtime.plan_cache import plan_for
from gradtape.runtime.tiers import TieredPlan
from gradtape.trace.value import LeafValue, Value


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


ITERATIVE = ("gmres", "bicgstab", "cg", "minres")
# The residual that an iteration aims at, relative to the right-hand side. An iteration that ends
# above GOOD is restarted; a solution above ACCEPTED is refused.
ITERATION_TOLERANCE = 1e-12
GOOD, ACCEPTED = 1e-10, 1e-6
RESTARTS = 10


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A graph that is linear in the placeholder `direction`; `others` are its other inputs."""

    direction: Node
    product: Node
    others: tuple[Node, ...]

    @cached_property
    def program(self) -> Program:
        """The map as a program of the direction and the others."""
        inputs = (self.direction, *self.others)
        nodes = [n for n in topological([self.product], stop=inputs) if n not in inputs]
        return Program(inputs, tuple(nodes), (self.product,))

    @cached_property
    def key(self) -> Key:
        """A key that is equal for maps of the same structure."""
        return self.program.key()

    @cached_property
    def plan(self) -> TieredPlan:
        """The plan of the program."""
        return plan_for(self.program)

    def run(self, direction: Array, others: Sequence[LeafValue]) -> Array:
        """The product with one direction."""
        of = self.direction.spec
        given = Value(np.ascontiguousarray(direction, of.dtype).reshape(of.shape), of)
        (found,) = self.plan.run([given, *others])
        return Value(found, self.product.spec).array

    def many(self, count: int) -> LinearMap:
        """The map of `count` directions along a new axis 0."""
        several = placeholder(spec((count, *self.direction.shape), self.direction.dtype))
        (product,) = batch_all([self.product], {self.direction: several}, count)
        return LinearMap(several, product, self.others)

    def at(self, x: Node, others: Sequence[Node]) -> Node:
        """The graph of the product with `x`, whose rows are directions."""
        if x.shape == self.direction.shape:
            replacement = dict(zip((self.direction, *self.others), (x, *others), strict=True))
            return substitute([self.product], replacement)[0]
        count = math.prod(x.shape[:-1])
        flat = reshape_node(x, (count, x.shape[-1]))
        return reshape_node(self.many(count).at(flat, others), x.shape)


@dataclass(frozen=True, eq=False)
class System:
    """A linear map with its adjoint, and how systems with it are solved.

    It is a param of the op in `ops.custom.solutions`.
    """

    map: LinearMap
    back: LinearMap
    solver: str
    # The colouring of the matrix, for the direct solver; None for iterations.
    coloured: Coloured | None
    # Whether `map` is the adjoint of the map that was coloured.
    is_adjoint: bool = False

    @cached_property
    def _key(self) -> Key:
        return self.map.key, self.back.key, self.solver, self.coloured, self.is_adjoint

    def __eq__(self, other: object) -> bool:
        return isinstance(other, System) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def adjoint(self) -> System:
        """The system of the adjoint map."""
        return replace(self, map=self.back, back=self.map, is_adjoint=not self.is_adjoint)

    # Called with arrays, when the op runs.

    def solve(self, b: Array, others: Sequence[Array]) -> Array:
        """The solution for each row of `b`."""
        inputs = [_input(array, node) for array, node in zip(others, self.map.others, strict=True)]
        rows = b.reshape(-1, b.shape[-1])
        if self.coloured is not None:
            return (
                factor(self.matrix(inputs)).solve(np.ascontiguousarray(rows.T)).T.reshape(b.shape)
            )
        found = [
            iterate(self.solver, lambda v: self.map.run(v, inputs), row, len(row)) for row in rows
        ]
        return np.array(found).reshape(b.shape)

    def matrix(self, others: Sequence[LeafValue]) -> SparseMatrix:
        """The sparse matrix of the map, in CSC form."""
        coloured = self.coloured
        assert coloured is not None
        forward_map, reverse_map = self.map, self.back
        if self.is_adjoint:
            forward_map, reverse_map = self.back, self.map
        products = []
        for linear, seeds in (
            (forward_map, coloured.forward_seeds(forward_map.direction.dtype)),
            (reverse_map, coloured.reverse_seeds(forward_map.direction.dtype)),
        ):
            if len(seeds):
                products.append(self._many(linear, len(seeds)).run(seeds, others).reshape(-1))
        entries = np.concatenate(products)[coloured.positions]
        found = coloured.pattern.with_data(entries)
        return (found.T if self.is_adjoint else found).tocsc()

    def _many(self, linear: LinearMap, count: int) -> LinearMap:
        kept: dict[LinearMap, LinearMap] = self.__dict__.setdefault("_kept", {})
        if linear not in kept:
            kept[linear] = linear.many(count)
        return kept[linear]

    # Called with nodes, when the op is differentiated.

    def push(self, x: Node, others: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
        """The tangent of A x by the others, for a constant x."""

        def derive(product: Node, own: Sequence[Node]) -> Node | None:
            return forward([product], own, tangents, (), PythonRules(None))[0]

        return self._of_others(x, others, derive)

    def pull(self, index: int, g: Node, x: Node, others: Sequence[Node]) -> Node | None:
        """The cotangent of one of the others, for the cotangent `g` of A x."""
        if not others[index].spec.inexact:
            return None
        return self._of_others(
            x, others, lambda made, own: dense_vjp(made, g, own[index], (), PythonRules(None))
        )

    def _of_others(
        self,
        x: Node,
        others: Sequence[Node],
        derive: Callable[[Node, Sequence[Node]], Node | None],
    ) -> Node | None:
        """A derivative of A x: x depends on the others, which the derivative must not follow."""
        fixed, *own = (placeholder(node.spec) for node in (x, *others))
        found = derive(self.map.at(fixed, own), own)
        back = dict(zip((fixed, *own), (x, *others), strict=True))
        return None if found is None else substitute([found], back)[0]


def _input(array: Array, node: Node) -> LeafValue:
    if node.spec.ndim == 0:
        number: LeafValue = np.asarray(array).item()
        return number
    return Value(np.ascontiguousarray(array), node.spec)


def factor(matrix: SparseMatrix) -> Any:
    """The sparse LU decomposition of a CSC matrix, as SciPy's object."""
    from scipy.sparse.linalg import splu  # slow to import

    try:
        return splu(matrix.astype(np.result_type(matrix.dtype, np.float64), copy=False))
    except RuntimeError as error:
        raise np.linalg.LinAlgError(
            f"solve_system: the sparse Jacobian of shape {matrix.shape} is singular ({error}). "
            "Check that every unknown appears in the equations, and that the solution is isolated."
        ) from None


def iterate(solver: str, product: Callable[[Array], Array], b: Array, size: int) -> Array:
    """The solution of A x = b by one of ITERATIVE, where `product` multiplies by A."""
    from scipy.sparse import linalg  # slow to import

    b = np.asarray(b, np.result_type(b.dtype, np.float64))
    norm = float(np.linalg.norm(b))
    if norm == 0:
        return np.zeros_like(b)
    operator = linalg.LinearOperator((size, size), matvec=product, dtype=b.dtype)
    options: dict[str, Any] = {"rtol": ITERATION_TOLERANCE, "maxiter": max(1000, 10 * size)}
    if solver == "gmres":
        options.update(atol=0.0, restart=min(size, 50), maxiter=max(20, 10 * size // 50))
    elif solver != "minres":
        options.update(atol=0.0)
    found, residual = np.zeros_like(b), 1.0
    count = 0

    def counted(_: object) -> None:
        nonlocal count
        count += 1

    if solver == "gmres":
        options["callback_type"] = "legacy"
    for _ in range(RESTARTS):
        # An iteration that breaks down, as BiCGSTAB may, is continued from its last iterate.
        found, _ = getattr(linalg, solver)(operator, b, x0=found, callback=counted, **options)
        before, residual = residual, float(np.linalg.norm(b - product(found))) / norm
        if residual <= GOOD or not residual < before / 2:
            break
    if not residual <= ACCEPTED:
        raise ConvergenceError(
            f"{solver}: a linear system of {size} unknowns was not solved: the residual is "
            f"{residual:.1e} of the right-hand side after {count} iterations. The Jacobian may be "
            "singular, or too ill-conditioned for iterations without a preconditioner: use "
            "solver='direct'.",
            x=found,
            residual=residual * norm,
            iterations=count,
        )
    return found
