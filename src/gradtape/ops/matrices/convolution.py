"""Convolution: sums of products over windows of a tensor. It and its derivatives are one op.

    x (groups, batch, lengths..., inside), kernel (groups, window..., inside, outside)
    -> (groups, batch, counts..., outside)

Along each spatial axis, the elements of x are `spread` apart, with zeros between them, and have
`padding` zeros before and after them. Element `p` of the result reads the places `stride * p +
dilation * q` of that, for each position `q` in the window. A transposed convolution has spreads.
The derivative by x is a convolution of the cotangent with the kernel turned round, in which strides
and spreads have changed places. The derivative by the kernel is a convolution of x with the
cotangent, in which batch and channels, strides and dilations have. The zeros are in no memory and
no sum: `families/convolution_phases` lists the elements.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import FULL_CHANNELS
from gradtape.errors import ShapeError
from gradtape.ir import REGISTRY, Node, Op, Shape, Spec, apply, constant, declare, spec
from gradtape.ir.op_facts import Nest, NestAxis
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.slicing import SLICE
from gradtape.ops.families import batching, cast, independence, promotion
from gradtape.ops.families.convolution_phases import Block, Pairs, Steps, blocks, within_margins
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.shapes import Ints, broadcast_to
from gradtape.ops.families.sparsity import Listed, RuleInput, agreeing
from gradtape.ops.matrices.contraction import bilinear_jvp, conjugate
from gradtape.ops.matrices.convolution_forms import chosen_blocks, composed
from gradtape.ops.reductions.reduction import ANY
from gradtape.trace.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.sparsity import OpReads


def _spec(x: Spec, kernel: Spec, **params: Any) -> Spec:
    steps = Steps(**params)
    spatial = len(steps.strides)
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
    counts = steps.counts(tuple(lengths), tuple(window))
    if min(counts, default=1) < 1 or min(window, default=1) < 1:
        raise ShapeError(
            f"convolve: windows of {tuple(window)} do not fit into {tuple(lengths)}. Pad it."
        )
    return spec((groups, batch, *counts, outside), x.dtype)


def _numpy(x: np.ndarray, kernel: np.ndarray, **params: Any) -> np.ndarray:
    steps = Steps(**params)
    lengths, window = x.shape[2:-1], kernel.shape[1:-2]
    widths, steps = within_margins(lengths, window, steps)
    if any(map(any, widths)):
        x = np.pad(x, ((0, 0), (0, 0), *widths, (0, 0)))
        lengths = x.shape[2:-1]
    counts = steps.counts(lengths, window)
    result = np.zeros((*x.shape[:2], *counts, kernel.shape[-1]), x.dtype)
    if not x.size or not kernel.size:
        return result
    for block in blocks(steps.lines(lengths, window)):
        if all(phase.taps.number for phase in block):
            target = tuple(_slice(phase.outputs) for phase in block)
            taps = kernel[(slice(None), *(_slice(phase.taps) for phase in block))]
            result[(slice(None), slice(None), *target)] = _by_rows(x, taps, block)
    return result


def _slice(run: Any) -> slice:
    return slice(run.start, run.start + (run.number - 1) * run.step + 1, run.step)


def _by_rows(x: np.ndarray, taps: np.ndarray, block: Block) -> np.ndarray:
    """The outputs of a phase along each axis: windows, as rows, times the kernel."""
    groups, *window, inside, outside = taps.shape
    counts = [phase.outputs.number for phase in block]
    steps = x.strides[2:-1]
    first = x[(slice(None), slice(None), *(slice(phase.first, None) for phase in block))]
    found = np.lib.stride_tricks.as_strided(
        first,
        (*x.shape[:2], *counts, *window, inside),
        (
            *x.strides[:2],
            *(phase.by_output * step for phase, step in zip(block, steps, strict=True)),
            *(phase.by_tap * step for phase, step in zip(block, steps, strict=True)),
            x.strides[-1],
        ),
        writeable=False,
    )
    depth = math.prod(window) * inside
    rows = found.reshape(groups, x.shape[1] * math.prod(counts), depth)
    product = np.matmul(rows, taps.reshape(groups, depth, outside))
    return product.reshape(groups, x.shape[1], *counts, outside)


def convolve(
    x: Any,
    kernel: Any,
    strides: Ints,
    dilations: Ints,
    spreads: Ints | None = None,
    padding: Pairs | None = None,
) -> Any:
    """The convolution of nodes or tensors with axes as the module says."""
    count = len(strides)
    whole = (1,) * count if spreads is None else spreads
    pairs = ((0, 0),) * count if padding is None else padding
    return record(CONVOLVE, (x, kernel), (strides, dilations, whole, pairs))


def _vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    x, kernel = inputs
    if index == 0:
        return _by_x(g, x.shape, conjugate(kernel), Steps(**params))
    return _by_kernel(g, conjugate(x), kernel.shape, Steps(**params))


def _margins(g: Node, shape: Shape, window: Shape, steps: Steps) -> list[tuple[int, int, int]]:
    """For each spatial axis the reach of a window, and the padding of g in the derivative by x."""
    sizes = zip(shape[2:-1], g.shape[2:-1], window, *steps, strict=True)
    return [
        (d * (w - 1), d * (w - 1) - before, e * (n - 1) - s * (count - 1) + before)
        for n, count, w, s, d, e, (before, _) in sizes
    ]


def _by_x(g: Node, shape: Shape, kernel: Node, steps: Steps) -> Node:
    if 0 in shape:
        return constant(0, spec(shape, g.dtype))
    margins = _margins(g, shape, kernel.shape[1:-2], steps)
    padding = tuple((low, high) for _, low, high in margins)
    turned = movement.matrix_transpose(_reversed(kernel, 1))
    return convolve(g, turned, steps.spreads, steps.dilations, steps.strides, padding)


def _reversed(x: Node, first: int) -> Node:
    """A node with the order along each spatial axis reversed; these begin with the axis `first`."""
    spatial = range(first, first + x.ndim - 3)
    if all(x.shape[axis] == 1 for axis in spatial):
        return x
    starts = tuple(n - 1 if axis in spatial else 0 for axis, n in enumerate(x.shape))
    steps = tuple(-1 if axis in spatial else 1 for axis in range(x.ndim))
    return apply(SLICE, (x,), (starts, x.shape, steps, x.shape))


def _by_kernel(g: Node, x: Node, shape: Shape, steps: Steps) -> Node:
    """The channels of the result lie side by side in the convolution that computes it.

    These are channels of g or of x: those that fill vectors, and of two the ones with fewer zeros
    to leave out.
    """
    inside, outside = shape[-2:]
    of_x = min(inside, FULL_CHANNELS) > min(outside, FULL_CHANNELS)
    if min(inside, outside) >= FULL_CHANNELS:
        of_x = math.prod(steps.strides) < math.prod(steps.spreads)
    margins = _margins(g, x.shape, shape[1:-2], steps)
    last, spatial = x.ndim - 1, range(2, x.ndim - 1)
    if of_x:
        # Windows move over g, and x is the kernel: the result is found in reverse order.
        padding = tuple((low, high) for _, low, high in margins)
        orders = steps.dilations, steps.spreads, steps.strides
        found = _reversed(convolve(_examples_last(g), _examples_inside(x), *orders, padding), 2)
        return movement.permute_dims(found, (0, *spatial, last, 1))
    padding = tuple((reach - low, reach - high) for reach, low, high in margins)
    orders = steps.dilations, steps.strides, steps.spreads
    found = convolve(_examples_last(x), _examples_inside(g), *orders, padding)
    return movement.permute_dims(found, (0, *spatial, 1, last))


def _examples_last(x: Node) -> Node:
    """The tensor with the axes of batch and channels exchanged."""
    return movement.permute_dims(x, (0, x.ndim - 1, *range(2, x.ndim - 1), 1))


def _examples_inside(x: Node) -> Node:
    """The tensor with the axis of the batch where a kernel has that of its input's channels."""
    return movement.permute_dims(x, (0, *range(2, x.ndim - 1), 1, x.ndim - 1))


