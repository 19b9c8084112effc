"""Deferred numbers: Python numbers that are inputs of a captured program, not constants in it.

Arithmetic with other numbers gives deferred numbers again, so `rate * 0.5**epoch` is computed anew
in every replay. A comparison guards its outcome. Code that needs the number itself (`float`,
`range`, `math.sqrt`) guards the number; see gradtape.functions.capture.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import Array, DType

Number = int | float | complex
Compute = Callable[[Sequence[Any]], Any]
Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]

_PLAIN = (int, float, bool, complex)


class Deferred:
    """The number of the captured call, and how a replay computes it from its own numbers."""

    __slots__ = ("compute", "guard", "value")

    def __init__(
        self, value: Number, compute: Compute, guard: Callable[[Compute, object], None]
    ) -> None:
        self.value = value
        self.compute = compute
        # Adds a guard: the capture holds only for calls that compute the same value.
        self.guard = guard

    @property
    def kind(self) -> type:
        """`int`, `float` or `complex`."""
        return type(self.value)

    # `isinstance` sees the type of the number. C code, which would read the number past the guard,
    # looks at the true type.
    __class__ = property(lambda self: type(self.value))

    def read(self) -> Any:
        """The number itself; the capture then holds for this number only."""
        self.guard(self.compute, self.value)
        return self.value

    def derived(self, operate: Callable[..., Any], *others: object) -> Any:
        """The result of `operate` on this number and others; deferred if it is a number, too."""
        value = operate(self.value, *[x.value if type(x) is Deferred else x for x in others])
        parts = [
            self.compute,
            *[x.compute if type(x) is Deferred else _constant(x) for x in others],
        ]

        def compute(numbers: Sequence[object]) -> object:
            return operate(*[part(numbers) for part in parts])

        if type(value) not in (int, float, complex):
            self.guard(compute, value)
            return value
        return Deferred(value, compute, self.guard)

    @property
    def real(self) -> Any:
        """The real part."""
        return self.derived(lambda number: number.real)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return self.derived(lambda number: number.imag)

    def conjugate(self) -> Any:
        """The complex conjugate."""
        return self.derived(lambda number: number.conjugate())

    def __float__(self) -> float:
        return float(self.read())

    def __int__(self) -> int:
        return int(self._decided(int))

    def __index__(self) -> int:
        return operator.index(self.read())

    def __bool__(self) -> bool:
        return self._decided(bool)

    def __complex__(self) -> complex:
        return complex(self.read())

    def __trunc__(self) -> int:
        return self._decided(math.trunc)

    def __floor__(self) -> int:
        return self._decided(math.floor)

    def __ceil__(self) -> int:
        return self._decided(math.ceil)

    def _decided(self, look: Unary) -> Any:
        """The result of `look` on the number, guarded: other numbers may give the same."""
        compute, found = self.compute, look(self.value)
        self.guard(lambda numbers: look(compute(numbers)), found)
        return found

    def __round__(self, digits: int | None = None) -> Any:
        return self.derived(round, digits)

    def __divmod__(self, other: Any) -> tuple[object, object]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[object, object]:
        return other // self, other % self

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self.read(), dtype)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        if any(hasattr(x, "enter") for x in inputs):  # tensors handle deferred numbers
            return NotImplemented
        given = [x.read() if type(x) is Deferred else x for x in inputs]
        return getattr(ufunc, method)(*given, **kwargs)

    def __hash__(self) -> int:
        return hash(self.read())

    def __repr__(self) -> str:
        return self._decided(repr)

    def __format__(self, template: str) -> str:
        return self._decided(lambda number: format(number, template))

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.kind, name):
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        return getattr(self.read(), name)

    def __reduce__(self) -> tuple[type, tuple[Number]]:
        return self.kind, (self.read(),)

    def __copy__(self) -> Deferred:
        return self

    def __deepcopy__(self, memo: object) -> Deferred:
        return self


def _constant(x: object) -> Compute:
    return lambda numbers: x


def _binary(operate: Binary) -> Callable[..., object]:
    # Only `pow` may be called with a third operand.
    def method(self: Deferred, other: object, *modulus: object) -> object:
        if any(type(x) is not Deferred and type(x) not in _PLAIN for x in (other, *modulus)):
            return NotImplemented
        return self.derived(pow if modulus else operate, other, *modulus)

    return method


def _unary(operate: Unary) -> Unary:
    return lambda self: self.derived(operate)


def _reflected(operate: Binary) -> Binary:
    return lambda right, left: operate(left, right)


_ARITHMETIC = {
    **{name: getattr(operator, name) for name in
       ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "xor")},
    "and": operator.and_,
    "or": operator.or_,
}  # fmt: skip
for _name, _operate in _ARITHMETIC.items():
    setattr(Deferred, f"__{_name}__", _binary(_operate))
    setattr(Deferred, f"__r{_name}__", _binary(_reflected(_operate)))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Deferred, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Deferred, f"__{_name}__", _binary(getattr(operator, _name)))
