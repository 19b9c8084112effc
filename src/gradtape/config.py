"""Environment variables: the only module that reads those of gradtape."""

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
