"""NumPy's products, `numpy.linalg` and `numpy.fft` on tensors, with NumPy's parameter names."""

from __future__ import annotations

import functools

import numpy as np

from gradtape import fft, linalg
from gradtape.interop.numpy_protocols.binding import AnyFunction, refusal, same_names
from gradtape.ops.arrays import creation, movement, triangles
from gradtape.ops.elementwise import complexes, unary
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axis
from gradtape.ops.matrices import contraction, einsum as contractions, products
from gradtape.ops.reductions import reduction
from gradtape.tensor.tensor import asarray

__all__ = ["FUNCTIONS"]


def vdot(a, b, /):
    a, b = (movement.reshape(asarray(each), (-1,)) for each in (a, b))
    return products.dot(complexes.conj(a) if a.dtype.kind == "c" else a, b)


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    a, b = movement.moveaxis(a, axisa, -1), movement.moveaxis(b, axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(
            f"np.cross: vectors of {a.shape[-1]} and {b.shape[-1]} components; both need three."
        )
    found = linalg.cross(a, b)
    return found if axisc == -1 else movement.moveaxis(found, -1, axisc)


def einsum(*operands, optimize=False, **kwargs):
    dtype = kwargs.pop("dtype", None)
    for name, value in kwargs.items():
        if value is not None and name not in ("order", "casting"):
            raise refusal("np.einsum", name, value)
    subscripts, parts = operands[0], operands[1:]
    if not isinstance(subscripts, str):
        subscripts, parts = _subscripts(operands)
    parts = tuple(asarray(part) for part in parts)
    if dtype is not None:
        parts = tuple(cast(part, dtype) for part in parts)
    return contractions.einsum(subscripts, *parts)


def _subscripts(operands):
    """NumPy's other form: operands and lists of axes in turn, at last the axes of the result."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    terms = [
        "".join("..." if label is Ellipsis else letters[label] for label in labels)
        for labels in (*operands[1::2], *(operands[-1:] if len(operands) % 2 else ()))
    ]
    parts = operands[: 2 * (len(operands) // 2) : 2]
    inputs = ",".join(terms[: len(parts)])
    return (f"{inputs}->{terms[-1]}" if len(operands) % 2 else inputs), parts


def multi_dot(arrays):
    return functools.reduce(products.dot, [asarray(each) for each in arrays])


def norm(x, ord=None, axis=None, keepdims=False):
    x = asarray(x)
    x = x if x.dtype.kind in "fc" else x / 1.0
    if axis is None:
        if ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1):
            return linalg.vector_norm(x, keepdims=keepdims)
        axes = tuple(range(x.ndim))
    else:
        axes = (axis,) if np.ndim(axis) == 0 else tuple(axis)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"np.linalg.norm: ord={ord!r} is a norm of matrices, not of vectors.")
        return linalg.vector_norm(x, ord=2 if ord is None else ord, axis=axes[0], keepdims=keepdims)
    if len(axes) != 2:
        raise ValueError(f"np.linalg.norm: axis={axis} with ord={ord}: give one axis or two.")
    rows, columns = (normalize_axis("norm", one, x.ndim) for one in axes)
    if rows == columns:
        raise ValueError(f"np.linalg.norm: axis={axis} names one axis twice.")
    found = linalg.matrix_norm(
        movement.moveaxis(x, (rows, columns), (-2, -1)), ord=_matrix_order(ord)
    )
    return movement.expand_dims(found, tuple(sorted((rows, columns)))) if keepdims else found


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    return linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)


def _matrix_order(ord):
    return "fro" if ord is None or ord == "f" else ord


def _symmetric(a, UPLO):
    """The Hermitian matrix of one triangle, which is all that NumPy reads."""
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f"UPLO={UPLO!r} is not 'L' or 'U'.")
    a = asarray(a)
    a = a if a.dtype.kind in "fc" else a / 1.0
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        return a  # the decomposition says what is wrong with it
    strict = triangles.tril(a, k=-1) if UPLO in "Ll" else triangles.triu(a, k=1)
    other = movement.matrix_transpose(strict)
    own = creation.eye(a.shape[-1], dtype=a.dtype) * complexes.real(a)
    return own + strict + (complexes.conj(other) if a.dtype.kind == "c" else other)


def eigh(a, UPLO="L"):
    return linalg.eigh(_symmetric(a, UPLO))


def eigvalsh(a, UPLO="L"):
    return linalg.eigvalsh(_symmetric(a, UPLO))


def cholesky(a, /, *, upper=False):
    return linalg.cholesky(_symmetric(a, "U" if upper else "L"), upper=upper)


def pinv(a, rcond=None, *, rtol=None):
    a = asarray(a)
    if rcond is None and rtol is None:
        rcond = max(a.shape[-2:]) * np.finfo(a.dtype if a.dtype.kind in "fc" else float).eps
    return linalg.pinv(a, rtol=rtol if rcond is None else rcond)


def svd(a, full_matrices=True, compute_uv=True):
    if not compute_uv:
        return linalg.svdvals(a)
    return linalg.svd(a, full_matrices=full_matrices)


def qr(a, mode="reduced"):
    if mode == "r":
        return linalg.qr(a).R
    if mode not in ("reduced", "complete"):
        raise refusal("np.linalg.qr", "mode", mode)
    return linalg.qr(a, mode=mode)


def matrix_rank(A, tol=None, *, rtol=None):
    A = asarray(A)
    if A.ndim < 2:
        return cast(reduction.any(A), "int64")
    if tol is None:
        return linalg.matrix_rank(A, rtol=rtol)
    values = linalg.svdvals(A)
    limit = movement.expand_dims(asarray(tol), -1)
    return reduction.count_nonzero(values > limit, axis=-1)


def cond(x, p=None):
    x = asarray(x)
    if p in (None, 2, -2):
        values = linalg.svdvals(x)
        largest, least = values[..., 0], values[..., -1]
        return least / largest if p == -2 else largest / least
    return norm(x, p, (-2, -1)) * norm(linalg.inv(x), p, (-2, -1))


def lstsq(a, b, rcond=None):
    a, b = asarray(a), asarray(b)
    a, b = (each if each.dtype.kind in "fc" else each / 1.0 for each in (a, b))
    eps = np.finfo(a.dtype).eps
    limit = max(a.shape) * eps if rcond is None else eps if rcond == -1 else rcond
    x = linalg.lstsq(a, b, rtol=limit)
    values = linalg.svdvals(a)
    rank = int(reduction.count_nonzero(values > values[0] * limit))
    residuals = creation.zeros((0,), dtype=values.dtype)
    if rank == a.shape[1] < a.shape[0]:
        miss = complexes.abs(b - contraction.matmul(a, x))
        residuals = reduction.sum(unary.square(miss), axis=0, keepdims=b.ndim == 1)
    return x, residuals, np.int32(rank), values


def tensorinv(a, ind=2):
    a = asarray(a)
    if ind <= 0:
        raise ValueError(f"np.linalg.tensorinv: ind={ind} is not positive.")
    shape = a.shape[ind:] + a.shape[:ind]
    return movement.reshape(
        linalg.inv(movement.reshape(a, (int(np.prod(a.shape[:ind])), -1))), shape
    )


def tensorsolve(a, b, axes=None):
    a, b = asarray(a), asarray(b)
    if axes is not None:
        order = [axis for axis in range(a.ndim) if axis not in axes] + list(axes)
        a = movement.permute_dims(a, tuple(order))
    shape = a.shape[b.ndim :]
    square = movement.reshape(a, (b.size, -1))
    return movement.reshape(linalg.solve(square, movement.reshape(b, (-1,))), shape)


def _fft(name, **defaults):
    ours = getattr(fft, name)

    @functools.wraps(ours)
    def call(a, norm=None, **options):
        return ours(a, **(defaults | options), norm=norm or "backward")

    return call


_KINDS = ("fft", "ifft", "rfft", "irfft")
FUNCTIONS: dict[AnyFunction, AnyFunction] = {
    **same_names(np, vars(products), "dot inner outer kron tensordot"),
    **same_names(np, globals(), "vdot cross einsum"),
    **same_names(
        np.linalg,
        globals(),
        "norm vector_norm cholesky qr svd eigh eigvalsh pinv cond matrix_rank lstsq multi_dot "
        "tensorinv tensorsolve",
    ),
    **same_names(
        np.linalg, vars(linalg), "solve inv det slogdet svdvals matrix_power cross diagonal trace"
    ),
    **same_names(np.linalg, vars(products), "outer tensordot vecdot"),
    np.linalg.matmul: contraction.matmul,
    np.linalg.matrix_transpose: movement.matrix_transpose,
    np.linalg.matrix_norm: lambda x, /, *, keepdims=False, ord="fro": norm(
        x, ord, (-2, -1), keepdims
    ),
    **{
        getattr(np.fft, name): _fft(name)
        for name in (*_KINDS, "hfft", "ihfft", *(f"{name}n" for name in _KINDS))
    },
    **{getattr(np.fft, f"{name}2"): _fft(f"{name}n", axes=(-2, -1)) for name in _KINDS},
    np.fft.fftshift: fft.fftshift,
    np.fft.ifftshift: fft.ifftshift,
}
