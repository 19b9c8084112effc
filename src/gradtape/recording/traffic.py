"""Traffic: how much was recorded so far, for those who decide what is worth compiling."""

from __future__ import annotations

import math
from collections.abc import Callable


class Traffic:
    """What closed recordings held, and who is told after how many of them."""

    recordings = 0
    applications = 0
    due: float = math.inf
    tell: Callable[[], None]


traffic = Traffic()
