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
from dataclasses import replace
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.ir import REGISTRY, Op, Program, Spec, closed, declare, spec
from gradtape.ir.node import Node, apply, constant, outputs, placeholder
from gradtape.ops.control import bodies, loop_rules
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
    return (*map(np.asarray, carried), *stacked)


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


def _jvp(
    tangents: Sequence[Node | None], y: Sequence[Node], inputs: Inputs, **params: Any
) -> tuple[Node | None, ...]:
    pushed = loop_rules.push(Scan(**params), inputs, tangents)
    if pushed is None:
        return (None,) * len(y)
    scan, operands, found = pushed
    return found(outputs(apply(SCAN, operands, scan.params)))


def _batch(inputs: Inputs, flags: Flags, y: Node, **params: Any) -> tuple[Node, ...]:
    """Scan once with a batched body."""
    scan = Scan(**params)
    size = size_of(inputs, flags)
    body, later, having, initial = loop_rules.batched(scan, inputs, flags, flags, size)
    constants, _, sequences = scan.parts(inputs)
    elements = [
        moved(node, 0, 1) if flag else node
        for node, flag in zip(sequences, later[scan.first :], strict=True)
    ]
    operands = (*constants, *initial, *elements)
    results = outputs(apply(SCAN, operands, replace(scan, body=body).params))
    axes = [0] * scan.carries + [1] * (len(results) - scan.carries)
    return tuple(
        moved(result, axis, 0) if flag else spread(result, size)
        for result, axis, flag in zip(results, axes, having, strict=True)
    )


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
