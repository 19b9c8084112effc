"""Resident memory of this process: the current size, the peak, and a reset of the peak."""

from __future__ import annotations

import contextlib
import resource
import sys


def _status(field: str) -> int | None:
    with contextlib.suppress(OSError), open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return None


def resident() -> int:
    """Bytes resident now; the peak if the system does not report the current size."""
    found = _status("VmRSS")
    return found if found is not None else peak()


def peak() -> int:
    """The most bytes resident so far, or since `forget_peak`."""
    found = _status("VmHWM")
    if found is not None:
        return found
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> bool:
    """Reset the peak to the current size; return False if the system cannot."""
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        return False
    return True
