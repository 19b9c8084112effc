"""Contraction: the matrix product, to which all other sums of products are reduced."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import SHALLOW_MATRIX_PRODUCT, SMALL_MATRIX_PRODUCT
from gradtape.errors import ShapeError
from gradtape.ir import (
    REGISTRY,
    Node,
    Op,
    Shape,
    Spec,
    apply,
    constant,
    constant_value,
    declare,
    spec,
)
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.slicing import SLICE, axis_part
from gradtape.ops.elementwise.arithmetic import identity
from gradtape.ops.families import batching, cast, independence, promotion
from gradtape.ops.families.reductions import add_up
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to, reduce_to
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operands
from gradtape.ops.families.sparsity import RuleInput, agreeing
from gradtape.ops.reductions.reduction import ANY
from gradtape.trace.record import RECORDERS, binary_function, record

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import TensorOrNode

# One label per axis: a letter, or `.0`, `.1`, ... for the axes that an ellipsis stands for.
AxisLabels = tuple[str, ...]

LETTERS = string.ascii_letters


def parse(subscripts: str, shapes: Sequence[Shape]) -> tuple[list[AxisLabels], AxisLabels]:
    """Parse subscripts into the labels of each operand and of the result."""
    if not isinstance(subscripts, str):
        raise TypeError(
            f"einsum: subscripts {subscripts!r} are not a string. Write them as in 'ij,jk->ik'."
        )
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    if len(parts) != len(shapes):
        raise ValueError(
            f"einsum: {subscripts!r} names {len(parts)} operands and {len(shapes)} were given. "
            "Separate the subscripts of each with a comma."
        )
    terms = [
        _labels(subscripts, part, position, shape)
        for position, (part, shape) in enumerate(zip(parts, shapes, strict=True))
    ]
    dots = _ellipsis(max(sum(label[0] == "." for label in term) for term in terms))
    if arrow:
        before, after, has_dots = _letters(subscripts, output)
        result = (*before, *(dots if has_dots else ()), *after)
    else:
        every = [label for term in terms for label in term]
        once = {label for label in every if every.count(label) == 1 and label not in dots}
        result = dots + tuple(sorted(once))
    known = {label for term in terms for label in term}
    for label in result:
        if label not in known:
            raise ValueError(
                f"einsum: label {label!r} of the result is in no operand ({subscripts!r}). "
                "Every label of the result must name an axis."
            )
    if len(set(result)) != len(result):
        raise ValueError(
            f"einsum: the result of {subscripts!r} repeats a label. Name each of its axes once."
        )
    if arrow and dots and "..." not in output:
        raise ValueError(
            f"einsum: the operands of {subscripts!r} have axes under '...' and the "
            "result has none. "
            "Write '...' in the result, or sum those axes first."
        )
    return terms, result


def _ellipsis(count: int) -> AxisLabels:
    """Labels of an ellipsis' axes, numbered from the last, as broadcasting aligns them."""
    return tuple(f".{number}" for number in reversed(range(count)))


def _letters(subscripts: str, part: str) -> tuple[str, str, bool]:
    before, dots, after = part.partition("...")
    for label in before + after:
        if label not in LETTERS:
            raise ValueError(
                f"einsum: {label!r} in {subscripts!r} is not a label. "
                "Labels are letters; write '...' once per operand for the axes without one."
            )
    return before, after, bool(dots)


def _labels(subscripts: str, part: str, position: int, shape: Shape) -> AxisLabels:
    before, after, dots = _letters(subscripts, part)
    extra = len(shape) - len(before) - len(after)
    if extra < 0 or (extra and not dots):
        raise ShapeError(
            f"einsum: operand {position} has shape {shape} and subscripts {part!r}, "
            f"which name {len(before) + len(after)} axes. Name each axis, or write '...'."
        )
    return (*before, *_ellipsis(extra), *after)


def sizes_of(terms: Sequence[AxisLabels], shapes: Sequence[Shape]) -> dict[str, int]:
    """The length of each label; a length of 1 broadcasts to any other."""
    sizes: dict[str, int] = {}
    origin: dict[str, int] = {}
    for position, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for label, n in zip(term, shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label], origin[label] = n, position
            elif n not in (1, sizes[label]):
                listed = " and ".join(str(tuple(one)) for one in shapes)
                name = "an axis under '...'" if label[0] == "." else f"label {label!r}"
                raise ShapeError(
                    f"einsum: {name} is {sizes[label]} in operand {origin[label]} and {n} in "
                    f"operand {position} (shapes {listed}). Give the axes the same length."
                )
    return sizes


