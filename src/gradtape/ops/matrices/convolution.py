"""Convolution: sums of products over windows of a tensor. It and its derivatives are one op.

    x (groups, batch, lengths..., inside), kernel (groups, window..., inside, outside)
    -> (groups, batch, counts..., outside)

Element `p` of the result reads elements `stride * p + dilation * q` of x, for each position `q` in
the window. Padding is a tensor of its own, made by `pad`. The derivative by x is a convolution of
the cotangent, spread out and padded, with the kernel turned round. The derivative by the kernel is
a convolution of x with the cotangent, in which batch and channels, strides and dilations have
changed places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.graph import REGISTRY, Node, Op, Shape, Spec, apply, constant, declare, spec
from gradtape.graph.facts import NestAxis
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.slicing import SLICE, UNSLICE
from gradtape.ops.families import batching, cast, examples, promotion
from gradtape.ops.families.reads import Listed, Operand, agreeing
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.shapes import broadcast_to
from gradtape.ops.families.windows import Ints, counts_of, read_lengths, windows_of
from gradtape.ops.matrices.contraction import conjugate
from gradtape.ops.reductions.reduction import ANY
from gradtape.recording.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.reads import OpReads


def _spec(x: Spec, kernel: Spec, strides: Ints, dilations: Ints) -> Spec:
    spatial = len(strides)
    if x.ndim != spatial + 3 or kernel.ndim != spatial + 3:
        raise ShapeError(
            f"convolve: shapes {x.shape} and {kernel.shape} with {spatial} strides: "
            f"both need {spatial + 3} axes."
        )
    (groups, batch, *lengths, inside), (own, *window, channels, outside) = x.shape, kernel.shape
    if (own, channels) != (groups, inside):
        raise ShapeError(
            f"convolve: x has {groups} groups of {inside} channels and the kernel {own} of "
            f"{channels} (shapes {x.shape} and {kernel.shape}). Make them equal."
        )
    counts = counts_of(tuple(lengths), tuple(window), strides, dilations)
    if min(counts, default=1) < 1 or min(window, default=1) < 1:
        raise ShapeError(
            f"convolve: windows of {tuple(window)} do not fit into {tuple(lengths)}. Pad it."
        )
    return spec((groups, batch, *counts, outside), x.dtype)


def _numpy(x: np.ndarray, kernel: np.ndarray, strides: Ints, dilations: Ints) -> np.ndarray:
    groups, *window, inside, outside = kernel.shape
    found = windows_of(x, tuple(window), strides, dilations)
    counts = found.shape[2 : 2 + len(window)]
    depth = math.prod(window) * inside
    rows = found.reshape(groups, x.shape[1] * math.prod(counts), depth)
    product = np.matmul(rows, kernel.reshape(groups, depth, outside))
    return product.reshape(groups, x.shape[1], *counts, outside)


def convolve(x: Any, kernel: Any, strides: Ints, dilations: Ints) -> Any:
    """The convolution of nodes or tensors with axes as the module says."""
    return record(CONVOLVE, (x, kernel), (strides, dilations))


def _jvp(
    tangents: Sequence[Node | None],
    y: Node,
    inputs: tuple[Node, ...],
    strides: Ints,
    dilations: Ints,
) -> Node:
    (dx, dk), (x, kernel) = tangents, inputs
    if dx is None or dk is None:
        left, right = (x, dk) if dx is None else (dx, kernel)
        return convolve(left, right, strides, dilations)
    by_x = convolve(dx, kernel, strides, dilations)
    return by_x + convolve(x, dk, strides, dilations)


def _vjp(
    index: int, g: Node, y: Node, inputs: tuple[Node, ...], strides: Ints, dilations: Ints
) -> Node:
    x, kernel = inputs
    if index == 0:
        return _by_x(g, x.shape, conjugate(kernel), strides, dilations)
    return _by_kernel(g, conjugate(x), kernel.shape, strides, dilations)


def _by_x(g: Node, shape: Shape, kernel: Node, strides: Ints, dilations: Ints) -> Node:
    window = kernel.shape[1:-2]
    # The cotangent with zeros around it, and between its elements if strides are longer than 1.
    starts = tuple((w - 1) * d for w, d in zip(window, dilations, strict=True))
    lengths = tuple(n + start for n, start in zip(shape[2:-1], starts, strict=True))
    part = ((0, 0, *starts, 0), g.shape, (1, 1, *strides, 1))
    full = (*g.shape[:2], *lengths, g.shape[-1])
    spread = g if full == g.shape else apply(UNSLICE, (g,), (*part, full))
    return convolve(spread, _turned(kernel), (1,) * len(window), dilations)


def _turned(kernel: Node) -> Node:
    """The kernel with each axis of its window reversed, and its channels exchanged."""
    shape = kernel.shape
    starts = (0, *(n - 1 for n in shape[1:-2]), 0, 0)
    steps = (1, *(-1 for _ in shape[1:-2]), 1, 1)
    flipped = apply(SLICE, (kernel,), (starts, shape, steps, shape))
    return movement.matrix_transpose(flipped)


def _by_kernel(g: Node, x: Node, shape: Shape, strides: Ints, dilations: Ints) -> Node:
    window, counts = shape[1:-2], g.shape[2:-1]
    # The elements that windows read, without those that are left over at the end.
    lengths = read_lengths(counts, window, strides, dilations)
    read = (*x.shape[:2], *lengths, x.shape[-1])
    if read != x.shape:
        x = apply(SLICE, (x,), ((0,) * x.ndim, read, (1,) * x.ndim, read))
    found = convolve(
        movement.permute_dims(x, _exchanged(x.ndim)),
        movement.permute_dims(g, (0, *range(2, g.ndim - 1), 1, g.ndim - 1)),
        dilations,
        strides,
    )
    return movement.permute_dims(found, (0, *range(2, found.ndim - 1), 1, found.ndim - 1))


def _exchanged(ndim: int) -> Ints:
    """Axes with those of batch and channels exchanged."""
    return (0, ndim - 1, *range(2, ndim - 1), 1)


def _mask(
    index: int, mask: Node, y: Node, inputs: tuple[Node, ...], strides: Ints, dilations: Ints
) -> Node:
    """An element of x is needed if a needed element of the result reads it.

    An element of the kernel is needed if any element of its channel of the result is.
    """
    x, kernel = inputs
    if index == 1:
        found = apply(ANY, (mask,), (tuple(range(1, y.ndim - 1)), True))
        return broadcast_to(found, kernel.shape)
    # The number of needed elements that read an element, computed exactly.
    number = np.dtype(np.float32)
    spread = cast(apply(ANY, (mask,), ((y.ndim - 1,), True)), number)
    taps = constant(1.0, spec((*kernel.shape[:-2], 1, 1), number))
    one = (*x.shape[:-1], 1)
    count = _by_x(spread, one, taps, strides, dilations)
    needed = apply(REGISTRY["greater"], (count, constant(0.5, count.spec)))
    return broadcast_to(needed, x.shape)


def _batch(
    inputs: batching.Inputs, batched: batching.Flags, y: Node, strides: Ints, dilations: Ints
) -> Node:
    """Examples are more of the batch, more channels of the result, or more groups."""
    x, kernel = inputs
    size = batching.size_of(inputs, batched)
    if not batched[1]:
        front = batching.moved(x, 0, 1)
        joined = batching.reshaped(front, (x.shape[1], size * x.shape[2], *x.shape[3:]))
        found = apply(y.op, (joined, kernel), y.params)
        parted = batching.reshaped(found, (y.shape[0], size, *y.shape[1:]))
        return batching.moved(parted, 1, 0)
    if not batched[0]:
        last = batching.moved(kernel, 0, kernel.ndim - 2)
        joined = batching.reshaped(last, (*last.shape[:-2], size * kernel.shape[-1]))
        found = apply(y.op, (x, joined), y.params)
        parted = batching.reshaped(found, (*y.shape[:-1], size, y.shape[-1]))
        return batching.moved(parted, parted.ndim - 2, 0)
    groups = size * y.shape[0]
    each = tuple(batching.reshaped(node, (groups, *node.shape[2:])) for node in inputs)
    return batching.reshaped(apply(y.op, each, y.params), (size, *y.shape))


def _sparsity(y: Node, operands: tuple[Operand, ...], strides: Ints, dilations: Ints) -> OpReads:
    x, kernel = operands
    pairs = [(0, 0), (kernel.ndim - 1, y.ndim - 1)]
    by_kernel = agreeing(kernel.shape, y.shape, pairs) if kernel.active else None
    return (_window_reads(y, x, kernel, strides, dilations) if x.active else None, by_kernel)


def _window_reads(y: Node, x: Operand, kernel: Operand, strides: Ints, dilations: Ints) -> Listed:
    """Each element reads the elements of its window, in all channels."""
    # Loaded here because few programs ask for the pattern of a convolution.
    from scipy.sparse import csr_array

    numbers = np.arange(x.size).reshape(x.shape)
    found = windows_of(numbers, kernel.shape[1:-2], strides, dilations)
    depth = math.prod(kernel.shape[1:-1])
    rows = np.repeat(found.reshape(math.prod(y.shape[:-1]), depth), y.shape[-1], axis=0)
    starts = np.arange(y.size + 1) * depth
    entries = np.ones(rows.size, bool)
    return Listed(csr_array((entries, rows.reshape(-1), starts), (y.size, x.size)))


def _examples(y: Node, places: examples.Places) -> examples.Batch:
    """Groups and, in x, the batch keep examples apart; so do the channels of a kernel's result."""
    found = []
    for position, (parent, place) in enumerate(zip(y.inputs, places, strict=True)):
        if place is None:
            continue
        axis = place.axis(parent)
        kept = {0: 0, 1: 1} if position == 0 else {0: 0, parent.ndim - 1: y.ndim - 1}
        if axis not in kept:
            examples.mixes(y)
        found.append(examples.placed(y, kept[axis], place.count))
    return examples.same(y, found)


