"""Einstein summation: any sum of products, taken apart into pairs of operands.

`einsum` reads the subscripts, then contracts two operands at a time along a path that is chosen
once per shape. A pair becomes the most specific op: an element-wise product if nothing is summed,
a `matmul` if the axes are in matrix order, else the op `einsum` on canonical subscripts, such as
`"abc,cdb->ad"`: a label occurs once per operand, and in at least two of the three terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from gradtape.caches import remembered
from gradtape.ir import Node, Op, Shape, Spec, apply, declare, spec
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.triangles import diagonal
from gradtape.ops.elementwise.arithmetic import identity, multiply, record_operand
from gradtape.ops.families import batching, cast, independence, promotion
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.signatures import SomeTensor, Tensor, TensorLike
from gradtape.ops.matrices.contraction import (
    MATMUL,
    AxisLabels,
    arrange,
    bilinear_jvp,
    canonical,
    conjugate,
    labelled_mask,
    labelled_sparsity,
    matmul,
    own,
    parse,
    product_composition,
    sizes_of,
    stretch,
    transposed,
)
from gradtape.ops.reductions.reduction import SUM
from gradtape.trace.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import TensorOrNode


def _terms(subscripts: str) -> tuple[list[str], str]:
    inputs, _, output = subscripts.partition("->")
    return inputs.split(","), output


def _einsum_spec(a: Spec, b: Spec, subscripts: str) -> Spec:
    (left, right), output = _terms(subscripts)
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    return spec(tuple(sizes[label] for label in output), a.dtype)


class Lowering:
    """The layout of a canonical pair as one batched matrix product: axes and their groups."""

    def __init__(self, subscripts: str) -> None:
        (left, right), output = _terms(subscripts)
        batch = [label for label in output if label in left and label in right]
        summed = [label for label in left if label in right and label not in output]
        rows = [label for label in output if label not in right]
        columns = [label for label in output if label not in left]
        # Each operand keeps its order in memory where possible: a transposed matrix is only a
        # flag to BLAS, a merged and reordered one is a copy.
        self.left_swapped = _begins_with(left, summed, rows)
        self.right_swapped = _begins_with(right, columns, summed)
        self.left_axes = _positions(left, batch, *_order(self.left_swapped, rows, summed))
        self.right_axes = _positions(right, batch, *_order(self.right_swapped, summed, columns))
        result = [*batch, *rows, *columns]
        self.output_axes = tuple(result.index(label) for label in output)
        self.groups = tuple(map(len, (batch, rows, summed, columns)))

    def contract(self, a: Any, b: Any, by: _ArrayFunctions) -> Any:
        """The contraction of two arrays or nodes."""
        batch, rows, summed, columns = self.groups
        a, b = by.permute(a, self.left_axes), by.permute(b, self.right_axes)
        middle = batch + (summed if self.left_swapped else rows)
        leading, first, second = a.shape[:batch], a.shape[batch:middle], a.shape[middle:]
        a = by.reshape(a, leading + (math.prod(first), math.prod(second)))
        middle = batch + (columns if self.right_swapped else summed)
        third, fourth = b.shape[batch:middle], b.shape[middle:]
        b = by.reshape(b, leading + (math.prod(third), math.prod(fourth)))
        kept = (second if self.left_swapped else first) + (third if self.right_swapped else fourth)
        product = by.matmul(
            by.transpose(a) if self.left_swapped else a,
            by.transpose(b) if self.right_swapped else b,
        )
        return by.permute(by.reshape(product, leading + kept), self.output_axes)


def _product(a: Node, b: Node) -> Node:
    """A matrix product. BLAS has none of whole numbers and booleans, so these are composed."""
    composed = None if a.dtype.kind in "fc" else product_composition(a, b)
    return apply(MATMUL, (a, b)) if composed is None else composed


class _ArrayFunctions(NamedTuple):
    """The functions that a contraction consists of."""

    permute: Callable[[Any, tuple[int, ...]], Any]
    reshape: Callable[[Any, Shape], Any]
    matmul: Callable[[Any, Any], Any]
    transpose: Callable[[Any], Any]


_WITH_NUMPY = _ArrayFunctions(np.transpose, np.reshape, np.matmul, lambda x: np.swapaxes(x, -1, -2))
_WITH_NODES = _ArrayFunctions(movement.permute, movement.reshape_node, _product, transposed)


def _einsum_composition(a: Node, b: Node, subscripts: str) -> Node | None:
    """A product of matrices; other orders of axes are views, which products read in place."""
    if not a.size or not b.size:
        return None
    (left, right), output = _terms(subscripts)
    if output and output[-1] not in right:
        # The last axis of the result is then the columns of the product: they lie in a row.
        a, b, subscripts = b, a, f"{right},{left}->{output}"
    return _lowering(subscripts).contract(a, b, _WITH_NODES)


def _begins_with(term: str, first: list[str], second: list[str]) -> bool:
    return bool(first) and bool(second) and term.index(first[0]) < term.index(second[0])


def _order(swapped: bool, first: list[str], second: list[str]) -> tuple[list[str], list[str]]:
    return (second, first) if swapped else (first, second)


def _positions(term: str, *groups: list[str]) -> tuple[int, ...]:
    return tuple(term.index(label) for group in groups for label in group)


_lowering = lru_cache(maxsize=4096)(Lowering)


def _einsum_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], subscripts: str) -> Node:
    terms, output = _terms(subscripts)
    other = 1 - index
    return contract_pair(
        g, tuple(output), conjugate(inputs[other]), tuple(terms[other]), tuple(terms[index])
    )


def _einsum_batch(
    inputs: batching.Inputs, batched: batching.Flags, y: Node, subscripts: str
) -> Node:
    """Add a label for the examples to the batched operands and to the result."""
    terms, output = _terms(subscripts)
    (a, b), own = inputs, ("example",)
    left, right = (
        (*own, *term) if flag else tuple(term) for term, flag in zip(terms, batched, strict=True)
    )
    return contract_pair(a, left, b, right, (*own, *output))


def _einsum_samples() -> list[Sample]:
    rng = generator("einsum")
    sizes = {"a": 2, "b": 3, "c": 2, "d": 1, "e": 0}
    cases = ["ab,bc->ac", "abc,cdb->ad", "abc,bdac->dba", "bac,cab->b", "ab,ab->", "abe,ea->b"]
    dtypes = ["float64", "complex128"]
    found = []
    for dtype in dtypes:
        for subscripts in cases:
            shapes = [tuple(sizes[label] for label in term) for term in _terms(subscripts)[0]]
            inputs = tuple(uniform(rng, (-1.0, 1.0), shape, dtype) for shape in shapes)
            found.append(Sample(inputs, {"subscripts": subscripts}))
    for dtype in ("float32", "int32", "bool"):
        inputs = uniform(rng, (0, 3), (2, 3, 2), dtype), uniform(rng, (0, 3), (2, 1, 3), dtype)
        found.append(Sample(inputs, {"subscripts": "abc,cdb->ad"}))
    return found


def _einsum_labels(y: Node) -> tuple[tuple[AxisLabels, AxisLabels], AxisLabels]:
    (left, right), output = _terms(y.params[0])
    return (tuple(left), tuple(right)), tuple(output)


EINSUM = declare(
    Op(
        "einsum",
        "contraction",
        params=("subscripts",),
        spec=_einsum_spec,
        numpy=lambda a, b, subscripts: _lowering(subscripts).contract(a, b, _WITH_NUMPY),
        promote=promotion("einsum", "same", "any"),
        jvp=bilinear_jvp,
        vjp=_einsum_vjp,
        mask=labelled_mask,
        batch=_einsum_batch,
        examples=independence.labelled,
        sparsity=labelled_sparsity,
        labels=_einsum_labels,
        composition=_einsum_composition,
        expensive=True,
        samples=_einsum_samples,
    )
)


def contract_pair(
    a: TensorOrNode, left: AxisLabels, b: TensorOrNode, right: AxisLabels, output: AxisLabels
) -> TensorOrNode:
    """Contract two operands; a label occurs once per operand and in two of the three terms."""
    summed = [label for label in left if label in right and label not in output]
    if not summed:
        return multiply(stretch(a, left, output), stretch(b, right, output))
    for x, first, z, second in ((a, left, b, right), (b, right, a, left)):
        if len(summed) == 1 and _is_matrix_product(first, second, output, summed[0]):
            return _matrix_product(x, first, z, second, summed[0])
    return record(EINSUM, (a, b), (canonical([left, right], output),))


def _is_matrix_product(
    left: AxisLabels, right: AxisLabels, output: AxisLabels, summed: str
) -> bool:
    """Whether the pair is a stack of matrix products, up to transposes of the matrices.

    Or all axes of `left` but the last are rows of one product with the matrix `right`.
    """
    if len(left) < 2 or len(right) < 2:
        # matmul would read a batch of vectors as a matrix, so vectors are taken without a batch.
        rest = tuple(label for label in (*left, *right) if label != summed)
        return len(left) <= 2 and len(right) <= 2 and output == rest
    *batch, column = output
    if len(right) == 2 < len(left) and left == (*batch, summed):
        return {*right} == {summed, column}
    return (
        len(output) > 1
        and left[:-2] == right[:-2] == output[:-2]
        and {*left[-2:]} == {output[-2], summed}
        and {*right[-2:]} == {summed, column}
    )


def _matrix_product(
    a: TensorOrNode, left: AxisLabels, b: TensorOrNode, right: AxisLabels, summed: str
) -> TensorOrNode:
    if len(left) > 1 and left[-1] != summed:
        a = movement.matrix_transpose(a)
    if len(right) > 1 and right[-2] != summed:
        b = movement.matrix_transpose(b)
    return matmul(a, b)


def reduce_labels(x: Any, have: AxisLabels, needed: Collection[str]) -> tuple[Any, AxisLabels]:
    """Take diagonals for repeated labels, and sum over labels that no other term needs."""
    while repeated := next((label for label in have if have.count(label) > 1), None):
        first = have.index(repeated)
        second = have.index(repeated, first + 1)
        x = diagonal(x, axis1=first, axis2=second)
        have = (*have[:first], *have[first + 1 : second], *have[second + 1 :], repeated)
    gone = tuple(axis for axis, label in enumerate(have) if label not in needed)
    if gone:
        dtype = x.dtype
        x = record(SUM, (x,), (gone, False))
        # `sum` widens small integers; einsum keeps the dtype, as NumPy does.
        x = x if x.dtype == dtype else cast(x, dtype)
    return x, tuple(label for label in have if label in needed)


def contract(operands: Sequence[Any], terms: Sequence[AxisLabels], output: AxisLabels) -> Any:
    """Contract all operands, pair by pair; lengths must agree, or be 1 to broadcast."""
    sizes = sizes_of(terms, [x.shape for x in operands])
    found: list[tuple[Any, AxisLabels]] = []
    for x, term in zip(operands, terms, strict=True):
        stretched = [sizes[label] != n for label, n in zip(term, x.shape, strict=True)]
        if any(stretched):
            # An axis of length 1 that broadcasts does not depend on its label, so it is dropped.
            kept = [axis for axis, gone in enumerate(stretched) if not gone]
            x = movement.reshape(x, tuple(x.shape[axis] for axis in kept))
            term = tuple(term[axis] for axis in kept)
        found.append((x, term))
    shapes = tuple(tuple(x.shape) for x, _ in found)
    for pair in contraction_path(tuple(term for _, term in found), output, shapes):
        chosen = [found[position] for position in pair]
        rest = [entry for position, entry in enumerate(found) if position not in pair]
        result = chosen[0]
        for number, other in enumerate(chosen[1:], start=2):
            later = {label for _, term in (*rest, *chosen[number:]) for label in term}
            result = _join(result, other, {*output, *later})
        found = [*rest, result]
    ((x, term),) = found
    x, term = reduce_labels(x, term, set(output))
    return arrange(x, term, output)


def _join(first: tuple[Any, AxisLabels], second: tuple[Any, AxisLabels], later: set[str]) -> Any:
    """Contract two operands, keeping the labels that are needed later."""
    a, left = reduce_labels(*first, later | {*second[1]})
    b, right = reduce_labels(*second, later | {*left})
    batch = tuple(label for label in left if label in right and label in later)
    rows = tuple(label for label in left if label not in right)
    columns = tuple(label for label in right if label not in left)
    output = batch + rows + columns
    return contract_pair(a, left, b, right, output), output


@remembered(4096)
def contraction_path(
    terms: tuple[AxisLabels, ...], output: AxisLabels, shapes: tuple[Shape, ...]
) -> tuple[tuple[int, ...], ...]:
    """The operands to contract in each step; the result of a step is appended to the list."""
    if len(terms) <= 2:
        return ((0, 1),) if len(terms) == 2 else ()
    stand_ins = [np.broadcast_to(np.float64(0), shape) for shape in shapes]
    method: Any = ("optimal" if len(terms) <= 6 else "greedy", 2**62)
    path = np.einsum_path(canonical(list(terms), output), *stand_ins, optimize=method)[0]
    return tuple(tuple(step) for step in path[1:])


@overload
def einsum(subscripts: str, /, *operands: SomeTensor) -> SomeTensor: ...
@overload
def einsum(subscripts: str, /, *operands: TensorLike) -> Tensor: ...
def einsum(subscripts: str, /, *operands: TensorLike) -> Tensor:
    """Sum of products named by subscripts, as in `"ij,jk->ik"`; `...` and diagonals included.

    >>> gt.einsum("ij,j->i", [[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]
    >>> float(gt.einsum("ii", [[1.0, 2.0], [3.0, 4.0]]))
    5.0

    Without `->` the labels that appear once are the result's axes, in alphabetical order.
    """
    tensors = [record_operand(x) for x in operands]
    terms, output = parse(subscripts, [tuple(x.shape) for x in tensors])
    # The first pair alone might not have the common dtype.
    dtype = np.result_type(*[x.dtype for x in tensors])
    tensors = [x if x.dtype == dtype else cast(x, dtype) for x in tensors]
    result = contract(tensors, terms, output)
    if len(tensors) > 1:
        return own(result)
    return identity(result) if result is tensors[0] else result
