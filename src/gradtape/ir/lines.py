"""The user's line: where in their code an op was recorded, and which node of a plan failed."""

from __future__ import annotations

import contextlib
import sys
import warnings
from types import FrameType
from typing import TYPE_CHECKING

from gradtape.ir.frames import current_line

if TYPE_CHECKING:
    from gradtape.ir.node import Node


def user_line() -> str:
    """The innermost line that is not the library's own, as `file:line`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_between(frame):
            return f"{frame.f_code.co_filename}:{current_line(frame)}"
        frame = frame.f_back
    return "unknown"


# Modules that only call the user's function or ours: context managers, partial functions, copies.
_BETWEEN = frozenset({"contextlib", "copy", "functools", "gradtape"})


def is_between(frame: FrameType) -> bool:
    """Whether a frame is the library's own, or lies between two of the library's frames."""
    module: str = frame.f_globals.get("__name__", "")
    return module.startswith(("gradtape.", "scipy.")) or module in _BETWEEN


def warn(message: str) -> None:
    """Issue a warning that points to the innermost line that is not the library's own."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and is_between(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level + 1)


def mark(error: BaseException, node: Node | None) -> None:
    """Attach to an error the node of a plan that raised it; inside a body, the innermost."""
    # Instances of some exception classes take no attributes.
    with contextlib.suppress(AttributeError, TypeError):
        if node is None or marked(error) is None:
            error.__gradtape_node__ = node  # type: ignore[attr-defined]


def marked(error: BaseException) -> Node | None:
    """The node that raised an error, if it is known."""
    return getattr(error, "__gradtape_node__", None)
