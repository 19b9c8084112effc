"""The buffer pool: memory that is recycled, because fresh pages cost more than most kernels.

The system zeroes a page when it is first written to, so writing to fresh pages takes ten times as
long as writing to pages in use. A program that repeats asks for the same sizes again and again. So
the memory of a buffer is not freed when its last holder dies, but kept on a list of blocks of that
size for the next. Idle memory is bounded by `GRADTAPE_CACHE_LIMIT` (bytes, or such as `512M`, `4G`;
`0` keeps none), by default half of the machine's or the container's memory; beyond it, blocks of
the sizes that were asked for longest ago go back to the system first.

There is no lock: `append` and `pop` of a list are atomic, and a lock would be in danger from both
`__del__`, which may run between any two instructions of the thread that holds it, and a fork, after
which a child would inherit it taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
from array import array as array_of_words
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from gradtape.dtypes import DTypeLike
from gradtape.graph.hooks import hooks
from gradtape.runtime.machine_limits import parse_bytes, physical_memory

ALIGNMENT = 64
# From here on memory comes as pages of its own, aligned to pages.
LARGE = 1 << 20
HUGE_PAGE = 1 << 21
# Capacities up to here are looked up, not computed.
SMALL = 1 << 16


@dataclass
class PoolCounts:
    """Bytes that passed through the pool since the process began, and bytes that are idle in it."""

    # Taken from the system, served from idle memory, and returned to the system.
    bytes_allocated: int = 0
    bytes_recycled: int = 0
    bytes_returned: int = 0
    # Idle now.
    bytes_held: int = 0


class _Limit:
    """The most idle bytes that are kept, once the first block has been allocated."""

    __slots__ = ("nbytes",)

    # Negative while no limit has been chosen.
    nbytes: int


def capacity_for(nbytes: int) -> int:
    """The size class of a request: multiples of 64 up to 256, then four classes per doubling."""
    if nbytes <= 256:
        return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT
    shift = (nbytes - 1).bit_length() - 3
    return (((nbytes - 1) >> shift) + 1) << shift


# The numbers of PoolCounts in that order, as words that native code adds to as well.
_counts: array_of_words[int] = array_of_words("q", [0, 0, 0, 0])
ALLOCATED, RECYCLED, RETURNED, HELD = range(4)
_limit = _Limit()
_limit.nbytes = -1
# The object that owns the memory of each block, in use or idle, by address.
_owners: dict[int, object] = {}
# When each capacity was last asked for. Small ones take little memory and are not noted.
_asked: dict[int, int] = {}
_tick = itertools.count(1).__next__
_capacities = [capacity_for(index * ALIGNMENT) for index in range(SMALL // ALIGNMENT + 1)]
# Idle addresses by capacity. An entry is never removed.
_free: dict[int, list[int]] = {capacity: [] for capacity in _capacities}


# `__del__` takes everything from defaults: module globals may be gone when the interpreter ends.
def _trim(
    limit: int,
    free: dict[int, list[int]] = _free,
    counts: array_of_words[int] = _counts,
    owners: dict[int, object] = _owners,
    asked: dict[int, int] = _asked,
    held: int = HELD,
    returned: int = RETURNED,
) -> None:
    """Give idle blocks back to the system until no more than `limit` bytes are held."""
    # Counted afresh: additions without a lock may have been lost.
    idle = sorted(free.items(), key=lambda each: (each[0] <= SMALL, asked.get(each[0], 0)))
    counts[held] = sum(capacity * len(addresses) for capacity, addresses in idle)
    for capacity, addresses in idle:
        while addresses and counts[held] > limit:
            try:
                address = addresses.pop()
            except IndexError:
                break
            del owners[address]
            counts[held] -= capacity
            counts[returned] += capacity


class Buffer:
    """Memory that is the holder's alone until the last reference to this object is gone."""

    __slots__ = ("address", "capacity", "nbytes")

    def __init__(self, address: int, nbytes: int, capacity: int) -> None:
        self.address = address
        self.nbytes = nbytes
        self.capacity = capacity

    def __del__(
        self,
        free: dict[int, list[int]] = _free,
        counts: array_of_words[int] = _counts,
        limit: _Limit = _limit,
        trim: Callable[[int], None] = _trim,
        held: int = HELD,
    ) -> None:
        capacity = self.capacity
        free[capacity].append(self.address)
        counts[held] += capacity
        if counts[held] > limit.nbytes:
            trim(limit.nbytes)

    def __reduce__(self) -> NoReturn:
        # A copy would give the same memory back a second time.
        raise TypeError("a buffer is memory and cannot be copied. Copy the tensor that holds it.")

    def __repr__(self) -> str:
        return f"Buffer(address={self.address:#x}, nbytes={self.nbytes}, capacity={self.capacity})"


