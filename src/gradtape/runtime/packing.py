"""Packing: numbers as `struct` writes them into the memory of a run, eight bytes or more each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.graph.node import Node
from gradtape.recording.value import Value
from gradtape.runtime.plan import Input

# By dtype, the letter that `struct` has for one number; and the format of one with its padding.
LETTERS = {
    "f8": "d", "f4": "f", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u8": "Q", "u4": "I",
    "u2": "H", "u1": "B", "b1": "?",
}  # fmt: skip
FORMATS = {kind: f"{letter}{8 - int(kind[1])}x" for kind, letter in LETTERS.items()}
FORMATS |= {"c16": "dd", "c8": "ff"}

Conversion = Callable[[Input], complex]


def python_types(node: Node) -> Sequence[Conversion]:
    """Conversions of a scalar to the Python numbers that `struct` takes; two for a complex one."""
    if node.dtype.kind == "c":
        return (_real_part, _imaginary_part)
    return ({"f": float, "b": bool}.get(node.dtype.kind, int),)


def _real_part(value: Input) -> float:
    return complex(value).real


def _imaginary_part(value: Input) -> float:
    return complex(value).imag


def python_number(value: Input, conversion: Conversion) -> complex:
    """A Python number for `struct`."""
    return conversion(value.array.item() if type(value) is Value else value)
