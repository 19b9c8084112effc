"""Sparsity of ops that hold bodies: the patterns of a body composed over its steps or branches.

A pattern is a boolean CSR matrix; its columns are the elements of all inputs, laid end to end. Two
patterns compose by their product. Beyond a budget the pattern is dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import MOST_COMPOSED_ENTRIES, MOST_COMPOSED_STEPS
from gradtape.ir import Node, Program, of_structure, placeholder, scratch, spec
from gradtape.ir.hooks import hooks
from gradtape.ops.control.bodies import any_node
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.families.batching import spread
from gradtape.ops.families.sparsity import SAME, Listed, RuleInput, dense, everything

if TYPE_CHECKING:
    from gradtape.ops.families.sparsity import OpReads


def _sparse() -> Any:
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    from scipy import sparse

    return sparse


def body_pattern(body: Program) -> Any:
    """The input elements that each output element depends on; None if the pattern is dense."""
    return body.derived.once(of_structure("pattern"), lambda: _detected(body))


def _detected(body: Program) -> Any:
    sparse = _sparse()
    rows = sum(node.size for node in body.outputs)
    columns: list[Any] = []
    for source in body.inputs:
        shape = (rows, source.size)
        if not source.spec.inexact:
            columns.append(sparse.csr_array(shape, dtype=bool))
            continue
        with scratch():
            patterns = hooks.transforms.detect(body.outputs, source)
        if any(pattern.rows is None for pattern in patterns):
            return None
        blocks = [
            pattern.matrix.astype(bool)
            if node.spec.inexact
            else sparse.csr_array((node.size, source.size), dtype=bool)
            for pattern, node in zip(patterns, body.outputs, strict=True)
        ]
        columns.append(sparse.vstack(blocks, format="csr") if blocks else sparse.csr_array(shape))
    return sparse.hstack(columns, format="csr") if columns else sparse.csr_array((rows, 0))


def _starts(nodes: Sequence[Any]) -> list[int]:
    return [0, *np.cumsum([node.size for node in nodes]).tolist()]


def _placed(matrix: Any, offset: int, width: int) -> Any:
    """The matrix as the columns from `offset` on of a matrix of this width."""
    return _sparse().csr_array(
        (matrix.data, matrix.indices + offset, matrix.indptr), shape=(matrix.shape[0], width)
    )


def _union(*matrices: Any) -> Any:
    total = matrices[0]
    for matrix in matrices[1:]:
        total = total + matrix
    return total.astype(bool)


def _by_operand(
    results: Sequence[Any], y: Node, operands: tuple[RuleInput, ...]
) -> list[tuple[Any, ...]]:
    """Split matrices over all operands into one `Listed` for each output and operand."""
    ends = list(pairwise(_starts(operands)))
    found = []
    for matrix, of in zip(results, y.spec, strict=False):
        columns = matrix.tocsc()
        found.append(
            tuple(
                Listed(columns[:, start:end].tocsr()) if one.active and of.inexact else None
                for one, (start, end) in zip(operands, ends, strict=True)
            )
        )
    return found


def scan_reads(y: Node, operands: tuple[RuleInput, ...], **params: Any) -> OpReads:
    """The body's pattern in each step: beside each other, or composed if steps use the last one."""
    scan = Scan(**params)
    if not scan.length:
        # Final values are the initial values, and stacked results have no elements.
        nothing: list[Any] = [None] * len(operands)
        unmoved = [tuple(nothing) for _ in y.spec]
        for at, one in enumerate(scan.parts(operands)[1], start=scan.constants):
            if one.active and one.inexact:
                unmoved[at - scan.constants] = (*nothing[:at], SAME, *nothing[at + 1 :])
        return unmoved
    pattern = body_pattern(scan.body) if scan.carries else None
    if scan.carries and (pattern is None or _uses_carry(scan, pattern)):
        if scan.length > MOST_COMPOSED_STEPS:
            return _given_up(
                y, operands, f"more than {MOST_COMPOSED_STEPS} steps that use the one before"
            )
        found = None if pattern is None else _composed(y, operands, scan, pattern)
        return _given_up(y, operands) if found is None else found
    results = _separate(y, operands, scan)
    return [*_final(y, operands, scan, pattern), *results] if scan.carries else results


