"""What the detection of sparsity needs of a recording: positions that index, and Python rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gradtape.derive.python_rules import Checkpointed
from gradtape.graph.hooks import hooks
from gradtape.graph.node import Node
from gradtape.recording.recording import Recording
from gradtape.recording.value import Value
from gradtape.runtime import tiers
from gradtape.sparsity.detect import index_leaves


def known_positions(
    recording: Recording, nodes: Sequence[Node], source: Node, outside: Collection[Node] = ()
) -> dict[Node, Any]:
    """The values of the leaves of a recording that say where indexing reads and writes.

    Together with the program they are all that a pattern depends on.
    """
    return values_of(recording, position_leaves(nodes, source, outside))


def position_leaves(
    nodes: Sequence[Node], source: Node, outside: Collection[Node] = ()
) -> list[Node]:
    """The leaves that say where indexing reads and writes, which structure alone determines."""
    return index_leaves(nodes, source, outside)


def values_of(recording: Recording, leaves: Sequence[Node]) -> dict[Node, Any]:
    """What a recording has for some of its leaves, as arrays."""
    found = {}
    for node in leaves:
        value = recording.leaves[node.params[0]]
        array = value.array if type(value) is Value else value
        found[node] = np.asarray(array, node.dtype)
    return found


def follows(recording: Recording) -> Callable[[Node], bool]:
    """Of derivatives written in Python, a checkpoint's is that of the computation itself."""
    return lambda node: isinstance(node.params[1], Checkpointed)


def _compiled_loops(functions: Sequence[Callable[..., int]]) -> Any:
    """Greedy loops are compiled wherever kernels are."""
    if tiers.MODE == "off":
        return None
    from gradtape.codegen.integers import compile_integers

    try:
        return compile_integers(functions)
    except OSError:  # installed without source text
        return None


hooks.compile_loops = _compiled_loops
