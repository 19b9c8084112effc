"""Functions of complex numbers that are not analytic, and the same functions of real ones.

The cotangent of z is dL/dRe + i dL/dIm, so a reverse rule is the adjoint of its forward rule in
the real inner product Re(conj(a) * b). The derivatives of abs, angle and sign at 0 are 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradtape.dtypes import Array
from gradtape.ir import Linear, Node
from gradtape.ops.elementwise import complex_formulas
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.ops.families import cast, lowering
from gradtape.ops.families.elementwise import Unary, conjugate, elementwise, zeros_like
from gradtape.ops.families.math_functions import ATAN2
from gradtape.ops.families.sparsity import RuleInput, elements, nothing

if TYPE_CHECKING:
    from gradtape.ops.families.sparsity import OpReads

# Samples avoid 0, where abs, angle and sign are not differentiable.
_NONZERO = [(0.4, 2.0)]


def _is_complex(node: Node) -> bool:
    return node.dtype.kind == "c"


def _over(numerator: Node, size: Node) -> Node:
    """numerator / size, and 0 where the size is 0."""
    return where(equal(size, 0), 0.0, numerator / size)


def _if_complex(y: Node, operands: tuple[RuleInput, ...]) -> OpReads:
    """The sparsity of ops whose derivative is 0 for real operands, but not for complex ones."""
    return (elements if operands[0].spec.dtype.kind == "c" else nothing)(y, operands)


real: Unary = elementwise(
    "real",
    "Real part; a real operand is its own.",
    ("1.0 + 2.0j", 1.0),
    numpy=lambda x: x.real,
    accepts="any",
    push=lambda t, y, z: real(t) if _is_complex(z) else t,
    pull=lambda g, y, z: cast(g, z.dtype),
    result="real",
    llvm=lambda b, x: b.real(x),
    linear=Linear((0,)),
)
imag: Unary = elementwise(
    "imag",
    "Imaginary part; of a real operand 0.",
    ("1.0 + 2.0j", 2.0),
    numpy=lambda x: x.imag,
    accepts="any",
    push=lambda t, y, z: imag(t) if _is_complex(z) else zeros_like(y),
    pull=lambda g, y, z: cast(g, z.dtype) * 1j if _is_complex(z) else zeros_like(z),
    result="real",
    sparsity=_if_complex,
    llvm=lambda b, x: b.imaginary(x),
    linear=Linear((0,)),
)
conj = elementwise(
    "conj",
    "Complex conjugate.",
    ("1.0 + 2.0j", 1 - 2j),
    numpy=lambda x: np.conjugate(x) if x.dtype.kind == "c" else x,
    accepts="any",
    push=lambda t, y, z: conjugate(t),
    pull=lambda g, y, z: conjugate(g),
    linear=Linear((0,)),
    llvm=lambda b, x: b.conjugate(x),
)


abs = elementwise(
    "abs",
    "Absolute value; derivative 0 at 0.",
    ("3.0 + 4.0j", 5.0),
    accepts="numeric",
    push=lambda t, y, z: real(conjugate(sign(z)) * t) if _is_complex(z) else sign(z) * t,
    pull=lambda g, y, z: g * sign(z),
    result="real",
    domains=_NONZERO,
    llvm=lowering.absolute,
)


def _turn(tangent: Node, y: Node, z: Node) -> Node:
    """The part of a tangent that rotates z; the map is symmetric, so it serves both modes."""
    if not _is_complex(z):
        return zeros_like(y)
    turning = _over(imag(conjugate(sign(z)) * tangent), abs(z))
    return sign(z) * 1j * turning


def _sign_kernel(x: Array) -> Array:
    if x.dtype.kind == "c":
        # NumPy divides by |x|, which may overflow though x is finite.
        size = np.maximum(np.abs(x.real), np.abs(x.imag))
        large = (size > np.finfo(size.dtype).max / 4) & (size < np.inf)
        if large.any():
            with np.errstate(invalid="ignore"):
                x = np.where(large, x * x.dtype.type(0.25), x)
    return np.sign(x)


sign: Unary = elementwise(
    "sign",
    "-1, 0 or 1; z / |z| for complex numbers.",
    ("-2.0", -1.0),
    numpy=_sign_kernel,
    accepts="numeric",
    push=_turn,
    pull=_turn,
    domains=_NONZERO,
    llvm=lowering.for_complex(complex_formulas.sign, lowering.sign),
    sparsity=_if_complex,
)


def _push_angle(t: Node, y: Node, z: Node) -> Node:
    return _over(imag(conjugate(sign(z)) * t), abs(z)) if _is_complex(z) else zeros_like(y)


def _pull_angle(g: Node, y: Node, z: Node) -> Node:
    return sign(z) * 1j * _over(g, abs(z)) if _is_complex(z) else zeros_like(z)


angle = elementwise(
    "angle",
    "Angle with the real axis, in radians.",
    ("1.0j", 1.570796),
    numpy=lambda z: np.arctan2(z.imag, z.real),
    push=_push_angle,
    pull=_pull_angle,
    result="real",
    domains=_NONZERO,
    sparsity=_if_complex,
    function=ATAN2,
    llvm=lowering.angle,
)
