"""Sparsity of ops that hold bodies: the patterns of a body composed over its steps or branches.

A pattern is a boolean CSR matrix; its columns are the elements of all inputs, laid end to end. Two
patterns compose by their product. Beyond a budget the pattern is dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradtape.graph import Node, Program, scratch
from gradtape.graph.hooks import hooks
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.families.reads import Listed, Operand, dense

# The most entries in all patterns together, and the most steps for which patterns are composed.
BUDGET = 2_000_000
STEPS = 4096


def body_pattern(body: Program) -> Any:
    """The input elements that each output element depends on; None if the pattern is dense."""
    if "pattern" not in body.derived:
        body.derived["pattern"] = _detected(body)
    return body.derived["pattern"]


def _detected(body: Program) -> Any:
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    import scipy.sparse as sparse

    rows = sum(node.size for node in body.outputs)
    columns: list[Any] = []
    for source in body.inputs:
        shape = (rows, source.size)
        if not source.spec.inexact:
            columns.append(sparse.csr_array(shape, dtype=bool))
            continue
        with scratch():
            patterns = hooks.detect(body.outputs, source)
        if any(pattern.rows is None for pattern in patterns):
            return None
        blocks = [
            pattern.matrix.astype(bool)
            if node.spec.inexact
            else sparse.csr_array((node.size, source.size), dtype=bool)
            for pattern, node in zip(patterns, body.outputs, strict=True)
        ]
        columns.append(sparse.vstack(blocks, format="csr") if blocks else None)
    return sparse.hstack(columns, format="csr") if columns else sparse.csr_array((rows, 0))


def _starts(nodes: Sequence[Any]) -> list[int]:
    return [0, *np.cumsum([node.size for node in nodes]).tolist()]


def _placed(matrix: Any, offset: int, width: int) -> Any:
    """The matrix as the columns from `offset` on of a matrix of this width."""
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    from scipy.sparse import csr_array

    return csr_array(
        (matrix.data, matrix.indices + offset, matrix.indptr), shape=(matrix.shape[0], width)
    )


def _union(*matrices: Any) -> Any:
    total = matrices[0]
    for matrix in matrices[1:]:
        total = total + matrix
    return total.astype(bool)


def _answers(
    results: Sequence[Any], y: Node, operands: tuple[Operand, ...]
) -> list[tuple[Any, ...]]:
    """Split matrices over all operands into one `Listed` for each output and operand."""
    ends = list(pairwise(_starts(operands)))
    found = []
    for matrix, of in zip(results, y.spec, strict=True):
        columns = matrix.tocsc()
        found.append(
            tuple(
                Listed(columns[:, start:end].tocsr()) if one.active and of.inexact else None
                for one, (start, end) in zip(operands, ends, strict=True)
            )
        )
    return found


def scan_reads(y: Node, operands: tuple[Operand, ...], **params: Any) -> Any:
    """Compose the body's pattern over all steps of a scan."""
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    import scipy.sparse as sparse

    scan = Scan(**params)
    body, constants, first, length = scan.body, scan.constants, scan.first, scan.length
    pattern = body_pattern(body) if length <= STEPS else None
    if pattern is None:
        return dense(y, operands)
    place, ends = _starts(operands), _starts(body.inputs)
    width = place[-1]
    columns = pattern.tocsc()
    fixed = _placed(columns[:, : ends[constants]].tocsr(), 0, width)
    moving = columns[:, ends[constants] : ends[first]].tocsr()
    elements = [columns[:, ends[n] : ends[n + 1]].tocsr() for n in range(first, len(operands))]
    count = ends[first] - ends[constants]
    carried = _placed(sparse.eye_array(count, dtype=bool, format="csr"), place[constants], width)
    rows: list[Any] = [None] * length
    entries = 0
    for position in scan.positions():
        parts = [fixed, moving @ carried] if count else [fixed]
        for number, element in enumerate(elements, start=first):
            size = ends[number + 1] - ends[number]
            parts.append(_placed(element, place[number] + position * size, width))
        step = _union(*parts)
        entries += step.nnz
        if entries > BUDGET:
            return dense(y, operands)
        carried, rows[position] = step[:count], step[count:]
    split = _starts(body.outputs)
    results = [carried[a:b] for a, b in pairwise(split[: scan.carries + 1])]
    for a, b in pairwise([at - count for at in split[scan.carries :]]):
        stacked = [row[a:b] for row in rows]
        empty = sparse.csr_array((0, width), dtype=bool)
        results.append(sparse.vstack(stacked, format="csr") if stacked else empty)
    return _answers(results, y, operands)


def branch_reads(y: Node, operands: tuple[Operand, ...], *, branches: tuple[Program, ...]) -> Any:
    """The union of the patterns of all branches."""
    patterns = [body_pattern(body) for body in branches]
    if any(pattern is None for pattern in patterns):
        return dense(y, operands)
    every = _placed(_union(*patterns), operands[0].size, _starts(operands)[-1])
    ends = pairwise(_starts(y.spec))
    return _answers([every[a:b] for a, b in ends], y, operands)


def while_reads(
    y: Node,
    operands: tuple[Operand, ...],
    *,
    condition: Program,
    body: Program,
    constants: int,
    maximum: int | None,
) -> Any:
    """The pattern of any number of steps: powers are joined until no entry is added."""
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    import scipy.sparse as sparse

    pattern = body_pattern(body)
    if pattern is None:
        return dense(y, operands)
    place = _starts(operands)
    count, width = place[-1] - place[constants], place[-1]
    columns = pattern.tocsc()
    fixed = _placed(columns[:, : place[constants]].tocsr(), 0, width)
    moving = columns[:, place[constants] :].tocsr()
    carried = _placed(sparse.eye_array(count, dtype=bool, format="csr"), place[constants], width)
    while True:
        more = _union(carried, fixed, moving @ carried)
        if more.nnz == carried.nnz:
            break
        if more.nnz > BUDGET:
            return dense(y, operands)
        carried = more
    ends = [(a - place[constants], b - place[constants]) for a, b in pairwise(place[constants:])]
    counted = sparse.csr_array((1, width), dtype=bool)
    return _answers([*[carried[a:b] for a, b in ends], counted], y, operands)
