"""Followed numbers: arguments of a captured function that are real Python numbers.

A `FollowedFloat` is a float, so C code reads its value as that of any other. Arithmetic with other
numbers gives followed numbers again: `rate * 0.5**epoch` is an input of the captured program. What
depends on the value otherwise (comparisons, truth, `int`, hash, rounding, text) becomes a guard.

C code reads the value unseen: `math.exp(rate)` is a constant of the program. So a number is a
guarded constant until two runs with different values have recorded the same program; see
`gradtape.jit.captured`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Compute = Callable[[Sequence[Any]], Any]
# Compares equal for formulas that compute the same from the same arguments.
FormulaKey = tuple[Any, ...]

_PLAIN = (int, float, complex, bool)


class NumberFormula:
    """The formula by which a replay computes a number from the inputs of its call; comparable."""

    __slots__ = ("compute", "key")

    def __init__(self, compute: Compute, key: FormulaKey) -> None:
        self.compute = compute
        self.key = key

    @classmethod
    def of_input(cls, position: int) -> NumberFormula:
        """An input itself."""
        return cls(operator.itemgetter(position), ("input", position))

    @classmethod
    def of_constant(cls, value: Any) -> NumberFormula:
        """A number that is the same in every call."""
        return cls(lambda numbers: value, ("constant", type(value), repr(value)))

    def then(self, operate: Callable[..., Any], *others: NumberFormula) -> NumberFormula:
        """The result of `operate` on this number and others."""
        if not others:
            compute = self.compute
            return NumberFormula(lambda numbers: operate(compute(numbers)), (operate, self.key))
        parts = [self.compute, *[each.compute for each in others]]

        def computed(numbers: Sequence[object]) -> object:
            return operate(*[part(numbers) for part in parts])

        return NumberFormula(computed, (operate, self.key, *[each.key for each in others]))

    def inputs(self) -> list[int]:
        """The positions of the inputs that it reads."""
        found, keys = [], [self.key]
        while keys:
            first, *rest = keys.pop()
            if first == "input":
                found.append(rest[0])
            elif first != "constant":
                keys += rest
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberFormula) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class NumberGuards:
    """The sink of guards from followed numbers; None once the run has ended."""

    __slots__ = ("add",)

    def __init__(self, add: Callable[[NumberFormula, object], None]) -> None:
        self.add: Callable[[NumberFormula, object], None] | None = add


class Followed:
    """A base of numbers whose arithmetic is followed while a function is captured."""

    # The plain class of numbers.
    base: Any
    plain: Any
    formula: NumberFormula
    guards: NumberGuards

    def __new__(
        cls,
        value: Any = 0,
        formula: NumberFormula | None = None,
        guards: NumberGuards | None = None,
    ) -> Any:
        if guards is None:  # a user's code calls the class as it would `float`
            return cls.base(value)
        made = cls.base.__new__(cls, value)
        made.plain, made.formula, made.guards = value, formula, guards
        return made

    def __init__(self, *args: object) -> None:
        pass

    def read(self) -> Any:
        """The number itself; the captured path then holds for this value only."""
        if self.guards.add is not None:
            self.guards.add(self.formula, self.plain)
        return self.plain

    def derived(self, operate: Callable[..., Any], *others: Any) -> Any:
        """The result of `operate` on this number and others; followed if it is a number, too."""
        value = operate(self.plain, *[plain(x) for x in others])
        if self.guards.add is None:
            return value
        formula = self.formula.then(
            operate,
            *[
                x.formula if isinstance(x, Followed) else NumberFormula.of_constant(x)
                for x in others
            ],
        )
        kind = _FOLLOWED.get(type(value))
        if kind is None:
            self.guards.add(formula, value)
            return value
        return kind(value, formula, self.guards)

    def decided(self, look: Callable[..., Any], *others: Any) -> Any:
        """The result of `look`, guarded: other values may give the same result."""
        found = look(self.plain, *others)
        if self.guards.add is not None:
            constants = map(NumberFormula.of_constant, others)
            self.guards.add(self.formula.then(look, *constants), found)
        return found

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        if any(hasattr(x, "enter") for x in inputs):  # tensors handle followed numbers
            return NotImplemented
        given = [x.read() if isinstance(x, Followed) else x for x in inputs]
        return getattr(ufunc, method)(*given, **kwargs)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self.plain), (self.read(),)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return self.__reduce__()


class FollowedFloat(Followed, float):
    """A float among the arguments of a captured run, or computed from them."""

    base = float


class FollowedInt(Followed, int):
    """An int among the arguments of a captured run, or computed from them."""

    base = int


class FollowedComplex(Followed, complex):
    """A complex number among the arguments of a captured run, or computed from them."""

    base = complex


_FOLLOWED: dict[type, Any] = {float: FollowedFloat, int: FollowedInt, complex: FollowedComplex}
FOLLOWED = tuple(_FOLLOWED.values())


def followed(value: complex, position: int, guards: NumberGuards) -> Any:
    """The number at a position of the inputs, followed."""
    return _FOLLOWED[type(value)](value, NumberFormula.of_input(position), guards)


def plain(value: Any) -> Any:
    """The plain number of a followed one; anything else as it is."""
    return value.plain if isinstance(value, Followed) else value


def read_all(nest: Any) -> Any:
    """The nest with followed numbers read, which guards their values."""
    if isinstance(nest, Followed):
        return nest.read()
    if type(nest) is tuple:
        return tuple(map(read_all, nest))
    return nest


def _binary(operate: Callable[[Any, Any], Any]) -> Callable[..., object]:
    # Only `pow` may be called with a third operand.
    def method(self: Followed, other: object, *modulus: object) -> object:
        if any(type(x) not in _PLAIN and not isinstance(x, Followed) for x in (other, *modulus)):
            return NotImplemented
        return self.derived(pow if modulus else operate, other, *modulus)

    return method


def _reflected(operate: Callable[[Any, Any], Any]) -> Callable[..., object]:
    def turned(right: Any, left: Any) -> Any:
        return operate(left, right)

    return _binary(turned)


def _read(self: Followed) -> Any:
    return self.read()


def _hash(self: Followed) -> int:
    return hash(self.read())


def _index_of(kind: type) -> dict[str, Any]:
    """The methods by which a class of numbers is followed or guarded."""
    found: dict[str, Any] = {"__hash__": _hash}
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "lshift",
        "rshift",
        "xor",
        "and_",
        "or_",
    ]:
        special = name.rstrip("_")
        if hasattr(kind, f"__{special}__"):
            operate = getattr(operator, name)
            found[f"__{special}__"] = _binary(operate)
            found[f"__r{special}__"] = _reflected(operate)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        found[f"__{name}__"] = _binary(getattr(operator, name))
    for name in ("neg", "pos", "abs", "invert"):
        if hasattr(kind, f"__{name}__"):
            found[f"__{name}__"] = _unary(getattr(operator, name))
    looks: dict[str, Callable[[Any], Any]] = {
        "int": int,
        "bool": bool,
        "trunc": math.trunc,
        "floor": math.floor,
        "ceil": math.ceil,
        "repr": repr,
        "str": str,
    }
    for name, look in looks.items():
        if hasattr(kind, f"__{name}__") or name == "bool":
            found[f"__{name}__"] = _look(look)
    for name in ("float", "complex", "index"):
        if hasattr(kind, f"__{name}__"):
            found[f"__{name}__"] = {
                "float": lambda self: float(self.read()),
                "complex": lambda self: complex(self.read()),
                "index": _read,
            }[name]
    for name in dir(kind):
        if not name.startswith("_"):
            found[name] = _public(kind, name)
    return found


def _unary(operate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: self.derived(operate)


def _look(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: self.decided(look)


def _public(kind: type, name: str) -> Any:
    """`real`, `imag` and other attributes, followed; methods, with guarded results."""
    found = getattr(kind, name)
    if not callable(found):
        get = operator.attrgetter(name)
        return property(lambda self: self.derived(get))
    if isinstance(vars(kind).get(name), classmethod) or name in ("from_bytes", "fromhex"):
        return found
    return lambda self, *args, **kwargs: getattr(self.read(), name)(*args, **kwargs)


def _conjugate(self: Followed) -> Any:
    return self.derived(_conjugated)


def _conjugated(number: Any) -> Any:
    return number.conjugate()


def _round(self: Followed, digits: Any = None) -> Any:
    return self.derived(round, digits)


def _divmod(self: Any, other: Any) -> tuple[object, object]:
    return self // other, self % other


def _rdivmod(self: Any, other: Any) -> tuple[object, object]:
    return other // self, other % self


def _format(self: Followed, template: str) -> str:
    return self.decided(format, template)


for _kind, _class in _FOLLOWED.items():
    _methods = {**_index_of(_kind), "conjugate": _conjugate, "__format__": _format}
    if _kind is not complex:
        _methods |= {"__round__": _round, "__divmod__": _divmod, "__rdivmod__": _rdivmod}
    for _name, _method in _methods.items():
        setattr(_class, _name, _method)
