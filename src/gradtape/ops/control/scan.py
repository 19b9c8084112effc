"""scan: apply a body to each element along axis 0, and carry values from one to the next.

The body takes constants, carried values and one element of each sequence, and returns the next
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
from gradtape.ir import REGISTRY, Op, Program, Spec, closed, declare, of_structure, spec
from gradtape.ir.node import Node, apply, constant, outputs, placeholder
from gradtape.ops.control import bodies
from gradtape.ops.control.composed_reads import scan_reads
from gradtape.ops.control.scan_params import PARAMS, Scan
from gradtape.ops.control.scan_pullback import pull_scan
from gradtape.ops.families.batching import Flags, Inputs, moved, size_of, spread
from gradtape.ops.families.samples import Sample, generator


def _spec(*inputs: Spec, **params: Any) -> tuple[Spec, ...]:
    scan = Scan(**params)
    _, initial, sequences = scan.parts(inputs)
    for of in sequences:
        if not of.ndim or of.shape[0] != scan.length:
            raise ShapeError(
                f"scan: a sequence of shape {of.shape} does not have {scan.length} elements along "
                "axis 0. Give all sequences that length."
            )
    elements = [spec(of.shape[1:], of.dtype) for of in sequences]
    bodies.check_specs("scan", scan.body, (*inputs[: scan.first], *elements))
    results = [node.spec for node in scan.body.outputs]
    for given, found in zip(initial, results[: scan.carries], strict=True):
        if given is not found:
            raise ShapeError(f"scan: a value carried as {given} comes back as {found}.")
    stacked = [spec((scan.length, *of.shape), of.dtype) for of in results[scan.carries :]]
    return (*results[: scan.carries], *stacked)


def _kernel(*arrays: np.ndarray, **params: Any) -> tuple[np.ndarray, ...]:
    scan = Scan(**params)
    fixed, carried, sequences = scan.parts(arrays)
    results = [node.spec for node in scan.body.outputs]
    stacked = [np.empty((scan.length, *of.shape), of.dtype) for of in results[scan.carries :]]
    for position in scan.positions():
        elements = [sequence[position, ...] for sequence in sequences]
        found = bodies.run(scan.body, (*fixed, *carried, *elements))
        carried = found[: scan.carries]
        for rows, row in zip(stacked, found[scan.carries :], strict=True):
            rows[position] = row
    finals = [
        np.asarray(one, of.dtype) for one, of in zip(carried, results[: scan.carries], strict=True)
    ]
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
    """The node of a scan with a body."""
    scan = Scan(body, len(constants), len(initial), length, reverse, recompute)
    return apply(SCAN, (*constants, *initial, *sequences), scan.params)


def grown(body: Program, constants: int, carries: int, active: Flags) -> tuple[Flags, Flags]:
    """The inputs and outputs with tangents; a carried value has one if any step gives it one."""
    first = constants + carries
    while True:
        _, having = bodies.pushed(body, active)
        more = tuple(a or b for a, b in zip(active[constants:first], having, strict=False))
        if more == active[constants:first]:
            return active, having
        active = (*active[:constants], *more, *active[first:])


def _jvp(
    tangents: Sequence[Node | None], y: Sequence[Node], inputs: Inputs, **params: Any
) -> tuple[Node | None, ...]:
    """Scan once with values and tangents carried together, so that memory stays constant."""
    scan = Scan(**params)
    given = tuple(tangent is not None for tangent in tangents)
    active, having = grown(scan.body, scan.constants, scan.carries, given)
    if not any(having):
        return (None,) * len(having)
    moving = scan.parts(active)[1]
    key = of_structure("scan jvp", scan.constants, scan.carries, given)
    found = bodies.remembered(scan.body, key, lambda: _body_with_tangents(scan, active, having))
    constants, carried, sequences = scan.parts(inputs)
    of_constants, of_carried, of_sequences = scan.parts(tangents)
    initial = [
        bodies.zero_if_absent(tangent, node.spec)
        for tangent, node, flag in zip(of_carried, carried, moving, strict=True)
        if flag
    ]
    node = scan_node(
        found,
        (*constants, *[one for one in of_constants if one is not None]),
        (*carried, *initial),
        (*sequences, *[one for one in of_sequences if one is not None]),
        scan.length,
        reverse=scan.reverse,
        recompute=scan.recompute,
    )
    results = outputs(node)
    width = scan.carries + len(initial)
    finals = iter(results[scan.carries : width])
    rows = iter(results[width + len(scan.body.outputs) - scan.carries :])
    return (
        *[next(finals) if flag else None for flag in moving],
        *[next(rows) if flag else None for flag in having[scan.carries :]],
    )


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


def _batch(inputs: Inputs, flags: Flags, y: Node, **params: Any) -> tuple[Node, ...]:
    """Scan once with a batched body; a carried value is batched if any step makes it batched."""
    scan = Scan(**params)
    size = size_of(inputs, flags)
    constants, initial, sequences = scan.parts(inputs)
    given = scan.parts(flags)[1]
    while True:
        moving = tuple(scan.parts(flags)[1])
        least = (*moving, *(False,) * (len(scan.body.outputs) - scan.carries))
        found, having = bodies.batched(scan.body, flags, size, least)
        if having[: scan.carries] == moving:
            break
        flags = (*flags[: scan.constants], *having[: scan.carries], *flags[scan.first :])
    carried = [
        node if own or not flag else spread(node, size)
        for node, own, flag in zip(initial, given, moving, strict=True)
    ]
    elements = [
        moved(node, 0, 1) if flag else node
        for node, flag in zip(sequences, flags[scan.first :], strict=True)
    ]
    node = scan_node(
        found,
        constants,
        carried,
        elements,
        scan.length,
        reverse=scan.reverse,
        recompute=scan.recompute,
    )
    results = []
    for number, (result, flag) in enumerate(zip(outputs(node), having, strict=True)):
        if not flag:
            results.append(spread(result, size))
        else:
            results.append(result if number < scan.carries else moved(result, 1, 0))
    return tuple(results)


def _sample_body(kind: str, dtype: str) -> tuple[Program, int, int]:
    """A body for samples, with its numbers of constants and of carried values."""
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


def _composition(*inputs: Node, **params: Any) -> tuple[Node, ...] | None:
    """A scan without steps: the initial values, and results without rows."""
    scan = Scan(**params)
    if scan.length:
        return None
    results = [node.spec for node in scan.body.outputs[scan.carries :]]
    empty = [constant(0, spec((0, *of.shape), of.dtype)) for of in results]
    return (*scan.parts(inputs)[1], *empty)


SCAN = declare(
    Op(
        "scan",
        "control",
        params=PARAMS,
        spec=_spec,
        numpy=_kernel,
        jvp=_jvp,
        batch=_batch,
        sparsity=scan_reads,
        pullback=pull_scan,
        composition=_composition,
        expensive=True,
        samples=_samples,
    )
)
