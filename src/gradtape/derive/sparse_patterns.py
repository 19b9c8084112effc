"""Patterns of the Jacobians and Hessians of a recording, detected or given by the user.

A detected pattern is kept under the structure of the graph and the contents of the integer leaves
that index: the same program on another mesh has another pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from gradtape.derive.python_rules import Checkpointed, PythonRules
from gradtape.derive.window import Window
from gradtape.dtypes import Array, DType
from gradtape.errors import SparsityError
from gradtape.graph import Node
from gradtape.graph.hooks import hooks
from gradtape.recording import Recording, Value
from gradtape.runtime import tiers
from gradtape.sparsity.detect import detect, detect_hessian, index_leaves
from gradtape.sparsity.pattern import Pattern, SparseMatrix, pattern_of


def known_positions(
    recording: Recording, nodes: Sequence[Node], source: Node, outside: Collection[Node] = ()
) -> dict[Node, Array]:
    """The values of the leaves of a recording that index operands are computed from.

    A pattern depends on these values and on the program.
    """
    return values_of(recording, position_leaves(nodes, source, outside))


def position_leaves(
    nodes: Sequence[Node], source: Node, outside: Collection[Node] = ()
) -> list[Node]:
    """The leaves that index operands are computed from."""
    return index_leaves(nodes, source, outside)


def values_of(recording: Recording, leaves: Sequence[Node]) -> dict[Node, Array]:
    """The values of some leaves of a recording, as arrays."""
    found = {}
    for node in leaves:
        value = recording.leaves[node.params[0]]
        array = value.array if type(value) is Value else value
        found[node] = np.asarray(array, node.dtype)
    return found


def follows(recording: Recording) -> Callable[[Node], bool]:
    """Tells whether a node's Python rule is the derivative of its computation: a checkpoint's."""
    return lambda node: isinstance(node.params[1], Checkpointed)


def _compiled_loops(
    functions: Sequence[Callable[..., int]],
) -> dict[str, Callable[..., int]] | None:
    """Compile greedy loops, unless the compiler is switched off."""
    if tiers.MODE == "off":
        return None
    from gradtape.codegen.integers import compile_integers  # loads the compiler

    try:
        return compile_integers(functions)
    except OSError:  # the library was installed without its source text
        return None


hooks.compile_loops = _compiled_loops


# Up to this many entries are compared one by one to see whether examples are independent.
LISTED = 1 << 20
# What a user may pass as `sparse`: True, "auto", or a pattern.
Wanted = bool | str | Pattern | SparseMatrix
# Hashes of the integers that a pattern depends on.
Contents = tuple[bytes, ...]


def given_pattern(wanted: Wanted) -> Pattern | None:
    """The pattern that the user gave in place of True or `auto`, or None."""
    if wanted is True or wanted is False or isinstance(wanted, str):
        return None
    return wanted if isinstance(wanted, Pattern) else pattern_of(wanted)


def is_auto(wanted: Wanted) -> bool:
    """Whether the user leaves the choice between sparse and dense to the library."""
    return isinstance(wanted, str)


def jacobian_pattern(
    window: Window, target: Node, source: Node, given: Pattern | None, budget: int | None = None
) -> Pattern:
    """The given pattern, checked, or the one detected in the graph."""
    if given is not None:
        return _fitting(given, (target.size, source.size))

    def derive(_: PythonRules) -> Pattern:
        known = values_of(window.recording, leaves)
        (found,) = detect(
            [target],
            source,
            known,
            blocked=window.outside,
            follows=follows(window.recording),
            budget=budget,
        )
        return found

    leaves = leaves_that_index(window, target, source)
    return window.remembered(
        ("pattern", target, source, index_contents(window, leaves), budget), derive
    )


def hessian_pattern(window: Window, target: Node, source: Node, given: Pattern | None) -> Pattern:
    """The pattern of the second derivatives of the sum of a target, given or detected."""
    if given is not None:
        return _fitting(given, (source.size, source.size))

    def derive(rules: PythonRules) -> Pattern:
        def known(nodes: Sequence[Node]) -> dict[Node, Array]:
            return values_of(window.recording, position_leaves(nodes, source, ()))

        return detect_hessian(
            window.isolated(target, (source,)).target,
            source,
            known,
            follows=follows(window.recording),
            python_rule=rules.pull,
        )

    leaves = leaves_that_index(window, target, source)
    return window.remembered(
        ("hessian_pattern", target, source, index_contents(window, leaves)), derive
    )


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
    pattern = jacobian_pattern(window, target, source, None, LISTED)
    if pattern.rows is None:
        return False
    count = source.shape[0]
    rows = pattern.row_numbers // (target.size // count)
    return bool(np.all(rows == pattern.indices // (source.size // count)))


def is_smaller(pattern: Pattern, dtype: DType) -> bool:
    """Whether the sparse form of a matrix takes less memory than the dense one."""
    itemsize = np.dtype(dtype).itemsize
    rows, columns = pattern.shape
    listed = pattern.nnz * (itemsize + 4) + 4 * rows
    return not pattern.dense and listed < rows * columns * itemsize


def leaves_that_index(window: Window, target: Node, source: Node) -> list[Node]:
    """The leaves that index operands between source and target are computed from."""
    return window.remembered(
        ("positions", target, source), lambda _: position_leaves([target], source, window.outside)
    )


def index_contents(window: Window, leaves: list[Node]) -> Contents:
    """Hashes of the integers that index, which tell two meshes apart."""
    if not leaves:
        return ()
    found = values_of(window.recording, leaves)
    # It loads OpenSSL, which takes longer than most of our packages.
    import hashlib

    return tuple(hashlib.blake2b(array.tobytes()).digest() for array in found.values())
