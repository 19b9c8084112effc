"""The cost model of docs/scaling.md: closed forms, and a simulation that checks them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

# The same as in gradtape.distributed: gradients of fewer bytes are gathered by every worker.
SMALL = 1 << 20
BUCKET = 4 << 20


@dataclass(frozen=True)
class Constants:
    """What one call and one byte cost, in seconds; `network` is None within one machine."""

    # A call of an actor that does nothing, from the call to its result.
    call: float
    # What each further call costs the driver.
    submit: float
    # A byte written to the object store by a worker; a byte read from it and added.
    put: float
    read: float
    # A byte between two machines.
    network: float | None = None
    # Cores that the workers share; None if each has its own machine.
    cores: int | None = None

    def crowd(self, workers: int) -> float:
        """By how much workers slow each other down."""
        return 1.0 if self.cores is None else max(1.0, workers / self.cores)


@dataclass(frozen=True)
class Training:
    """A data-parallel step: bytes of gradients, rows of a batch, seconds per row and per update."""

    size: int
    rows: int
    row: float
    update: float
    # Bytes of a batch, which the driver sends.
    batch: int = 0


# Ray sends smaller arguments with the call; larger ones go through the object store.
INLINE = 100 << 10


def sending(load: Training, workers: int, constants: Constants) -> tuple[float, float]:
    """Seconds in which the driver writes a batch, and of the round trip if it is large."""
    trip = constants.call if load.batch / workers > INLINE else 0.0
    return constants.put * load.batch, trip


@dataclass(frozen=True)
class Parts:
    """The seconds of a step by cause."""

    work: float
    update: float
    calls: float
    bytes: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.work + self.update + self.calls + self.bytes

    @property
    def limit(self) -> str:
        """The cause that costs most."""
        causes = {
            "work": self.work,
            "update": self.update,
            "calls of the driver": self.calls,
            "bytes": self.bytes,
        }
        return max(causes, key=lambda cause: causes[cause])


def is_gathered(size: int, workers: int) -> bool:
    """Whether every worker sums everything, as data_parallel does for small gradients."""
    return workers < 3 or size < SMALL


def bytes_of(size: int, workers: int) -> tuple[float, float, float]:
    """Bytes that one worker writes, reads, and receives from others, in one step."""
    if workers == 1:
        return 0.0, 0.0, 0.0
    if is_gathered(size, workers):
        return size, size * workers, size * (workers - 1)
    return size * (1 + 1 / workers), 2 * size, 2 * size * (workers - 1) / workers


def training(load: Training, workers: int, constants: Constants) -> Parts:
    """A step by so many workers."""
    crowd = constants.crowd(workers)
    written, read, received = bytes_of(load.size, workers)
    buckets = -(-load.size // BUCKET)
    gathered = is_gathered(load.size, workers)
    phases, calls = (2, 2 * workers) if gathered else (3, 2 * workers + buckets)
    if workers == 1:
        phases, calls = 1, 1
    sent, trip = sending(load, workers, constants)
    moved = (constants.put * written + constants.read * read) * crowd + sent
    if constants.network is not None:
        moved += constants.network * received
    return Parts(
        load.row * load.rows / workers * crowd,
        load.update * crowd,
        phases * constants.call + calls * constants.submit + trip,
        moved,
    )


def exchange(load: Training, workers: int, constants: Constants) -> float:
    """Seconds that `Report.exchange_seconds` counts in a step: all but gradients and updates."""
    written, _, received = bytes_of(load.size, workers)
    network = 0.0 if constants.network is None else constants.network * received
    moved = constants.put * written * constants.crowd(workers) + network
    moved += sending(load, workers, constants)[0]
    return training(load, workers, constants).calls + moved


def blocks(
    seeds: int, seconds: float, size: float, workers: int, constants: Constants, assembled: bool
) -> Parts:
    """A Jacobian of so many seeds, of seconds and bytes each, in four blocks per worker."""
    count = min(seeds, 4 * workers)
    crowd = constants.crowd(workers)
    written = constants.put * size * seeds / workers * crowd
    # One driver reads all blocks; with out= they stay in files or in the object store.
    read = (constants.read + (constants.network or 0.0)) * size * seeds if assembled else 0.0
    per_worker = -(-count // workers) * (seeds / count)
    return Parts(
        seconds * per_worker * crowd,
        0.0,
        constants.call + count * constants.submit,
        written + read,
    )


def sweep(items: int, seconds: float, workers: int, constants: Constants) -> Parts:
    """Independent items of so many seconds each."""
    crowd = constants.crowd(workers)
    rounds = -(-items // workers)
    return Parts(seconds * rounds * crowd, 0.0, constants.call + items * constants.submit, 0.0)


def simulate_training(
    load: Training, workers: int, constants: Constants, jitter: float = 0.0, seed: int = 0
) -> float:
    """The seconds of a step, worker by worker: calls leave the driver one after the other.

    `jitter` is the standard deviation of a worker's time, relative to its mean.
    """
    first = sum(sending(load, workers, constants))
    if workers == 1:
        return first + load.row * load.rows + load.update + constants.call + constants.submit
    rng = np.random.default_rng(seed)
    crowd = constants.crowd(workers)
    _, read, received = bytes_of(load.size, workers)
    network = 0.0 if constants.network is None else constants.network * received
    slow = 1.0 + jitter * np.abs(rng.standard_normal(workers))
    half = constants.call / 2
    done = np.empty(workers)
    for worker in range(workers):
        begun = first + (worker + 1) * constants.submit + half
        spent = load.row * load.rows / workers * crowd * slow[worker]
        done[worker] = begun + spent + constants.put * load.size * crowd + half
    ready = float(done.max())
    if not is_gathered(load.size, workers):
        # Buckets are summed by their owners, which wait for all pieces.
        buckets = -(-load.size // BUCKET)
        free = [ready] * min(workers, buckets)
        heapq.heapify(free)
        for _ in range(buckets):
            part = load.size / buckets
            spent = constants.read * part + constants.put * part / workers
            start = heapq.heappop(free) + constants.submit
            heapq.heappush(free, start + spent * crowd + constants.call)
        ready = max(free)
        read = load.size
    # The driver has sent the calls of the update while workers computed, or does so now.
    sent = 2 * workers * constants.submit
    start = max(ready, sent)
    return start + network + (constants.read * read + load.update) * crowd + constants.call


def simulate_items(seconds: np.ndarray, workers: int, constants: Constants) -> float:
    """The seconds of items that workers take as they become free."""
    free = [0.0] * workers
    heapq.heapify(free)
    end = 0.0
    for number, each in enumerate(seconds):
        start = max(heapq.heappop(free), (number + 1) * constants.submit)
        end = max(end, start + each * constants.crowd(workers))
        heapq.heappush(free, start + each * constants.crowd(workers))
    return end + constants.call
