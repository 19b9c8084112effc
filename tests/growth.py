"""Whether something that is done again and again leaves something behind."""

import gc
import tracemalloc

WINDOWS = 12


def objects() -> int:
    return len(gc.get_objects())


def traced_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


def least_growth(step, times, measure=objects, enough=0):
    """The least that `measure` grew by while `step` ran `times` times, over several windows.

    Pools and free lists fill up in the first windows, and a thread in the background may
    finish something in any one of them. A leak grows in every window. The first window that
    grew by no more than `enough` ends the search.
    """
    least = None
    gc.collect()
    before = measure()
    for _ in range(WINDOWS):
        for _ in range(times):
            step()
        gc.collect()
        after = measure()
        least = after - before if least is None else min(least, after - before)
        if least <= enough:
            break
        before = after
    return least


def least_growth_in_bytes(step, times, enough=0):
    """As `least_growth`, in bytes that Python's allocator gave out."""
    tracemalloc.start()
    try:
        return least_growth(step, times, traced_bytes, enough)
    finally:
        tracemalloc.stop()
