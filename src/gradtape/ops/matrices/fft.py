"""Discrete Fourier transforms: three linear ops, and the array API's functions made of them.

The adjoint of a transform is the unscaled transform the other way, so `backward` and `forward`
scaling change places and `ortho` stays. The half spectrum of a real signal stands for both halves:
its adjoint scales the inner frequencies, which occur twice, by 2 or 1/2.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import COMPLEX_OF, REAL_OF, as_dtype, default_dtype, to_inexact
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir import Node, Op, Spec, apply, spec
from gradtape.ops.arrays.creation import ARANGE, check_device
from gradtape.ops.arrays.movement import reshape_node, roll
from gradtape.ops.arrays.padding import pad
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.elementwise.arithmetic import greater, identity, less, record_operand, where
from gradtape.ops.elementwise.complexes import conj
from gradtape.ops.families import batching, broadcast_to, cast, independence, normalize_axis
from gradtape.ops.families.define import define
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.shapes import keep_axes, listed
from gradtape.ops.families.signatures import DTypeLike, Tensor, TensorLike, kind_of_operand
from gradtape.ops.families.sparsity import lanes
from gradtape.ops.matrices.fourier_rows import compose_complex, compose_half, compose_real
from gradtape.ops.matrices.operation_counts import complex_transform, real_transform
from gradtape.ops.reductions.reduction import ANY
from gradtape.trace.record import record

# Maps the scaling of a transform to the scaling of its adjoint (and of hfft to that of irfft).
ADJOINT = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

_Axes = Sequence[int] | None


def _mask(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    """A mask rule with one bit for each signal: a transform mixes all elements along its axes."""
    axes = params["axes"] if "axes" in params else (params["axis"],)
    bits = keep_axes(apply(ANY, (mask,), (axes, False)), mask.shape, axes)
    return broadcast_to(bits, inputs[0].shape)


def _to_complex(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    (x,) = inputs
    return (cast(x, COMPLEX_OF[to_inexact(x.dtype)]),)


def _to_real(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    (x,) = inputs
    if x.dtype.kind == "c":
        raise DtypeError(
            f"rfft: {x.dtype} is not real, so its spectrum has two halves. Use fft, or gt.real."
        )
    return (cast(x, to_inexact(x.dtype)),)


def _changed(x: Spec, axis: int, length: int, dtype: Any) -> Spec:
    return spec((*x.shape[:axis], length, *x.shape[axis + 1 :]), dtype)


def _transform(
    name: str, dtypes: tuple[str, ...], *cases: tuple[Any, dict[str, Any]], **rules: Any
) -> Op:
    """Declare a transform; `cases` are the shapes and params of its samples."""

    def samples() -> list[Sample]:
        rng = generator(name)
        return [
            Sample((uniform(rng, (-1.0, 1.0), shape, dtype),), params)
            for dtype in dtypes
            for shape, params in cases
        ]

    return define(
        name,
        "library",
        mask=_mask,
        batch=batching.shifted("axes" if "axes" in rules["params"] else "axis"),
        examples=independence.along_axes,
        sparsity=lanes,
        expensive=True,
        samples=samples,
        **rules,
    )


FFT: Op = _transform(
    "fft",
    ("complex128", "complex64"),
    ((3,), {"axes": (0,), "inverse": False, "norm": "backward"}),
    ((2, 4), {"axes": (0, 1), "inverse": True, "norm": "backward"}),
    ((4, 3), {"axes": (0,), "inverse": False, "norm": "ortho"}),
    ((2, 1, 3), {"axes": (1, 2), "inverse": True, "norm": "forward"}),
    ((0, 2), {"axes": (1,), "inverse": False, "norm": "forward"}),
    params=("axes", "inverse", "norm"),
    spec=lambda x, axes, inverse, norm: x,
    numpy=lambda x, axes, inverse, norm: (np.fft.ifftn if inverse else np.fft.fftn)(
        x, axes=axes, norm=norm
    ),
    promote=_to_complex,
    transpose=lambda g, x, axes, inverse, norm: apply(
        FFT, (g,), (axes, not inverse, ADJOINT[norm])
    ),
    flops=complex_transform,
    composition=compose_complex,
)


def _weigh_inner(x: Node, axis: int, length: int, factor: float) -> Node:
    """Scale the frequencies that occur twice: all but 0 and, for an even length, the highest."""
    numbers = apply(ARANGE, (), (0, x.shape[axis], 1, np.dtype(np.int64)))
    column = reshape_node(numbers, tuple(n if at == axis else 1 for at, n in enumerate(x.shape)))
    is_inner = greater(column, 0) & less(column, (length + 1) // 2)
    return where(is_inner, x * factor, x)


def _rfft_transpose(g: Node, x: Node, axis: int, norm: str) -> Node:
    length = x.shape[axis]
    return apply(IRFFT, (_weigh_inner(g, axis, length, 0.5),), (axis, length, ADJOINT[norm]))


def _irfft_transpose(g: Node, x: Node, axis: int, length: int, norm: str) -> Node:
    spectrum = apply(RFFT, (g,), (axis, ADJOINT[norm]))
    return _weigh_inner(spectrum, axis, length, 2.0)


RFFT: Op = _transform(
    "rfft",
    ("float64", "float32"),
    ((4,), {"axis": 0, "norm": "backward"}),
    ((5,), {"axis": 0, "norm": "forward"}),
    ((3, 2), {"axis": 0, "norm": "ortho"}),
    ((2, 1), {"axis": 1, "norm": "backward"}),
    ((0, 4), {"axis": 1, "norm": "backward"}),
    params=("axis", "norm"),
    spec=lambda x, axis, norm: _changed(x, axis, x.shape[axis] // 2 + 1, COMPLEX_OF[x.dtype]),
    numpy=lambda x, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    promote=_to_real,
    transpose=_rfft_transpose,
    flops=real_transform,
    composition=compose_real,
)

IRFFT: Op = _transform(
    "irfft",
    ("complex128", "complex64"),
    ((3,), {"axis": 0, "length": 4, "norm": "backward"}),
    ((3,), {"axis": 0, "length": 5, "norm": "forward"}),
    ((2, 3), {"axis": 0, "length": 3, "norm": "ortho"}),
    ((2, 1), {"axis": 1, "length": 1, "norm": "backward"}),
    ((0, 2), {"axis": 1, "length": 2, "norm": "backward"}),
    params=("axis", "length", "norm"),
    spec=lambda x, axis, length, norm: _changed(x, axis, length, REAL_OF[x.dtype]),
    numpy=lambda x, axis, length, norm: np.fft.irfft(x, length, axis=axis, norm=norm),
    promote=_to_complex,
    transpose=_irfft_transpose,
    flops=real_transform,
    composition=compose_half,
)


def _norm(name: str, norm: Any) -> str:
    if norm not in ADJOINT:
        raise ValueError(f"{name}: norm {norm!r} is not one of {', '.join(map(repr, ADJOINT))}.")
    return norm


def require_points(name: str, n: Any) -> int:
    found = operator.index(n)
    if found < 1:
        raise ShapeError(f"{name}: {found} points cannot be transformed. Use 1 or more.")
    return found


def _resized(x: Any, axis: int, length: int) -> Any:
    """Cut x, or pad it with zeros, to a length along one axis."""
    missing = length - x.shape[axis]
    if missing < 0:
        return along_axis(x, axis, 0, length)
    widths = [(0, missing if at == axis else 0) for at in range(x.ndim)]
    return pad(x, widths) if missing else x


def _axes_and_lengths(
    name: str, x: Any, s: Any, axes: Any, half: bool = False
) -> tuple[tuple[int, ...], list[int]]:
    """The axes in the caller's order and their lengths; `half`: x has half of the last axis."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    found = tuple(normalize_axis(name, axis, x.ndim) for axis in axes)
    if len(set(found)) != len(found):
        raise ShapeError(f"{name}: axes {tuple(axes)} name an axis twice. Name each once.")
    if s is not None and len(s) != len(found):
        raise ShapeError(f"{name}: {len(s)} lengths for {len(found)} axes. Give one for each.")
    given = [x.shape[axis] for axis in found]
    if s is not None:
        # As in NumPy, -1 keeps the length of the axis.
        given = [
            old if new is None or new == -1 else new for new, old in zip(s, given, strict=True)
        ]
    elif half and given:
        given[-1] = 2 * (given[-1] - 1)
    return found, [require_points(name, n) for n in given]


