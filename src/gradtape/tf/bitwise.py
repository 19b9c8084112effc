"""Operations on the bits of integers: `tf.bitwise`."""

from __future__ import annotations

from gradtape.ops.elementwise import arithmetic
from gradtape.ops.elementwise import unary as core
from gradtape.tf.elementwise import binary, unary
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift",
]  # fmt: skip

bitwise_and = binary(
    "bitwise_and", arithmetic.bitwise_and, "Bits set in both.",
    "tf.bitwise.bitwise_and(6, 3).numpy().item()", "2", "iu",
)  # fmt: skip
bitwise_or = binary(
    "bitwise_or", arithmetic.bitwise_or, "Bits set in either.",
    "tf.bitwise.bitwise_or(6, 3).numpy().item()", "7", "iu",
)  # fmt: skip
bitwise_xor = binary(
    "bitwise_xor", arithmetic.bitwise_xor, "Bits set in one only.",
    "tf.bitwise.bitwise_xor(6, 3).numpy().item()", "5", "iu",
)  # fmt: skip
left_shift = binary(
    "left_shift", arithmetic.bitwise_left_shift, "Bits shifted left.",
    "tf.bitwise.left_shift(1, 3).numpy().item()", "8", "iu",
)  # fmt: skip
right_shift = binary(
    "right_shift", arithmetic.bitwise_right_shift, "Bits shifted right.",
    "tf.bitwise.right_shift(8, 3).numpy().item()", "1", "iu",
)  # fmt: skip
invert = unary(
    "invert", core.bitwise_invert, "Every bit the other way.",
    "tf.bitwise.invert(0).numpy().item()", "-1", "iu",
)  # fmt: skip

__getattr__ = attribute_finder(__name__, globals())
