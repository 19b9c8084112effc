"""The effort of LLVM for a kernel, by the number of points of its loop.

This module loads nothing of the compiler: what a program will cost is estimated before that.
"""

from __future__ import annotations

from enum import IntEnum

from gradtape.config import FEW_LOOP_POINTS, SOME_LOOP_POINTS


class Effort(IntEnum):
    """Levels of compilation: without LLVM's passes, with them, or with column strips too."""

    QUICK = 0
    PLAIN = 1
    FULL = 2


def effort_for(points: int) -> Effort:
    """The effort for a loop over this number of points."""
    if points <= FEW_LOOP_POINTS:
        return Effort.QUICK
    return Effort.PLAIN if points <= SOME_LOOP_POINTS else Effort.FULL
