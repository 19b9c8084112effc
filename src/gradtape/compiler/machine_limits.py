"""Limits of the machine or its container: processors, their quota, and memory."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable

from gradtape.config import variable


def default_thread_count() -> int:
    """The threads that compiled code runs on unless the user sets another number."""
    # OpenMP allows one count per nesting level, separated by commas.
    chosen, openmp = variable("NUM_THREADS"), os.environ.get("OMP_NUM_THREADS", "")
    for text in (chosen, openmp.split(",")[0].strip()):
        if text.isdecimal() and int(text) >= 1:
            return int(text)
        if text and text == chosen:
            raise ValueError(
                f"GRADTAPE_NUM_THREADS={text!r} is not a positive integer. Set it to 1 or more."
            )
    return max(1, math.ceil(min(processors(), cpu_quota())))


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# `pathlib` would take as long to import as this whole folder.
FilePath = str | os.PathLike[str]


def _text(*parts: FilePath) -> str:
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def cpu_quota(
    membership: FilePath = "/proc/self/cgroup", mount: FilePath = "/sys/fs/cgroup"
) -> float:
    """The processors that the control groups of this process allow; infinite without a quota."""
    try:
        lines = _text(membership).splitlines()
    except OSError:
        return math.inf
    quota = math.inf
    for line in lines:
        _, controllers, path = (line + "::").split(":")[:3]
        if not controllers:
            quota = min(quota, _smallest(mount, path, _quota_of_version_2))
        elif "cpu" in controllers.split(","):
            for folder in (controllers, "cpu"):
                root = os.path.join(mount, folder)
                quota = min(quota, _smallest(root, path, _quota_of_version_1))
    return quota


def _smallest(root: FilePath, path: str, read: Callable[[str], float]) -> float:
    """The smallest quota from a group up to the root. In a container its own group is the root."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    groups = [os.path.join(root, *names[:depth]) for depth in range(len(names) + 1)]
    return min(read(each) for each in groups)


def _quota_of_version_2(group: str) -> float:
    try:
        limit, period = _text(group, "cpu.max").split()
        return math.inf if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        return math.inf


def _quota_of_version_1(group: str) -> float:
    try:
        limit = int(_text(group, "cpu.cfs_quota_us"))
        period = int(_text(group, "cpu.cfs_period_us"))
    except (OSError, ValueError):
        return math.inf
    return limit / period if limit > 0 and period > 0 else math.inf


def parse_bytes(name: str, given: str, least: str) -> int:
    """The bytes that a text such as `512M` or `4G` means; `name` and `least` are for the error."""
    text = given.upper()
    number, unit = text.removesuffix("IB").removesuffix("B"), 1
    for power, letter in enumerate("KMGT", start=1):
        if number.endswith(letter):
            number, unit = number[:-1], 1 << 10 * power
    try:
        found = float(number) * unit
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise ValueError(
            f"{name}{given!r} is not a number of bytes. Set it to such as 2G, 512M or {least}."
        )
    return int(found)


@functools.cache
def physical_memory() -> int:
    """The machine's memory, or the container's if that is less."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        found = 8 << 30
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            found = min(found, int(_text("/sys/fs/cgroup", name)))
        except (OSError, ValueError):
            continue
    return found


_CACHES = "/sys/devices/system/cpu/cpu0/cache"


def second_cache(folder: FilePath = f"{_CACHES}/index2") -> int:
    """The bytes of the second-level cache of a processor; 0 where it is not known."""
    return _cache_size(folder)


def third_cache(folder: FilePath = f"{_CACHES}/index3") -> int:
    """The bytes of the third-level cache, which processors share; 0 where it is not known."""
    return _cache_size(folder)


def _cache_size(folder: FilePath) -> int:
    try:
        return parse_bytes("size of a cache ", _text(folder, "size").strip(), "1M")
    except (OSError, ValueError):
        return 0
