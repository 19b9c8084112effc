"""Deferred: a Python number that is an input of a captured program, not a part of it.

Arithmetic with other numbers gives deferred numbers again, so that `rate * 0.5**epoch` is computed
anew at every call. Whoever needs the number itself (a comparison, `float`, `range`) makes the
captured program depend on its value; see gradtape.recording.capture.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

Number = int | float


class Deferred:
    """A number of now, and how to compute it from the numbers of a later call."""

    __slots__ = ("compute", "on_read", "value")

    # NumPy leaves operators to us.
    __array_ufunc__ = None

    def __init__(
        self,
        value: Number,
        compute: Callable[[Sequence[Any]], Number],
        on_read: Callable[[Deferred], None],
    ) -> None:
        self.value = value
        self.compute = compute
        self.on_read = on_read

    @property
    def kind(self) -> type:
        """`int` or `float`."""
        return type(self.value)

    def read(self) -> Number:
        """The number itself: what is captured then holds for this number only."""
        self.on_read(self)
        return self.value

    def __float__(self) -> float:
        return float(self.read())

    def __int__(self) -> int:
        return int(self.read())

    def __index__(self) -> int:
        return operator.index(self.read())  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self.read())

    def __complex__(self) -> complex:
        return complex(self.read())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.asarray(self.read(), dtype)

    def __copy__(self) -> Deferred:
        return self

    def __deepcopy__(self, memo: Any) -> Deferred:
        return self

    def __hash__(self) -> int:
        return hash(self.read())

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, template: str) -> str:
        return format(self.read(), template)


def _compare(operate: Callable[[Any, Any], Any]) -> Any:
    def method(self: Deferred, other: Any) -> Any:
        if isinstance(other, Deferred):
            other = other.read()
        elif type(other) not in (int, float, bool, complex):
            return NotImplemented
        return operate(self.read(), other)

    return method


def _binary(operate: Callable[[Any, Any], Any], reflected: bool = False) -> Any:
    def method(self: Deferred, other: Any) -> Any:
        if isinstance(other, Deferred):
            theirs: Any = other.compute
            value = other.value
        elif type(other) in (int, float, bool):
            theirs, value = None, other
        else:
            return NotImplemented
        mine = self.compute

        def compute(numbers: Sequence[Any]) -> Any:
            a = mine(numbers)
            b = other if theirs is None else theirs(numbers)
            return operate(b, a) if reflected else operate(a, b)

        now = operate(value, self.value) if reflected else operate(self.value, value)
        return Deferred(now, compute, self.on_read)

    return method


def _unary(operate: Callable[[Any], Any]) -> Any:
    def method(self: Deferred) -> Deferred:
        mine = self.compute
        return Deferred(operate(self.value), lambda numbers: operate(mine(numbers)), self.on_read)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _operate = getattr(operator, _name)
    setattr(Deferred, f"__{_name}__", _binary(_operate))
    setattr(Deferred, f"__r{_name}__", _binary(_operate, reflected=True))
for _name in ("neg", "pos", "abs"):
    setattr(Deferred, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Deferred, f"__{_name}__", _compare(getattr(operator, _name)))
