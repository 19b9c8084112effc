"""Rules that scan and while share: which values move with which, and bodies that carry them.

A while is here a scan without sequences and results. What is carried depends on itself: a carried
value has a tangent, a cotangent or an axis of examples if any step gives it one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gradtape.ir import Program, closed, of_structure
from gradtape.ir.node import Node
from gradtape.ops.control import bodies
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.families.batching import Flags, Inputs, spread

Tangents = tuple[Node | None, ...]


def push(
    scan: Scan, inputs: Inputs, tangents: Sequence[Node | None]
) -> tuple[Scan, Inputs, Callable[[Sequence[Node]], Tangents]] | None:
    """The loop that carries values and tangents together, so that memory stays constant.

    Its operands, and the tangents among its outputs; None if no output has any.
    """
    given = tuple(tangent is not None for tangent in tangents)
    active, having = _moving(scan, given)
    _, moving, _ = scan.parts(active)
    if not any((*moving, *having)):
        return None
    key = of_structure("pushed loop", scan.constants, scan.carries, given)
    body = bodies.remembered(scan.body, key, lambda: _body_with_tangents(scan, active, having))
    constants, carried, sequences = (
        [one for one in part if one is not None] for part in scan.parts(tangents)
    )
    own = scan.parts(inputs)
    carried = [
        bodies.zero_if_absent(tangent, node.spec)
        for tangent, node, flag in zip(scan.parts(tangents)[1], own[1], moving, strict=True)
        if flag
    ]
    operands = (*own[0], *constants, *own[1], *carried, *own[2], *sequences)
    width = scan.carries + len(carried)
    again = replace(scan, body=body, constants=scan.constants + len(constants), carries=width)

    def found(results: Sequence[Node]) -> Tangents:
        finals = iter(results[scan.carries : width])
        rows = iter(results[width + len(scan.body.outputs) - scan.carries :])
        return (
            *[next(finals) if flag else None for flag in moving],
            *[next(rows) if flag else None for flag in having[scan.carries :]],
        )

    return again, operands, found


def _moving(scan: Scan, active: Flags) -> tuple[Flags, Flags]:
    """The inputs and outputs of a body with tangents."""
    while True:
        _, having = bodies.pushed(scan.body, active)
        constants, carried, sequences = scan.parts(active)
        more = tuple(a or b for a, b in zip(carried, having, strict=False))
        if more == carried:
            return active, having
        active = (*constants, *more, *sequences)


def _body_with_tangents(scan: Scan, active: Flags, having: Flags) -> Program:
    """The body with tangents of the active inputs and of the outputs that depend on them.

    In each group the values come first, then tangents: `compiler.passes.merge_loops` can then
    see that a scan of the same values without tangents is a part of this one.
    """
    body, carries = scan.body, scan.carries
    found, _ = bodies.pushed(body, active)
    seeds = iter(found.inputs[len(body.inputs) :])
    by_input = [next(seeds) if flag else None for flag in active]
    slopes = iter(found.outputs[len(body.outputs) :])
    by_output = [next(slopes) if flag else None for flag in having]
    values = found.outputs[: len(body.outputs)]
    groups = zip(scan.parts(found.inputs[: len(body.inputs)]), scan.parts(by_input), strict=True)
    ordered = [node for own, more in groups for node in (*own, *more) if node is not None]
    carried = [
        bodies.zero_if_absent(slope, node.spec)
        for slope, node, flag in zip(
            by_output, values[:carries], scan.parts(active)[1], strict=False
        )
        if flag
    ]
    stacked = [slope for slope in by_output[carries:] if slope is not None]
    return closed(ordered, (*values[:carries], *carried, *values[carries:], *stacked))


def pull(
    scan: Scan, body: Program, wanted: Sequence[int], given: Flags
) -> tuple[list[int], dict[int, Node], dict[int, Node]]:
    """The carried values that have a cotangent at the end of some step, from those of the outputs.

    With them the placeholders of cotangents by output, and the cotangents of inputs that have one.
    """
    carried = range(scan.constants, scan.first)
    inexact = [at for at, node in enumerate(body.inputs) if node.spec.inexact]
    sought = [at for at in inexact if at in carried or at in wanted]
    moving = {number for number in range(scan.carries) if given[number]}
    while True:
        flags = (*[number in moving for number in range(scan.carries)], *given[scan.carries :])
        seeds, found = bodies.pulled(body, sought, flags)
        slopes = {at: slope for at, slope in zip(sought, found, strict=True) if slope is not None}
        more = {at - scan.constants for at in slopes if at in carried}
        if more <= moving:
            by_output = [number for number, flag in enumerate(flags) if flag]
            return sorted(moving), dict(zip(by_output, seeds, strict=True)), slopes
        moving |= more


def batched(
    scan: Scan, inputs: Inputs, given: Flags, flags: Flags, size: int
) -> tuple[Program, Flags, Flags, list[Node]]:
    """The body for many examples, if the inputs with a flag are batched; `given` are so already.

    With it the inputs and outputs that have an axis of examples, and the initial values.
    """
    while True:
        constants, moving, sequences = scan.parts(flags)
        least = (*moving, *(False,) * (len(scan.body.outputs) - scan.carries))
        found, having = bodies.batched(scan.body, flags, size, least)
        if having[: scan.carries] == moving:
            break
        flags = (*constants, *having[: scan.carries], *sequences)
    pairs = zip(scan.parts(inputs)[1], scan.parts(given)[1], moving, strict=True)
    initial = [spread(node, size) if flag and not own else node for node, own, flag in pairs]
    return found, flags, having, initial
