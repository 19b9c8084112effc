"""Random numbers: one op gives bits, and distributions are ordinary ops on them.

The bits come from Philox4x64-10, a function of a key and a counter without any state (Salmon et
al. 2011). A position is four uint64 words, `key[0], key[1], counter[0], counter[1]`; the upper two
of the counter's four words are 0. Word number w of a draw is word w % 4 of the block at counter
position + 1 + w // 4, so that a draw is `np.random.Philox(key=key, counter=counter).random_raw(n)`.

A draw of n numbers takes ceil(n / 4) blocks, whatever their dtype or distribution.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gradtape.config import CALL_COST
from gradtape.errors import ShapeError
from gradtape.ir import Node, Op, Rule, Shape, Spec, apply, constant, spec
from gradtape.ops.elementwise.arithmetic import bitwise_right_shift, remainder, stop_gradient
from gradtape.ops.elementwise.exact_draws import exponential, in_parts, normal_pair
from gradtape.ops.families import (
    Sample,
    batching,
    broadcast_shapes,
    cast,
    lowering,
)
from gradtape.ops.families.define import define
from gradtape.ops.families.elementwise import spec_of
from gradtape.ops.families.math_functions import ERFINV, SCIPY_ERF
from gradtape.ops.families.native_code import NativeCall
from gradtape.trace.record import record

if TYPE_CHECKING:
    from gradtape.dtypes import DType
    from gradtape.ops.families.signatures import Tensor, TensorLike
    from gradtape.ops.families.vector_code import Builder, Vector
    from gradtape.trace.value import Handle

WORDS_PER_BLOCK = 4
# Bytes in which a routine has the words that it has not converted yet.
_SCRATCH = 1 << 12
_WORD = np.dtype(np.uint64)
_DOUBLE = np.dtype(np.float64)
_ROOT_TWO = math.sqrt(2.0)
# The number of leading bits of a word used for a float in [0, 1): the size of its significand.
_SIGNIFICAND = {np.dtype(np.float64): 53, np.dtype(np.float32): 24}


def _bits_spec(position: Spec, shape: Shape) -> Spec:
    if position.shape[-1:] != (4,) or position.dtype != _WORD:
        raise ShapeError(
            f"random_bits: a position of {position} is not uint64[4]. "
            "Pass the two words of the key and two of the counter."
        )
    return spec(position.shape[:-1] + shape, _WORD)


def _words(position: np.ndarray, count: int) -> np.ndarray:
    """`count` words from a position, or from each of several positions along leading axes."""
    if position.ndim > 1:
        drawn = np.empty((math.prod(position.shape[:-1]), count), _WORD)
        for row, one in zip(drawn, position.reshape(-1, 4), strict=True):
            row[:] = _words(one, count)
        return drawn.reshape((*position.shape[:-1], count))
    counter = np.array([position[2], position[3], 0, 0], _WORD)
    return np.random.Philox(key=position[:2], counter=counter).random_raw(count)


def _bits_kernel(position: np.ndarray, shape: Shape) -> np.ndarray:
    return _words(position, math.prod(shape)).reshape(position.shape[:-1] + shape)


RANDOM_BITS = define(
    "random_bits",
    "random",
    params=("shape",),
    spec=_bits_spec,
    numpy=_bits_kernel,
    undefined="random bits do not depend on anything smoothly",
    batch=batching.leading,
    expensive=True,
    native=lambda y: _natively("bits")(y),
    samples=lambda: [
        Sample((np.array([1, 2, 3, 0], _WORD),), {"shape": shape}, order=0)
        for shape in ((5,), (2, 3), (), (0, 2))
    ],
)


def blocks(count: int) -> int:
    """The number of blocks by which a draw of `count` numbers advances the counter."""
    return -(-count // WORDS_PER_BLOCK)


def bits(position: np.ndarray | Handle, shape: Shape) -> Tensor:
    """Uniform 64-bit words."""
    return record(RANDOM_BITS, (position,), (shape,))


def unit_interval(words: Tensor, dtype: DType) -> Tensor:
    """Numbers in [0, 1) from the leading bits of words, evenly spaced."""
    kept = _SIGNIFICAND[dtype]
    return cast(bitwise_right_shift(words, 64 - kept), dtype) * 2.0**-kept


# One key must give the same numbers in every tier, but compiled functions differ from NumPy's in
# the last bits. So each distribution is one op, with a formula that every tier rounds alike.


def _fractions(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    kept = _SIGNIFICAND[dtype]
    return (words >> np.uint64(64 - kept)).astype(dtype) * dtype.type(2.0**-kept)


def _normal_kernel(position: np.ndarray, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A pair of words gives the radius and the angle of a pair of normal numbers."""
    count = math.prod(shape)
    pairs = -(-count // 2)
    lead = position.shape[:-1]
    uniform = _fractions(_words(position, 2 * pairs), dtype).reshape(-1, 2).T
    both = in_parts(normal_pair, dtype, *np.ascontiguousarray(uniform))
    return both.reshape(*lead, 2 * pairs)[..., :count].reshape(lead + shape)


def _exponential_kernel(position: np.ndarray, shape: Shape, dtype: np.dtype) -> np.ndarray:
    uniform = _fractions(_words(position, math.prod(shape)), dtype)
    return in_parts(exponential, dtype, uniform.reshape(-1)).reshape(position.shape[:-1] + shape)


def _natively(kind: str) -> Rule:
    """The rule of a routine that draws numbers."""

    def rule(y: Node) -> NativeCall:
        (position,) = y.inputs
        rows = position.size // 4
        count = y.size // rows
        options = (kind, y.dtype.str[1:], "one" if rows == 1 else "many")
        total = blocks(count) if rows == 1 else rows
        return NativeCall("draw_numbers", options, (count,), total, 8 * y.size, _SCRATCH)

    return rule


def _distribution(name: str, kernel: Rule) -> Op:
    return define(
        name,
        "random",
        undefined="random numbers do not depend on their seed smoothly",
        params=("shape", "dtype"),
        spec=lambda position, shape, dtype: spec(position.shape[:-1] + shape, dtype),
        numpy=kernel,
        batch=batching.leading,
        expensive=True,
        native=_natively(name.removeprefix("standard_")),
        samples=lambda: [
            Sample((np.array([1, 2, 3, 0], _WORD),), {"shape": shape, "dtype": dtype}, order=0)
            for shape in ((5,), (2, 3), (), (0, 2))
            for dtype in _SIGNIFICAND
        ],
    )


NORMAL = _distribution("standard_normal", _normal_kernel)
EXPONENTIAL = _distribution("standard_exponential", _exponential_kernel)


def _truncated_kernel(
    position: np.ndarray, lower: np.ndarray, upper: np.ndarray, shape: Shape, dtype: DType
) -> np.ndarray:
    """The inverse of the distribution function between two bounds."""
    uniform = _fractions(_words(position, math.prod(shape)), dtype)
    uniform = uniform.reshape(position.shape[:-1] + shape)
    return _truncated_quantile_numpy(*(x.astype(_DOUBLE) for x in (uniform, lower, upper))).astype(
        dtype
    )


def _truncated_quantile_numpy(
    uniform: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    # SciPy is loaded at first use: importing it takes longer than the library.
    from scipy import special

    low, high = special.erf(lower / _ROOT_TWO), special.erf(upper / _ROOT_TWO)
    found = special.erfinv(low + (high - low) * uniform) * _ROOT_TWO
    return np.minimum(np.maximum(found, lower), upper)


def _truncated_quantile_llvm(b: Builder, uniform: Vector, lower: Vector, upper: Vector) -> Vector:
    """The same by SciPy's own functions, rounded alike."""

    def rounded(name: str, x: Vector, y: Vector) -> Vector:
        return b.arithmetic(name, name, x, y, contract=False)

    root = b.constant(_ROOT_TWO, uniform.dtype)
    low, high = (b.call(SCIPY_ERF, rounded("fdiv", x, root)) for x in (lower, upper))
    chosen = rounded("fadd", low, rounded("fmul", rounded("fsub", high, low), uniform))
    found = rounded("fmul", b.call(ERFINV, chosen), root)
    return lowering.smaller(b, lowering.larger(b, found, lower), upper)


_BOUNDS = "the bounds of truncated normal numbers are taken as constants"
QUANTILE = define(
    "truncated_quantile",
    "elementwise",
    undefined=_BOUNDS,
    spec=spec_of("truncated_quantile", 3, "same"),
    numpy=_truncated_quantile_numpy,
    llvm=_truncated_quantile_llvm,
    compiled_cost=2 * CALL_COST,
    samples=lambda: [
        Sample((np.array([0.1, 0.7]), np.array(-2.0), np.array([[1.5], [0.0]])), order=0)
    ],
    doc="Quantiles of a normal distribution between two bounds.",
)


def _truncated_composition(
    position: Node, lower: Node, upper: Node, shape: Shape, dtype: DType
) -> Node:
    kept = _SIGNIFICAND[dtype]
    words = apply(RANDOM_BITS, (position,), (shape,))
    count = constant(64 - kept, spec((), _WORD))
    scale = constant(2.0**-kept, spec((), _DOUBLE))
    uniform = cast(bitwise_right_shift(words, count), _DOUBLE) * scale
    found = apply(QUANTILE, (uniform, cast(lower, _DOUBLE), cast(upper, _DOUBLE)))
    return cast(found, dtype)


def _truncated_spec(position: Spec, lower: Spec, upper: Spec, shape: Shape, dtype: DType) -> Spec:
    drawn = position.shape[:-1] + shape
    return spec(broadcast_shapes("truncated_normal", [drawn, lower.shape, upper.shape]), dtype)


def _truncated_batch(
    inputs: batching.Inputs, batched: batching.Flags, y: Node, shape: Shape, dtype: np.dtype
) -> Node:
    position, lower, upper = inputs
    bounds = batching.aligned((lower, upper), batched[1:], y.ndim)
    # `shape` gets as many axes as the result has, so that the axis of examples comes in front.
    own = len(shape) + y.inputs[0].ndim - 1
    full = (1,) * (y.ndim - own) + shape
    return apply(y.op, (position, *bounds), (full, dtype))


TRUNCATED_NORMAL = define(
    "standard_truncated_normal",
    "random",
    undefined=_BOUNDS,
    params=("shape", "dtype"),
    spec=_truncated_spec,
    numpy=_truncated_kernel,
    batch=_truncated_batch,
    expensive=True,
    composition=_truncated_composition,
    samples=lambda: [
        Sample(
            (np.array([1, 2, 3, 0], _WORD), np.array(-2.0), np.array(1.5)),
            {"shape": (2, 3), "dtype": np.dtype(np.float64)},
            order=0,
        )
    ],
)


def standard_normal(position: np.ndarray | Handle, shape: Shape, dtype: DType) -> Tensor:
    return record(NORMAL, (position,), (shape, dtype))


def standard_exponential(position: np.ndarray | Handle, shape: Shape, dtype: DType) -> Tensor:
    return record(EXPONENTIAL, (position,), (shape, dtype))


def standard_truncated_normal(
    position: np.ndarray | Handle, shape: Shape, dtype: DType, lower: TensorLike, upper: TensorLike
) -> Tensor:
    bounds = [stop_gradient(cast(bound, dtype)) for bound in (lower, upper)]
    return record(TRUNCATED_NORMAL, (position, *bounds), (shape, dtype))


def integers_below(words: Tensor, count: int) -> Tensor:
    """Integers 0 to count - 1 from words; the bias is at most count / 2⁶⁴."""
    return words if count == 2**64 else remainder(words, count)
