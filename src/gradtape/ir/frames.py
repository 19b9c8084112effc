"""Frames: the line that a frame of Python code executes."""

from __future__ import annotations

from types import FrameType


def current_line(frame: FrameType) -> int:
    """The number of the line that a frame executes.

    Python gives none for instructions that its compiler has added, such as at the end of a `with`
    statement: then it is the line of the instructions before them.
    """
    # typeshed has an int here, and CPython documents that it may be None.
    line: int | None = frame.f_lineno
    if line is not None:
        return line
    code = frame.f_code
    before = [line for begin, _, line in code.co_lines() if begin <= frame.f_lasti and line]
    return before[-1] if before else code.co_firstlineno
