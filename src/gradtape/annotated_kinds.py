"""Annotated kinds: the values that a parameter takes, read from the text of its annotation.

An annotation is a union of names. Each known name has a rule, a predicate with words for it; a
union that holds an unknown name takes anything. Predicates check types and do not convert: a
tensor that has no value yet, and a deferred number, are known by their methods.

Some names say more than a type: `patience: Count` is a whole number that is not negative. To a type
checker they are `int` and `float`; argument checks see that the number is in the range.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gradtape.dtypes import as_dtype, is_masked
from gradtape.errors import DtypeError

_TEXT = (str, bytes, bytearray)

# Whole numbers of at least 0, and of at least 1; `Sizes` is one, or one for each axis.
Count: TypeAlias = int
Size: TypeAlias = int
Sizes: TypeAlias = "int | Sequence[int]"
# Finite real numbers: any, of at least 0, above 0, from 0 to 1, and from 0 to below 1.
Finite: TypeAlias = float
NonNegative: TypeAlias = float
Positive: TypeAlias = float
# A real number of at least 0 that may be infinite: then it bounds nothing.
Bound: TypeAlias = float
Probability: TypeAlias = float
Decay: TypeAlias = float


class Kind(NamedTuple):
    """The values that a parameter takes: in words, as a predicate, and what to pass instead.

    `within` says whether a number that has the right type is also in the range.
    """

    words: str
    takes: Callable[[Any], bool]
    remedy: str = "one"
    within: Callable[[Any], bool] | None = None

    def allows(self, value: Any) -> bool:
        """Whether a value is of the kind, and in its range."""
        return self.takes(value) and (self.within is None or self.within(value))


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor or variable, or says that it stands for one."""
    return hasattr(type(value), "enter") or hasattr(type(value), "__gradtape__")


def is_integer(value: Any) -> bool:
    """Whether a value is an integer; True and False are not."""
    if type(value) is int:
        return True
    if isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(value, np.ndarray) and (value.ndim or value.dtype.kind not in "iu"):
        return False
    return hasattr(type(value), "__index__") and _may_be_whole(value)


def _may_be_whole(value: Any) -> bool:
    """Whether the dtype of a value, if it has one, is that of integers."""
    kind = getattr(getattr(getattr(value, "spec", None), "dtype", None), "kind", "i")
    return kind in ("i", "u")


def is_integer_like(value: Any) -> bool:
    return is_integer(value) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu")


def _whole(value: Any) -> bool:
    return is_integer_like(value) or (is_tensor(value) and _may_be_whole(value))


def _seed(value: Any) -> bool:
    # Generators of several classes draw from the normal distribution, among others.
    return value is None or is_integer(value) or hasattr(type(value), "normal")


