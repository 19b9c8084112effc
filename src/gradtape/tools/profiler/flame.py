"""Flame: the stacks of the program's own lines as a tree of boxes, each with its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gradtape.config import FLAME_BOXES, LEAST_FLAME_SHARE
from gradtape.ir.origin import SourcePlace
from gradtape.tools.profiler.sampler import NAMES, PYTHON, Stack

# The phases of a report that each phase of the samples belongs to.
NAMES_OF_PHASES: dict[str, tuple[str, ...]] = {name: (name,) for name in (*NAMES, PYTHON)}
NAMES_OF_PHASES["running"] = ("running plans", "running")


@dataclass
class Box:
    """A line with what it called, or the library's work for it: then there is a phase."""

    place: SourcePlace | None
    phase: str | None
    seconds: float = 0.0
    inside: dict[tuple[SourcePlace | None, str | None], Box] = field(default_factory=dict)

    def inner(self, place: SourcePlace | None, phase: str | None, seconds: float) -> Box:
        """A box inside this one, with more time."""
        found = self.inside.setdefault((place, phase), Box(place, phase))
        found.seconds += seconds
        return found


def boxes(stacks: Mapping[Stack, float]) -> list[tuple[Box, int]]:
    """The boxes, each with the number of the one that it is in, or -1; the longest first.

    Those that are too short to be seen are left out.
    """
    root = Box(None, None)
    for (phase, places), seconds in stacks.items():
        at = root
        for place in places:
            at = at.inner(place, None, seconds)
        if phase != PYTHON or not places:
            at.inner(None, phase, seconds)
    least = LEAST_FLAME_SHARE * sum(stacks.values())
    found: list[tuple[Box, int]] = []
    rows = [(box, -1) for box in root.inside.values()]
    # By depth: what is left out of a very large tree is what is deepest.
    while rows and len(found) < FLAME_BOXES:
        rows.sort(key=lambda row: -row[0].seconds)
        kept = [row for row in rows if row[0].seconds >= least][: FLAME_BOXES - len(found)]
        first = len(found)
        found += kept
        rows = [
            (inner, first + number)
            for number, (box, _) in enumerate(kept)
            for inner in box.inside.values()
        ]
    return found


def seconds_of(stacks: Mapping[Stack, float], spent: Mapping[str, float]) -> dict[Stack, float]:
    """The stacks with the seconds of their phases, which are divided as the samples are."""
    totals = dict.fromkeys(NAMES_OF_PHASES, 0.0)
    for (phase, _), seconds in stacks.items():
        totals[phase] += seconds
    found: dict[Stack, float] = {}
    for phase, total in totals.items():
        # Samples do not distinguish running plans from the code that starts them.
        exact = sum(spent.get(name, 0.0) for name in NAMES_OF_PHASES[phase])
        if total:
            same = {stack: each for stack, each in stacks.items() if stack[0] == phase}
            found |= {stack: each * exact / total for stack, each in same.items()}
    return found


def flame(stacks: Mapping[Stack, float], shown: Any) -> dict[str, Any]:
    """The flame graph as data; `shown` makes columns of a line."""
    return {
        "seconds": sum(stacks.values()),
        "boxes": [
            {"inside": inside, "phase": box.phase, "seconds": box.seconds, **shown(box.place)}
            for box, inside in boxes(stacks)
        ],
    }