def canonical(terms: Sequence[AxisLabels], output: AxisLabels) -> str:
    """Rename labels in order of appearance, so that equal contractions have equal subscripts."""
    names: dict[str, str] = {}
    for term in terms:
        for label in term:
            if label not in names:
                if len(names) == len(LETTERS):
                    raise ValueError(f"einsum: more than {len(LETTERS)} labels. Use fewer axes.")
                names[label] = LETTERS[len(names)]
    inputs = ",".join("".join(names[label] for label in term) for term in terms)
    return f"{inputs}->{''.join(names[label] for label in output)}"


def conjugate(x: TensorOrNode) -> TensorOrNode:
    """The complex conjugate of a node or tensor; a real operand is returned unchanged."""
    return record(REGISTRY["conj"], (x,)) if x.dtype.kind == "c" else x


def transposed(x: Any) -> Any:
    """Exchange the last two axes; two exchanges cancel, so that derivative programs stay small."""
    if type(x) is Node and x.op is movement.PERMUTE_DIMS:
        (axes,), last = x.params, x.ndim - 1
        if axes == (*range(last - 1), last, last - 1):
            return x.inputs[0]
    return movement.matrix_transpose(x)


def adjoint(x: TensorOrNode) -> TensorOrNode:
    """The conjugate transpose of a node or tensor, over its last two axes."""
    if type(x) is Node and x.op.name == "conj":
        return transposed(x.inputs[0])
    return conjugate(transposed(x))


def own(x: Any) -> Any:
    """The result as a tensor that may be written to: a view (such as a transpose) is copied."""
    is_view = type(x) is not Node and type(x) is not x.result_class
    return identity(x) if is_view else x


def bilinear_jvp(
    tangents: Sequence[Node | None], y: Node, inputs: tuple[Node, ...], **params: Any
) -> Node | None:
    """The rule `jvp` of products: each operand in turn is replaced by its tangent."""
    total = None
    for index, tangent in enumerate(tangents):
        if tangent is not None:
            term = apply(y.op, (*inputs[:index], tangent, *inputs[index + 1 :]), y.params)
            total = term if total is None else total + term
    return total


def labelled_mask(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    """An element is needed if any element of the result with the same labels is needed."""
    terms, output = labels_of(y)
    term, shape = terms[index], inputs[index].shape
    # An axis of length 1 that broadcasts does not depend on its label.
    lengths = dict(zip(term, shape, strict=True))
    kept = tuple(label for label, n in zip(output, y.shape, strict=True) if lengths.get(label) == n)
    gone = tuple(axis for axis, label in enumerate(output) if label not in kept)
    bits = apply(ANY, (mask,), (gone, False)) if gone else mask
    return broadcast_to(stretch(bits, kept, term), shape)


def labelled_sparsity(y: Node, operands: tuple[RuleInput, ...], **params: Any) -> tuple[Any, ...]:
    """An element reads the operand's elements with equal indices for all labels that both have."""
    terms, output = labels_of(y)
    return tuple(
        agreeing(
            operand.shape,
            y.shape,
            [(axis, output.index(label)) for axis, label in enumerate(term) if label in output],
        )
        if operand.active
        else None
        for operand, term in zip(operands, terms, strict=True)
    )


def labels_of(y: Node) -> tuple[tuple[AxisLabels, AxisLabels], AxisLabels]:
    """The labels of both operands of a product and of its result."""
    assert y.op.labels is not None
    found: tuple[tuple[AxisLabels, AxisLabels], AxisLabels] = y.op.labels(y)
    return found


def arrange(x: TensorOrNode, have: AxisLabels, want: AxisLabels) -> TensorOrNode:
    """The axes of a node or tensor in another order."""
    if have == want:
        return x
    return movement.permute_dims(x, tuple(have.index(label) for label in want))


def stretch(x: TensorOrNode, have: AxisLabels, want: AxisLabels) -> TensorOrNode:
    """The axes in another order, with an axis of length 1 for every label that `x` lacks."""
    x = arrange(x, have, tuple(label for label in want if label in have))
    shape = iter(x.shape)
    full = tuple(next(shape) if label in have else 1 for label in want)
    return x if x.shape == full else movement.reshape(x, full)


def check_equal_lengths(name: str, a: Any, b: Any, axes: Sequence[tuple[int, int]]) -> None:
    """Raise unless the lengths of summed axes agree: they do not broadcast."""
    for left, right in axes:
        if a.shape[left] != b.shape[right]:
            raise ShapeError(
                f"{name}: shapes {tuple(a.shape)} and {tuple(b.shape)} do not match "
                f"(axis {left}: {a.shape[left]}, axis {right}: {b.shape[right]}). "
                "Transpose or reshape one of them."
            )


def _matmul_spec(a: Spec, b: Spec) -> Spec:
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape}: a 0-d operand has no axis to sum over. "
            "Use multiply."
        )
    check_equal_lengths("matmul", a, b, [(a.ndim - 1, max(b.ndim - 2, 0))])
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    return spec(batch + a.shape[-2:-1] + (b.shape[-1:] if b.ndim > 1 else ()), a.dtype)


