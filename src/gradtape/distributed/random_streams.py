"""Random numbers that do not depend on workers: each item or shard has a stream by its number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape import random
from gradtape.random import Generator


def base_seed(seed: int | None) -> int:
    """The seed itself, or a number drawn from the shared stream, which `gt.random.seed` governs."""
    if seed is not None:
        return int(seed)
    return int(random.integers((), 0, 2**62).numpy())


def stream(seed: int, *numbers: int) -> Any:
    """The start of the stream of one item: a function of the seed and the item's numbers."""
    words = np.random.SeedSequence(entropy=seed, spawn_key=numbers).generate_state(4, np.uint32)
    return Generator(int.from_bytes(words.tobytes(), "little")).state


def begin(seed: int, numbers: Sequence[int]) -> None:
    """Let the shared stream of this process be that of one item."""
    random.set_state(stream(seed, *numbers))
