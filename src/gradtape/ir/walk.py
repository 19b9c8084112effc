"""Walks over a graph: order, reachability, substitution. Graphs are deep: no walk recurses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

from gradtape.ir.node import Node, apply
from gradtape.ir.origin import LINES, follow, is_noting

_visits = [0]


def count_visits(nodes: int) -> None:
    """Count nodes that a walk or a pass has visited."""
    _visits[0] += nodes


def visits() -> int:
    """The number of nodes that walks and passes have visited in this process."""
    return _visits[0]


def topological(
    roots: Iterable[Node],
    stop: Container[Node] = (),
    parents: Callable[[Node], Sequence[Node]] | None = None,
) -> list[Node]:
    """Every node that the roots read, inputs first; nodes in `stop` are listed, not entered.

    `parents` gives the nodes that count as read by a node, if these are not its inputs.
    """
    # The keys of a dictionary are in the order in which they came.
    done: dict[Node, None] = {}
    stack = list(roots)
    stack.reverse()
    push, pop = stack.append, stack.pop
    # Every new program is walked several times, so the usual one and two inputs are written out. A
    # node that waits for its inputs is on the stack below them, and the walk goes on with the first
    # of them in the same turn.
    while stack:
        node = pop()
        if node in done:
            continue
        while True:
            read = node.inputs if parents is None else parents(node)
            if read and node not in stop:
                first = read[0]
                if len(read) == 1:
                    if first not in done:
                        push(node)
                        node = first
                        continue
                elif len(read) == 2:
                    second = read[1]
                    if first not in done:
                        push(node)
                        if second not in done:
                            push(second)
                        node = first
                        continue
                    if second not in done:
                        push(node)
                        node = second
                        continue
                else:
                    missing = [parent for parent in reversed(read) if parent not in done]
                    if missing:
                        push(node)
                        stack += missing
                        node = pop()
                        continue
            done[node] = None
            break
    _visits[0] += len(done)
    return list(done)


def dependents(order: Iterable[Node], sources: Collection[Node]) -> set[Node]:
    """The sources among the nodes of a topological order, and the nodes that depend on them."""
    # A recording may watch hundreds of sources, and they may come as a sequence.
    among = frozenset(sources)
    found: set[Node] = set()
    for node in order:
        if node in among or not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def rebuilt(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs with the same specs, not interned; itself if none is another."""
    # Nodes are compared by identity, and so are tuples of them.
    if inputs == node.inputs:
        return node
    new = Node(node.op, inputs, node.params, node.spec)
    if LINES.following:
        follow(node, new)
    return new


def substitute(
    roots: Iterable[Node], replacement: Mapping[Node, Node], make: Callable[..., Node] = apply
) -> list[Node]:
    """The roots with nodes replaced and everything above them rebuilt."""
    new: dict[Node, Node] = dict(replacement)
    roots = list(roots)
    noting = is_noting()
    for node in topological(roots, stop=replacement.keys()):
        if node in new:
            continue
        inputs = tuple(new[parent] for parent in node.inputs)
        new[node] = node if inputs == node.inputs else make(node.op, inputs, node.params)
        if noting and new[node] is not node:
            follow(node, new[node], instead=True)
    return [new[root] for root in roots]
