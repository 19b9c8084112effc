"""Bad values: arguments that hardly any parameter takes, made afresh for each call."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt


class Broken:
    """An object whose conversions raise, each with a text of the user's own."""

    TEXT = "raised by the user's object"

    def _raise(self, *args: object, **kwargs: object) -> Any:
        raise RuntimeError(self.TEXT)


def _broken(*methods: str) -> Callable[[], object]:
    return lambda: type("Broken", (Broken,), dict.fromkeys(methods, Broken._raise))()


def _self_containing() -> list[Any]:
    found: list[Any] = [1.0]
    found.append(found)
    return found


def _deep() -> list[Any]:
    found: list[Any] = [1.0]
    for _ in range(2000):
        found = [found]
    return found


def _closed_generator() -> Any:
    found = (i for i in range(3))
    found.close()
    return found


def _sparse() -> Any:
    # SciPy is slow to import, and few calls need it.
    from scipy import sparse

    return sparse.eye(2, format="csr")


def _computed(function: Callable[[], Any]) -> Any:
    return function()


VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "no",
    "empty text": lambda: "",
    "bytes": lambda: b"xy",
    "object": object,
    "class": lambda: int,
    "own class": lambda: Broken,
    "function": lambda: _computed,
    "module": lambda: math,
    "dict": lambda: {"a": 1.0},
    "empty dict": dict,
    "set": lambda: {1, 2},
    "generator": lambda: (i for i in range(2)),
    "closed generator": _closed_generator,
    "iterator": lambda: iter([1.0, 2.0]),
    "complex": lambda: 1 + 2j,
    "Decimal": lambda: decimal.Decimal("1.5"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "datetime": lambda: datetime.datetime(2020, 1, 1),
    "NaN": lambda: math.nan,
    "infinity": lambda: math.inf,
    "-1": lambda: -1,
    "-3": lambda: -3,
    "-1.5": lambda: -1.5,
    "0": lambda: 0,
    "True": lambda: True,
    "np.False_": lambda: np.False_,
    "2.5": lambda: 2.5,
    "7": lambda: 7,
    "99": lambda: 99,
    "2**40": lambda: 2**40,
    "2**63": lambda: 2**63,
    "2**80": lambda: 2**80,
    "-2**70": lambda: -(2**70),
    "np.float64": lambda: np.float64(1.5),
    "np.int8": lambda: np.int8(-128),
    "ellipsis": lambda: ...,
    "slice": lambda: slice(0, 2),
    "NotImplemented": lambda: NotImplemented,
    "array of texts": lambda: np.array(["a", "b"]),
    "array of objects": lambda: np.array([object(), None], dtype=object),
    "array of dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "masked array": lambda: np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    "structured array": lambda: np.zeros(2, dtype=[("a", "f8"), ("b", "i4")]),
    "float16 array": lambda: np.ones(2, np.float16),
    "bool array": lambda: np.array([True, False]),
    "complex array": lambda: np.array([1 + 1j, 2.0]),
    "int array": lambda: np.array([5, -7, 100]),
    "array of NaN": lambda: np.full((2, 2), np.nan),
    "array of rank 5": lambda: np.ones((2, 1, 3, 1, 2)),
    "array of rank 0": lambda: np.array(2.5),
    "array of no elements": lambda: np.zeros((0,)),
    "matrix of no rows": lambda: np.zeros((0, 3)),
    "array of length 7": lambda: np.arange(7.0),
    "matrix of 2 by 5": lambda: np.ones((2, 5)),
    "strided array": lambda: np.ones((6, 6))[::-2, ::3],
    "big-endian array": lambda: np.ones(2, ">f8"),
    "tensor of 2 by 5": lambda: gt.ones((2, 5)),
    "tensor of ints": lambda: gt.asarray([1, 2, 3]),
    "tensor of bools": lambda: gt.asarray([True, False]),
    "tf tensor": lambda: gt.tf.constant([1.0, 2.0]),
    "variable": lambda: gt.Variable([1.0, 2.0, 3.0]),
    "sparse matrix": _sparse,
    "list": lambda: [1.0, 2.0],
    "empty list": list,
    "empty tuple": tuple,
    "tuple of ints": lambda: (1, 2),
    "list of a number and text": lambda: [1.0, "a"],
    "list of None": lambda: [None, None],
    "list of objects": lambda: [object()],
    "list that contains itself": _self_containing,
    "deep nest": _deep,
    "ragged list": lambda: [[1.0, 2.0], [3.0]],
    "range": lambda: range(3),
    "failing __array__": _broken("__array__"),
    "failing __len__": _broken("__len__", "__iter__", "__getitem__"),
    "failing __float__": _broken("__float__", "__index__", "__int__"),
    "failing __index__": _broken("__index__"),
    "failing __eq__": _broken("__eq__", "__bool__"),
    "failing __call__": _broken("__call__"),
    "function of no arguments": lambda: lambda: 1.0,
    "function that gives text": lambda: lambda *args, **kwargs: "text",
    "function that gives None": lambda: lambda *args, **kwargs: None,
    "function that raises": lambda: Broken()._raise,
}
# Longer work than anybody waits for is not refused: it can be interrupted.
LONG = ("2**40", "2**63", "2**80", "infinity")

