"""Environment variables, and the tuned constants of all folders.

A tuned constant is a size, count, cost or time that was chosen by measurement, or a cache's bound:
another value changes speed or memory, never a result. Constants of a format, of an interface or of
mathematics stay beside the code that uses them. Each section names the decision that has the
measurements.
"""

from __future__ import annotations

import os
from collections.abc import Sequence


def variable(name: str, default: str = "", choices: Sequence[str] = ()) -> str:
    """The value of the environment variable `GRADTAPE_<name>`, or its default."""
    found = os.environ.get(f"GRADTAPE_{name}", "").strip() or default
    if choices and found.lower() not in choices:
        *others, last = choices
        raise ValueError(
            f"GRADTAPE_{name}={found!r} is unknown. Use {', '.join(others)} or {last}."
        )
    return found.lower() if choices else found


# ---- ir

# ---- trace, tensor

# ---- ops

# matrices, loops

# ---- autodiff

# ---- autodiff: sparse

# ---- tape, control

# ---- compiler: passes

# ---- compiler: lower

# ---- compiler: products

# ---- compiler: emit

# ---- compiler: objects, cpython, threads

# ---- runtime: plans and memory

# ---- runtime: when to compile

# ---- jit

# ---- interop: solve

# ---- tools

# ---- training

# ---- distributed
