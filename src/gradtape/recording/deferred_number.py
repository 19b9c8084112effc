"""Deferred: a Python number that is an input of a captured program, not a part of it.

Arithmetic with other numbers gives deferred numbers again, so that `rate * 0.5**epoch` is computed
anew at every call. A comparison makes the captured program depend on its outcome, and whoever needs
the number itself (`float`, `range`, `math.sqrt`) makes it depend on the number; see
gradtape.functions.capture.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

Number = int | float | complex
Compute = Callable[[Sequence[Any]], Any]

_PLAIN = (int, float, bool, complex)


class Deferred:
    """A number of now, and how to compute it from the numbers of a later call."""

    __slots__ = ("compute", "guard", "value")

    def __init__(
        self, value: Number, compute: Compute, guard: Callable[[Compute, Any], None]
    ) -> None:
        self.value = value
        self.compute = compute
        # Makes what is captured hold only where something computed gives the same again.
        self.guard = guard

    @property
    def kind(self) -> type:
        """`int`, `float` or `complex`."""
        return type(self.value)

    # To `isinstance` it is the number it stands for. C code, which would read the number without
    # asking, looks at the true type.
    __class__ = property(lambda self: type(self.value))

    def read(self) -> Any:
        """The number itself: what is captured then holds for this number only."""
        self.guard(self.compute, self.value)
        return self.value

    def derived(self, operate: Callable[..., Any], *others: Any) -> Any:
        """What `operate` gives of this number and others, deferred if it is a number, too."""
        value = operate(self.value, *[x.value if type(x) is Deferred else x for x in others])
        parts = [
            self.compute,
            *[x.compute if type(x) is Deferred else _constant(x) for x in others],
        ]

        def compute(numbers: Sequence[Any]) -> Any:
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

    def _decided(self, look: Callable[[Any], Any]) -> Any:
        """What a look at the number gives; another number may give the same."""
        compute, found = self.compute, look(self.value)
        self.guard(lambda numbers: look(compute(numbers)), found)
        return found

    def __round__(self, digits: Any = None) -> Any:
        return self.derived(round, digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.asarray(self.read(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(hasattr(x, "enter") for x in inputs):  # tensors know what to do with numbers
            return NotImplemented
        given = [x.read() if type(x) is Deferred else x for x in inputs]
        return getattr(ufunc, method)(*given, **kwargs)

    def __hash__(self) -> int:
        return hash(self.read())

    def __repr__(self) -> str:
        # Text made of an integer may name something; that of a float is for people to read.
        return repr(self.read() if self.kind is int else self.value)

    def __format__(self, template: str) -> str:
        return format(self.read() if self.kind is int else self.value, template)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.kind, name):
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        return getattr(self.read(), name)

    def __reduce__(self) -> Any:
        return self.kind, (self.read(),)

    def __copy__(self) -> Deferred:
        return self

    def __deepcopy__(self, memo: Any) -> Deferred:
        return self


def _constant(x: Any) -> Compute:
    return lambda numbers: x


def _binary(operate: Callable[[Any, Any], Any]) -> Any:
    # Of these only `pow` may be given a third operand.
    def method(self: Deferred, other: Any, *modulus: Any) -> Any:
        if any(type(x) is not Deferred and type(x) not in _PLAIN for x in (other, *modulus)):
            return NotImplemented
        return self.derived(pow if modulus else operate, other, *modulus)

    return method


def _unary(operate: Callable[[Any], Any]) -> Any:
    return lambda self: self.derived(operate)


def _reflected(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
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