def is_flag(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or is_tensor(value):
        return True
    return type(value) is int and value in (0, 1)


def is_real(value: Any) -> bool:
    """Whether a value is a real number, or a tensor."""
    if type(value) is float:
        return True
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf" and not is_masked(value)
    return isinstance(value, (int, np.integer, np.bool_)) or is_tensor(value) or _has_float(value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def _has_float(value: Any) -> bool:
    return hasattr(type(value), "__float__") and not isinstance(
        value, (complex, np.complexfloating)
    )


def is_operand(value: Any) -> bool:
    """Whether a value becomes a tensor."""
    if is_tensor(value) or isinstance(value, (bool, int, float, complex)):
        return True
    if is_masked(value):
        return False
    if isinstance(value, (list, tuple)):
        try:
            return all(is_operand(each) for each in value)
        except RecursionError:
            return False
    try:
        return np.asarray(value).dtype.kind in "biufc"
    except Exception:
        return False


def is_dtype(value: Any) -> bool:
    try:
        as_dtype(value)
    except (DtypeError, ValueError, TypeError):
        return False
    return value is not None


def _integer_or_tensor(value: Any) -> bool:
    return value is None or is_integer_like(value) or is_tensor(value)


def _integers(value: Any) -> bool:
    if isinstance(value, (list, tuple, range)):
        # Almost all are plain numbers, and this runs in every call that has a shape or axes.
        return all(type(each) is int or _integer_or_tensor(each) for each in value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iu"
    if is_tensor(value):
        return _may_be_whole(value)
    if is_integer(value):
        return True
    # Other iterables, such as a tf.TensorShape, may stand for integers.
    return hasattr(type(value), "__iter__") and not isinstance(value, _NO_INTEGERS)


_NO_INTEGERS = (*_TEXT, dict, set, type, Iterator)


def _sequence(value: Any) -> bool:
    return (
        isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, _TEXT)
    ) or is_tensor(value)


def _iterable(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, _TEXT)


def _in_range(
    least: float, most: float = math.inf, ends: str = "[]", infinite: bool = False
) -> Callable[[Any], bool]:
    """Whether a number, or each of several, is in an interval; a tensor always is."""

    def within(value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return all(within(each) for each in value)
        if isinstance(value, np.ndarray):
            return within(value.tolist())
        if not isinstance(value, (int, float, np.integer, np.floating)):
            return True
        above = value > least if ends[0] == "(" else value >= least
        below = value < most if ends[1] == ")" else value <= most
        return bool(above and below and (infinite or abs(value) != math.inf))

    return within


_INTEGER = Kind("a whole number", is_integer)
_INTEGERS = Kind("a whole number or a sequence of them", _integers)
_SIZES = Kind("a whole number of at least 1, or one for each axis", _integers, within=_in_range(1))
_FUNCTION = Kind("callable", callable, "a function")
# A number that an object stores. NaN is refused, because it would show only in later results.
KEPT_NUMBER = Kind("a real number", lambda value: is_real(value) and not _is_nan(value))


def _real(words: str, *interval: Any) -> Kind:
    return Kind(words, is_real, within=_in_range(*interval))


KINDS: dict[str, Kind] = {
    "None": Kind("None", lambda value: value is None),
    "bool": Kind("a flag", is_flag, "True or False"),
    "int": _INTEGER,
    "SupportsIndex": _INTEGER,
    "IntLike": Kind("a whole number", _whole),
    "Count": Kind("a whole number of at least 0", is_integer, within=_in_range(0)),
    "Size": Kind("a whole number of at least 1", is_integer, within=_in_range(1)),
    "Sizes": _SIZES,
    "PerAxis": _SIZES,
    "CountLike": Kind("a whole number of at least 0", _whole, within=_in_range(0)),
    "SizeLike": Kind("a whole number of at least 1", _whole, within=_in_range(1)),
    "Seed": Kind("a whole number or a generator", _seed),
    "float": Kind("a real number", is_real),
    "Finite": _real("a finite number", -math.inf),
    "NonNegative": _real("a finite number of at least 0", 0),
    "Bound": Kind(
        "a number of at least 0",
        lambda value: is_real(value) and not _is_nan(value),
        within=_in_range(0, math.inf, "[]", infinite=True),
    ),
    "Positive": _real("a finite number above 0", 0, math.inf, "()"),
    "Probability": _real("a number from 0 to 1", 0, 1),
    "Decay": _real("a number from 0 to below 1", 0, 1, "[)"),
    "complex": Kind("a number", lambda value: is_real(value) or isinstance(value, complex)),
    "str": Kind("a text", lambda value: isinstance(value, str)),
    "Name": Kind("a text", lambda value: True),
    "TensorLike": Kind(
        "a tensor or numbers", is_operand, "numbers, an array of numbers or a tensor"
    ),
    "DTypeLike": Kind("a dtype", is_dtype, "one such as gt.float64"),
    "Padding": Kind("a text or a sequence of pairs", lambda v: isinstance(v, str) or _sequence(v)),
    "ShapeLike": _INTEGERS,
    # The second is TensorFlow's.
    **dict.fromkeys(
        ("Axes", "Axis"),
        Kind(_INTEGERS.words, lambda value: value is None or _integers(value)),
    ),
    "IntsLike": _INTEGERS,
    "Callable": _FUNCTION,
    "UserFunction": _FUNCTION,
    "Rule": _FUNCTION,
    "Sequence": Kind("a sequence", _sequence),
    "Iterable": Kind("an iterable", _iterable),
    "Mapping": Kind("a dict", lambda value: isinstance(value, Mapping)),
    "dict": Kind("a dict", lambda value: isinstance(value, Mapping)),
}


def kinds_of(annotation: object, names: Mapping[str, Any] | None = None) -> tuple[Kind, ...]:
    """The kinds that a union names; none at all if one of its names is unknown.

    Other names than those of kinds may be classes among `names`, the globals of a function.

    >>> from gradtape.annotated_kinds import kinds_of
    >>> [kind.words for kind in kinds_of("int | None")]
    ['a whole number', 'None']
    >>> kinds_of("int | Unknown")
    ()
    """
    if not isinstance(annotation, str):
        return ()
    try:
        parts = list(_members(ast.parse(annotation, mode="eval").body))
    except SyntaxError:
        return ()
    found = [KINDS.get(part) or _instances((names or {}).get(part)) for part in parts]
    return tuple(kind for kind in found if kind) if all(found) else ()


def _instances(cls: Any) -> Kind | None:
    """The kind of the instances of a class; None for anything else, protocols and `Any`."""
    if not isinstance(cls, type) or cls in (object, Any) or getattr(cls, "_is_protocol", False):
        return None
    return Kind(f"a {cls.__name__}", lambda value: isinstance(value, cls))


def _members(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.BinOp):
        yield from _members(node.left)
        yield from _members(node.right)
    elif isinstance(node, ast.Subscript):
        yield from _members(node.value)
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Constant) and node.value is None:
        yield "None"
    else:
        yield "?"
