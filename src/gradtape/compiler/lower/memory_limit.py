"""Memory limit: a plan that needs more than the machine has is refused before it runs.

The system would promise the memory, and end the process when the memory is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from gradtape.compiler.machine_limits import physical_memory
from gradtape.ir.node import Node, bytes_of
from gradtape.ir.origin import line_of, user_line

# The memory of the machine, read once.
memory = lru_cache(maxsize=1)(physical_memory)


class _BeyondMemoryError(MemoryError):
    """A plan needs more bytes than there are."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(f"{nbytes} bytes in all")


def check_bytes(nbytes: int) -> None:
    """Raise a MemoryError if the results of a plan, `nbytes` in all, are too large."""
    if nbytes > memory():
        raise _BeyondMemoryError(nbytes)


def check_stored(nodes: Iterable[Node]) -> None:
    """Raise a MemoryError if a result that is computed by itself is larger than the memory."""
    # Specs are interned, so that a long program has few of them.
    for of in {node.spec for node in nodes if node.op.view is None}:
        check_bytes(bytes_of(of))


def explained(error: MemoryError, nodes: Iterable[Node]) -> MemoryError:
    """The MemoryError of a plan, which names the largest of the recorded nodes and its line."""
    # Of two that are equally large, the one that is not a view of the other.
    node = max(nodes, key=lambda node: (bytes_of(node.spec), node.op.view is None), default=None)
    if node is None:
        return error
    of = node.spec
    shape = [each.shape for each in of] if type(of) is tuple else of.shape
    return MemoryError(
        f"{node.op.name}: the result of shape {shape} has {bytes_of(of)} bytes, and this machine "
        f"{memory()} (requested at {line_of(node) or user_line()}). Work on smaller pieces, or "
        f"drop tensors that are not needed. The error was: {error}."
    )
