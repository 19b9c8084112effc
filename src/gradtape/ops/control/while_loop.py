"""while: apply a body as long as a condition holds.

Condition and body take constants and carried values; the condition returns a boolean, the body the
next carried values. The outputs are the final values and the number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.errors import DtypeError, ShapeError
from gradtape.graph import REGISTRY, Op, Program, Spec, closed, declare, spec
from gradtape.graph.node import Node, apply, constant, outputs, placeholder
from gradtape.ops.control import bodies
from gradtape.ops.control.branch import branch_node
from gradtape.ops.control.composed_reads import while_reads
from gradtape.ops.control.scan import SCAN, grown, scan_node
from gradtape.ops.control.while_pullback import pull_while
from gradtape.ops.elementwise.arithmetic import where
from gradtape.ops.families.batching import Flags, Inputs, reshaped, size_of, spread
from gradtape.ops.families.casting import cast
from gradtape.ops.families.samples import Sample, generator

PARAMS = ("condition", "body", "constants", "maximum")
INTEGER = np.dtype(np.int64)


def _spec(
    *inputs: Spec, condition: Program, body: Program, constants: int, maximum: int | None
) -> tuple[Spec, ...]:
    for program in (condition, body):
        bodies.check_specs("while", program, inputs)
    (tested,) = condition.outputs
    if tested.shape != () or tested.dtype.kind != "b":
        raise DtypeError(f"while: a condition of {tested.spec} is not a single boolean.")
    results = tuple(node.spec for node in body.outputs)
    if results != inputs[constants:]:
        raise ShapeError(f"while: values carried as {inputs[constants:]} come back as {results}.")
    return (*results, spec((), INTEGER))


def _kernel(
    *arrays: np.ndarray, condition: Program, body: Program, constants: int, maximum: int | None
) -> tuple[np.ndarray, ...]:
    fixed, carried = arrays[:constants], list(arrays[constants:])
    count = 0
    while (maximum is None or count < maximum) and bodies.run(condition, (*fixed, *carried))[0]:
        carried = bodies.run(body, (*fixed, *carried))
        count += 1
    return (*[np.asarray(one) for one in carried], np.asarray(count, INTEGER))


def while_node(
    condition: Program,
    body: Program,
    constants: Sequence[Node],
    initial: Sequence[Node],
    maximum: int | None,
) -> Node:
    """The node of a while loop with a condition and a body."""
    return apply(WHILE, (*constants, *initial), (condition, body, len(constants), maximum))


def _jvp(
    tangents: Sequence[Node | None],
    y: Sequence[Node],
    inputs: Inputs,
    *,
    condition: Program,
    body: Program,
    constants: int,
    maximum: int | None,
) -> tuple[Node | None, ...]:
    """Loop once with values and tangents carried together; the condition reads values only."""
    carries = len(inputs) - constants
    given = tuple(tangent is not None for tangent in tangents)
    active, having = grown(body, constants, carries, given)
    moving = active[constants:]
    if not any(moving):
        return (None,) * len(y)

    def build() -> tuple[Program, Program]:
        found, _ = bodies.pushed(body, active)
        values, seeds = found.inputs[: len(inputs)], iter(found.inputs[len(inputs) :])
        by_input = [next(seeds) if flag else None for flag in active]
        slopes = iter(found.outputs[carries:])
        by_output = [next(slopes) if flag else None for flag in having]
        ordered = (
            *values[:constants],
            *[node for node in by_input[:constants] if node is not None],
            *values[constants:],
            *[node for node in by_input[constants:] if node is not None],
        )
        carried = [
            bodies.zero_if_absent(slope, node.spec)
            for slope, node, flag in zip(by_output, found.outputs, moving, strict=False)
            if flag
        ]
        tested = bodies.inlined(condition, values)
        return closed(ordered, tested), closed(ordered, (*found.outputs[:carries], *carried))

    key = ("while jvp", condition, constants, given)
    tested, step = bodies.remembered(body, key, build)
    initial = [
        bodies.zero_if_absent(tangent, node.spec)
        for tangent, node, flag in zip(tangents[constants:], inputs[constants:], moving,
                                       strict=True)
        if flag
    ]  # fmt: skip
    node = while_node(
        tested,
        step,
        (*inputs[:constants], *[one for one in tangents[:constants] if one is not None]),
        (*inputs[constants:], *initial),
        maximum,
    )
    results = iter(outputs(node)[carries:])
    return (*[next(results) if flag else None for flag in moving], None)


def bounded(
    inputs: Inputs, condition: Program, body: Program, constants: int, maximum: int
) -> Node:
    """The same loop as a scan of `maximum` steps; steps after its end change nothing."""

    def build() -> Program:
        (tested,) = bodies.inlined(condition, body.inputs)
        stay = closed(body.inputs, body.inputs[constants:])
        node = branch_node((stay, body), cast(tested, INTEGER), body.inputs)
        return closed(body.inputs, outputs(node))

    step = bodies.remembered(body, ("bounded", condition, constants), build)
    return scan_node(step, inputs[:constants], inputs[constants:], (), maximum)


def _pullback(
    wanted: Sequence[int],
    cotangents: Sequence[Node | None],
    y: Sequence[Node],
    inputs: Inputs,
    *,
    condition: Program,
    body: Program,
    constants: int,
    maximum: int | None,
) -> list[Node | None]:
    if maximum is None:
        return pull_while(wanted, list(cotangents)[:-1], y[-1], inputs, body, constants)
    node = bounded(inputs, condition, body, constants, maximum)
    rule: Any = SCAN.pullback
    return rule(wanted, list(cotangents)[:-1], outputs(node), inputs, **node.keywords)


def _batch(
    inputs: Inputs,
    flags: Flags,
    y: Node,
    *,
    condition: Program,
    body: Program,
    constants: int,
    maximum: int | None,
) -> tuple[Node, ...]:
    """Loop once for all examples; if they end at different times, run until the last one ends."""
    size = size_of(inputs, flags)
    given, own = flags, flags[constants:]
    while True:
        found, having = bodies.batched(body, flags, size, flags[constants:])
        tested, (apart,) = bodies.batched(condition, flags, size, (False,))
        if apart:
            having = (True,) * len(having)
        if having == flags[constants:]:
            break
        flags = (*flags[:constants], *having)
    carried = [
        node if flag or not later else spread(node, size)
        for node, flag, later in zip(inputs[constants:], own, having, strict=True)
    ]
    if not apart:
        node = while_node(tested, found, inputs[:constants], carried, maximum)
        results = list(outputs(node))
        kept = zip(results, (*having, False), strict=True)
        return tuple(result if flag else spread(result, size) for result, flag in kept)
    any_left, step = bodies.remembered(
        body, ("while apart", condition, constants, given, size),
        lambda: _apart(tested, found, constants, size),
    )  # fmt: skip
    (first,) = bodies.inlined(tested, (*inputs[:constants], *carried))
    counted = constant(0, spec((size,), INTEGER))
    initial = (first, counted, *carried)
    node = while_node(any_left, step, inputs[:constants], initial, maximum)
    _, counts, *finals, _ = outputs(node)
    return (*finals, counts)


def _apart(tested: Program, body: Program, constants: int, size: int) -> tuple[Program, Program]:
    """Condition and body that also carry which examples still run, and each one's step count."""
    running = placeholder(spec((size,), np.dtype(bool)))
    counts = placeholder(spec((size,), INTEGER))
    fixed, carried = body.inputs[:constants], body.inputs[constants:]
    inputs = (*fixed, running, counts, *carried)
    any_left = apply(REGISTRY["any"], (running,), ((0,), False))
    new = [
        where(reshaped(running, (size, *(1,) * (node.ndim - 1))), node, old)
        for node, old in zip(body.outputs, carried, strict=True)
    ]
    (again,) = bodies.inlined(tested, (*fixed, *new))
    results = (running & again, counts + cast(running, INTEGER), *new)
    return closed(inputs, (any_left,)), closed(inputs, results)


