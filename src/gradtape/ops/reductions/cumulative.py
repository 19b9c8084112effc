"""Cumulative sums and products, and the linear recurrence that differentiates products.

y_i = x_0 … x_i satisfies y_i = x_i y_(i-1), so its tangent satisfies
t_i = x_i t_(i-1) + y_(i-1) dx_i: a first-order linear recurrence. It has no division, so it is
exact at zeros, and its own derivatives are recurrences again: every order is O(n).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, SupportsIndex

import numpy as np

from gradtape.argument_checks import as_flag
from gradtape.config import SHORT_RECURRENCE
from gradtape.dtypes import Array, as_dtype
from gradtape.errors import ShapeError
from gradtape.ir import REGISTRY, Accumulation, Node, Op, Rule, Spec, apply, spec
from gradtape.ops.arrays.creation import constant_beside
from gradtape.ops.arrays.slicing import SET_SLICE, UNSLICE, along_axis, axis_part
from gradtape.ops.blas_lapack import call
from gradtape.ops.elementwise.arithmetic import record_operand
from gradtape.ops.families import batching, independence, normalize_axis, promotion
from gradtape.ops.families.define import define, nonzero
from gradtape.ops.families.elementwise import conjugate
from gradtape.ops.families.reductions import accumulator, in_dtype
from gradtape.ops.families.samples import DTYPES, Sample, drawn, generator
from gradtape.ops.families.signatures import DTypeLike, Tensor, TensorLike, kind_of_operand
from gradtape.ops.families.sparsity import running
from gradtape.suggestions import unexpected_arguments
from gradtape.trace.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import TensorOrNode


def resize_axis(
    x: TensorOrNode, axis: int, before: int, after: int, fill: float = 0
) -> TensorOrNode:
    """Put `before` fill values in front of an axis, `after` behind; negative counts drop."""
    length = x.shape[axis]
    count = max(length + min(before, 0) + min(after, 0), 0)
    kept = along_axis(x, axis, max(-before, 0) if count else 0, count)
    shape = (*x.shape[:axis], length + before + after, *x.shape[axis + 1 :])
    place: tuple[Any, ...] = axis_part(shape, axis, max(before, 0) if count else 0, count)
    if fill == 0:
        return record(UNSLICE, (kept,), (*place, shape))
    filled = constant_beside(x, REGISTRY["full"], (shape, fill, x.dtype))
    return record(SET_SLICE, (filled, kept), (*place, kept.shape))


def previous(x: TensorOrNode, axis: int, reverse: bool, fill: float = 0) -> TensorOrNode:
    """Each element's predecessor along the axis, its successor if reversed."""
    return resize_axis(x, axis, -1, 1, fill) if reverse else resize_axis(x, axis, 1, -1, fill)


def _in_direction(kernel: Rule) -> Rule:
    def directed(x: Array, axis: int, reverse: bool) -> Array:
        if not reverse:
            return kernel(x, axis=axis)
        return np.flip(kernel(np.flip(x, axis), axis=axis), axis)

    return directed


def _cumulative_samples(name: str) -> list[Sample]:
    found = drawn(
        name,
        ("axis", "reverse"),
        ((4,), 0, False),
        ((2, 3), 0, True),
        ((2, 3), 1, False),
        ((0, 2), 0, False),
        ((2, 0), 0, True),
        dtypes=DTYPES,
    )()
    zeros = np.array([0.7, 0.0, 1.3, 0.0, -0.4])
    return [*found, Sample((zeros,), found[0].params)]


def _define(name: str, **rules: Any) -> Op:
    """Declare an op that accumulates along an axis, in one direction or the other."""
    return define(
        name,
        "cumulative",
        params=("axis", "reverse"),
        mask=lambda index, mask, y, inputs, axis, reverse: _reached(mask, axis, reverse),
        batch=batching.shifted("axis"),
        examples=independence.along_axes,
        sparsity=running,
        expensive=True,
        **{
            "spec": lambda x, axis, reverse: spec(x.shape, accumulator(x.dtype)),
            "samples": lambda: _cumulative_samples(name),
            **rules,
        },
    )