def _given_up(y: Node, operands: tuple[RuleInput, ...], why: str = "") -> list[tuple[Any, ...]]:
    """Every element reads everything, with a note why."""
    note = why or f"more than {MOST_COMPOSED_ENTRIES} entries in all steps or branches"
    return [
        tuple(None if one is None else replace(one, note=note) for one in reads)
        for reads in dense(y, operands)
    ]


def indexes(body: Program) -> bool:
    """Whether a body moves elements to places that its integer inputs may decide."""

    def by_integers(node: Node) -> bool:
        return node.op.moves and any(not of.spec.inexact for of in node.inputs)

    return any_node(body, "indexes", by_integers)


def _uses_carry(scan: Scan, pattern: Any) -> bool:
    """Whether a result of a step depends on what the step before changed."""
    ends = _starts(scan.body.inputs)
    rows = pattern[_starts(scan.body.outputs)[scan.carries] :].tocsc()
    return any(
        rows[:, ends[number] : ends[number + 1]].nnz
        for number in range(scan.constants, scan.first)
        if _changes(scan, number)
    )


def _changes(scan: Scan, number: int) -> bool:
    """Whether input `number` of the body is carried and not passed on as it is."""
    at = number - scan.constants
    return 0 <= at < scan.carries and scan.body.outputs[at] is not scan.body.inputs[number]


def _separate(y: Node, operands: tuple[RuleInput, ...], scan: Scan) -> list[tuple[Any, ...]]:
    """The results of steps that do not depend on each other: those of the batched body."""
    body, length = scan.body, scan.length
    sources = list(body.inputs)
    with scratch():
        for number, node in enumerate(body.inputs[scan.first :], start=scan.first):
            sources[number] = placeholder(spec((length, *node.shape), node.dtype))
        given = dict(zip(body.inputs[scan.first :], sources[scan.first :], strict=True))
        outputs = [
            one if isinstance(one, Node) else spread(one.node, length)
            for one in hooks.transforms.batch(body.outputs[scan.carries :], given)
        ]
        known = {}
        if indexes(body):
            known = {
                source: operand.value
                for number, (source, operand) in enumerate(zip(sources, operands, strict=True))
                if not source.spec.inexact and not _changes(scan, number)
            }
        columns: list[list[Any]] = []
        for number, (source, operand) in enumerate(zip(sources, operands, strict=True)):
            if not operand.active or _changes(scan, number) or not source.spec.inexact:
                columns.append([None] * len(outputs))
                continue
            patterns = hooks.transforms.detect(outputs, source, known)
            columns.append(
                [
                    None
                    if not node.spec.inexact
                    else everything(source.shape, node.shape)
                    if pattern.rows is None
                    else Listed(pattern.matrix)
                    for pattern, node in zip(patterns, outputs, strict=True)
                ]
            )
    return list(zip(*columns, strict=True))


def _step(pattern: Any, scan: Scan, operands: tuple[RuleInput, ...]) -> tuple[Any, ...]:
    """The pattern of a step by what it reads: constants, carried values, each sequence's element.

    With it the values that are carried before the first step. Constants and these are placed among
    the elements of all operands.
    """
    place, ends = _starts(operands), _starts(scan.body.inputs)
    columns, width = pattern.tocsc(), place[-1]
    fixed = _placed(columns[:, : ends[scan.constants]].tocsr(), 0, width)
    moving = columns[:, ends[scan.constants] : ends[scan.first]].tocsr()
    elements = [columns[:, a:b].tocsr() for a, b in pairwise(ends[scan.first :])]
    identity = _sparse().eye_array(moving.shape[1], dtype=bool, format="csr")
    return fixed, moving, elements, _placed(identity, place[scan.constants], width)