def _one(axis: int, n: int | None) -> tuple[tuple[int] | None, tuple[int]]:
    """The arguments `s` and `axes` of a transform along one axis."""
    return None if n is None else (require_points("fft", n),), (axis,)


def _transformed(
    name: str, x: Any, s: Any, axes: Any, norm: Any, op: Op = FFT, inverse: bool = False
) -> Any:
    """The transform of a signal: complex, or of real numbers by `op` along the last of the axes."""
    x, norm = record_operand(x), _norm(name, norm)
    order, lengths = _axes_and_lengths(name, x, s, axes, half=op is IRFFT)
    if op is not FFT and not order:
        raise ShapeError(f"{name}: no axis is left for the real signal. Name one or more.")
    for axis, n in zip(order, lengths, strict=True):
        x = _resized(x, axis, n // 2 + 1 if op is IRFFT and axis == order[-1] else n)
    if op is FFT:
        return record(FFT, (x,), (tuple(sorted(order)), inverse, norm))
    others = tuple(sorted(order[:-1]))
    if op is RFFT:
        x = record(RFFT, (x,), (order[-1], norm))
    if others:
        x = record(FFT, (x,), (others, op is IRFFT, norm))
    return record(IRFFT, (x,), (order[-1], lengths[-1], norm)) if op is IRFFT else x


@kind_of_operand
def fft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform along an axis, cut or filled with zeros to n points.

    >>> gt.fft.fft([1.0, 0.0, -1.0, 0.0]).tolist()
    [0j, (2+0j), 0j, (2+0j)]
    """
    return _transformed("fft", x, *_one(axis, n), norm)


@kind_of_operand
def ifft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Inverse of `fft`.

    >>> gt.fft.ifft([0.0, 2.0, 0.0, 2.0]).tolist()
    [(1+0j), 0j, (-1+0j), 0j]
    """
    return _transformed("ifft", x, *_one(axis, n), norm, inverse=True)


@kind_of_operand
def fftn(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: _Axes = None, norm: str = "backward"
) -> Tensor:
    """Discrete Fourier transform along several axes, all by default.

    >>> gt.fft.fftn([[1.0, 1.0], [1.0, 1.0]]).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _transformed("fftn", x, s, axes, norm)


@kind_of_operand
def ifftn(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: _Axes = None, norm: str = "backward"
) -> Tensor:
    """Inverse of `fftn`.

    >>> gt.fft.ifftn([[4.0, 0.0], [0.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return _transformed("ifftn", x, s, axes, norm, inverse=True)


@kind_of_operand
def rfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Fourier transform of a real signal: the half with frequencies from 0 up, n // 2 + 1 of them.

    >>> gt.fft.rfft([1.0, 0.0, -1.0, 0.0]).tolist()
    [0j, (2+0j), 0j]
    """
    return _transformed("rfft", x, *_one(axis, n), norm, RFFT)


@kind_of_operand
def irfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Inverse of `rfft`: a real signal of n points, by default an even number.

    >>> gt.fft.irfft([0.0, 2.0, 0.0]).tolist()
    [1.0, 0.0, -1.0, 0.0]
    """
    return _transformed("irfft", x, *_one(axis, n), norm, IRFFT)


@kind_of_operand
def rfftn(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: _Axes = None, norm: str = "backward"
) -> Tensor:
    """Fourier transform of a real signal along several axes; the last one is halved.

    >>> gt.fft.rfftn([[1.0, 1.0], [1.0, 1.0]]).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _transformed("rfftn", x, s, axes, norm, RFFT)


@kind_of_operand
def irfftn(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: _Axes = None, norm: str = "backward"
) -> Tensor:
    """Inverse of `rfftn`.

    >>> gt.fft.irfftn([[4.0, 0.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _transformed("irfftn", x, s, axes, norm, IRFFT)


@kind_of_operand
def hfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Real spectrum of a signal of which one half is given, the other being its conjugate.

    >>> gt.fft.hfft([1.0, 0.5, 0.0]).tolist()
    [2.0, 1.0, 0.0, 1.0]
    """
    return _transformed("hfft", conj(x), *_one(axis, n), ADJOINT[_norm("hfft", norm)], IRFFT)


@kind_of_operand
def ihfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Inverse of `hfft`.

    >>> gt.real(gt.fft.ihfft([2.0, 1.0, 0.0, 1.0])).tolist()
    [1.0, 0.5, 0.0]
    """
    return conj(_transformed("ihfft", x, *_one(axis, n), ADJOINT[_norm("ihfft", norm)], RFFT))


def fftfreq(
    n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequencies of `fft`, for n points a distance d apart.

    >>> gt.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(
    n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """The frequencies of `rfft`, for n points a distance d apart.

    >>> gt.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype, device)


def _frequencies(name: str, of: Any, n: int, d: float, dtype: Any, device: Any) -> Any:
    check_device(name, device)
    dtype = default_dtype() if dtype is None else as_dtype(dtype)
    if dtype.kind != "f":
        raise DtypeError(
            f"{name}: frequencies are real numbers, not {dtype}. Choose a float dtype."
        )
    return identity(of(require_points(name, n), float(d)).astype(dtype))


@kind_of_operand
def fftshift(x: TensorLike, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency 0 moved to the middle, along all axes by default.

    >>> gt.fft.fftshift(gt.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    return _rolled("fftshift", x, axes, 1)


@kind_of_operand
def ifftshift(x: TensorLike, /, axes: int | Sequence[int] | None = None) -> Tensor:
    """Frequency 0 moved from the middle back to the front.

    >>> gt.fft.ifftshift([-0.5, -0.25, 0.0, 0.25]).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _rolled("ifftshift", x, axes, -1)


def _rolled(name: str, x: Any, axes: Any, sign: int) -> Any:
    x = record_operand(x)
    given = range(x.ndim) if axes is None else listed(axes)
    order = tuple(normalize_axis(name, axis, x.ndim) for axis in given)
    return roll(x, tuple(sign * (x.shape[axis] // 2) for axis in order), axis=order)