def _nest(y: Node) -> dict[str, list[NestAxis]]:
    """The loops: groups are a batch, and what the result does not have is depth."""
    strides, dilations = y.params
    window = y.inputs[1].shape[1:-2]
    last, spatial = y.ndim - 1, range(len(window))
    positions = [
        NestAxis(y.shape[2 + at], a=(2 + at, strides[at]), c=2 + at) for at in spatial
    ]  # fmt: skip
    return {
        "batch": [NestAxis(y.shape[0], a=(0, 1), b=(0, 1), c=0)],
        "rows": [NestAxis(y.shape[1], a=(1, 1), c=1), *positions],
        "columns": [NestAxis(y.shape[-1], b=(last, 1), c=last)],
        "depth": [
            *(NestAxis(window[at], a=(2 + at, dilations[at]), b=(1 + at, 1)) for at in spatial),
            NestAxis(y.inputs[0].shape[-1], a=(last, 1), b=(last - 1, 1)),
        ],
    }


def _samples() -> list[Sample]:
    rng = generator("convolve")
    cases: list[tuple[Shape, Shape, Ints, Ints]] = [
        ((1, 2, 5, 2), (1, 3, 2, 3), (1,), (1,)),
        ((2, 1, 6, 1), (2, 2, 1, 2), (2,), (1,)),
        ((1, 1, 7, 1), (1, 2, 1, 1), (2,), (3,)),
        ((1, 2, 4, 3, 1), (1, 2, 2, 1, 2), (1, 1), (1, 1)),
        ((1, 1, 5, 4, 2), (1, 2, 1, 2, 1), (2, 1), (2, 1)),
        ((1, 0, 3, 1), (1, 2, 1, 1), (1,), (1,)),
        ((1, 1, 3, 0), (1, 2, 0, 2), (1,), (1,)),
    ]
    found = [
        Sample(
            (uniform(rng, (-1.0, 1.0), x, dtype), uniform(rng, (-1.0, 1.0), kernel, dtype)),
            {"strides": strides, "dilations": dilations},
        )
        for dtype in ("float64", "complex128")
        for x, kernel, strides, dilations in cases
    ]
    x, kernel, strides, dilations = cases[4]
    for dtype in ("float32", "int32"):
        inputs = uniform(rng, (0, 3), x, dtype), uniform(rng, (0, 3), kernel, dtype)
        found.append(Sample(inputs, {"strides": strides, "dilations": dilations}))
    return found


CONVOLVE = declare(Op(
    "convolve", "contraction", params=("strides", "dilations"), spec=_spec, numpy=_numpy,
    promote=promotion("convolve", "same", "any"), jvp=_jvp, vjp=_vjp, mask=_mask, batch=_batch,
    examples=_examples, sparsity=_sparsity, nest=_nest, expensive=True, samples=_samples,
))  # fmt: skip
