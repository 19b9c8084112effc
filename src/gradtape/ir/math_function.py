"""Mathematical functions by which an Op says how kernels compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NotLowered(Exception):  # noqa: N818 - a result, not a fault
    """An op has no rule for these dtypes or params; NumPy or a library computes it."""


class MathFunction:
    """A mathematical function that kernels can call on vectors of floats.

    `has_complex` says that C's <complex.h> has the function too, with a c before its name.
    """

    def __init__(self, name: str, arity: int = 1, has_complex: bool = False) -> None:
        self.name = name
        self.arity = arity
        self.has_complex = has_complex


class Libm(MathFunction):
    """A function of C's libm, by its name for doubles; floats add an f to it."""


class Intrinsic(MathFunction):
    """One of LLVM's own functions, which is exact and mostly a single instruction."""


class ScipyFunction(MathFunction):
    """A function of doubles that SciPy exports for Cython, under one of these names."""

    def __init__(self, name: str, *exports: str, arity: int = 1) -> None:
        super().__init__(name, arity)
        self.exports = exports


class Composition(MathFunction):
    """A function made of others: `write(body, *operands)` writes it with a FunctionBody.

    If it shares most of its work with another function `beside` it, `write_both` writes the values
    of that function and of this one, in this order. Kernels that need both call it once.
    """

    def __init__(
        self,
        name: str,
        write: Callable[..., Any],
        arity: int = 1,
        *,
        beside: MathFunction | None = None,
        write_both: Callable[..., tuple[Any, Any]] | None = None,
    ) -> None:
        super().__init__(name, arity)
        self.write = write
        self.beside = beside
        self.write_both = write_both
