"""scan: a body applied to each element along axis 0, with values carried from one to the next.

The body takes constants, carried values and one element of each sequence, and gives the next
carried values and one element of each result:

    inputs of the op      constants, initial values, sequences
    outputs of the op     final values, stacked results
    inputs of the body    constants, carried values, elements
    outputs of the body   next carried values, elements of the results
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.graph.node import Node, apply, outputs, placeholder
from gradtape.graph.op import REGISTRY, Op, declare
from gradtape.graph.program import Program, closed
from gradtape.graph.spec import Spec, spec
from gradtape.ops.control import bodies
from gradtape.ops.control.composed_reads import scan_reads
from gradtape.ops.control.scan_pullback import pull_scan
from gradtape.ops.families.batching import Flags, Inputs, moved, size_of, spread
from gradtape.ops.families.samples import Sample, generator

PARAMS = ("body", "constants", "carries", "length", "reverse", "recompute")


def _spec(
    *inputs: Spec,
    body: Program,
    constants: int,
    carries: int,
    length: int,
    reverse: bool,
    recompute: bool,
) -> tuple[Spec, ...]:
    first = constants + carries
    for of in inputs[first:]:
        if not of.ndim or of.shape[0] != length:
            raise ShapeError(
                f"scan: a sequence of shape {of.shape} does not have {length} elements along axis "
                "0. Give all sequences that length."
            )
    elements = [spec(of.shape[1:], of.dtype) for of in inputs[first:]]
    bodies.check_specs("scan", body, (*inputs[:first], *elements))
    results = [node.spec for node in body.outputs]
    for given, found in zip(inputs[constants:first], results[:carries], strict=True):
        if given is not found:
            raise ShapeError(f"scan: a value carried as {given} comes back as {found}.")
    stacked = [spec((length, *of.shape), of.dtype) for of in results[carries:]]
    return (*results[:carries], *stacked)


def _kernel(
    *arrays: Any,
    body: Program,
    constants: int,
    carries: int,
    length: int,
    reverse: bool,
    recompute: bool,
) -> tuple[Any, ...]:
    first = constants + carries
    fixed, sequences = arrays[:constants], arrays[first:]
    carried = list(arrays[constants:first])
    results = [node.spec for node in body.outputs]
    stacked = [np.empty((length, *of.shape), of.dtype) for of in results[carries:]]
    for position in range(length)[:: -1 if reverse else 1]:
        elements = [sequence[position, ...] for sequence in sequences]
        found = bodies.run(body, (*fixed, *carried, *elements))
        carried = found[:carries]
        for rows, row in zip(stacked, found[carries:], strict=True):
            rows[position] = row
    finals = [np.asarray(one, of.dtype) for one, of in zip(carried, results[:carries], strict=True)]
    return (*finals, *stacked)


def scan_node(
    body: Program,
    constants: Sequence[Node],
    initial: Sequence[Node],
    sequences: Sequence[Node],
    length: int,
    *,
    reverse: bool = False,
    recompute: bool = False,
) -> Node:
    """The node that scans with a body."""
    params = (body, len(constants), len(initial), length, reverse, recompute)
    return apply(SCAN, (*constants, *initial, *sequences), params)


def grown(body: Program, constants: int, carries: int, active: Flags) -> tuple[Flags, Flags]:
    """Which inputs and outputs have tangents, when what is carried keeps them from step to step."""
    first = constants + carries
    while True:
        _, having = bodies.pushed(body, active)
        more = tuple(a or b for a, b in zip(active[constants:first], having, strict=False))
        if more == active[constants:first]:
            return active, having
        active = (*active[:constants], *more, *active[first:])


def _jvp(
    tangents: Sequence[Any],
    y: Sequence[Node],
    inputs: Inputs,
    *,
    body: Program,
    constants: int,
    carries: int,
    length: int,
    reverse: bool,
    recompute: bool,
) -> tuple[Node | None, ...]:
    """One scan that carries values and their tangents: constant memory, as forward mode has."""
    first = constants + carries
    given = tuple(tangent is not None for tangent in tangents)
    active, having = grown(body, constants, carries, given)
    if not any(having):
        return (None,) * len(having)
    moving = active[constants:first]

    def build() -> Program:
        found, _ = bodies.pushed(body, active)
        seeds = iter(found.inputs[len(body.inputs) :])
        by_input = [next(seeds) if flag else None for flag in active]
        slopes = iter(found.outputs[len(body.outputs) :])
        by_output = [next(slopes) if flag else None for flag in having]
        # In each group the values come first, then tangents: so a scan without tangents of the
        # same values is seen to be part of this one (see gradtape.optimize.merge_loops).
        ins, outs = found.inputs, found.outputs
        groups = [
            (ins[:constants], by_input[:constants]),
            (ins[constants:first], by_input[constants:first]),
            (ins[first : len(body.inputs)], by_input[first:]),
        ]
        ordered = [node for own, more in groups for node in (*own, *more) if node is not None]
        carried = [
            bodies.zero_if_absent(slope, node.spec)
            for slope, node, flag in zip(by_output, outs[:carries], moving, strict=False)
            if flag
        ]
        stacked = [slope for slope in by_output[carries:] if slope is not None]
        values = outs[: len(body.outputs)]
        return closed(ordered, (*values[:carries], *carried, *values[carries:], *stacked))

    found = bodies.remembered(body, ("scan jvp", constants, carries, given), build)
    initial = [
        bodies.zero_if_absent(tangent, node.spec)
        for tangent, node, flag in zip(tangents[constants:first], inputs[constants:], moving,
                                       strict=False)
        if flag
    ]  # fmt: skip
    node = scan_node(
        found,
        (*inputs[:constants], *[one for one in tangents[:constants] if one is not None]),
        (*inputs[constants:first], *initial),
        (*inputs[first:], *[one for one in tangents[first:] if one is not None]),
        length,
        reverse=reverse,
        recompute=recompute,
    )
    results = outputs(node)
    width = carries + len(initial)
    finals = iter(results[carries:width])
    rows = iter(results[width + len(body.outputs) - carries :])
    return (
        *[next(finals) if flag else None for flag in moving],
        *[next(rows) if flag else None for flag in having[carries:]],
    )


def _batch(
    inputs: Inputs,
    flags: Flags,
    y: Node,
    *,
    body: Program,
    constants: int,
    carries: int,
    length: int,
    reverse: bool,
    recompute: bool,
) -> tuple[Node, ...]:
    """One scan whose body is batched; what is carried is, once any step makes it so."""
    first = constants + carries
    size = size_of(inputs, flags)
    given = flags[constants:first]
    while True:
        moving = flags[constants:first]
        least = (*moving, *(False,) * (len(body.outputs) - carries))
        found, having = bodies.batched(body, flags, size, least)
        if having[:carries] == moving:
            break
        flags = (*flags[:constants], *having[:carries], *flags[first:])
    carried = [
        node if own or not flag else spread(node, size)
        for node, own, flag in zip(inputs[constants:first], given, moving, strict=True)
    ]
    sequences = [
        moved(node, 0, 1) if flag else node
        for node, flag in zip(inputs[first:], flags[first:], strict=True)
    ]
    node = scan_node(
        found, inputs[:constants], carried, sequences, length,
        reverse=reverse, recompute=recompute,
    )  # fmt: skip
    results = []
    for number, (result, flag) in enumerate(zip(outputs(node), having, strict=True)):
        if not flag:
            results.append(spread(result, size))
        else:
            results.append(result if number < carries else moved(result, 1, 0))
    return tuple(results)


def _sample_body(kind: str, dtype: str) -> tuple[Program, int, int]:
    """Bodies of the samples: with their numbers of constants and of carried values."""
    real = np.dtype(dtype)
    vector, scalar = spec((2,), real), spec((), real)
    name = REGISTRY
    if kind == "affine":
        a, x, u = placeholder(spec((2, 2), real)), placeholder(vector), placeholder(vector)
        new = apply(name["tanh"], (apply(name["matmul"], (a, x)) + u,))
        return closed((a, x, u), (new, new * x)), 1, 1
    if kind == "pair":
        k, x, n = placeholder(scalar), placeholder(vector), placeholder(spec((), np.dtype("int64")))
        total = apply(name["sum"], (x * x,), ((0,), False))
        return closed((k, x, n), (apply(name["sin"], (x * k,)), n + 1, total)), 1, 2
    u = placeholder(scalar)
    return closed((u,), (u * u,)), 0, 0


def _samples() -> list[Sample]:
    rng = generator("scan")
    found = []
    for dtype in ("float64", "complex128", "float32"):
        for kind, length, reverse, recompute in (
            ("affine", 3, False, False),
            ("affine", 2, True, True),
            ("affine", 0, False, False),
            ("pair", 3, True, False),
            ("map", 4, False, False),
        ):
            body, constants, carries = _sample_body(kind, dtype)
            first = constants + carries
            arrays = []
            for position, node in enumerate(body.inputs):
                shape = node.shape if position < first else (length, *node.shape)
                if node.dtype.kind == "i":
                    arrays.append(np.array(3))
                else:
                    arrays.append(rng.uniform(-1, 1, shape).astype(dtype))
            params = (body, constants, carries, length, reverse, recompute)
            found.append(Sample(tuple(arrays), dict(zip(PARAMS, params, strict=True))))
    return found


SCAN = declare(
    Op(
        "scan",
        "control",
        spec=_spec,
        numpy=_kernel,
        jvp=_jvp,
        pullback=pull_scan,
        batch=_batch,
        sparsity=scan_reads,
        params=PARAMS,
        samples=_samples,
        expensive=True,
    )
)