def _samples() -> list[Sample]:
    rng = generator("while")
    found = []
    for dtype in ("float64", "complex128", "float32"):
        of, number = spec((2,), np.dtype(dtype)), spec((), INTEGER)
        k, x, n = placeholder(spec((), np.dtype(dtype))), placeholder(of), placeholder(number)
        grows = closed((k, x, n), (apply(REGISTRY["sin"], (x * k,)), n + 1))
        short = closed((k, x, n), (n < 3,))
        size = apply(REGISTRY["sum"], (apply(REGISTRY["abs"], (x,)),), ((0,), False))
        small = closed((k, x, n), (size < 5.0,))
        doubles = closed((k, x, n), (x + x * k, n))
        for condition, body, maximum in (
            (short, grows, 3),
            (short, grows, 2),
            (small, doubles, 12),
            (small, grows, 0),
        ):
            arrays = (np.array(0.9, dtype), rng.uniform(0.5, 1, 2).astype(dtype), np.array(0))
            params = (condition, body, 1, maximum)
            found.append(Sample(arrays, dict(zip(PARAMS, params, strict=True))))
    return found


WHILE = declare(Op(
    "while", "control", params=PARAMS, spec=_spec, numpy=_kernel, jvp=_jvp, batch=_batch,
    sparsity=while_reads, pullback=_pullback, expensive=True, samples=_samples,
))  # fmt: skip