CUMULATIVE_SUM: Op = _define(
    "cumulative_sum",
    numpy=_in_direction(np.cumsum),
    transpose=lambda g, x, axis, reverse: apply(CUMULATIVE_SUM, (g,), (axis, not reverse)),
    scan=Accumulation.SUM,
)


def _reached(mask: Node, axis: int, reverse: bool) -> Node:
    """The mask of a scan's operand: true if any result that the element reaches is masked."""
    return nonzero(apply(CUMULATIVE_SUM, (mask,), (axis, not reverse)))


def _recurrence_spec(a: Spec, b: Spec, axis: int, reverse: bool) -> Spec:
    if a.shape != b.shape:
        raise ShapeError(
            f"linear_recurrence: shapes {a.shape} and {b.shape} differ. Broadcast one first."
        )
    return spec(b.shape, b.dtype)


def _recurrence_kernel(a: Array, b: Array, axis: int, reverse: bool) -> Array:
    if reverse:
        a, b = np.flip(a, axis), np.flip(b, axis)
    result = np.empty_like(b, order="C")
    # Views with the recurrence along the first axis; writing to `lanes` fills `result`.
    a, b, lanes = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0), np.moveaxis(result, axis, 0)
    length = len(b)
    # The state is a derivative: a state of 0 must stay 0 even if the coefficient is infinite, as it
    # may be in a branch that `where` did not take.
    finite = bool(np.isfinite(a).all())
    if finite and length > max(SHORT_RECURRENCE, lanes.size // max(length, 1)):
        _recurrence_by_substitution(a, b, lanes)
    else:
        for i in range(length):
            if i == 0:
                lanes[i] = b[i]
            elif finite:
                lanes[i] = a[i] * lanes[i - 1] + b[i]
            else:
                lanes[i] = np.where(lanes[i - 1] == 0, 0, a[i] * lanes[i - 1]) + b[i]
    return np.flip(result, axis) if reverse else result


def _recurrence_by_substitution(a: Array, b: Array, lanes: Array) -> None:
    """h_i - a_i h_(i-1) = b_i is a bidiagonal system, which one BLAS call per lane solves."""
    length = len(b)
    band = np.zeros((2, length), lanes.dtype, order="F")
    for lane in np.ndindex(b.shape[1:]):
        band[1, :-1] = -a[(slice(1, None), *lane)]
        states = b[(slice(None), *lane)].copy()
        call("tbsv", lanes.dtype, "L", "N", "U", length, 1, band, 2, states, 1)
        lanes[(slice(None), *lane)] = states


def _recurrence_jvp(
    tangents: Any, y: Node, inputs: tuple[Node, ...], axis: int, reverse: bool
) -> Node:
    a, _ = inputs
    ta, tb = tangents
    drive = tb
    if ta is not None:
        bent = ta * previous(y, axis, reverse)
        drive = bent if tb is None else bent + tb
    return apply(LINEAR_RECURRENCE, (a, drive), (axis, reverse))


def _recurrence_vjp(
    index: int, g: Node, y: Node, inputs: tuple[Node, ...], axis: int, reverse: bool
) -> Node:
    # The adjoint runs in reverse, and each element uses the coefficient of the element after it.
    following = previous(conjugate(inputs[0]), axis, not reverse)
    adjoint = apply(LINEAR_RECURRENCE, (following, g), (axis, not reverse))
    return adjoint if index == 1 else adjoint * conjugate(previous(y, axis, reverse))


LINEAR_RECURRENCE = _define(
    "linear_recurrence",
    spec=_recurrence_spec,
    numpy=_recurrence_kernel,
    promote=promotion("linear_recurrence", "float", "inexact"),
    jvp=_recurrence_jvp,
    vjp=_recurrence_vjp,
    scan=Accumulation.RECURRENCE,
    samples=lambda: _recurrence_samples(),
    doc="h_i = a_i h_(i-1) + b_i along an axis, from h_(-1) = 0; a state of 0 takes no part.",
)


def _recurrence_samples() -> list[Sample]:
    rng = generator("linear_recurrence")
    cases: list[tuple[tuple[int, ...], int, bool, str]] = [
        ((4,), 0, False, "float64"),
        ((3, 2), 0, True, "float64"),
        ((2, 3), 1, False, "complex128"),
        ((2, 3), 1, False, "float32"),
        ((SHORT_RECURRENCE + 6,), 0, False, "float64"),
        ((2, SHORT_RECURRENCE + 6), 1, True, "float64"),
        ((0,), 0, False, "float64"),
        ((2, 0), 0, False, "float64"),
    ]
    found = []
    for shape, axis, reverse, dtype in cases:
        a, b = rng.uniform(-1, 1, (2, *shape)).astype(dtype)
        if a.dtype.kind == "c":
            a = a + 0.3j
        found.append(Sample((a, b), {"axis": axis, "reverse": reverse}))
    return found


CUMULATIVE_PROD = _define(
    "cumulative_prod",
    numpy=_in_direction(np.cumprod),
    push=lambda t, y, x, axis, reverse: apply(
        LINEAR_RECURRENCE, (x, previous(y, axis, reverse, fill=1) * t), (axis, reverse)
    ),
    scan=Accumulation.PROD,
)


def product_of_others(x: Node, axis: int) -> Node:
    """For each element the product of all others along the axis."""
    before = previous(apply(CUMULATIVE_PROD, (x,), (axis, False)), axis, False, fill=1)
    after = previous(apply(CUMULATIVE_PROD, (x,), (axis, True)), axis, True, fill=1)
    return before * after


def _cumulative(op: Op, start: int, x: Any, axis: Any, dtype: Any, include_initial: object) -> Any:
    initial = as_flag(f"{op.name}: include_initial", include_initial)
    dtype = None if dtype is None else as_dtype(dtype)
    x = in_dtype(record_operand(x), dtype)
    if x.ndim == 0:
        x = record(REGISTRY["reshape"], (x,), ((1,),))
    if axis is None and x.ndim > 1:
        raise ShapeError(
            f"{op.name}: axis is None and the tensor has shape {x.shape}. "
            f"Pass an axis from {-x.ndim} to {x.ndim - 1}."
        )
    position = normalize_axis(op.name, 0 if axis is None else axis, x.ndim)
    result = in_dtype(record(op, (x,), (position, False)), dtype)
    return resize_axis(result, position, 1, 0, start) if initial else result


@kind_of_operand
def cumulative_sum(
    x: TensorLike,
    /,
    axis: SupportsIndex | None = None,
    *more: Never,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    **unknown: Never,
) -> Tensor:
    """Running sums along an axis; `include_initial` puts the empty sum, 0, in front.

    >>> gt.cumulative_sum(gt.asarray([1, 2, 3])).tolist()
    [1, 3, 6]
    >>> gt.cumulative_sum(gt.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return _cumulative(CUMULATIVE_SUM, 0, x, axis, dtype, include_initial)


@kind_of_operand
def cumulative_prod(
    x: TensorLike,
    /,
    axis: SupportsIndex | None = None,
    *more: Never,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    **unknown: Never,
) -> Tensor:
    """Products of the first elements along an axis; the derivative is exact at zeros too.

    >>> gt.cumulative_prod(gt.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    >>> gt.cumulative_prod(gt.asarray([1, 2, 3]), include_initial=True).tolist()
    [1, 1, 2, 6]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    return _cumulative(CUMULATIVE_PROD, 1, x, axis, dtype, include_initial)
