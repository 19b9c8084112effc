"""The user's line: where in their code an op was recorded."""

from __future__ import annotations

import sys


def user_line() -> str:
    """The innermost line that is not the library's own, as `file:line`."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("gradtape."):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "unknown"
