"""branch: an index chooses one of several bodies at run time; the others are not computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.errors import ShapeError
from gradtape.ir import REGISTRY, Op, Program, Spec, closed, declare, of_structure, spec
from gradtape.ir.node import Node, apply, constant, outputs, placeholder
from gradtape.ops.control import bodies
from gradtape.ops.control.composed_reads import branch_reads
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.ops.families.batching import Flags, Inputs, reshaped, size_of, spread
from gradtape.ops.families.samples import Sample, generator

Branches = tuple[Program, ...]


def _spec(index: Spec, *operands: Spec, branches: Branches) -> tuple[Spec, ...]:
    if index.ndim or index.dtype.kind not in "iu":
        raise ShapeError(f"branch: an index of {index} is not a single integer. Cast or reduce it.")
    for body in branches:
        bodies.check_specs("branch", body, operands)
    found = [tuple(node.spec for node in body.outputs) for body in branches]
    if any(one != found[0] for one in found):
        raise ShapeError(f"branch: bodies give {' and '.join(map(str, found))}.")
    return found[0]


def _kernel(index: np.ndarray, *arrays: np.ndarray, branches: Branches) -> tuple[np.ndarray, ...]:
    chosen = min(max(int(index), 0), len(branches) - 1)
    return tuple(bodies.run(branches[chosen], arrays))


def branch_node(branches: Sequence[Program], index: Node, operands: Sequence[Node]) -> Node:
    """The node of a branch among bodies."""
    return apply(BRANCH, (index, *operands), (tuple(branches),))


def _jvp(
    tangents: Sequence[Node | None], y: Sequence[Node], inputs: Inputs, *, branches: Branches
) -> tuple[Node | None, ...]:
    active = tuple(tangent is not None for tangent in tangents[1:])
    chosen = placeholder(inputs[0].spec)

    def build() -> tuple[Program, Flags]:
        found = [bodies.pushed(body, active) for body in branches]
        rows = []
        for body, flags in found:
            slopes = iter(body.outputs[len(y) :])
            rows.append([next(slopes) if flag else None for flag in flags])
        filled, having = _filled(rows, y)
        made = [
            closed(body.inputs, (*body.outputs[: len(y)], *row))
            for (body, _), row in zip(found, filled, strict=True)
        ]
        return _derived(made, chosen, len(y)), having

    key = of_structure("branch jvp", active, branches, chosen.spec)
    given = [tangent for tangent in tangents[1:] if tangent is not None]
    return tuple(bodies.by_program(branches[0], key, build, (*inputs, *given)))


def _filled(
    rows: Sequence[Sequence[Node | None]], like: Sequence[Node]
) -> tuple[list[list[Node]], Flags]:
    """Rows of one length: zeros where another row has a node, and nothing where none has."""
    having = tuple(any(one is not None for one in column) for column in zip(*rows, strict=True))
    filled = [
        [
            bodies.zero_if_absent(one, node.spec)
            for one, node, flag in zip(row, like, having, strict=True)
            if flag
        ]
        for row in rows
    ]
    return filled, having


def _derived(made: Sequence[Program], chosen: Node, first: int) -> Program:
    """The outputs from `first` on of a branch among these bodies, as a program."""
    operands = [placeholder(node.spec) for node in made[0].inputs]
    found = outputs(branch_node(made, chosen, operands)) if made[0].outputs else ()
    return closed((chosen, *operands), found[first:])


def _pullback(
    wanted: Sequence[int],
    cotangents: Sequence[Node | None],
    y: Sequence[Node],
    inputs: Inputs,
    *,
    branches: Branches,
) -> list[Node | None]:
    """Branch on the same index over pulled-back bodies; each recomputes its forward values."""
    given = tuple(cotangent is not None for cotangent in cotangents)
    sources = tuple(index - 1 for index in wanted)

    def build() -> tuple[Program, Flags]:
        graphs = [bodies.pulled(body, sources, given) for body in branches]
        like = [branches[0].inputs[index] for index in sources]
        filled, having = _filled([found for _, found in graphs], like)
        made = [
            closed((*body.inputs, *seeds), row)
            for body, (seeds, _), row in zip(branches, graphs, filled, strict=True)
        ]
        return _derived(made, chosen, 0), having

    chosen = placeholder(inputs[0].spec)
    key = of_structure("branch pullback", sources, given, branches, chosen.spec)
    seeds = [cotangent for cotangent in cotangents if cotangent is not None]
    return bodies.by_program(branches[0], key, build, (*inputs, *seeds))


def _batch(inputs: Inputs, flags: Flags, y: Node, *, branches: Branches) -> tuple[Node, ...]:
    """If the index is batched, compute all bodies and select each example's result."""
    size = size_of(inputs, flags)
    index, operands = inputs[0], inputs[1:]
    every = (True,) * len(y.spec)
    if not flags[0]:
        made = [bodies.batched(body, flags[1:], size, every)[0] for body in branches]
        return outputs(branch_node(made, index, operands))
    results: list[Node] | None = None
    for number, body in enumerate(branches):
        if any(flags[1:]):
            found = bodies.inlined(bodies.batched(body, flags[1:], size, every)[0], operands)
        else:
            found = [spread(node, size) for node in bodies.inlined(body, operands)]
        if results is None:
            results = found
        else:
            # An index past either end is clamped: the first and the last body take it.
            chosen = equal(index, constant(number, spec((), index.dtype)))
            if number == len(branches) - 1:
                chosen = index > number - 1
            results = [
                where(reshaped(chosen, (size, *(1,) * (new.ndim - 1))), new, old)
                for new, old in zip(found, results, strict=True)
            ]
    assert results is not None
    return tuple(results)


def _samples() -> list[Sample]:
    rng = generator("branch")
    found = []
    for dtype in ("float64", "complex128", "float32"):
        of = spec((3,), np.dtype(dtype))
        x, k = placeholder(of), placeholder(spec((), np.dtype(dtype)))
        sine = apply(REGISTRY["sin"], (x * k,))
        total = apply(REGISTRY["sum"], (x,), ((0,), False))
        branches = (
            closed((x, k), (sine, total)),
            closed((x, k), (x * x, k)),
            closed((x, k), (constant(1, of), k * k)),
        )
        for chosen in (0, 1, 2, -4, 9):
            arrays = (np.array(chosen), rng.uniform(-1, 1, 3).astype(dtype), np.array(0.5, dtype))
            found.append(Sample(arrays, {"branches": branches}))
    return found


BRANCH = declare(
    Op(
        "branch",
        "control",
        params=("branches",),
        spec=_spec,
        numpy=_kernel,
        jvp=_jvp,
        batch=_batch,
        sparsity=branch_reads,
        pullback=_pullback,
        expensive=True,
        samples=_samples,
    )
)
