"""Sums over the steps of a scan that become one matrix product after it.

Each step adds a term to the cotangent of a constant. If the term is a product, one product replaces
the sum: the sum over t of A[t] @ B[t] is all A side by side times all B on top of each other. A
plain sum over an axis is moved after the loop only if its operand is stacked for another reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gradtape.config import LARGE_PRODUCT_STACK, MANY_PRODUCT_ROWS
from gradtape.ir import REGISTRY, Node, apply, dependents, placeholder, spec, topological
from gradtape.ops.families.batching import permuted, reshaped

Recipe = Callable[[], Node]


class Products:
    """The sums in `found`, by position of their constant; the stacks they read in `factors`."""

    def __init__(
        self,
        terms: Mapping[int, Node],
        moving: set[Node],
        length: int,
        sources: Mapping[Node, object],
    ) -> None:
        self.length = length
        # Terms are sums of products of nodes that differ from step to step.
        self.varying = dependents(topological(list(terms.values())), moving)
        # Nodes whose values at all steps exist without further stacking: sequences and residuals.
        self.sources = sources
        self.factors: dict[Node, Node] = {}
        self.found: dict[int, Node] = {}
        for sums in (False, True):
            for position, term in terms.items():
                if position not in self.found and term in self.varying:
                    recipe = self._recipe(term, sums)
                    if recipe is not None:
                        self.found[position] = recipe()

    def _stack(self, node: Node) -> Node:
        """A placeholder for the values of a node at all steps."""
        found = self.factors.get(node)
        if found is None:
            of = spec((self.length, *node.shape), node.dtype)
            found = self.factors[node] = placeholder(of)
        return found

    def _is_stacked(self, node: Node) -> bool:
        return node in self.factors or node in self.sources

    def _recipe(self, node: Node, sums: bool) -> Recipe | None:
        """A function that builds a node's sum over all steps; None if the loop has to add it up."""
        if node not in self.varying:
            return None
        name = node.op.name
        if name == "add" and all(parent.shape == node.shape for parent in node.inputs):
            parts = [self._recipe(parent, sums) for parent in node.inputs]
            left, right = parts
            return None if left is None or right is None else lambda: left() + right()
        if name in ("negative", "reshape", "permute_dims"):
            inner = self._recipe(node.inputs[0], sums)
            return None if inner is None else lambda: apply(node.op, (inner(),), node.params)
        if name == "matmul" and all(parent.ndim == 2 for parent in node.inputs):
            return self._matrix_product(*node.inputs)
        if name == "multiply":
            outer = self._outer_product(node)
            if outer is not None:
                return outer
        return self._sum(node) if sums else None

    def _matrix_product(self, a: Node, b: Node) -> Recipe | None:
        if a not in self.varying or b not in self.varying:
            return None
        # One product of all steps is faster than one for each, and takes the memory of the stacks.
        # Of steps that have many rows, each is a product that is large enough.
        stacked = {_flat(node.inputs[0] if _is_transposed(node) else node) for node in (a, b)}
        new = sum(node.spec.nbytes for node in stacked if not self._is_stacked(node))
        if a.shape[1] >= MANY_PRODUCT_ROWS and self.length * new > LARGE_PRODUCT_STACK:
            return None
        return lambda: apply(REGISTRY["matmul"], (self._side_by_side(a), self._on_top(b)))

    def _on_top(self, matrix: Node) -> Node:
        """All matrices of shape (k, n) as one of shape (length k, n)."""
        if _is_transposed(matrix):
            return permuted(self._side_by_side(matrix.inputs[0]), (1, 0))
        k, n = matrix.shape
        return reshaped(self._stack(_flat(matrix)), (self.length * k, n))

    def _side_by_side(self, matrix: Node) -> Node:
        """All matrices of shape (m, k) as one of shape (m, length k)."""
        if _is_transposed(matrix):
            return permuted(self._on_top(matrix.inputs[0]), (1, 0))
        m, k = matrix.shape
        stacked = reshaped(self._stack(_flat(matrix)), (self.length, m, k))
        return reshaped(permuted(stacked, (1, 0, 2)), (m, self.length * k))

    def _outer_product(self, node: Node) -> Recipe | None:
        """The sum of products of a column and a row, as one matrix product."""
        if node.ndim != 2:
            return None
        m, n = node.shape
        for column, row in (node.inputs, node.inputs[::-1]):
            fits = column.shape == (m, 1) and row.shape in ((n,), (1, n))
            if fits and column in self.varying and row in self.varying:
                u, v = _flat(column), _flat(row)
                return lambda: apply(
                    REGISTRY["matmul"], (permuted(self._rows(u, m), (1, 0)), self._rows(v, n))
                )
        return None

    def _rows(self, vector: Node, size: int) -> Node:
        return reshaped(self._stack(vector), (self.length, size))

    def _sum(self, node: Node) -> Recipe | None:
        """A sum over steps, and perhaps axes, of a node that is stacked for another reason."""
        if self._is_stacked(node):
            return lambda: _summed(self._stack(node), (0,))
        if node.op.name != "sum":
            return None
        operand, axes = node.inputs[0], node.params[0]
        flat = _flat(operand)
        if not self._is_stacked(flat):
            return None
        shape = (self.length, *operand.shape)
        every = (0, *[axis + 1 for axis in axes])
        return lambda: reshaped(_summed(reshaped(self._stack(flat), shape), every), node.shape)


def _summed(node: Node, axes: tuple[int, ...]) -> Node:
    return apply(REGISTRY["sum"], (node,), (axes, False))


def _is_transposed(node: Node) -> bool:
    return node.op.name == "permute_dims" and node.params == ((1, 0),)


def _flat(node: Node) -> Node:
    """The node under any number of reshapes."""
    while node.op.name == "reshape":
        node = node.inputs[0]
    return node
