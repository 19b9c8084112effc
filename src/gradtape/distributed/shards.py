"""Shards: a batch cut into parts along its first axis, by number and never by worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape import Tensor


@dataclass(frozen=True)
class Shard:
    """One shard of a step: its number, its weight in the average, and its arrays or row numbers."""

    number: int
    weight: float
    content: Any

    @property
    def nbytes(self) -> int:
        """The bytes that are sent."""
        parts = self.content if isinstance(self.content, list) else [self.content]
        return sum(int(part.nbytes) for part in parts)


def as_array(part: Any) -> np.ndarray:
    """A part of a batch as an array."""
    return part.numpy() if isinstance(part, Tensor) else np.asarray(part)


def rows_in(what: str, arrays: Sequence[np.ndarray]) -> int:
    """The number of rows that all arrays have."""
    lengths = {len(part) if part.ndim else -1 for part in arrays}
    if len(lengths) != 1 or -1 in lengths:
        shapes = [part.shape for part in arrays]
        raise ValueError(f"{what} the same number of rows, got shapes {shapes}.")
    return lengths.pop()


def divided(batch: Sequence[Any], count: int, by_rows: bool) -> list[Shard]:
    """The shards of a batch; with `by_rows` it is one array of row numbers.

    >>> from gradtape.distributed.shards import divided
    >>> [(shard.weight, shard.content[0].tolist()) for shard in divided([[1, 2, 3, 4]], 2, False)]
    [(0.5, [1, 2]), (0.5, [3, 4])]
    """
    if not batch:
        raise ValueError("step: there is no batch. Pass its arrays, or row numbers of data=.")
    if by_rows and len(batch) != 1:
        raise ValueError("step: data= was given, so a batch is one array of row numbers.")
    arrays = [as_array(part) for part in batch]
    total = rows_in("step: the arrays of a batch need", arrays)
    if total < count:
        raise ValueError(
            f"step: a batch of {total} rows cannot be divided into {count} shards. "
            "Pass a larger batch, or shards= of data_parallel."
        )
    found = []
    for number in range(count):
        start, stop = number * total // count, (number + 1) * total // count
        parts = [part[start:stop] for part in arrays]
        found.append(Shard(number, (stop - start) / total, parts[0] if by_rows else parts))
    return found
