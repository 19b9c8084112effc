"""Reverse mode through a while of unknown length: backwards in chunks of steps, each run once more.

The number of steps is known at run time, not when the loop is recorded, so no array of known shape
can hold residuals of all steps. A second loop goes back from the last step. For each chunk of CHUNK
steps it reruns the first loop from its start up to the chunk, then the chunk itself as a scan, and
goes back through that scan. Thus n steps cost about 2n + n² / (2 CHUNK) further steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.graph import REGISTRY, Program, closed, spec, substitute
from gradtape.graph.node import Node, apply, constant, outputs, placeholder
from gradtape.ops.control import bodies
from gradtape.ops.control.branch import branch_node
from gradtape.ops.control.scan import scan_node
from gradtape.ops.families.casting import cast

# The number of steps whose residuals are held at a time.
CHUNK = 64

NUMBER = spec((), np.dtype(np.int64))


class Backward:
    """The backward loop for some wanted inputs, and which of them have a derivative."""

    def __init__(
        self, body: Program, constants: int, wanted: Sequence[int], given: Sequence[bool]
    ) -> None:
        self.body = body
        self.constants = constants
        fixed, carried = body.inputs[:constants], body.inputs[constants:]
        chunk = self._chunk()
        moving = {number for number, flag in enumerate(given) if flag}
        places = range(len(body.inputs))
        asked = [at for at in places if body.inputs[at].spec.inexact]
        while True:
            flags = tuple(number in moving for number in range(len(carried)))
            seeds, found = bodies.pulled(chunk, asked, flags)
            slopes = {
                at: slope for at, slope in zip(asked, found, strict=True) if slope is not None
            }
            more = {at - constants for at in slopes if at >= constants} - moving
            if not more:
                break
            moving |= more
        # The backward loop carries cotangents of carried values (states) and of constants (sums).
        self.states = sorted(moving)
        self.sums = [at for at in wanted if at < constants and at in slopes]
        k = placeholder(NUMBER)
        sums = [placeholder(body.inputs[at].spec) for at in self.sums]
        start = apply(REGISTRY["floor_divide"], (k - 1, constant(CHUNK, NUMBER))) * CHUNK
        there = self._state_at(start)
        replacement = dict(zip(chunk.inputs, (*fixed, *there, k - start), strict=True))
        roots = [
            *[slopes[constants + n] if constants + n in slopes
              else constant(0, carried[n].spec) for n in self.states],
            *[slopes[at] for at in self.sums],
        ]  # fmt: skip
        results = substitute(roots, replacement)
        cut = len(self.states)
        totals = [old + new for old, new in zip(sums, results[cut:], strict=True)]
        inputs = (*fixed, *carried, k, *seeds, *sums)
        self.step = closed(inputs, (start, *results[:cut], *totals))
        self.condition = closed(inputs, (k > 0,))

    def _chunk(self) -> Program:
        """A program of CHUNK steps; steps from a limit on change nothing."""
        body, constants = self.body, self.constants
        number, limit = placeholder(NUMBER), placeholder(NUMBER)
        fixed, carried = body.inputs[:constants], body.inputs[constants:]
        stay = closed(body.inputs, carried)
        chosen = branch_node((stay, body), cast(number < limit, NUMBER.dtype), body.inputs)
        one = closed((*fixed, limit, number, *carried), (number + 1, *outputs(chosen)))
        node = scan_node(one, (*fixed, limit), (constant(0, NUMBER), *carried), (), CHUNK)
        return closed((*body.inputs, limit), outputs(node)[1:])

    def _state_at(self, start: Node) -> tuple[Node, ...]:
        """The carried values after `start` steps."""
        body, constants = self.body, self.constants
        number, limit = placeholder(NUMBER), placeholder(NUMBER)
        fixed, carried = body.inputs[:constants], body.inputs[constants:]
        inputs = (*fixed, limit, number, *carried)
        condition = closed(inputs, (number < limit,))
        one = closed(inputs, (number + 1, *body.outputs))
        operands = (*fixed, start, constant(0, NUMBER), *carried)
        node = apply(REGISTRY["while"], operands, (condition, one, constants + 1, None))
        return outputs(node)[1:-1]


def pull_while(
    wanted: Sequence[int],
    cotangents: Sequence[Node | None],
    count: Node,
    inputs: tuple[Node, ...],
    body: Program,
    constants: int,
) -> list[Node | None]:
    """The cotangents of wanted inputs; `count` is the number of steps of the forward loop."""
    given = tuple(cotangent is not None for cotangent in cotangents)
    if not any(given):
        return [None] * len(wanted)
    key = ("while pullback", constants, tuple(wanted), given)
    back = bodies.remembered(body, key, lambda: Backward(body, constants, wanted, given))
    carried = body.outputs
    initial = [
        count,
        *[bodies.zero_if_absent(cotangents[n], carried[n].spec) for n in back.states],
        *[constant(0, inputs[at].spec) for at in back.sums],
    ]
    node = apply(
        REGISTRY["while"], (*inputs, *initial), (back.condition, back.step, len(inputs), None)
    )
    results = outputs(node)[1:-1]
    found = {constants + n: result for n, result in zip(back.states, results, strict=False)}
    found |= dict(zip(back.sums, results[len(back.states) :], strict=True))
    return [found.get(at) for at in wanted]
