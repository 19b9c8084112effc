"""Flops and bytes of nodes and of fused loops, from the facts that ops declare."""

from __future__ import annotations

import math
from collections import Counter

from gradtape.compiler.passes.units import (
    Call,
    Fused,
    FusedLoop,
    Registers,
    Unit,
    inner_nodes,
    nodes_of,
)
from gradtape.ir import PICK, Node, Program
from gradtape.ops.control.bodies import held


def elements(node: Node) -> int:
    """The number of elements of a node, all outputs together."""
    return sum(of.size for of in node.spec) if type(node.spec) is tuple else node.size


def stored(node: Node) -> int:
    """The number of bytes of a node, all outputs together."""
    return sum(of.nbytes for of in node.spec) if type(node.spec) is tuple else node.spec.nbytes


def flops(node: Node) -> float:
    """Floating-point operations of one application, roughly.

    An element-wise op counts its `compiled_cost` for each element, so a sine counts as several.
    Decompositions, solves and transforms declare their own count. Of other library calls that are
    neither products nor reductions only the elements are known.
    """
    op = node.op
    if op.runs_bodies:
        return float(node.keywords.get("length", 1)) * sum(map(program_flops, held(node)))
    if op.flops is not None:
        return float(op.flops(node))
    factor = 4 if _dtype_kind(node) == "c" else 1
    if op.labels is not None:
        (left, right), _ = op.labels(node)
        sizes: dict[str, int] = {}
        for labels, operand in zip((left, right), node.inputs, strict=False):
            for label, size in zip(labels, operand.shape, strict=True):
                sizes[label] = max(size, sizes.get(label, 1))
        return 2.0 * factor * math.prod(sizes.values())
    if op.nest is not None:
        return 2.0 * factor * sum(nest.work for nest in op.nest(node))
    if op is PICK or op.view is not None or op.moves or op.constant:
        return 0.0
    if op.reduces or op.scan is not None:
        return float(factor * elements(node.inputs[0]))
    return float(factor * max(1, op.compiled_cost) * elements(node))


def program_flops(program: Program) -> float:
    """Floating-point operations of one run of a program."""
    return sum(map(flops, program.nodes))


def _dtype_kind(node: Node) -> str:
    return str((node.spec[0] if type(node.spec) is tuple else node.spec).dtype.kind)


def unit_nodes(unit: Unit) -> list[Node]:
    """The ops that a unit consists of."""
    return inner_nodes(unit)


def unit_bytes(unit: Unit, fused: Fused) -> int:
    """Bytes that a unit reads from memory and writes to it, each value once."""
    nodes = nodes_of(unit)
    if nodes[0].op is PICK:
        # One of several results, which is where it was written.
        return 0
    inside = set(nodes)
    read: dict[Node, int] = {}
    for node in nodes:
        for parent in node.inputs:
            if parent in fused.constants or parent in inside:
                continue
            access = fused.access.get(parent)
            base = parent if access is None else access.base
            if base in inside:
                continue  # a routine and its results
            # A broadcast operand is read once, and of a slice only the slice.
            size = min(stored(parent), stored(base))
            read[base] = max(read.get(base, 0), size)
    written = nodes if isinstance(unit, Call) else unit.outputs
    return sum(read.values()) + sum(map(stored, written))


def unit_flops(unit: Unit) -> float:
    """Floating-point operations of a unit."""
    return sum(map(flops, unit_nodes(unit)))


def weights(unit: Unit) -> dict[Node, float]:
    """The share that each node has in the time of its unit, by cost."""
    nodes = unit_nodes(unit)
    # A node without flops still moves its elements.
    costs = [max(flops(node), float(elements(node)), 1.0) for node in nodes]
    total = sum(costs)
    return {node: cost / total for node, cost in zip(nodes, costs, strict=True)}


def title(unit: Unit) -> str:
    """The ops of a unit, as a short text."""
    counts = Counter(node.op.name for node in unit_nodes(unit))
    parts = [name if count == 1 else f"{name} x{count}" for name, count in counts.items()]
    return ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")


def kind(unit: Unit) -> str:
    """The kind of a unit: fused loop, copy, register code, product, loop op or library call."""
    if isinstance(unit, FusedLoop):
        return "copy" if unit.pieces is not None else "fused loop"
    if isinstance(unit, Registers):
        return "register code"
    if unit.node.op.contracts:
        return "matrix product"
    return "loop op" if unit.node.op.runs_bodies else "library call"