def _matmul_kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous:
        # One large product is faster than one product per batch item.
        return np.matmul(a.reshape(flat_rows(a.shape)), b).reshape(a.shape[:-1] + b.shape[1:])
    return np.matmul(a, b)


def flat_rows(shape: Shape) -> Shape:
    """The shape with all axes but the last merged into one."""
    return math.prod(shape[:-1]), shape[-1]


def _matmul_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...]) -> Node:
    a, b = inputs
    if a.ndim == 1 or b.ndim == 1:
        return _vector_vjp(index, g, a, b)
    if index == 0:
        return reduce_to(matmul(g, adjoint(b)), a.shape)
    if b.ndim == 2 and a.ndim > 2:
        # The sum over the batch is part of the product when the batch is folded into its rows.
        rows = movement.reshape(a, flat_rows(a.shape))
        return matmul(adjoint(rows), movement.reshape(g, flat_rows(g.shape)))
    return reduce_to(matmul(adjoint(a), g), b.shape)


def _vector_vjp(index: int, g: Node, a: Node, b: Node) -> Node:
    """The cotangent of an operand when one of them, or both, is a vector."""
    if a.ndim == 1 and b.ndim == 1:
        return g * conjugate(b if index == 0 else a)
    if b.ndim == 1:
        if index == 0:
            return movement.reshape(g, (*g.shape, 1)) * conjugate(b)
        rows = movement.reshape(a, flat_rows(a.shape))
        return matmul(adjoint(rows), movement.reshape(g, (g.size,)))
    if index == 1:
        row = movement.reshape(g, (*g.shape[:-1], 1, g.shape[-1]))
        return movement.reshape(conjugate(a), (*a.shape, 1)) * row
    if b.ndim == 2:
        return matmul(conjugate(b), g)
    product = matmul(conjugate(b), movement.reshape(g, (*g.shape, 1)))
    return reduce_to(movement.reshape(product, product.shape[:-1]), a.shape)


def as_columns(b: Node) -> Node:
    """The matrices of a stack side by side: (..., k, n) to (k, all the n)."""
    front = batching.moved(b, b.ndim - 2, 0)
    return batching.reshaped(front, (front.shape[0], math.prod(front.shape[1:])))


def from_columns(product: Node, shape: Shape) -> Node:
    """The inverse of `as_columns`: a stack of matrices of this shape."""
    parted = batching.reshaped(product, (product.shape[0], *shape[:-2], shape[-1]))
    return batching.moved(parted, 0, len(shape) - 2)


def _matmul_batch(inputs: batching.Inputs, batched: batching.Flags, y: Node) -> Node:
    """Compute one large product if one operand is the same matrix for all examples."""
    (a, b), (left, right) = inputs, y.inputs
    shape = (batching.size_of(inputs, batched), *y.shape)
    if not batched[1] and right.ndim <= 2:
        rows = batching.reshaped(a, flat_rows(a.shape))
        return batching.reshaped(apply(y.op, (rows, b)), shape)
    if not batched[0] and left.ndim <= 2:
        if right.ndim == 1:
            return apply(y.op, (b, transposed(a) if left.ndim == 2 else a))
        if left.ndim == 1:
            return apply(y.op, (a, b))
        return from_columns(apply(y.op, (a, as_columns(b))), shape)
    if left.ndim == right.ndim == 1 and y.dtype.kind in "fc":
        return apply(REGISTRY["sum"], (a * b,), ((1,), False))
    # matmul would read a batch of vectors as one matrix, so each becomes a row or a column.
    if left.ndim == 1:
        a = batching.reshaped(a, (*a.shape[:-1], 1, a.shape[-1]))
    if right.ndim == 1:
        b = batching.reshaped(b, (*b.shape, 1))
    ndim = max(left.ndim, right.ndim, 2)
    return batching.reshaped(apply(y.op, batching.aligned((a, b), batched, ndim)), shape)


