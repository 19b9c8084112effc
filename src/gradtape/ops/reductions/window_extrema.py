"""The largest element of each window along axes of a tensor, for pooling.

    x (batch, lengths..., channels) -> (batch, counts..., channels)

The first of equal elements has the derivative, and a NaN is larger than any number. Around x is
padding that is never the largest, unless there is nothing else: the lowest number of the dtype.

The place of that element in its window is known by a code: its distances from the first element,
each plus the stride and times a factor. The factors keep the codes of all distances apart that are
between minus a stride and a stride beyond the window, so that elements of x are compared with
windows that do not reach them, too.
"""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape.dtypes import DType
from gradtape.errors import ShapeError
from gradtape.ir import REGISTRY, Node, Shape, Spec, apply, constant, spec
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.slicing import SET_SLICE, SLICE, UNSLICE
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.ops.elementwise.unary import isnan
from gradtape.ops.families import batching, independence
from gradtape.ops.families.convolution_phases import Pairs
from gradtape.ops.families.define import define
from gradtape.ops.families.samples import Sample, generator
from gradtape.ops.families.shapes import Ints
from gradtape.ops.families.sparsity import Listed, RuleInput
from gradtape.ops.families.windows import counts_of, positions, windows_of
from gradtape.trace.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.sparsity import OpReads

_CODE = np.dtype(np.int32)


class _Windows(NamedTuple):
    """The params: a number, or a pair of them, for each spatial axis."""

    window: Ints
    strides: Ints
    dilations: Ints
    padding: Pairs


def window_max(
    x: Any, window: Ints, strides: Ints, dilations: Ints, padding: Pairs | None = None
) -> Any:
    """The largest element of each window of a node or tensor with axes as the module says."""
    pairs = ((0, 0),) * len(window) if padding is None else padding
    return record(WINDOW_MAX, (x,), (window, strides, dilations, pairs))


def _counts(x: Spec, windows: _Windows) -> Shape:
    *steps, padding = windows
    window = windows.window
    if x.ndim != len(window) + 2:
        raise ShapeError(
            f"window_max: shape {x.shape} with a window of {window}: an axis is missing."
        )
    lengths = tuple(n + sum(pair) for n, pair in zip(x.shape[1:-1], padding, strict=True))
    counts = counts_of(lengths, *steps)
    if min(counts, default=1) < 1 or min(window, default=1) < 1:
        raise ShapeError(
            f"window_max: windows of {window} do not fit into {x.shape[1:-1]}. Pad it."
        )
    return (x.shape[0], *counts, x.shape[-1])


def _lowest(dtype: DType) -> Any:
    """The number that padding has."""
    return -math.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _lanes(x: np.ndarray, windows: _Windows, filler: int | None = None) -> np.ndarray:
    """The elements of each window along a last axis."""
    *steps, padding = windows
    if any(map(any, padding)):
        value = _lowest(x.dtype) if filler is None else filler
        x = np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=value)
    found = windows_of(x, *steps)
    return found.reshape(*found.shape[: len(padding) + 2], math.prod(windows.window))


def _parts(x: Node, params: tuple[Any, ...], filler: Any) -> list[Node]:
    """For each position in the window, the elements that all windows see there."""
    *windows, padding = params
    widths = ((0, 0), *padding, (0, 0))
    shape = tuple(n + sum(pair) for n, pair in zip(x.shape, widths, strict=True))
    if shape != x.shape:
        part = (tuple(low for low, _ in widths), x.shape, (1,) * x.ndim, x.shape)
        x = apply(SET_SLICE, (constant(filler, spec(shape, x.dtype)), x), part)
    return [
        apply(SLICE, (x,), (starts, lengths, steps, lengths))
        for starts, lengths, steps in positions(x.shape, *windows)
    ]


def _factors(windows: _Windows) -> Ints:
    """The factors of the distances along each axis in the code of a place."""
    sizes = [(w - 1) * d + 2 * s for w, s, d, _ in zip(*windows, strict=True)]
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def _codes(windows: _Windows) -> list[int]:
    """The code of each place in a window, in their order."""
    places = itertools.product(
        *(
            [(q * d + s) * factor for q in range(w)]
            for w, s, d, factor in zip(*windows[:3], _factors(windows), strict=True)
        )
    )
    return list(map(sum, places))


