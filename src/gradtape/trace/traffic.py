"""Traffic: how much was recorded so far, to decide whether compiling the recorder pays."""

from __future__ import annotations

import math


class Traffic:
    """Counts of closed recordings and of their applications."""

    recordings = 0
    applications = 0
    # The count of recordings at which compiling the recorder is considered next.
    due: float = math.inf


traffic = Traffic()