def _mask(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
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
    count = _by_x(spread, one, taps, Steps(**params))
    needed = apply(REGISTRY["greater"], (count, constant(0.5, count.spec)))
    return broadcast_to(needed, x.shape)


def _batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
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


def _sparsity(y: Node, operands: tuple[RuleInput, ...], **params: Any) -> OpReads:
    x, kernel = operands
    pairs = [(0, 0), (kernel.ndim - 1, y.ndim - 1)]
    by_kernel = agreeing(kernel.shape, y.shape, pairs) if kernel.active else None
    return (_window_reads(y, x, kernel, Steps(**params)) if x.active else None, by_kernel)


def _window_reads(y: Node, x: RuleInput, kernel: RuleInput, steps: Steps) -> Listed:
    """Each element reads the elements of its window, in all channels."""
    # Imported here because few programs need the pattern of a convolution.
    from scipy.sparse import coo_array

    lengths, window = x.shape[2:-1], kernel.shape[1:-2]
    sources = np.arange(x.size).reshape(x.shape)
    targets = np.arange(y.size).reshape(y.shape)
    rows, columns = [], []
    for block in blocks(steps.lines(lengths, window)):
        target = targets[(slice(None), slice(None), *(_slice(phase.outputs) for phase in block))]
        for source in _sources(sources, block):
            pairs = np.broadcast_arrays(target[..., None], source[..., None, :])
            rows.append(pairs[0].reshape(-1))
            columns.append(pairs[1].reshape(-1))
    both = [np.concatenate(part) if part else np.zeros(0, int) for part in (rows, columns)]
    entries = np.ones(both[0].size, bool)
    return Listed(coo_array((entries, tuple(both)), (y.size, x.size)).tocsr())


def _sources(numbers: np.ndarray, block: Block) -> list[np.ndarray]:
    """For each position of the window, the elements that the outputs of a block read there."""
    found = []
    for taps in itertools.product(*(range(phase.taps.number) for phase in block)):
        parts = []
        for phase, tap in zip(block, taps, strict=True):
            start, count = phase.first + tap * phase.by_tap, phase.outputs.number
            parts.append(slice(start, start + (count - 1) * phase.by_output + 1, phase.by_output))
        found.append(numbers[(slice(None), slice(None), *parts)])
    return found


def _examples(y: Node, places: independence.Places) -> independence.Batch:
    """Groups and, in x, the batch keep examples apart; so do the channels of a kernel's result."""
    found = []
    for position, (parent, place) in enumerate(zip(y.inputs, places, strict=True)):
        if place is None:
            continue
        axis = place.axis(parent)
        kept = {0: 0, 1: 1} if position == 0 else {0: 0, parent.ndim - 1: y.ndim - 1}
        if axis not in kept:
            independence.mixes(y)
        found.append(independence.placed(y, kept[axis], place.count))
    return independence.same(y, found)


def _nest(y: Node) -> list[Nest]:
    """The loops of each block: groups are a batch, and what the result does not have is depth."""
    x, window = y.inputs
    found, adds = chosen_blocks(x, window, Steps(*y.params))
    return [_block_nest(y, block, adds and number > 0) for number, block in enumerate(found)]


def _block_nest(y: Node, block: Block, adds: bool) -> Nest:
    last = y.ndim - 1
    rows, depth = [], []
    for at, (outputs, taps, _, by_output, by_tap) in enumerate(block):
        rows.append(NestAxis(outputs.number, a=(2 + at, by_output), c=(2 + at, outputs.step)))
        depth.append(NestAxis(taps.number, a=(2 + at, by_tap), b=(1 + at, taps.step)))
    return Nest(
        batch=(NestAxis(y.shape[0], a=(0, 1), b=(0, 1), c=(0, 1)),),
        rows=(NestAxis(y.shape[1], a=(1, 1), c=(1, 1)), *rows),
        columns=(NestAxis(y.shape[-1], b=(last, 1), c=(last, 1)),),
        depth=(*depth, NestAxis(y.inputs[0].shape[-1], a=(last, 1), b=(last - 1, 1))),
        starts=(
            (0, 0, *(phase.first for phase in block), 0),
            (0, *(phase.taps.start for phase in block), 0, 0),
            (0, 0, *(phase.outputs.start for phase in block), 0),
        ),
        adds=adds,
    )


def _samples() -> list[Sample]:
    rng = generator("convolve")
    plain = ((0, 0),)
    cases: list[tuple[Shape, Shape, Steps]] = [
        ((1, 2, 5, 2), (1, 3, 2, 3), Steps((1,), (1,), (1,), plain)),
        ((2, 1, 6, 1), (2, 2, 1, 2), Steps((2,), (1,), (1,), plain)),
        ((1, 1, 7, 1), (1, 2, 1, 1), Steps((2,), (3,), (1,), plain)),
        ((1, 2, 4, 3, 1), (1, 2, 2, 1, 2), Steps((1, 1), (1, 1), (1, 1), plain * 2)),
        ((1, 1, 5, 4, 2), (1, 2, 1, 2, 1), Steps((2, 1), (2, 1), (1, 1), plain * 2)),
        ((1, 2, 3, 2), (1, 3, 2, 1), Steps((1,), (1,), (2,), ((1, 2),))),
        ((1, 1, 3, 3, 1), (1, 2, 3, 1, 2), Steps((1, 2), (1, 1), (3, 1), ((-1, 2), (1, 1)))),
        ((1, 0, 3, 1), (1, 2, 1, 1), Steps((1,), (1,), (1,), plain)),
        ((1, 1, 3, 0), (1, 2, 0, 2), Steps((1,), (1,), (1,), plain)),
    ]
    found = [
        Sample(
            (uniform(rng, (-1.0, 1.0), x, dtype), uniform(rng, (-1.0, 1.0), kernel, dtype)),
            steps._asdict(),
        )
        for dtype in ("float64", "complex128")
        for x, kernel, steps in cases
    ]
    x, kernel, steps = cases[4]
    for dtype in ("float32", "int32", "uint8"):
        inputs = uniform(rng, (0, 3), x, dtype), uniform(rng, (0, 3), kernel, dtype)
        found.append(Sample(inputs, steps._asdict()))
    return found


CONVOLVE = declare(
    Op(
        "convolve",
        "contraction",
        params=Steps._fields,
        spec=_spec,
        numpy=_numpy,
        promote=promotion("convolve", "same", "any"),
        jvp=bilinear_jvp,
        vjp=_vjp,
        mask=_mask,
        batch=_batch,
        examples=_examples,
        sparsity=_sparsity,
        nest=_nest,
        composition=composed,
        expensive=True,
        samples=_samples,
    )
)