def _matmul_samples() -> list[Sample]:
    rng = generator("matmul")
    shapes: list[tuple[Shape, Shape]] = [
        ((2, 3), (3, 2)),
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 2, 3), (3, 2)),
        ((2, 3), (2, 3, 1)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 2)),
        ((2, 0), (0, 3)),
        ((0, 2), (2, 3)),
        ((0, 2, 3), (3, 2)),
    ]
    found = [
        Sample(tuple(uniform(rng, (-1.0, 1.0), shape, dtype) for shape in pair))
        for dtype in ("float64", "complex128")
        for pair in shapes
    ]
    for dtype in ("float32", "int32", "uint8", "bool", "complex64"):
        found.append(Sample(tuple(uniform(rng, (0, 3), shape, dtype) for shape in shapes[0])))
    return found


def _matmul_labels(y: Node) -> tuple[tuple[AxisLabels, AxisLabels], AxisLabels]:
    """Labels: row, column, the summed axis, and one letter for each leading axis."""
    a, b = y.inputs
    batch = tuple(string.ascii_lowercase[: max(a.ndim, b.ndim, 2) - 2])
    left = ("K",) if a.ndim == 1 else (*batch[len(batch) - (a.ndim - 2) :], "R", "K")
    right = ("K",) if b.ndim == 1 else (*batch[len(batch) - (b.ndim - 2) :], "K", "C")
    output = (*batch, *(("R",) if a.ndim > 1 else ()), *(("C",) if b.ndim > 1 else ()))
    return (left, right), output


def _stacked_products(a: Node, b: Node) -> Node | None:
    """Stacks of small matrices, as a sum of outer products: one loop, which others join.

    10,000 products of order 6 took 1.8 ms by tiles and take 0.33 ms, of order 3 1.5 and 0.1 ms.
    """
    (*_, rows, depth), columns = a.shape, b.shape[-1]
    if not 0 < depth < SHALLOW_MATRIX_PRODUCT or rows * columns > SMALL_MATRIX_PRODUCT:
        return None
    total: Node | None = None
    for at in range(depth):
        column = entry(a, a.ndim - 1, at)
        term = column * entry(b, b.ndim - 2, at)
        total = term if total is None else total + term
    return total


def entry(x: Node, axis: int, at: int) -> Node:
    """One row or column of each matrix, with its axis of length 1."""
    starts, lengths, steps = axis_part(x.shape, axis, at, 1)
    value = constant_value(x)
    if value is not None:
        return constant(value, spec(lengths, x.dtype))
    return apply(SLICE, (x,), (starts, lengths, steps, lengths))


def product_composition(a: Node, b: Node) -> Node | None:
    """Compose small products from loops: a call, or a tile, costs more than the product.

    That holds for a small matrix times a vector, and for stacks of small matrices. BLAS has no
    product of whole numbers or booleans, so these are loops at any size.
    """
    if a.dtype != b.dtype or not b.size:
        return None
    if a.dtype.kind not in "fc":
        return _summed_products(a, b)
    if a.dtype.kind == "c":
        return None
    if a.ndim > 2 and b.ndim > 2:
        return _stacked_products(a, b)
    if {a.ndim, b.ndim} != {1, 2} or a.size * b.size > SMALL_MATRIX_PRODUCT * a.shape[-1]:
        return None
    return _summed_products(a, b)


def _summed_products(a: Node, b: Node) -> Node:
    """The sum of products of elements over one more axis than the result has: one fused loop."""
    depth = -1
    if b.ndim > 1:
        # A row of `a` lies along the axis of b before the last, a vector does so alone.
        a, depth = movement.reshape_node(a, (*a.shape, 1)), -2
        if a.ndim > 2:
            b = movement.reshape_node(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    if a.dtype.kind == "b":
        both = apply(REGISTRY["logical_and"], (a, b))
        return apply(ANY, (both,), ((both.ndim + depth,), False))
    products = a * b
    # `sum` widens small integers; a product keeps the dtype, as NumPy's does.
    return cast(add_up(products, (products.ndim + depth,), False), a.dtype)


MATMUL = declare(
    Op(
        "matmul",
        "contraction",
        spec=_matmul_spec,
        numpy=_matmul_kernel,
        promote=promotion("matmul", "same", "any"),
        jvp=bilinear_jvp,
        vjp=_matmul_vjp,
        mask=labelled_mask,
        batch=_matmul_batch,
        examples=independence.labelled,
        sparsity=labelled_sparsity,
        labels=_matmul_labels,
        composition=product_composition,
        expensive=True,
        samples=_matmul_samples,
    )
)

# The fast path of recording is shared with element-wise functions: one lookup per operand.
_record_matmul = binary_function(MATMUL)
RECORDERS.append(_record_matmul)


@kind_of_operands
def matmul(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """Matrix product over the last two axes; leading axes broadcast, vectors are summed over.

    >>> gt.matmul([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]
    """
    return _record_matmul(x1, x2)
