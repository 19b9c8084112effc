"""Batches: arrays cut into batches, in an order that a position and a key determine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradtape import Tensor, Variable, pytree
from gradtape.errors import ShapeError
from gradtape.libraries import as_count, check_exports, shown
from gradtape.random import Generator
from gradtape.training.storage import registry
from gradtape.typing import Size

__all__ = ["Batches"]

Shuffle = Generator | int | bool | None


class Batches:
    """A nest of arrays of equal length, cut into batches along the first axis.

    >>> x, y = np.arange(10.0), np.arange(10) % 2
    >>> batches = gt.training.Batches((x, y), batch_size=5, shuffle=gt.random.Generator(0))
    >>> [(a.shape, b.shape) for a, b in batches]
    [((5,), (5,)), ((5,), (5,))]
    >>> batches.epoch, batches.position
    (1, 0)

    Iterating gives what is left of the current epoch. With a generator, or the seed of one, each
    epoch has an order of its own. Epoch and position are part of a checkpoint: after
    `gt.load(path, into=tree)` the iteration goes on where it was.
    """

    def __init__(
        self, arrays: Any, batch_size: Size = 32, shuffle: Shuffle = None, drop_last: bool = False
    ) -> None:
        leaves, self._structure = pytree.flatten(arrays)
        self._leaves = [_rows(leaf) for leaf in leaves]
        lengths = {len(leaf) for leaf in self._leaves}
        if len(lengths) != 1:
            raise ShapeError(
                f"Batches: arrays of lengths {sorted(lengths)}. Pass arrays of one length, at "
                "least one."
            )
        (self.length,) = lengths
        self.batch_size = int(batch_size)
        self.drop_last = bool(drop_last)
        self.epoch = 0
        self.position = 0
        self._key = _key(shuffle)

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        if self.drop_last:
            return self.length // self.batch_size
        return -(-self.length // self.batch_size)

    def order(self) -> np.ndarray | None:
        """The numbers of the examples in the order of the current epoch; None as they lie."""
        if self._key is None:
            return None
        # A function of key and epoch alone, so that a position is all that has to be saved.
        blocks = -(-self.length // 4)
        drawn = Generator.from_state((*self._key, self.epoch * blocks)).bits((self.length,))
        return np.argsort(drawn.numpy(), kind="stable")

    def left(self) -> Iterator[Any]:
        """The batches that are left of the epoch. The position stays."""
        order = self.order()
        for number in range(self.position, len(self)):
            start = number * self.batch_size
            rows: Any = slice(start, min(start + self.batch_size, self.length))
            if order is not None:
                rows = order[rows]
            yield pytree.unflatten(self._structure, [leaf[rows] for leaf in self._leaves])

    def took_one(self) -> None:
        """Move on by one batch."""
        self.position += 1

    def took_all(self) -> None:
        """Begin the next epoch."""
        self.epoch, self.position = self.epoch + 1, 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self.left():
            self.took_one()
            yield batch
        self.took_all()

    def count_of(self, batch: Any) -> int:
        """The number of examples in the batch at the position."""
        return min(self.batch_size, self.length - self.position * self.batch_size)


def _rows(leaf: Any) -> np.ndarray:
    if isinstance(leaf, (Tensor, Variable)):
        leaf = leaf.numpy()
    if not isinstance(leaf, np.ndarray) or not leaf.ndim:
        raise TypeError(
            f"Batches: {shown(leaf)} is not an array with rows. Pass arrays with examples along "
            "the first axis."
        )
    return leaf


def _key(shuffle: Shuffle) -> tuple[int, int] | None:
    if shuffle is None or shuffle is False:
        return None
    generator: Any = Generator() if shuffle is True else shuffle
    if not isinstance(generator, Generator):
        generator = Generator(as_count("Batches: shuffle", shuffle))
    first, second = generator.bits((2,)).numpy().tolist()
    return first, second


class Stream:
    """An iterable of batches, begun anew for each epoch; a resumed run passes over batches."""

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self._source = source
        self.epoch = 0
        self.position = 0
        # Batches of all epochs, which an iterator that runs once has to pass over.
        self.taken = 0
        self._once = not callable(source) and iter(source) is source
        self._iterator: Iterator[Any] | None = None

    def __len__(self) -> int:
        return 0

    def left(self) -> Iterator[Any]:
        """The batches that are left of the epoch."""
        source: Any = self._source() if callable(self._source) else self._source
        if self._once:
            if self._iterator is None:
                self._iterator = iter(source)
                self._pass_over(self._iterator, self.taken)
            return self._iterator
        found = iter(source)
        self._pass_over(found, self.position)
        return found

    def _pass_over(self, batches: Iterator[Any], count: int) -> None:
        for _ in range(count):
            next(batches, None)

    def took_one(self) -> None:
        """Move on by one batch."""
        self.position += 1
        self.taken += 1

    took_all = Batches.took_all

    def count_of(self, batch: Any) -> int:
        """The number of examples in a batch: the length of its first array, or 1."""
        leaves = pytree.flatten(batch)[0]
        shape: Any = getattr(leaves[0], "shape", ()) if leaves else ()
        return int(shape[0]) if len(shape) else 1


def _state(source: Any) -> Any:
    return {
        "epoch": source.epoch,
        "position": source.position,
        "taken": getattr(source, "taken", 0),
        "key": getattr(source, "_key", None),
        "length": getattr(source, "length", None),
        "batch_size": getattr(source, "batch_size", None),
    }


def _fill(source: Any, state: Any) -> registry.Change:
    """The change by which batches go on from a saved position."""
    for name in ("length", "batch_size"):
        if state[name] != getattr(source, name, None):
            raise ValueError(
                f"batches with {name}={state[name]} there and {getattr(source, name, None)} here"
            )
    new: dict[str, Any] = {"epoch": int(state["epoch"]), "position": int(state["position"])}
    if isinstance(source, Stream):
        new["taken"] = int(state["taken"])
    else:
        new["_key"] = None if state["key"] is None else tuple(map(int, state["key"]))
    return registry.take_attributes(source, new)


def _only_into(state: Any) -> Any:
    raise ValueError("batches without their arrays. Load into a tree that has them")


for _cls in (Batches, Stream):
    registry.register_family(
        _cls,
        lambda cls, name: registry.Codec(cls, name, _state, fill=_fill, make=_only_into),
    )


check_exports(globals(), __all__)
