"""Packing: numbers as `struct` writes them into the memory of a run, eight bytes or more each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.graph.node import Node
from gradtape.recording.value import Value


def python_types(node: Node) -> Sequence[Any]:
    """What makes Python numbers that `struct` takes of a scalar; two of a complex one."""
    if node.dtype.kind == "c":
        return (_real_part, _imaginary_part)
    return ({"f": float, "b": bool}.get(node.dtype.kind, int),)


def _real_part(value: Any) -> float:
    return complex(value).real


def _imaginary_part(value: Any) -> float:
    return complex(value).imag


def python_number(value: Any, kind: Any) -> Any:
    """A Python number for `struct`."""
    return kind(value.array.item() if type(value) is Value else value)


FORMATS = {
    "f8": "d", "f4": "f4x", "i8": "q", "i4": "i4x", "i2": "h6x", "i1": "b7x", "u8": "Q",
    "u4": "I4x", "u2": "H6x", "u1": "B7x", "b1": "?7x", "c16": "dd", "c8": "ff",
}  # fmt: skip
