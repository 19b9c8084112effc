"""The buffer pool: memory that is recycled, because fresh pages cost more than most kernels.

The system zeroes a page when it is first written to, so writing to fresh pages takes ten times as
long as writing to pages in use. A program that repeats requests the same sizes again and again. So
the memory of a buffer is not freed when its last holder dies, but kept on a list of blocks of that
size for the next. At most `GRADTAPE_CACHE_LIMIT` bytes are recycled like this (a number, or such as
`512M`, `4G`; `0` recycles none), by default half of the machine's or the container's memory. Where
a new block would exceed it, idle blocks of the least recently requested sizes go back to the
system; if that is not enough, the memory of the new block is returned as soon as its holder dies.

No Python code runs when a buffer dies. Python code in a finaliser is where a signal handler may be
called, and Python drops whatever the handler raises there: Ctrl-C would be lost. So the finaliser
of a buffer is `list.append`, which puts the object itself on the idle list.

There is no lock: `append` and `pop` of a list are atomic, and a lock would be in danger from a
fork, after which a child would inherit it taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import weakref
from array import array as array_of_words
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from gradtape.compiler.machine_limits import parse_bytes, physical_memory
from gradtape.concurrency import method_in_c
from gradtape.config import LARGE_BUFFER, SMALL_BUFFER, variable
from gradtape.dtypes import DTypeLike
from gradtape.ops.matrices.sparse_solve import forget_factors
from gradtape.records import dataclass
from gradtape.runtime.profiler_sink import PROBE

ALIGNMENT = 64
HUGE_PAGE = 1 << 21


@dataclass
class PoolCounts:
    """Bytes that passed through the pool since the process began, and bytes that are idle in it."""

    # Taken from the system, served from idle memory, and returned to the system.
    bytes_allocated: int = 0
    bytes_recycled: int = 0
    bytes_returned: int = 0
    # Idle now.
    bytes_held: int = 0


def capacity_for(nbytes: int) -> int:
    """The size class of a request: multiples of 64 up to 256, then four classes per doubling."""
    if nbytes <= 256:
        return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT
    shift = (nbytes - 1).bit_length() - 3
    return (((nbytes - 1) >> shift) + 1) << shift


# The first numbers of PoolCounts in that order, as words that native code adds to as well.
_counts: array_of_words[int] = array_of_words("q", [0, 0, 0])
ALLOCATED, RECYCLED, RETURNED = range(3)
# The most bytes that are recycled; negative until the first block is allocated.
_limit = [-1]
# The object that owns the memory of each recycled block, in use or idle, by address; and how many
# bytes these are.
_owners: dict[int, object] = {}
_recycled = [0]
# Blocks that are not recycled: a weak reference to each owner, by id, with the capacity. References
# to owners that are gone wait in `_gone` until the bytes are counted.
_lent: dict[int, tuple[weakref.ref[object], int]] = {}
_gone: list[weakref.ref[object]] = []
# The time of the last request of each capacity. Small ones take little memory and are not noted.
_asked: dict[int, int] = {}
_tick = itertools.count(1).__next__
_capacities = [capacity_for(index * ALIGNMENT) for index in range(SMALL_BUFFER // ALIGNMENT + 1)]


class Buffer(int):
    """Memory that is the holder's alone until the last reference to this object is gone.

    The number is the address. Each capacity has a class of its own, whose finaliser puts the buffer
    on the idle list of the capacity. CPython calls a finaliser once for each object, so a buffer
    from the list lends its address to a new one.
    """

    __slots__ = ()
    capacity = 0
    address = int.numerator

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """A writable array on this memory; the array and all its views keep the buffer."""
        if PROBE.sink is not None:
            PROBE.sink.viewed(self)
        capacity = self.capacity
        kind = _kinds.get(capacity) or _new_kind(capacity)
        # Views in NumPy hold the object that exports the memory, so that object holds the buffer.
        memory = kind.from_address(self)
        memory.buffer = self
        return np.ndarray(shape, dtype, memory)

    def __reduce__(self) -> NoReturn:
        # A copy would give the same memory back a second time.
        raise TypeError("a buffer is memory and cannot be copied. Copy the tensor that holds it.")

    def __repr__(self) -> str:
        return f"Buffer(address={self.address:#x}, capacity={self.capacity})"


class _Lent(Buffer):
    """A buffer that is not recycled: its attributes hold the memory, which goes with it."""

    owner: object


# Idle buffers by capacity, their classes, and functions that take one off the list and give a new
# one with its address. An entry is never removed.
_free: dict[int, list[Buffer]] = {}
_classes: dict[int, type[Buffer]] = {}
_take: dict[int, Callable[[], Buffer]] = {}


def _use_capacity(capacity: int) -> None:
    # Two threads may come here at once; both must get the same list.
    free = _free.setdefault(capacity, [])
    own = {"__slots__": (), "capacity": capacity, "__del__": method_in_c(free.append)}
    kind = _classes.setdefault(capacity, type("Buffer", (Buffer,), own))
    # One call of C code, in which no signal handler can run: no block is lost halfway. It raises
    # the IndexError of an empty list; no address is 0, where the iterator would end.
    _take.setdefault(capacity, map(kind, iter(free.pop, 0)).__next__)


def _trim(limit: int) -> None:
    """Give idle blocks back to the system until no more than `limit` bytes are recycled."""
    idle = sorted(_free.items(), key=lambda each: (each[0] <= SMALL_BUFFER, _asked.get(each[0], 0)))
    for capacity, buffers in idle:
        while buffers and _recycled[0] > limit:
            try:
                del _owners[buffers.pop()]
            except IndexError:
                break
            _recycled[0] -= capacity
            _counts[RETURNED] += capacity


def allocate(nbytes: int) -> Buffer:
    """Memory of at least `nbytes`, aligned to 64, with undefined contents."""
    if nbytes <= SMALL_BUFFER:
        capacity = _capacities[(nbytes + 63) >> 6]
    else:
        capacity = capacity_for(nbytes)
        _asked[capacity] = _tick()
    try:
        found = _take[capacity]()
    except LookupError:
        return _fresh(nbytes, capacity)
    _counts[RECYCLED] += capacity
    return found


# ctypes arrays by capacity; Any because their instances take an attribute that keeps the buffer.
_kinds: dict[int, Any] = {}


def _new_kind(capacity: int) -> Any:
    return _kinds.setdefault(capacity, type("Memory", (ctypes.c_char * capacity,), {}))


def taker(capacity: int) -> Callable[[], Buffer]:
    """The function that gives an idle buffer of a capacity; an IndexError if there is none."""
    if capacity not in _take:
        _use_capacity(capacity)
    return _take[capacity]


def counts() -> array_of_words[int]:
    """The counters in memory, which native code adds to as well."""
    return _counts


def pool_counts() -> PoolCounts:
    """A snapshot of the pool's counters."""
    _count_returned()
    held = sum(capacity * len(buffers) for capacity, buffers in list(_free.items()))
    return PoolCounts(_counts[ALLOCATED], _counts[RECYCLED], _counts[RETURNED], held)


