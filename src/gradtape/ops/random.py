"""Random numbers: one op gives bits, and distributions are ordinary ops on them.

The bits come from Philox4x64-10, a function of a key and a counter without any state (Salmon et
al. 2011). A position is four uint64 words, `key[0], key[1], counter[0], counter[1]`; the upper two
of the counter's four words are 0. Word number w of a draw is word w % 4 of the block at counter
position + 1 + w // 4, so that a draw is `np.random.Philox(key=key, counter=counter).random_raw(n)`.

A draw of n numbers takes ceil(n / 4) blocks, whatever their dtype or distribution.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.graph.op import Op, Undefined, declare
from gradtape.graph.recording import record
from gradtape.graph.spec import Shape, Spec, spec
from gradtape.ops.arithmetic import bitwise_right_shift, clip, identity, remainder
from gradtape.ops.casting import cast
from gradtape.ops.elementwise import cos, log1p, sin, sqrt
from gradtape.ops.joining import stack
from gradtape.ops.movement import reshape
from gradtape.ops.samples import Sample
from gradtape.ops.slicing import along_axis
from gradtape.ops.special import erf, erfinv

WORDS_PER_BLOCK = 4
_WORD = np.dtype(np.uint64)
_ROOT_TWO = math.sqrt(2.0)
# How many leading bits of a word make a number in [0, 1): as many as its significand holds.
_SIGNIFICAND = {np.dtype(np.float64): 53, np.dtype(np.float32): 24}


def _bits_spec(position: Spec, shape: Shape) -> Spec:
    if position.shape != (4,) or position.dtype != _WORD:
        raise ShapeError(
            f"random_bits: a position of {position} is not uint64[4]. "
            "Pass the two words of the key and two of the counter."
        )
    return spec(shape, _WORD)


def _bits_kernel(position: Any, shape: Shape) -> Any:
    counter = np.array([position[2], position[3], 0, 0], _WORD)
    source = np.random.Philox(key=position[:2], counter=counter)
    return source.random_raw(math.prod(shape)).reshape(shape)


RANDOM_BITS = declare(
    Op(
        "random_bits",
        "random",
        spec=_bits_spec,
        numpy=_bits_kernel,
        jvp=Undefined("random bits do not depend on anything smoothly"),
        vjp=Undefined("random bits do not depend on anything smoothly"),
        params=("shape",),
        samples=lambda: [
            Sample((np.array([1, 2, 3, 0], _WORD),), {"shape": shape}, order=0)
            for shape in ((5,), (2, 3), (), (0, 2))
        ],
        expensive=True,
    )
)


def blocks(count: int) -> int:
    """How far a draw of so many numbers moves the counter."""
    return -(-count // WORDS_PER_BLOCK)


def bits(position: Any, shape: Shape) -> Any:
    """Uniform 64-bit words."""
    return record(RANDOM_BITS, (position,), (shape,))


def unit_interval(words: Any, dtype: Any) -> Any:
    """Numbers in [0, 1) from the leading bits of words, evenly spaced."""
    kept = _SIGNIFICAND[dtype]
    return cast(bitwise_right_shift(words, 64 - kept), dtype) * 2.0**-kept


def standard_normal(position: Any, shape: Shape, dtype: Any) -> Any:
    """Box and Muller: a pair of words gives the radius and angle of a pair of numbers."""
    count = math.prod(shape)
    pairs = -(-count // 2)
    uniform = unit_interval(bits(position, (pairs, 2)), dtype)
    radius = sqrt(log1p(-along_axis(uniform, 1, 0, 1)) * -2.0)
    angle = along_axis(uniform, 1, 1, 1) * (2.0 * math.pi)
    both = reshape(stack([radius * cos(angle), radius * sin(angle)], axis=1), (2 * pairs,))
    if count != 2 * pairs:
        both = along_axis(both, 0, 0, count)
    # A tensor of its own, not a view of the pairs: it may be written to.
    return identity(reshape(both, shape))


def standard_exponential(position: Any, shape: Shape, dtype: Any) -> Any:
    """Minus the logarithm of a uniform number that is never 0."""
    return -log1p(-unit_interval(bits(position, shape), dtype))


def standard_truncated_normal(
    position: Any, shape: Shape, dtype: Any, lower: Any, upper: Any
) -> Any:
    """The inverse of the distribution function between two bounds."""
    low, high = (erf(cast(bound, dtype) * (1.0 / _ROOT_TWO)) for bound in (lower, upper))
    uniform = unit_interval(bits(position, shape), dtype)
    return clip(
        erfinv(low + (high - low) * uniform) * _ROOT_TWO, cast(lower, dtype), cast(upper, dtype)
    )


def integers_below(words: Any, count: int) -> Any:
    """Words to integers 0 to count - 1; the bias is at most count / 2⁶⁴."""
    return words if count == 2**64 else remainder(words, count)
