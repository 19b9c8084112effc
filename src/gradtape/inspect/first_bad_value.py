"""The first node of a program whose value is not finite, also inside loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gradtape.graph import Node, Op, Program
from gradtape.ops.control.branch import BRANCH
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.while_loop import WHILE

IsBad: TypeAlias = Callable[[np.ndarray], bool]
Arrays: TypeAlias = Sequence[np.ndarray]


@dataclass
class Found:
    """The node that made a bad value, its results, and whether an operand was bad before."""

    node: Node
    made: Arrays
    came_in: bool
    # The steps of the loops around it, innermost first.
    steps: list[str] = field(default_factory=list)


def search(nodes: Sequence[Node], values: dict[Node, np.ndarray], is_bad: IsBad) -> Found | None:
    """Compute nodes one by one until one makes a bad value; `values` has those known, and grows."""
    for node in nodes:
        arrays = [values[parent] for parent in node.inputs]
        with np.errstate(all="ignore"):
            values[node] = node.op.numpy(*arrays, **node.keywords)
        made: Arrays = list(values[node]) if type(node.spec) is tuple else [values[node]]
        if any(is_bad(array) for array in made):
            inside = INSIDE.get(node.op)
            found = None if inside is None else inside(arrays, is_bad, **node.keywords)
            came_in = any(is_bad(array) for array in arrays if isinstance(array, np.ndarray))
            return found or Found(node, made, came_in)
    return None


def _run(body: Program, arrays: Arrays, is_bad: IsBad) -> tuple[Found | None, list[np.ndarray]]:
    values = dict(zip(body.inputs, map(np.asarray, arrays), strict=True))
    found = search(body.nodes, values, is_bad)
    outputs = [] if found else [np.asarray(values[n], n.dtype) for n in body.outputs]
    return found, outputs


def _in_scan(arrays: Arrays, is_bad: IsBad, **params: Any) -> Found | None:
    scan = Scan(**params)
    fixed, carried, rows = scan.parts(arrays)
    for step in scan.positions():
        found, outputs = _run(scan.body, [*fixed, *carried, *[row[step] for row in rows]], is_bad)
        if found is not None:
            found.steps.append(f"step {step} of {scan.length} of a loop")
            return found
        carried = outputs[: scan.carries]
    return None


def _in_while(
    arrays: Arrays, is_bad: IsBad, *, condition: Program, body: Program, constants: int,
    maximum: int | None,
) -> Found | None:  # fmt: skip
    fixed, carried = arrays[:constants], arrays[constants:]
    number = 0
    while maximum is None or number < maximum:
        found, outputs = _run(condition, [*fixed, *carried], is_bad)
        if found is None and not outputs[0]:
            return None
        if found is None:
            found, carried = _run(body, [*fixed, *carried], is_bad)
        if found is not None:
            found.steps.append(f"step {number} of a loop")
            return found
        number += 1
    return None


def _in_branch(arrays: Arrays, is_bad: IsBad, *, branches: Sequence[Program]) -> Found | None:
    chosen = int(np.clip(arrays[0], 0, len(branches) - 1))
    found, _ = _run(branches[chosen], arrays[1:], is_bad)
    if found is not None:
        found.steps.append(f"branch {chosen}")
    return found


# How to search the bodies of an op.
INSIDE: dict[Op, Callable[..., Found | None]] = {
    SCAN: _in_scan,
    WHILE: _in_while,
    BRANCH: _in_branch,
}
