"""The captures that one thread has of a function, by signature: bounded, forgotten on demand."""

from __future__ import annotations

import threading

from gradtape.dtypes import World
from gradtape.jit.arguments.argument_keys import is_gone
from gradtape.jit.arguments.signature import Key
from gradtape.jit.captured import Captured

# A thread keeps the captures of at most so many signatures of one function.
SIGNATURES = 512
# Up to so many are looked through for objects that are gone whenever there is a new one.
FEW = 16


class ThreadCaptures(threading.local):
    """The captures of each thread: nodes belong to the thread that made them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin without any captures."""
        self.by_key: dict[Key, Captured] = {}
        self.world = World.number[0]
        self._sweep_at = FEW

    def make_room(self) -> None:
        """Drop captures for objects that are gone and, of too many, those not called lately.

        Not at every new signature: then each would cost the more the more there are.
        """
        known = self.by_key
        if FEW < len(known) < self._sweep_at:
            return
        for gone in [each for each in known if is_gone(each)]:
            del known[gone]
        if len(known) >= SIGNATURES:
            idle = [key for key, each in known.items() if each.calls == each.calls_before]
            for key in [*idle, *known][: len(known) - SIGNATURES // 2]:
                known.pop(key, None)
        for each in known.values():
            each.calls_before = each.calls
        self._sweep_at = min(SIGNATURES, 2 * len(known))
