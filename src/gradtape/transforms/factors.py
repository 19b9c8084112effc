"""Factors: the order in which three factors are contracted, if a response is a product itself.

Behind a layer of weights V and slopes d, the response of row b to seed o is V[k, o] d[b, k]: as
large as the batch times the layer. Contracted with the next weights W[k, i], the sum over k of
d[b, k] (V[k, o] W[k, i]) is one matrix product with a factor that does not depend on the batch, and
its result lies in memory as the Jacobian of a batch does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradtape.graph import OPERATORS, Node, View, constant_value
from gradtape.ops.arrays.movement import permute, reshape_node
from gradtape.ops.elementwise.arithmetic import multiply
from gradtape.ops.matrices.contraction import matmul
from gradtape.ops.matrices.einsum import stretch

Labels = tuple[str, ...]
# The product that is computed first must be so many times smaller than the response.
SMALLER = 2


def contract_factors(
    value: Node, labels: Labels, other: Node, theirs: Labels, result: Labels
) -> Node | None:
    """The contraction of `value`, a product of two factors, with `other`.

    One of the factors is multiplied by `other` first, then comes one matrix product. None where
    that would not be smaller, or where the rest is not a matrix product.
    """
    if value.op is not OPERATORS.multiply:
        return None
    size = dict(zip(labels, value.shape, strict=True)) | dict(zip(theirs, other.shape, strict=True))
    summed = tuple(label for label in labels if label in theirs and label not in result)
    if not summed:
        return None
    factors = [essential(factor, labels) for factor in value.inputs]
    best: tuple[int, Node] | None = None
    for (first, its), (second, own) in (factors, factors[::-1]):
        alone = tuple(label for label in own if label not in summed)
        rest = tuple(label for label in result if label in its or label in theirs)
        covered = {*summed} <= {*own} and {*alone, *rest} == {*result}
        if not covered or {*alone} & {*rest} or not alone or not rest:
            continue
        before = math.prod(size[label] for label in {*its, *own})
        after = math.prod(size[label] for label in (*summed, *rest))
        if after * SMALLER <= before and (best is None or after < best[0]):
            wide = (*summed, *rest)
            product = multiply(stretch(first, its, wide), stretch(other, theirs, wide))
            columns = reshape_node(product, (_size(size, summed), _size(size, rest)))
            order = tuple(own.index(label) for label in (*alone, *summed))
            rows = reshape_node(permute(second, order), (_size(size, alone), _size(size, summed)))
            found = (*alone, *rest)
            shape = tuple(size[label] for label in found)
            turned = tuple(found.index(label) for label in result)
            best = after, permute(reshape_node(matmul(rows, columns), shape), turned)
    return None if best is None else best[1]


def _size(size: dict[str, int], labels: Sequence[str]) -> int:
    return math.prod(size[label] for label in labels)


def essential(node: Node, labels: Labels) -> tuple[Node, Labels]:
    """A value without the axes along which it is constant; `labels` may be more than its axes."""
    labels = labels[len(labels) - node.ndim :]
    while True:
        parent = _without_constant_axes(node)
        if parent is None:
            break
        if node.op.view is View.PERMUTE:
            labels = tuple(labels[node.params[0].index(axis)] for axis in range(parent.ndim))
        elif node.op.view is View.RESHAPE:
            long = iter([label for label, n in zip(labels, node.shape, strict=True) if n != 1])
            labels = tuple("" if n == 1 else next(long) for n in parent.shape)
        else:
            labels = labels[len(labels) - parent.ndim :]
        node = parent
    kept = [axis for axis, n in enumerate(node.shape) if n != 1]
    shape = tuple(node.shape[axis] for axis in kept)
    return reshape_node(node, shape), tuple(labels[axis] for axis in kept)


def _without_constant_axes(node: Node) -> Node | None:
    """The node with the same elements that is stretched or transposed to this one, if any."""
    if node.op is OPERATORS.multiply:
        return _without_ones(node)
    if node.op.view in (View.BROADCAST, View.PERMUTE):
        return node.inputs[0]
    # A reshape that only adds or drops axes of length 1.
    is_padded = node.op.view is View.RESHAPE and _long(node) == _long(node.inputs[0])
    return node.inputs[0] if is_padded else None


def _long(node: Node) -> list[int]:
    return [n for n in node.shape if n != 1]


def _without_ones(node: Node) -> Node | None:
    """The other factor of a product with ones."""
    for factor, other in (node.inputs, node.inputs[::-1]):
        source = factor
        while source.op.view in (View.BROADCAST, View.RESHAPE, View.PERMUTE):
            source = source.inputs[0]
        if constant_value(source) == 1:
            return other
    return None