def allocate(nbytes: int) -> Buffer:
    """Memory of at least so many bytes, aligned to 64, with undefined contents."""
    if nbytes <= SMALL:
        capacity = _capacities[(nbytes + 63) >> 6]
    else:
        capacity = capacity_for(nbytes)
        _asked[capacity] = _tick()
        if capacity not in _free:
            # Two threads may come here at once; both must get the same list.
            _free.setdefault(capacity, [])
    try:
        address = _free[capacity].pop()
    except IndexError:
        return _fresh(nbytes, capacity)
    _counts[RECYCLED] += capacity
    _counts[HELD] -= capacity
    return Buffer(address, nbytes, capacity)


def array(buffer: Buffer, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """A writable array on the memory of a buffer; the array and all its views keep the buffer."""
    capacity = buffer.capacity
    kind = _kinds.get(capacity) or _new_kind(capacity)
    # Views in NumPy hold the object that exports the memory, so that object holds the buffer.
    memory = kind.from_address(buffer.address)
    memory.buffer = buffer
    return np.ndarray(shape, dtype, memory)


# Values make arrays of buffers without importing the pool, which is above them.
hooks.array_over = array
# ctypes arrays by capacity; Any because their instances take an attribute that keeps the buffer.
_kinds: dict[int, Any] = {}


def _new_kind(capacity: int) -> Any:
    return _kinds.setdefault(capacity, type("Memory", (ctypes.c_char * capacity,), {}))


def idle(capacity: int) -> list[int]:
    """The idle addresses of a capacity; always the same list."""
    return _free[capacity]


def counts() -> array_of_words[int]:
    """The counters in memory, which native code adds to as well."""
    return _counts


def pool_counts() -> PoolCounts:
    """A snapshot of the pool's counters."""
    return PoolCounts(*_counts)


def empty_cache() -> None:
    """Give memory that no tensor uses back to the system.

    >>> gt.empty_cache()
    """
    _trim(0)


def _fresh(nbytes: int, capacity: int) -> Buffer:
    if _limit.nbytes < 0:
        _limit.nbytes = _chosen_limit()
    try:
        address, owner = _from_system(capacity)
    except (MemoryError, OSError):
        empty_cache()
        try:
            address, owner = _from_system(capacity)
        except (MemoryError, OSError) as error:
            raise MemoryError(
                f"no memory for {nbytes} bytes, with nothing idle left to give back. "
                "Drop tensors that are not needed, or work on smaller pieces."
            ) from error
    _owners[address] = owner
    _counts[ALLOCATED] += capacity
    return Buffer(address, nbytes, capacity)


def _from_system(capacity: int) -> tuple[int, object]:
    """An address, and the object whose death frees the memory there."""
    if capacity < LARGE:
        block = np.empty(capacity + ALIGNMENT, np.uint8)
        start = block.__array_interface__["data"][0]
        return -(-start // ALIGNMENT) * ALIGNMENT, block
    if hasattr(mmap, "MAP_PRIVATE"):
        # Private: Python's default is memory that a forked child would share with its parent.
        pages = mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    else:
        pages = mmap.mmap(-1, capacity)
    if capacity >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        # Some kernels have no huge pages.
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    exported = ctypes.c_char.from_buffer(pages)
    return ctypes.addressof(exported), exported


def _chosen_limit() -> int:
    text = os.environ.get("GRADTAPE_CACHE_LIMIT", "").strip()
    if not text:
        return physical_memory() // 2
    return parse_bytes("GRADTAPE_CACHE_LIMIT=", text, "0, which keeps no idle memory")
