"""IR text that all functions on vectors share: types, constants, and definitions they need."""

from __future__ import annotations

import struct

# Definitions and declarations that a module must contain, each text once.
Snippets = tuple[str, ...]
# The symbol of a function, and the snippets that it needs.
Found = tuple[str, Snippets]


def vector(element: str, lanes: int) -> str:
    """The IR type of so many elements; one lane is a plain scalar."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def real_text(value: float, ty: str) -> str:
    """A number as IR wants it: the bits of the double nearest to the number in its type."""
    if ty == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
