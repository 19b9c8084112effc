"""The user's line: where in their code an op was recorded, and which op it was that failed."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any


def user_line() -> str:
    """The innermost line that is not the library's own, as `file:line`."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("gradtape."):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "unknown"


def warn(message: str) -> None:
    """Warn of what the innermost line that is not the library's own does."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("gradtape."):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(message, stacklevel=level + 1)


def mark(error: BaseException, node: Any) -> None:
    """Say of an error which node of a plan raised it; inside a body, the innermost."""
    # A class of exceptions may have no room for it.
    with contextlib.suppress(AttributeError, TypeError):
        if node is None or marked(error) is None:
            error.__gradtape_node__ = node  # type: ignore[attr-defined]


def marked(error: BaseException) -> Any:
    """The node that raised an error, as far as is known."""
    return getattr(error, "__gradtape_node__", None)
