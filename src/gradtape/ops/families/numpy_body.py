"""NumPy body: formulas of kernels computed on NumPy arrays.

A formula is written once: kernels write it with vectors of IR, and NumPy runs it on `Numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.dtypes import Array, DType
from gradtape.ir.math_function import Composition, MathFunction, ScipyFunction
from gradtape.ops.families.math_functions import RINT


class Numbers(np.ndarray[Any, Any]):
    """An array as formulas see it: floats, integers of the same size, or booleans."""

    def compare(self, predicate: str, other: Any) -> Any:
        """A mask by LLVM's predicate `une`."""
        assert predicate == "une", predicate
        return self != other

    def equals(self, other: Any) -> Any:
        """A mask of equal floats."""
        return self == other

    def isnan(self) -> Any:
        """A mask of NaNs."""
        return np.isnan(self)

    def shift_right(self, count: int, signed: bool = False) -> Any:
        """Bits moved down; the integers are signed."""
        return self >> count

    def bits(self) -> Any:
        """The bits of floats as integers."""
        return self.view(f"i{self.itemsize}")

    def floats(self) -> Any:
        """The bits of integers as floats."""
        return self.view(f"f{self.itemsize}")

    def converted(self) -> Any:
        """Integers as floats."""
        return self.astype(f"f{self.itemsize}")


def numpy_kernel(name: str) -> Callable[..., Any]:
    """The function of a name in NumPy, or else in SciPy."""
    return getattr(np, name, None) or (lambda *x: scipy_special()[name](*x))


def scipy_special() -> dict[str, Any]:
    """The special functions of SciPy."""
    # Imported at first use: that takes longer than importing gradtape.
    import scipy.special

    return vars(scipy.special)


class NumpyBody:
    """The functions that formulas apply to `Numbers` of one dtype."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.fraction = 23 if dtype == np.float32 else 52

    def lift(self, value: float) -> Any:
        """The same number everywhere."""
        return np.asarray(value, self.dtype).view(Numbers)

    def apply(self, function: MathFunction, *operands: Any) -> Any:
        """A function of C, LLVM or SciPy."""
        if function is RINT:  # of a complex number its real part
            return np.rint(np.real(*operands))
        functions = scipy_special() if isinstance(function, ScipyFunction) else vars(np)
        return functions[function.name](*operands)

    def absolute(self, x: Any) -> Any:
        """|x|."""
        return np.abs(x)

    def copysign(self, x: Any, sign: Any) -> Any:
        """`x` with the sign of another value."""
        return np.copysign(x, sign)

    def select(self, mask: Any, chosen: Any, other: Any) -> Any:
        """`chosen` where a mask holds, `other` elsewhere."""
        return np.where(mask, chosen, other).view(Numbers)


def computed(formula: Callable[..., Any], dtype: DType, *arrays: Array) -> Any:
    """The result of a formula for arrays, computed in a dtype."""
    return formula(NumpyBody(dtype), *(np.asarray(x, dtype).view(Numbers) for x in arrays))


def kernel_of(function_of: Callable[..., Composition]) -> Callable[..., Array]:
    """The NumPy kernel of an op with params: the formula for these, computed in double."""

    def kernel(x: Array, **params: Any) -> Array:
        wide = np.result_type(x, np.float64)
        found = computed(function_of(**params).write, wide, x)
        return np.asarray(found).astype(x.dtype)

    return kernel
