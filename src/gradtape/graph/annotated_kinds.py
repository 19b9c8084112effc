"""Annotated kinds: the values that a parameter takes, read from the text of its annotation.

An annotation is a union of names. Each known name has a rule, a predicate with words for it; a
union that holds an unknown name takes anything. Predicates look at types and do not convert: a
tensor that has no value yet, and a deferred number, are told by their methods.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape.dtypes import as_dtype, is_masked
from gradtape.errors import DtypeError

_TEXT = (str, bytes, bytearray)


class Kind(NamedTuple):
    """The values that a parameter takes: in words, as a predicate, and what to pass instead."""

    words: str
    takes: Callable[[Any], bool]
    remedy: str = "one"


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor or variable, or says that it stands for one."""
    return hasattr(type(value), "enter") or hasattr(type(value), "__gradtape__")


def is_integer(value: Any) -> bool:
    """Whether a value is an integer; True and False are not."""
    if isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(value, np.ndarray) and (value.ndim or value.dtype.kind not in "iu"):
        return False
    return hasattr(type(value), "__index__")


def is_integer_like(value: Any) -> bool:
    return is_integer(value) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu")


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


def _integers(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iu"
    if isinstance(value, (list, tuple, range)):
        return all(each is None or is_integer_like(each) or is_tensor(each) for each in value)
    if is_integer(value) or is_tensor(value):
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


_INTEGER = Kind("a whole number", is_integer)
_INTEGERS = Kind("a whole number or a sequence of them", _integers)
_FUNCTION = Kind("callable", callable, "a function")
# A number that an object keeps: NaN would show only in results.
KEPT_NUMBER = Kind("a real number", lambda value: is_real(value) and not _is_nan(value))
KINDS: dict[str, Kind] = {
    "None": Kind("None", lambda value: value is None),
    "bool": Kind("a flag", is_flag, "True or False"),
    "int": _INTEGER,
    "SupportsIndex": _INTEGER,
    "IntLike": Kind("a whole number", lambda value: is_integer_like(value) or is_tensor(value)),
    "float": Kind("a real number", is_real),
    "complex": Kind("a number", lambda value: is_real(value) or isinstance(value, complex)),
    "str": Kind("a text", lambda value: isinstance(value, str)),
    "Name": Kind("a text", lambda value: True),
    "TensorLike": Kind(
        "a tensor or numbers", is_operand, "numbers, an array of numbers or a tensor"
    ),
    "DTypeLike": Kind("a dtype", is_dtype, "one such as gt.float64"),
    "ShapeLike": _INTEGERS,
    "Axis": Kind(_INTEGERS.words, lambda value: value is None or _integers(value)),
    "IntsLike": _INTEGERS,
    "Callable": _FUNCTION,
    "UserFunction": _FUNCTION,
    "Rule": _FUNCTION,
    "Sequence": Kind("a sequence", _sequence),
    "Iterable": Kind("an iterable", _iterable),
    "Mapping": Kind("a dict", lambda value: isinstance(value, Mapping)),
    "dict": Kind("a dict", lambda value: isinstance(value, Mapping)),
}


def kinds_of(annotation: object) -> tuple[Kind, ...]:
    """The kinds that a union names; none at all if one of its names is unknown.

    >>> from gradtape.graph.annotated_kinds import kinds_of
    >>> [kind.words for kind in kinds_of("int | None")]
    ['a whole number', 'None']
    >>> kinds_of("int | Padding")
    ()
    """
    if not isinstance(annotation, str):
        return ()
    try:
        parts = list(_members(ast.parse(annotation, mode="eval").body))
    except SyntaxError:
        return ()
    found = [KINDS.get(part) for part in parts]
    return tuple(kind for kind in found if kind) if all(found) else ()


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
