"""The user's line: where in their code an op was recorded, and which op it was that failed."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any


def user_line() -> str:
    """The innermost line that is not the library's own, as `file:line`."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if not _is_between(frame):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown"


# Modules that only call on: context managers, partial functions, copies; SciPy's solvers, too.
_BETWEEN = frozenset({"contextlib", "copy", "functools"})


def _is_between(frame: Any) -> bool:
    """Whether a frame is the library's own, or one that it called itself through."""
    module = frame.f_globals.get("__name__", "")
    return module.startswith(("gradtape.", "scipy.")) or module in _BETWEEN


def warn(message: str) -> None:
    """Warn of what the innermost line that is not the library's own does."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame is not None and _is_between(frame):
        frame, level = frame.f_back, level + 1
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