# What a parameter of each kind never means. Acceptance of one of these is silent: the call gave a
# result that nobody can have meant.
_NEVER = (
    "object", "module", "own class", "array of objects", "masked array", "structured array",
    "array of texts", "list that contains itself", "closed generator", "failing __array__",
    "datetime", "NotImplemented", "text", "bytes",
)  # fmt: skip
_NO_NUMBER = (*_NEVER, "class", "dict", "function", "complex", "empty text", "set", "generator")
_NO_INTEGER = (*_NO_NUMBER, "True", "np.False_", "2.5", "NaN", "infinity", "-1.5", "Decimal",
               "Fraction", "np.float64", "list")  # fmt: skip
_NEGATIVE = ("-1", "-3", "-1.5", "np.int8")
_NO_RATE = (*_NO_NUMBER, "NaN", "infinity", "list", "ragged list", "None")
SILENT: dict[str, frozenset[str]] = {
    "count": frozenset((*_NO_INTEGER, *_NEGATIVE, "None")),
    "size": frozenset((*_NO_INTEGER, *_NEGATIVE, "0", "None")),
    "sizes": frozenset((*_NO_INTEGER, *_NEGATIVE, "0")),
    "integer": frozenset((*_NO_INTEGER, "None")),
    "axis": frozenset((*_NO_INTEGER, "99")),
    "shape": frozenset((*_NO_INTEGER, "-3")),
    "flag": frozenset((*_NO_NUMBER, "NaN", "infinity", "-1", "-3", "2.5", "7", "list", "None",
                       "empty list", "-1.5", "2**80", "ellipsis", "array of length 7")),
    "rate": frozenset(_NO_RATE) - {"infinity"},
    "finite": frozenset(_NO_RATE),
    "not negative": frozenset((*_NO_RATE, *_NEGATIVE)),
    "positive": frozenset((*_NO_RATE, *_NEGATIVE, "0")),
    "probability": frozenset((*_NO_RATE, *_NEGATIVE, "2.5", "7")),
    "tensor": frozenset(name for name in (*_NEVER, "class", "dict", "set", "function", "slice",
                                          "ragged list", "list of a number and text",
                                          "list of objects", "array of dates", "ellipsis")),
    "dtype": frozenset(("object", "module", "datetime", "NaN", "2.5", "7", "text", "bytes", "set",
                        "own class", "array of length 7", "-1")),
    "function": frozenset((*_NEVER, "None", "7", "2.5", "list", "dict", "NaN",
                           "array of length 7")) - {"own class"},
    "text": frozenset(("object", "7", "2.5", "NaN", "list", "True", "array of length 7", "text")),
    "anything": frozenset(),
}  # fmt: skip
