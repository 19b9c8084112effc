"""Segments: a checkpointed scan, as a scan over segments of steps whose body is a scan.

Reverse mode saves only what is carried between segments, and computes the steps inside again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradtape.control.checks import as_count
from gradtape.control.traced_bodies import apply_outside
from gradtape.graph import Program, apply, closed, outputs, placeholder, scratch, spec
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.control.scan import SCAN
from gradtape.recording.thread_state import state
from gradtape.tensor.tensor import Tensor


def segment_length(checkpoint: bool | int | None, length: int) -> int | None:
    """The number of steps between two carries that are saved; None if every one is saved."""
    if checkpoint is None or checkpoint is False:
        return None
    if checkpoint is True:
        return max(1, math.isqrt(length))
    found = as_count("scan", "checkpoint", checkpoint)
    if found < 1:
        raise ValueError(
            "scan: checkpoint is 0, but a segment has a step or more. Pass 1 or more, True or None."
        )
    return min(found, max(length, 1))


class Segments:
    """A scan over segments, whose body is a scan; only what is carried between them is saved."""

    def __init__(self, body: Program, captured: Sequence[Tensor], reverse: bool) -> None:
        self.body = body
        self.captured = tuple(captured)
        self.reverse = reverse

    def record(
        self, carry: Sequence[Tensor], sequences: Sequence[Tensor], length: int, segment: int
    ) -> list[Tensor]:
        """The results of segments of so many steps; steps left over are one more segment."""
        count, rest = divmod(length, segment)
        cut = len(carry)
        # The steps left over are done last: in a reversed scan these are the first elements.
        start = rest if self.reverse else 0
        split = [
            reshape(_part(x, start, length - rest), (count, segment, *x.shape[1:]))
            for x in sequences
        ]
        found = self._scan(carry, split, count, segment)
        finals = found[:cut]
        rows = [reshape(y, (length - rest, *y.shape[2:])) for y in found[cut:]]
        if rest:
            left = [_part(x, 0 if self.reverse else length - rest, rest) for x in sequences]
            found = self._scan(finals, [reshape(x, (1, *x.shape)) for x in left], 1, rest)
            finals = found[:cut]
            more = [reshape(y, y.shape[1:]) for y in found[cut:]]
            pairs = zip(rows, more, strict=True)
            rows = [concat([b, a] if self.reverse else [a, b], axis=0) for a, b in pairs]
        return [*finals, *rows]

    def _scan(
        self, carry: Sequence[Tensor], sequences: Sequence[Tensor], count: int, steps: int
    ) -> list[Tensor]:
        outer = state.recording
        operands = [tensor.enter(outer) for tensor in (*self.captured, *carry, *sequences)]
        body = self._segment_body(len(carry), steps)
        params = (body, len(self.captured), len(carry), count, self.reverse, True)
        return apply_outside(SCAN, operands, params)

    def _segment_body(self, carries: int, steps: int) -> Program:
        """The body that does several steps."""
        first = len(self.captured) + carries
        key = ("segment", carries, first, steps, self.reverse)
        found = self.body.derived.get(key)
        if found is None:
            with scratch():
                own = self.body.inputs[:first]
                rows = [
                    placeholder(spec((steps, *node.shape), node.dtype))
                    for node in self.body.inputs[first:]
                ]
                params = (self.body, len(self.captured), carries, steps, self.reverse, False)
                node = apply(SCAN, (*own, *rows), params)
                found = self.body.derived[key] = closed((*own, *rows), outputs(node))
        return found


def _part(x: Tensor, start: int, length: int) -> Tensor:
    """Some elements along axis 0."""
    return x if length == x.shape[0] else along_axis(x, 0, start, length)
