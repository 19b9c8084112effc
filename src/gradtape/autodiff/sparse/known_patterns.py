"""Patterns of the Jacobians and Hessians of a recording, detected or given by the user.

A detected pattern is kept under the structure of the graph and the contents of the integer leaves
that index: the same program on another mesh has another pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradtape.autodiff.python_rules import Checkpointed, PythonRules
from gradtape.autodiff.sparse.detect import detect, detect_hessian, index_leaves
from gradtape.autodiff.sparse.pattern import Pattern, SparseMatrix, pattern_of
from gradtape.autodiff.window import Window
from gradtape.config import LARGEST_BLOCK_PATTERN
from gradtape.dtypes import Array, DType
from gradtape.errors import SparsityError
from gradtape.ir import Fact, Node, of_structure
from gradtape.ir.derived import Digests, digest_of
from gradtape.records import dataclass
from gradtape.trace import Recording


@dataclass(frozen=True)
class Contents:
    """The contents of the leaves that index operands are computed from, at the recorded values."""

    # None where a trace has no value.
    values: Mapping[Node, Array | None]

    @property
    def digests(self) -> Digests:
        """What tells two meshes apart in the key of a fact."""
        arrays = self.values.values()
        return tuple(None if array is None else digest_of(array) for array in arrays)


def index_contents(window: Window, target: Node, source: Node) -> Contents:
    """The contents that a pattern of the target by the source depends on, beside the graph."""

    def derive(_: PythonRules) -> list[Node]:
        return index_leaves([target], source, window.outside)

    leaves = window.remembered(of_structure("index leaves", target, source), derive)
    return contents_of(window.recording, leaves)


def contents_of(recording: Recording, leaves: Sequence[Node]) -> Contents:
    """The contents of some leaves of a recording."""
    return Contents({leaf: recording.contents(leaf) for leaf in leaves})


def follows(node: Node) -> bool:
    """Whether a node's Python rule is the derivative of its computation: a checkpoint's."""
    return isinstance(node.params[1], Checkpointed)


# What a user may pass as `sparse`: True, "auto", or a pattern.
Wanted = bool | str | Pattern | SparseMatrix


def given_pattern(wanted: Wanted) -> Pattern | None:
    """The pattern that the user gave in place of True or `auto`, or None."""
    if wanted is True or wanted is False or isinstance(wanted, str):
        return None
    return wanted if isinstance(wanted, Pattern) else pattern_of(wanted)


def jacobian_pattern(window: Window, target: Node, source: Node, given: Pattern | None) -> Pattern:
    """The given pattern, checked, or the one detected in the graph."""
    if given is not None:
        return _fitting(given, (target.size, source.size))

    contents = index_contents(window, target, source)
    return window.remembered(
        Fact("pattern", (target, source), contents.digests, ()),
        lambda _: _detected(window, target, source, contents),
    )


def _detected(
    window: Window, target: Node, source: Node, contents: Contents, budget: int | None = None
) -> Pattern:
    (found,) = detect(
        [target], source, contents.values, blocked=window.outside, follows=follows, budget=budget
    )
    return found


def hessian_pattern(window: Window, target: Node, source: Node, given: Pattern | None) -> Pattern:
    """The pattern of the second derivatives of the sum of a target, given or detected."""
    if given is not None:
        return _fitting(given, (source.size, source.size))

    contents = index_contents(window, target, source)

    def derive(rules: PythonRules) -> Pattern:
        return detect_hessian(
            window.isolated(target, (source,)).target,
            source,
            contents.values,
            follows=follows,
            rules=rules,
        )

    key = Fact("hessian_pattern", (target, source), contents.digests, ())
    return window.remembered(key, derive)


def _fitting(given: Pattern, shape: tuple[int, int]) -> Pattern:
    if given.shape != shape:
        raise SparsityError(
            f"sparse: the given pattern has shape {given.shape} and the matrix {shape}. "
            "A pattern has a row for each element of the target and a column for each of the "
            "source."
        )
    return given


def is_block_diagonal(window: Window, target: Node, source: Node) -> bool:
    """Whether the pattern proves that row b of the target depends on row b of the source only."""
    contents = index_contents(window, target, source)

    def derive(_: PythonRules) -> bool:
        pattern = _detected(window, target, source, contents, LARGEST_BLOCK_PATTERN)
        if pattern.rows is None:
            return False
        count = source.shape[0]
        rows = pattern.row_numbers // (target.size // count)
        return bool(np.all(rows == pattern.indices // (source.size // count)))

    key = Fact("block diagonal", (target, source), contents.digests, ())
    return window.remembered(key, derive)


def is_smaller(pattern: Pattern, dtype: DType) -> bool:
    """Whether the sparse form of a matrix takes less memory than the dense one."""
    itemsize = np.dtype(dtype).itemsize
    rows, columns = pattern.shape
    listed = pattern.nnz * (itemsize + 4) + 4 * rows
    return not pattern.dense and listed < rows * columns * itemsize