def _chosen(x: Node, windows: _Windows) -> tuple[Node, Node]:
    """The largest elements and the codes of their places, element by element."""
    best, *others = _parts(x, windows, _lowest(x.dtype))
    first, *codes = _codes(windows)
    place = constant(first, spec(best.shape, _CODE))
    for code, part in zip(codes, others, strict=True):
        if x.dtype.kind == "f":
            # A NaN is not less than or equal to the best, and nothing takes the place of a NaN.
            larger = ~(part <= best) & ~isnan(best)
        else:
            larger = part > best
        best = where(larger, part, best)
        place = where(larger, constant(code, place.spec), place)
    return best, place


def _push(tangent: Node, y: Node, x: Node, **params: Any) -> Node:
    place = apply(WINDOW_ARGMAX, (x,), y.params)
    first, *others = _parts(tangent, y.params, 0)
    for code, part in zip(_codes(_Windows(*y.params))[1:], others, strict=True):
        first = where(equal(place, constant(code, place.spec)), part, first)
    return first


def _pull(g: Node, y: Node, x: Node, **params: Any) -> Node:
    """For each element, the cotangents of the windows that have it as their largest.

    Elements are seen as blocks, as long as a stride. The windows that may reach a block are the
    same for all of its elements. So each of these windows, with its code, is compared with the code
    of each place in the block, and all is one loop.
    """
    windows = _Windows(**params)
    lengths = x.shape[1:-1]
    blocks = tuple(-(-n // s) for n, s in zip(lengths, windows.strides, strict=True))
    # The number of blocks before its own at which a window may begin.
    ranges = [
        range(-((s - 1 + low) // s), ((w - 1) * d - low) // s + 1)
        for w, s, d, (low, _) in zip(*windows, strict=True)
    ]
    before = tuple(max(each.stop - 1, 0) for each in ranges)
    place = apply(WINDOW_ARGMAX, (x,), y.params)
    around = tuple(
        n + max(block - each.start, count)
        for n, block, each, count in zip(before, blocks, ranges, y.shape[1:-1], strict=True)
    )
    total, zero = constant(0, spec((), g.dtype)), constant(0, spec((), g.dtype))
    # Zero is the code of no place.
    g, place = (_begun(part, before, around) for part in (g, place))
    for back in itertools.product(*ranges):
        starts = tuple(n - j for n, j in zip(before, back, strict=True))
        codes = _block_codes(back, windows)
        here = equal(_of_blocks(place, starts, blocks), codes)
        share = where(here, _of_blocks(g, starts, blocks), zero)
        total = share if total.ndim == 0 else total + share
    covered = (x.shape[0], *map(operator.mul, blocks, windows.strides), x.shape[-1])
    if total.ndim == 0:
        return constant(0, spec(x.shape, g.dtype))
    found = movement.reshape(total, covered)
    if covered == x.shape:
        return found
    return apply(SLICE, (found,), ((0,) * x.ndim, x.shape, (1,) * x.ndim, x.shape))


def _begun(part: Node, before: Ints, lengths: Ints) -> Node:
    """Values of windows, with zeros for those before the first and after the last."""
    whole = (part.shape[0], *lengths, part.shape[-1])
    if whole == part.shape:
        return part
    return apply(UNSLICE, (part,), ((0, *before, 0), part.shape, (1,) * part.ndim, whole))


def _of_blocks(part: Node, starts: Ints, blocks: Ints) -> Node:
    """The value of one window for each block, with an axis of length 1 for places in the block."""
    batch, *_, channels = part.shape
    lengths = (batch, *blocks, channels)
    apart = (batch, *(n for block in blocks for n in (block, 1)), channels)
    found = part
    if lengths != part.shape:
        key = ((0, *starts, 0), lengths, (1,) * part.ndim, lengths)
        found = apply(SLICE, (part,), key)
    return movement.reshape(found, apart)


def _block_codes(back: Ints, windows: _Windows) -> Node:
    """The code of each place in a block for a window that begins `back` blocks before it."""
    total: Node | None = None
    lows = [low for low, _ in windows.padding]
    for axis, (j, s, low, factor) in enumerate(
        zip(back, windows.strides, lows, _factors(windows), strict=True)
    ):
        first = (s * j + low + s) * factor
        line = apply(REGISTRY["arange"], (), (first, first + s * factor, factor, _CODE))
        shape = (1, *(n for at in range(len(back)) for n in (1, s if at == axis else 1)), 1)
        part = movement.reshape(line, shape)
        total = part if total is None else total + part
    assert total is not None
    return total


def _batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    (x,) = inputs
    joined = batching.reshaped(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    return batching.reshaped(apply(y.op, (joined,), y.params), (x.shape[0], *y.shape))


def _examples(y: Node, places: independence.Places) -> independence.Batch:
    """Windows keep what lies along the axes of batch and channels apart."""
    (place,) = places
    assert place is not None
    axis = place.axis(y.inputs[0])
    if axis not in (0, y.ndim - 1):
        independence.mixes(y)
    return independence.placed(y, axis, place.count)


def _sparsity(y: Node, operands: tuple[RuleInput, ...], **params: Any) -> OpReads:
    # Loaded here because few programs need the pattern of a pooling.
    from scipy.sparse import csr_array

    (x,) = operands
    found = _lanes(np.arange(x.size).reshape(x.shape), _Windows(**params), -1)
    numbers = found.reshape(y.size, found.shape[-1])
    inside = numbers >= 0
    starts = np.concatenate([[0], np.cumsum(np.sum(inside, axis=1))])
    read = numbers[inside]
    return (Listed(csr_array((np.ones(read.size, bool), read, starts), (y.size, x.size))),)


def _samples() -> list[Sample]:
    rng = generator("window_max")
    cases: list[tuple[Shape, Ints, Ints, Ints, Pairs]] = [
        ((2, 4, 2), (2,), (2,), (1,), ((0, 0),)),
        ((1, 5, 1), (2,), (2,), (1,), ((0, 0),)),
        ((1, 6, 2), (3,), (1,), (1,), ((1, 1),)),
        ((1, 7, 1), (2,), (2,), (3,), ((0, 0),)),
        ((1, 4, 5, 2), (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))),
        ((2, 3, 4, 1), (2, 3), (1, 2), (1, 1), ((0, 1), (2, 0))),
        ((0, 3, 1), (2,), (1,), (1,), ((0, 0),)),
    ]
    found = []
    for dtype in ("float64", "float32", "int32"):
        for shape, *params in cases:
            # All different, so that a small change does not change which is the largest.
            x = rng.permutation(math.prod(shape)).reshape(shape).astype(dtype)
            found.append(Sample((x,), dict(zip(_Windows._fields, params, strict=True))))
    return found


WINDOW_MAX = define(
    "window_max",
    "windows",
    params=_Windows._fields,
    spec=lambda x, **params: spec(_counts(x, _Windows(**params)), x.dtype),
    numpy=lambda x, **params: np.max(_lanes(x, _Windows(**params)), axis=-1),
    push=_push,
    pull=_pull,
    batch=_batch,
    examples=_examples,
    sparsity=_sparsity,
    composition=lambda x, **params: _chosen(x, _Windows(**params))[0],
    expensive=True,
    samples=_samples,
)
WINDOW_ARGMAX = define(
    "window_argmax",
    "windows",
    params=_Windows._fields,
    spec=lambda x, **params: spec(_counts(x, _Windows(**params)), _CODE),
    numpy=lambda x, **params: np.take(
        np.array(_codes(_Windows(**params)), _CODE),
        np.argmax(_lanes(x, _Windows(**params)), axis=-1),
    ),
    undefined="window_argmax gives integers",
    batch=_batch,
    examples=_examples,
    composition=lambda x, **params: _chosen(x, _Windows(**params))[1],
    expensive=True,
    samples=_samples,
)
