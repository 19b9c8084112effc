"""Systems of linear equations whose map is a graph: solved by iteration, or as sparse matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gradtape.autodiff.batch import batch_all
from gradtape.autodiff.modes import dense_vjp, forward
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.sparse.choose_colouring import Coloured
from gradtape.autodiff.sparse.pattern import SparseMatrix
from gradtape.dtypes import Array
from gradtape.errors import ConvergenceError
from gradtape.ir import Program, spec, substitute, topological
from gradtape.ir.node import Key, Node, placeholder
from gradtape.ops.arrays.movement import reshape_node
from gradtape.records import dataclass
from gradtape.runtime.plan_cache import plan_for
from gradtape.runtime.tiers import TieredPlan
from gradtape.trace.value import LeafValue, Value

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
        rows = x.shape[: x.ndim - 1]
        if not rows:
            replacement = dict(zip(self.others, others, strict=True))
            return substitute([self.product], {**replacement, self.direction: x})[0]
        count = math.prod(rows)
        flat = reshape_node(x, (count, x.shape[-1]))
        return reshape_node(self.many(count).at_once(flat, others), x.shape)

    def at_once(self, x: Node, others: Sequence[Node]) -> Node:
        """The graph of the product with `x`, for a map that takes all rows of `x` at once."""
        replacement = dict(zip(self.others, others, strict=True))
        return substitute([self.product], {**replacement, self.direction: x})[0]


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
        fixed, own, product = self._abstract(x, others)
        (found,) = forward([product], own, tangents, (), PythonRules(None))
        back = dict(zip((fixed, *own), (x, *others), strict=True))
        return None if found is None else substitute([found], back)[0]

    def pull(self, index: int, g: Node, x: Node, others: Sequence[Node]) -> Node | None:
        """The cotangent of one of the others, for the cotangent `g` of A x."""
        if not others[index].spec.inexact:
            return None
        fixed, own, product = self._abstract(x, others)
        found = dense_vjp(product, g, own[index], (), PythonRules(None))
        back = dict(zip((fixed, *own), (x, *others), strict=True))
        return None if found is None else substitute([found], back)[0]

    def _abstract(self, x: Node, others: Sequence[Node]) -> tuple[Node, list[Node], Node]:
        """A x on placeholders: x depends on the others, and derivatives must not follow that."""
        fixed = placeholder(x.spec)
        own = [placeholder(node.spec) for node in others]
        return fixed, own, self.map.at(fixed, own)


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
