"""Captured draws: the random numbers that a captured run takes from generators outside it.

A replay draws as many blocks at each step as the captured run did, and finds the position of each
random number as an offset from the generator's counter at that draw.
"""

from __future__ import annotations

import numpy as np

from gradtape.jit.replay.sources import MovedGenerator, RandomPosition
from gradtape.trace.value import host_value


class CapturedDraws:
    """Notes where generators were moved by a captured run."""

    __slots__ = ("_before", "_in_step", "_whole", "disturbed")

    def __init__(self) -> None:
        # The number of draws in earlier steps. In this step, for each generator: the number of its
        # draw, and the counter before and after. In the whole run: the counter before, None if
        # there is no way back, and after.
        self._before = 0
        self._in_step: dict[MovedGenerator, tuple[int, int, int]] = {}
        self._whole: dict[MovedGenerator, tuple[int | None, int]] = {}
        # Whether others have drawn from the same generator during the run.
        self.disturbed = False

    def __bool__(self) -> bool:
        return bool(self._whole)

    def drew(self, generator: MovedGenerator, start: int, stop: int) -> None:
        """The run has moved a generator from `start` to `stop`."""
        first, latest = self._whole.get(generator, (start, start))
        known = self._in_step.get(generator)
        if latest != start:
            first = None
            if known is not None:
                # Two draws with others in between cannot be replayed as one.
                self.disturbed = True
        number, place, _ = known or (self._before + len(self._in_step), start, stop)
        self._set(generator, first, number, place, stop)

    def drew_again(self, generator: MovedGenerator, start: int, width: int, stop: int) -> None:
        """The draw of `width` blocks from `start` on was repeated, up to `stop`."""
        first, latest = self._whole[generator]
        if latest != start + width:
            self.disturbed, first = True, None
        number, place, _ = self._in_step[generator]
        self._set(generator, first, number, place, stop)

    def gave_back(self, generator: MovedGenerator, start: int) -> None:
        """A generator was moved back to `start`: the numbers after it will be drawn again."""
        first, _ = self._whole[generator]
        number, place, _ = self._in_step[generator]
        self._set(generator, first, number, place, start)

    def _set(
        self, generator: MovedGenerator, first: int | None, number: int, place: int, stop: int
    ) -> None:
        self._whole[generator] = (first, stop)
        self._in_step[generator] = (number, place, stop)

    def position(self, generator: MovedGenerator, positions: np.ndarray) -> RandomPosition:
        """The source of one or many positions of random numbers drawn in this step."""
        draw, start, _ = self._in_step[generator]
        # Counters have two words, more than NumPy's integers hold.
        counters = positions[..., 2:].astype(object)
        offsets = counters[..., 0] + counters[..., 1] * 2**64 - start
        single = not isinstance(offsets, np.ndarray)
        return RandomPosition(
            draw, int(offsets) if single else host_value(offsets.astype(np.uint64))
        )

    def end_step(self) -> list[tuple[MovedGenerator, int]]:
        """Begin another step; returns the draws of the one that ends, with the blocks of each."""
        draws = [(each, stop - start) for each, (_, start, stop) in self._in_step.items()]
        self._before += len(draws)
        self._in_step = {}
        return draws

    def undo(self) -> bool:
        """Move all generators back; False if others have drawn meanwhile."""
        gone = [
            start is None or not generator.rewind(start, stop)
            for generator, (start, stop) in self._whole.items()
        ]
        return not any(gone)
