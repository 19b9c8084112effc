"""The largest element of each window along axes of a tensor, as pooling asks for it.

    x (batch, lengths..., channels) -> (batch, counts..., channels)

The first of equal elements has the derivative, and a NaN is larger than any number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.graph import (
    REGISTRY,
    Node,
    Op,
    Shape,
    Spec,
    Undefined,
    apply,
    constant,
    declare,
    spec,
)
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.slicing import SLICE, UNSLICE
from gradtape.ops.elementwise.arithmetic import where
from gradtape.ops.families import batching, examples
from gradtape.ops.families.reads import Listed, Operand, nothing
from gradtape.ops.families.samples import Sample, generator
from gradtape.ops.families.windows import Ints, counts_of, positions, windows_of
from gradtape.recording.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.reads import OpReads

_POSITION = np.dtype(np.int32)


def window_max(x: Any, window: Ints, strides: Ints, dilations: Ints) -> Any:
    """The largest element of each window of a node or tensor with axes as the module says."""
    return record(WINDOW_MAX, (x,), (window, strides, dilations))


def _counts(x: Spec, window: Ints, strides: Ints, dilations: Ints) -> Shape:
    if x.ndim != len(window) + 2:
        raise ShapeError(
            f"window_max: shape {x.shape} with a window of {window}: an axis is missing."
        )
    counts = counts_of(x.shape[1:-1], window, strides, dilations)
    if min(counts, default=1) < 1 or min(window, default=1) < 1:
        raise ShapeError(
            f"window_max: windows of {window} do not fit into {x.shape[1:-1]}. Pad it."
        )
    return (x.shape[0], *counts, x.shape[-1])


def _lanes(x: np.ndarray, window: Ints, strides: Ints, dilations: Ints) -> np.ndarray:
    """The elements of each window along a last axis."""
    found = np.moveaxis(windows_of(x, window, strides, dilations), -1, len(window) + 1)
    return found.reshape(*found.shape[: len(window) + 2], math.prod(window))


def _parts(x: Node, params: tuple[Ints, Ints, Ints]) -> list[Node]:
    """For each position in the window, the elements that all windows see there."""
    return [
        apply(SLICE, (x,), (starts, lengths, steps, lengths))
        for starts, lengths, steps in positions(x.shape, *params)
    ]


def _chosen(x: Node, params: tuple[Ints, Ints, Ints]) -> tuple[Node, Node]:
    """The largest elements and their positions, element by element."""
    best, *others = _parts(x, params)
    position = constant(0, spec(best.shape, _POSITION))
    for number, part in enumerate(others, start=1):
        larger = part > best
        if x.dtype.kind == "f":
            first_nan = apply(REGISTRY["isnan"], (part,)) & (
                apply(REGISTRY["logical_not"], (apply(REGISTRY["isnan"], (best,)),))
            )
            larger = larger | first_nan
        best = where(larger, part, best)
        position = where(larger, constant(number, position.spec), position)
    return best, position


def _position_of(x: Node, params: tuple[Any, ...]) -> Node:
    return apply(WINDOW_ARGMAX, (x,), params)


def _here(position: Node, number: int) -> Node:
    return apply(REGISTRY["equal"], (position, constant(number, position.spec)))


def _jvp(tangents: tuple[Node, ...], y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    (tangent,), (x,) = tangents, inputs
    position = _position_of(x, y.params)
    first, *others = _parts(tangent, y.params)
    for number, part in enumerate(others, start=1):
        first = where(_here(position, number), part, first)
    return first


def _vjp(
    index: int, g: Node, y: Node, inputs: tuple[Node, ...],
    window: Ints, strides: Ints, dilations: Ints,
) -> Node:  # fmt: skip
    (x,) = inputs
    position = _position_of(x, y.params)
    if strides == window and set(dilations) <= {1}:
        return _spread(g, position, x.shape, window)
    zero = constant(0, spec((), g.dtype))
    total: Node | None = None
    for number, part in enumerate(positions(x.shape, window, strides, dilations)):
        share = where(_here(position, number), g, zero)
        placed = apply(UNSLICE, (share,), (*part, x.shape))
        total = placed if total is None else total + placed
    assert total is not None
    return total


def _spread(g: Node, position: Node, shape: Shape, window: Ints) -> Node:
    """Cotangents of windows that lie side by side: each element belongs to one window."""
    counts = g.shape[1:-1]
    apart, own = [g.shape[0]], [1]
    for n, w in zip(counts, window, strict=True):
        apart += [n, 1]
        own += [1, w]
    numbers = apply(REGISTRY["arange"], (), (0, math.prod(window), 1, _POSITION))
    numbers = movement.reshape(numbers, (*own, 1))
    parted = (*apart, g.shape[-1])
    here = apply(REGISTRY["equal"], (movement.reshape(position, parted), numbers))
    found = where(here, movement.reshape(g, parted), constant(0, spec((), g.dtype)))
    covered = tuple(n * w for n, w in zip(counts, window, strict=True))
    whole = (g.shape[0], *covered, g.shape[-1])
    found = movement.reshape(found, whole)
    if whole == shape:
        return found
    return apply(UNSLICE, (found,), ((0,) * len(shape), whole, (1,) * len(shape), shape))


def _batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    (x,) = inputs
    joined = batching.reshaped(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    return batching.reshaped(apply(y.op, (joined,), y.params), (x.shape[0], *y.shape))


def _examples(y: Node, places: examples.Places) -> examples.Batch:
    """Windows keep what lies along the axes of batch and channels apart."""
    (place,) = places
    assert place is not None
    axis = place.axis(y.inputs[0])
    if axis not in (0, y.ndim - 1):
        examples.mixes(y)
    return examples.placed(y, axis, place.count)


def _sparsity(y: Node, operands: tuple[Operand, ...], **params: Ints) -> OpReads:
    # Loaded here because few programs ask for the pattern of a pooling.
    from scipy.sparse import csr_array

    (x,) = operands
    numbers = _lanes(np.arange(x.size).reshape(x.shape), **params)
    starts = np.arange(y.size + 1) * numbers.shape[-1]
    entries = np.ones(numbers.size, bool)
    return (Listed(csr_array((entries, numbers.reshape(-1), starts), (y.size, x.size))),)


def _samples() -> list[Sample]:
    rng = generator("window_max")
    cases: list[tuple[Shape, Ints, Ints, Ints]] = [
        ((2, 4, 2), (2,), (2,), (1,)),
        ((1, 5, 1), (2,), (2,), (1,)),
        ((1, 6, 2), (3,), (1,), (1,)),
        ((1, 7, 1), (2,), (2,), (3,)),
        ((1, 4, 5, 2), (2, 2), (2, 2), (1, 1)),
        ((2, 3, 4, 1), (2, 3), (1, 1), (1, 1)),
        ((0, 3, 1), (2,), (1,), (1,)),
    ]
    found = []
    for dtype in ("float64", "float32", "int32"):
        for shape, window, strides, dilations in cases:
            # All different, so that a small change does not change which is the largest.
            x = rng.permutation(math.prod(shape)).reshape(shape).astype(dtype)
            params = {"window": window, "strides": strides, "dilations": dilations}
            found.append(Sample((x,), params))
    return found


_PARAMS = ("window", "strides", "dilations")
WINDOW_MAX = declare(Op(
    "window_max", "windows", params=_PARAMS,
    spec=lambda x, **params: spec(_counts(x, **params), x.dtype),
    numpy=lambda x, **params: np.max(_lanes(x, **params), axis=-1),
    jvp=_jvp, vjp=_vjp, batch=_batch, examples=_examples, sparsity=_sparsity,
    composition=lambda x, **params: _chosen(x, tuple(params.values()))[0], expensive=True,
    samples=_samples,
))  # fmt: skip
WINDOW_ARGMAX = declare(Op(
    "window_argmax", "windows", params=_PARAMS,
    spec=lambda x, **params: spec(_counts(x, **params), _POSITION),
    numpy=lambda x, **params: np.argmax(_lanes(x, **params), axis=-1).astype(_POSITION),
    jvp=Undefined("window_argmax gives integers"), vjp=Undefined("window_argmax gives integers"),
    batch=_batch, examples=_examples, sparsity=nothing,
    composition=lambda x, **params: _chosen(x, tuple(params.values()))[1], expensive=True,
    samples=_samples,
))  # fmt: skip
