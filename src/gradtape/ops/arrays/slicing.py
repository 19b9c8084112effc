"""Slices: ops that read or write a regular part of a tensor, or put the part into zeros.

The three ops share one description of the part: `starts`, `lengths` and `steps`, one of each per
axis, and the `shape` that the part has without the axes that integers dropped and with those that
`None` added. A start of None means that the start is the next of the op's last operands, so that
a loop over `x[i : i + 64]` is one program and not one for each `i`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import MOST_FIXED_STARTS, REMEMBERED_SLICES
from gradtape.dtypes import Array, DType
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir import REGISTRY, Node, Rule, Shape, Spec, View, apply, constant, spec
from gradtape.ops.families import (
    batching,
    cast,
    identities,
    independence,
    kind_of_operand,
    memory_copies,
)
from gradtape.ops.families.define import define
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.shapes import Ints, broadcast_shapes, reduce_to
from gradtape.trace import record, state
from gradtape.trace.record import application, entered, new_leaf

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import Tensor

Starts = tuple[int | None, ...]


INT64 = spec((), np.dtype(np.int64))


class _Starts:
    """The starts of a kind of slice, and how many recordings had one that none had before them."""

    __slots__ = ("axes", "last", "recordings", "seen")

    def __init__(self, axes: Ints) -> None:
        # The axes along which the part is not whole: their starts may become operands.
        self.axes = axes
        self.seen: set[Ints] = set()
        self.recordings = 0
        self.last = -1

    @property
    def move(self) -> bool:
        """Whether starts are operands from now on."""
        return self.recordings > MOST_FIXED_STARTS


# By kind of slice, and whether a capture of a function reads it.
_seen: dict[Any, _Starts] = {}


class _Loops:
    """The number of kinds of slices whose starts became operands so far."""

    count = 0


def _key(moving: tuple[Any, ...], starts: Starts, lengths: Ints, steps: Ints) -> tuple[slice, ...]:
    """The part as a NumPy key; `moving` holds the starts that are operands."""
    given = iter(moving)
    found = []
    for start, length, step in zip(starts, lengths, steps, strict=True):
        first = int(next(given)) if start is None else start
        last = first + length * step
        found.append(slice(first, last if last >= 0 else None, step) if length else slice(0, 0))
    return tuple(found)


def _slice_numpy(x: Array, *moving: Array, shape: Shape, **part: Any) -> Array:
    return np.asarray(x)[_key(moving, **part)].reshape(shape)


def _unslice_numpy(g: Array, *moving: Array, shape: Shape, **part: Any) -> Array:
    result = np.zeros(shape, g.dtype)
    result[_key(moving, **part)] = np.reshape(g, part["lengths"])
    return result


def _set_numpy(x: Array, value: Array, *moving: Array, shape: Shape, **part: Any) -> Array:
    result = np.array(x)
    result[_key(moving, **part)] = np.broadcast_to(value, shape).reshape(part["lengths"])
    return result


def _transpose(into: str) -> Rule:
    """Reads are the transpose of putting a part into zeros, and the other way round."""
    return lambda g, x, *moving, starts, lengths, steps, shape: apply(
        REGISTRY[into], (g, *moving), (starts, lengths, steps, x.shape)
    )


def _unslice_spec(g: Spec, *moving: Spec, lengths: Ints, shape: Shape, **_: Any) -> Spec:
    assert g.size == math.prod(lengths)
    return spec(shape, g.dtype)


def _batched_part(size: int, starts: Starts, lengths: Ints, steps: Ints, shape: Shape) -> Any:
    """The params that select the same part of every example."""
    return (0, *starts), (size, *lengths), (1, *steps), (size, *shape)


def _part_batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    if any(batched[1:]):  # starts differ between examples: the union is not a regular part
        return batching.one_by_one(inputs, batched, y)
    return apply(y.op, inputs, _batched_part(inputs[0].shape[0], *y.params))


def _slice_samples(name: str, whole: bool) -> Rule:
    """Samples that read parts of whole arrays, or that put parts into zeros."""

    def samples() -> list[Sample]:
        rng = generator(name)
        cases: list[tuple[Shape, Starts, Ints, Ints, Shape, Ints]] = [
            ((4, 3), (1, 0), (2, 3), (1, 1), (2, 3), ()),
            ((4, 3), (3, 2), (2, 2), (-2, -1), (2, 2), ()),
            ((4, 3), (2, 0), (1, 3), (1, 1), (3,), ()),
            ((4, 3), (0, 1), (4, 1), (1, 1), (4, 1, 1), ()),
            ((4, 3), (None, 0), (2, 3), (1, 1), (2, 3), (2,)),
            ((4, 3), (None, None), (1, 1), (1, 1), (), (3, 1)),
            ((5,), (0,), (0,), (1,), (0,), ()),
            ((0, 2), (0, 1), (0, 1), (1, 1), (0,), ()),
            ((), (), (), (), (), ()),
        ]
        found = []
        for dtype in ("float64", "complex128", "int32", "bool"):
            for full, starts, lengths, steps, shape, moving in cases:
                x = uniform(rng, (-2, 2), full if whole else shape, dtype)
                params = {"starts": starts, "lengths": lengths, "steps": steps}
                params["shape"] = shape if whole else full
                found.append(Sample((x, *map(np.asarray, moving)), params))
        return found

    return samples


_PART = ("starts", "lengths", "steps", "shape")
SLICE = define(
    "slice",
    "movement",
    params=_PART,
    spec=lambda x, *moving, shape, **_: spec(shape, x.dtype),
    numpy=_slice_numpy,
    weak=(),
    transpose=_transpose("unslice"),
    batch=_part_batch,
    examples=independence.part(False, result=True),
    view=View.SLICE,
    simpler=identities.view,
    copies=memory_copies.slice_,
    samples=_slice_samples("slice", whole=True),
)
UNSLICE = define(
    "unslice",
    "movement",
    params=_PART,
    spec=_unslice_spec,
    numpy=_unslice_numpy,
    weak=(),
    transpose=_transpose("slice"),
    batch=_part_batch,
    examples=independence.part(True, result=False),
    copies=memory_copies.unslice,
    samples=_slice_samples("unslice", whole=False),
)


def cast_value(what: str, x: Node, value: Node) -> Node:
    """The value, cast to the dtype of x; an error for casts such as float to int."""
    check_writable(what, value.dtype, x.dtype)
    return cast(value, x.dtype)


def check_writable(what: str, dtype: DType, into: DType) -> None:
    if not np.can_cast(dtype, into, "same_kind"):
        raise DtypeError(
            f"{what}: a value of dtype {dtype} cannot be written to a tensor of dtype {into}. "
            "Cast one of them first."
        )


def _set_promote(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    x, value, *moving = inputs
    return (x, cast_value("x[...] = v", x, value), *moving)


def _set_spec(x: Spec, value: Spec, *moving: Spec, shape: Shape, **_: Any) -> Spec:
    if value.shape != shape and broadcast_shapes("x[...] = v", [shape, value.shape]) != shape:
        raise ShapeError(
            f"x[...] = v: a value of shape {value.shape} does not fit the part of shape {shape} "
            "that the key names. Choose a larger part or a smaller value."
        )
    return x


def _set_vjp(
    index: int, g: Node, y: Node, inputs: tuple[Node, ...], reduction: str = "sum", **params: Any
) -> Node:
    if index == 0:
        nothing = constant(0, spec((), g.dtype))
        return apply(SET_SLICE, (g, nothing, *inputs[2:]), y.params)
    return reduce_to(apply(SLICE, (g, *inputs[2:]), y.params), inputs[1].shape, reduction)


def _set_mask(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    return _set_vjp(index, mask, y, inputs, reduction="any", **params)


def _set_batch(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    if any(batched[2:]):
        return batching.one_by_one(inputs, batched, y)
    x, value, *moving = inputs
    size = batching.size_of(inputs, batched)
    x = x if batched[0] else batching.spread(x, size)
    if batched[1]:
        value = batching.lifted(value, len(params["shape"]))
    return apply(y.op, (x, value, *moving), _batched_part(size, *y.params))


def _set_samples() -> list[Sample]:
    rng = generator("set_slice")
    found = []
    for sample in SLICE.samples():
        x, *moving = sample.inputs
        if x.dtype.kind not in "fc":
            continue
        shape = sample.params["shape"]
        found.append(Sample((x, uniform(rng, (-2, 2), shape, x.dtype), *moving), sample.params))
        found.append(Sample((x, uniform(rng, (-2, 2), (), x.dtype), *moving), sample.params))
    params = {"starts": (1, 0), "lengths": (2, 3), "steps": (1, 1), "shape": (2, 3)}
    x = np.arange(12).reshape(4, 3)
    found.append(Sample((x * 0.5, np.array([[1.0], [2.0]])), params))
    found.append(Sample((x, np.array([1, 2, 3], np.int32)), params))
    found.append(Sample((x.astype(np.float32), np.array([1.5, 2, 3])), params, order=0))
    return found


SET_SLICE = define(
    "set_slice",
    "movement",
    params=_PART,
    spec=_set_spec,
    numpy=_set_numpy,
    promote=_set_promote,
    weak=(0, 1),
    vjp=_set_vjp,
    mask=_set_mask,
    batch=_set_batch,
    examples=independence.part(False, True, result=False),
    copies=memory_copies.set_slice,
    samples=_set_samples,
)


def moving_starts(full: Shape, starts: Ints, lengths: Ints, steps: Ints) -> tuple[Starts, Ints]:
    """The starts that are params (None for the others), and the starts that are operands.

    A part with fixed starts is a view, and equal reads are found by their params. So starts are
    params, however many of them one recording has. Once many recordings had a new start of a kind
    of slice, the code is taken for a loop over positions, whose recordings should be one program.
    """
    recording = state.recording
    kind = (full, lengths, steps, recording.capturing is not None)
    found = _seen.get(kind)
    if found is None:
        if len(_seen) >= REMEMBERED_SLICES:
            _seen.clear()
        described = enumerate(zip(full, lengths, steps, strict=True))
        axes = tuple(at for at, (n, length, step) in described if length != n or step != 1)
        found = _seen[kind] = _Starts(axes)
    if starts not in found.seen and not found.move:
        if len(found.seen) >= REMEMBERED_SLICES:
            found.seen.clear()
        found.seen.add(starts)
        found.recordings += recording.stamp != found.last
        found.last = recording.stamp
        if found.move:
            _Loops.count += 1  # invalidates all remembered reads
    if not found.move:
        return starts, ()
    # Along axes that are not in `axes` the part is whole and starts at 0.
    fixed: list[int | None] = [0] * len(full)
    for axis in found.axes:
        fixed[axis] = None
    return tuple(fixed), tuple([starts[axis] for axis in found.axes])


def read_part(x: Any, starts: Ints, lengths: Ints, steps: Ints, shape: Shape) -> Any:
    """A regular part of a node or tensor."""
    fixed, moving = moving_starts(x.shape, starts, lengths, steps)
    params = (fixed, lengths, steps, shape)
    recording = state.recording
    source = entered(recording, x)
    if source is None:
        return record(SLICE, (x, *moving), params)
    # The fast path, as for element-wise ops.
    starting = (new_leaf(recording, start, INT64) for start in moving)
    kind = x.result_class.view_class
    return application(recording, SLICE, (x, *moving), (source, *starting), params, kind)


def repeated_read(x: Any, key: slice) -> Any:
    """`x[key]` if an equal read is remembered, without parsing the key; otherwise None."""
    start, stop, step = key.start, key.stop, key.step
    for bound in (start, stop, step):
        if bound is not None and type(bound) is not int:
            return None
    recording = state.recording
    source = entered(recording, x)
    if source is None:
        return None
    node = recording.table.reads.get((source, start, stop, step, _Loops.count))
    if node is None or node.stamp >= recording.stamp:
        return None
    node.stamp = recording.stamp
    recording.log.append(node)
    return recording.hold(node, x.result_class.view_class)


def remember_read(part: Any, key: slice) -> None:
    """Remember a part that was just read for `repeated_read`, if its starts are params."""
    recording = state.recording
    node = getattr(part, "node", None)
    if node is None or part.recording is not recording or node.op is not SLICE or node.inputs[1:]:
        return
    _, lengths, steps, _ = node.params
    seen = _seen.get((node.inputs[0].shape, lengths, steps, recording.capturing is not None))
    if seen is None or seen.move:
        return
    if recording.interned.get((SLICE, node.params, *node.inputs)) is not node:
        return  # a twin: the next recording applies the first node first
    reads = recording.table.reads
    if len(reads) > REMEMBERED_SLICES:
        reads.clear()
    reads[node.inputs[0], key.start, key.stop, key.step, _Loops.count] = node


def write_part(x: Any, value: Any, starts: Ints, lengths: Ints, steps: Ints, shape: Shape) -> Any:
    """The node or tensor with a regular part replaced."""
    fixed, moving = moving_starts(x.shape, starts, lengths, steps)
    return record(SET_SLICE, (x, value, *moving), (fixed, lengths, steps, shape))


@kind_of_operand
def along_axis(x: Any, axis: int, start: int, length: int, step: int = 1) -> Tensor:
    """A part along one axis, whole along all others; `start` and `axis` are not negative."""
    starts, lengths, steps = axis_part(x.shape, axis, start, length, step)
    return record(SLICE, (x,), (starts, lengths, steps, lengths))


def axis_part(
    shape: Shape, axis: int, start: int, length: int, step: int = 1
) -> tuple[Ints, Ints, Ints]:
    """Starts, lengths and steps of a part along one axis."""
    before, after = axis, len(shape) - axis - 1
    return (
        (0,) * before + (start,) + (0,) * after,
        (*shape[:axis], length, *shape[axis + 1 :]),
        (1,) * before + (step,) + (1,) * after,
    )
