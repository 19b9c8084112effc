"""Beyond memory: a plan that needs more than the machine has is refused before it runs.

The system would promise the memory, and end the process when the memory is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from gradtape.graph.large_results import line_of
from gradtape.graph.lines import user_line
from gradtape.graph.node import Node
from gradtape.runtime.machine_limits import physical_memory

# The memory of the machine, read once.
memory = lru_cache(maxsize=1)(physical_memory)


class _BeyondMemoryError(MemoryError):
    """A plan needs more bytes than there are."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(f"{nbytes} bytes in all")


def check_bytes(nbytes: int) -> None:
    """Raise a MemoryError if the results of a plan, with so many bytes, are too large."""
    if nbytes > memory():
        raise _BeyondMemoryError(nbytes)


def check_stored(nodes: Iterable[Node]) -> None:
    """Raise a MemoryError if a result that is computed by itself is larger than the memory."""
    check_bytes(max([_bytes(node) for node in nodes if node.op.view is None], default=0))


def explained(error: MemoryError, nodes: Iterable[Node]) -> MemoryError:
    """The MemoryError of a plan that says which of the recorded nodes asks for most, and where."""
    # Of two that are equally large, the one that is not a view of the other.
    node = max(nodes, key=lambda node: (_bytes(node), node.op.view is None), default=None)
    if node is None:
        return error
    shape = [of.shape for of in node.spec] if type(node.spec) is tuple else node.spec.shape
    return MemoryError(
        f"{node.op.name}: the result of shape {shape} has {_bytes(node)} bytes, and this machine "
        f"{memory()} (asked for at {line_of(node) or user_line()}). Work on smaller pieces, or "
        f"drop tensors that are not needed. The error was: {error}."
    )


def _bytes(node: Node) -> int:
    if type(node.spec) is tuple:
        return sum(of.nbytes for of in node.spec)
    return node.spec.nbytes  # type: ignore[no-any-return]
