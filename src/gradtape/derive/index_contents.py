"""What the detection of sparsity needs from a recording: integers that index, and Python rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from gradtape.derive.python_rules import Checkpointed
from gradtape.dtypes import Array
from gradtape.graph.hooks import hooks
from gradtape.graph.node import Node
from gradtape.recording import Recording, Value
from gradtape.runtime import tiers
from gradtape.sparsity.detect import index_leaves


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