def _closure(carried: Any, moving: Any) -> Any:
    """The reads of carried values after any number of steps; None past the budget."""
    while True:
        more = _union(carried, moving @ carried)
        if more.nnz == carried.nnz:
            return carried
        if more.nnz > MOST_COMPOSED_ENTRIES:
            return None
        carried = more


def _final(
    y: Node, operands: tuple[RuleInput, ...], scan: Scan, pattern: Any
) -> list[tuple[Any, ...]]:
    """The last carried values: each reads all that any number of steps may bring to it."""
    place, width = _starts(operands), _starts(operands)[-1]
    ends = _starts(scan.body.outputs)[: scan.carries + 1]
    fixed, moving, elements, start = _step(pattern[: ends[-1]], scan, operands)
    if start.nnz + sum(each.nnz for each in elements) * scan.length > MOST_COMPOSED_ENTRIES:
        return _given_up(y, operands)[: scan.carries]
    rows = [
        _placed(_sparse().hstack([each] * scan.length, format="csr"), place[number], width)
        for number, each in enumerate(elements, start=scan.first)
    ]
    carried = _closure(_union(start, fixed, *rows), moving)
    if carried is None:
        return _given_up(y, operands)[: scan.carries]
    return _by_operand([carried[a:b] for a, b in pairwise(ends)], y, operands)


def _composed(y: Node, operands: tuple[RuleInput, ...], scan: Scan, pattern: Any) -> OpReads | None:
    """The patterns of the steps composed one after another; None past the budget."""
    place, width = _starts(operands), _starts(operands)[-1]
    fixed, moving, elements, carried = _step(pattern, scan, operands)
    count = carried.shape[0]
    rows: list[Any] = [None] * scan.length
    entries = 0
    for position in scan.positions():
        parts = [fixed, moving @ carried] if count else [fixed]
        for number, element in enumerate(elements, start=scan.first):
            start = place[number] + position * element.shape[1]
            parts.append(_placed(element, start, width))
        step = _union(*parts)
        entries += step.nnz
        if entries > MOST_COMPOSED_ENTRIES:
            return None
        carried, rows[position] = step[:count], step[count:]
    split = _starts(scan.body.outputs)
    results = [carried[a:b] for a, b in pairwise(split[: scan.carries + 1])]
    for a, b in pairwise([at - count for at in split[scan.carries :]]):
        results.append(_sparse().vstack([row[a:b] for row in rows], format="csr"))
    return _by_operand(results, y, operands)


def branch_reads(
    y: Node, operands: tuple[RuleInput, ...], *, branches: tuple[Program, ...]
) -> OpReads:
    """The union of the patterns of all branches."""
    patterns = [body_pattern(body) for body in branches]
    if any(pattern is None for pattern in patterns):
        return _given_up(y, operands)
    every = _placed(_union(*patterns), operands[0].size, _starts(operands)[-1])
    ends = pairwise(_starts(y.spec))
    return _by_operand([every[a:b] for a, b in ends], y, operands)


def while_reads(
    y: Node, operands: tuple[RuleInput, ...], *, body: Program, constants: int, **_: Any
) -> OpReads:
    """The pattern of any number of steps."""
    pattern = body_pattern(body)
    if pattern is None:
        return _given_up(y, operands)
    scan = Scan(body, constants, len(operands) - constants, 0, False, False)
    fixed, moving, _, start = _step(pattern, scan, operands)
    carried = _closure(_union(start, fixed), moving)
    if carried is None:
        return _given_up(y, operands)
    ends = pairwise(_starts(body.outputs))
    counted = _sparse().csr_array((1, carried.shape[1]), dtype=bool)
    return _by_operand([*[carried[a:b] for a, b in ends], counted], y, operands)