def empty_cache() -> None:
    """Give memory that no tensor uses back to the system.

    >>> gt.empty_cache()
    """
    forget_factors()
    _trim(-1)


def _count_returned() -> None:
    """Count the bytes of blocks that went back to the system by themselves."""
    while _gone:
        _, capacity = _lent.pop(id(_gone.pop()))
        _counts[RETURNED] += capacity


def _fresh(nbytes: int, capacity: int) -> Buffer:
    if capacity not in _take:
        _use_capacity(capacity)
    if _limit[0] < 0:
        _limit[0] = _chosen_limit()
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
    _counts[ALLOCATED] += capacity
    if _recycled[0] + capacity > _limit[0]:
        _trim(_limit[0] - capacity)
    if _recycled[0] + capacity <= _limit[0]:
        _owners[address] = owner
        _recycled[0] += capacity
        return _classes[capacity](address)
    _count_returned()
    reference = weakref.ref(owner, _gone.append)
    _lent[id(reference)] = reference, capacity
    lent = _Lent(address)
    lent.capacity, lent.owner = capacity, owner
    return lent


def _from_system(capacity: int) -> tuple[int, object]:
    """An address, and the object whose death frees the memory there."""
    if capacity < LARGE_BUFFER:
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
    text = variable("CACHE_LIMIT")
    if not text:
        return physical_memory() // 2
    return parse_bytes("GRADTAPE_CACHE_LIMIT=", text, "0, which keeps no idle memory")
