"""Operations on the bits of integers: `tf.bitwise`. Each is a row, as in ops/elementwise.py."""

from __future__ import annotations

import gradtape as gt
from gradtape.libraries import check_exports as _check_exports
from gradtape.ops.elementwise import arithmetic as core
from gradtape.tf.base.operators import Binary
from gradtape.tf.ops import elementwise

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
]


def _row(function: Binary, sentence: str, example: str, result: str) -> elementwise.Binary:
    return elementwise.binary(function, "iu", sentence, example, result, namespace="tf.bitwise")


bitwise_and = _row(core.bitwise_and, "Bits set in both.", "bitwise_and(6, 3)", "2")
bitwise_or = _row(core.bitwise_or, "Bits set in either.", "bitwise_or(6, 3)", "7")
bitwise_xor = _row(core.bitwise_xor, "Bits set in one only.", "bitwise_xor(6, 3)", "5")
left_shift = _row(core.bitwise_left_shift, "Bits shifted left.", "left_shift(1, 3)", "8")
right_shift = _row(core.bitwise_right_shift, "Bits shifted right.", "right_shift(8, 3)", "1")
invert = elementwise.unary(
    gt.bitwise_invert, "iu", "Every bit inverted.", "invert(0)", "-1", namespace="tf.bitwise"
)


_check_exports(globals(), __all__)
