"""Systems of linear maps that are graphs: solved by iteration, or as sparse matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradtape.derive.python_rules import PythonRules
from gradtape.errors import ConvergenceError
from gradtape.graph.node import Node, placeholder
from gradtape.graph.program import Program
from gradtape.graph.spec import spec
from gradtape.graph.walk import substitute, topological
from gradtape.ops.arrays.movement import reshape_node
from gradtape.recording.value import Value
from gradtape.runtime.plan_cache import plan_for
from gradtape.sparsity.choose_colouring import Coloured
from gradtape.transforms.batch import batch_all
from gradtape.transforms.cotangent import Rows
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse

ITERATIVE = ("gmres", "bicgstab", "cg", "minres")
# How far below the right-hand side the residual of an iteration is brought, and where that is given
# up as being all that rounding allows.
ITERATION_TOLERANCE = 1e-12
GOOD, ACCEPTED = 1e-10, 1e-6
RESTARTS = 10


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A graph that is linear in `direction` and has placeholders for all else it reads."""

    direction: Node
    product: Node
    others: tuple[Node, ...]

    @cached_property
    def program(self) -> Program:
        inputs = (self.direction, *self.others)
        nodes = [n for n in topological([self.product], stop=inputs) if n not in inputs]
        return Program(inputs, tuple(nodes), (self.product,))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What two maps that compute the same way have in common."""
        return self.program.key()

    @cached_property
    def plan(self) -> Any:
        return plan_for(self.program)

    def run(self, direction: Any, others: Sequence[Any]) -> Any:
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
        """The same where the map takes all rows itself."""
        replacement = dict(zip(self.others, others, strict=True))
        return substitute([self.product], {**replacement, self.direction: x})[0]


@dataclass(frozen=True, eq=False)
class System:
    """A linear map with its adjoint, and how systems with it are solved; see ops/systems.py."""

    map: LinearMap
    back: LinearMap
    solver: str
    # How the matrix is found, for the direct solver; None for iterations, which need none.
    coloured: Coloured | None
    turned: bool = False

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return self.map.key, self.back.key, self.solver, self.coloured, self.turned

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, System) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def adjoint(self) -> System:
        return replace(self, map=self.back, back=self.map, turned=not self.turned)

    # Numbers.

    def solve(self, b: Any, others: Sequence[Any]) -> Any:
        """The solution for each row of `b`."""
        given = [_input(array, node) for array, node in zip(others, self.map.others, strict=True)]
        rows = b.reshape(-1, b.shape[-1])
        if self.coloured is not None:
            return factor(self.matrix(given)).solve(np.ascontiguousarray(rows.T)).T.reshape(b.shape)
        found = [
            iterate(self.solver, lambda v: self.map.run(v, given), row, len(row)) for row in rows
        ]
        return np.array(found).reshape(b.shape)

    def matrix(self, others: Sequence[Any]) -> Any:
        """The sparse matrix of the map, in CSC form."""
        coloured = self.coloured
        assert coloured is not None
        straight, turned = (self.back, self.map) if self.turned else (self.map, self.back)
        products = []
        for linear, seeds in (
            (straight, coloured.forward_seeds(straight.direction.dtype)),
            (turned, coloured.reverse_seeds(straight.direction.dtype)),
        ):
            if len(seeds):
                products.append(self._many(linear, len(seeds)).run(seeds, others).reshape(-1))
        entries = np.concatenate(products)[coloured.positions]
        found = coloured.pattern.with_data(entries)
        return (found.T if self.turned else found).tocsc()

    def _many(self, linear: LinearMap, count: int) -> LinearMap:
        kept = self.__dict__.setdefault("_kept", {})
        if linear not in kept:
            kept[linear] = linear.many(count)
        return kept[linear]

    # Graphs.

    def push(self, x: Node, others: Sequence[Node], tangents: Sequence[Any]) -> Node | None:
        """The tangent of A x by the others, for a constant x."""
        fixed, own, product = self._abstract(x, others)
        pairs = [(o, t) for o, t in zip(own, tangents, strict=True) if t is not None]
        rules = PythonRules(None)
        (found,) = forward([product], [o for o, _ in pairs], [t for _, t in pairs], (), rules.push)
        back = dict(zip((fixed, *own), (x, *others), strict=True))
        return None if found is None else substitute([found], back)[0]

    def pull(self, index: int, g: Node, x: Node, others: Sequence[Node]) -> Node | None:
        """The cotangent of one of the others, given that of A x."""
        if not others[index].spec.inexact:
            return None
        fixed, own, product = self._abstract(x, others)
        (found,) = reverse([product], [g], [own[index]], (), PythonRules(None).pull)
        if found is None:
            return None
        if isinstance(found, Rows):
            found = found.dense()
        back = dict(zip((fixed, *own), (x, *others), strict=True))
        return substitute([found], back)[0]

    def _abstract(self, x: Node, others: Sequence[Node]) -> tuple[Node, list[Node], Node]:
        """A x on placeholders: x itself depends on the others, and must not be followed."""
        fixed = placeholder(x.spec)
        own = [placeholder(node.spec) for node in others]
        return fixed, own, self.map.at(fixed, own)


def _input(array: Any, node: Node) -> Any:
    if node.spec.ndim == 0:
        return np.asarray(array).item()
    return Value(np.ascontiguousarray(array), node.spec)


def factor(matrix: Any) -> Any:
    """The sparse LU decomposition of a CSC matrix."""
    from scipy.sparse.linalg import splu

    try:
        return splu(matrix.astype(np.result_type(matrix.dtype, np.float64), copy=False))
    except RuntimeError as error:
        raise np.linalg.LinAlgError(
            f"solve_system: the sparse Jacobian of shape {matrix.shape} is singular ({error}). "
            "Check that every unknown appears in the equations, and that the solution is isolated."
        ) from None


def iterate(solver: str, product: Any, b: Any, size: int) -> Any:
    """The solution of A x = b by one of ITERATIVE, where `product` multiplies by A."""
    from scipy.sparse import linalg

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

    def counted(_: Any) -> None:
        nonlocal count
        count += 1

    if solver == "gmres":
        options["callback_type"] = "legacy"
    for _ in range(RESTARTS):
        # One that breaks down, as BiCGSTAB may, goes on from where it was.
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
