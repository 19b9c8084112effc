"""Program: a closed static graph with numbered inputs. Every observation ends in one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from gradtape.errors import GraphError
from gradtape.graph.node import LEAF, PLACEHOLDER, Node
from gradtape.graph.provenance import provenance
from gradtape.graph.walk import rebuilt, topological


@dataclass(frozen=True, eq=False)
class Program:
    """Inputs, nodes in an order that can be run, outputs.

    >>> x = gt.asarray([1.0, 2.0])
    >>> print(gt.program_of(gt.sum(x * x)))
    program(a: float64[2]) -> c
      b: float64[2] = multiply(a, a)
      c: float64[] = sum(b, axis=(0,), keepdims=False)
    """

    inputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    # What was made of this program before, by question; see `closed`.
    derived: dict[Any, Any] = field(default_factory=dict, repr=False)

    def key(self) -> tuple[Any, ...]:
        """What two programs that compute the same way have in common, whatever their leaves."""
        number = {node: index for index, node in enumerate(self.inputs)}
        key: list[Any] = [node.spec for node in self.inputs]
        for node in self.nodes:
            number[node] = len(number)
            key.append((node.op, node.params, *[number[parent] for parent in node.inputs]))
        key.append(tuple(number[node] for node in self.outputs))
        return tuple(key)

    def __str__(self) -> str:
        from gradtape.graph.show import show

        return show(self)


def program(outputs: Iterable[Node], known: Collection[Node] = ()) -> Program:
    """The program that computes `outputs` from the leaves and the nodes already `known`."""
    outputs = tuple(outputs)
    inputs: list[Node] = []
    nodes: list[Node] = []
    for node in topological(outputs, stop=known):
        if node.op is LEAF or node.op is PLACEHOLDER or node in known:
            inputs.append(node)
        else:
            nodes.append(node)
    return Program(tuple(inputs), tuple(nodes), outputs)


def rewritten(found: Program, change: Callable[[Node], Node]) -> Program:
    """The program with each node replaced by what `change` makes of it, and all above it rebuilt.

    `change` gets the node over its new inputs. Nodes that nothing reads any more are dropped.
    """
    new: dict[Node, Node] = {node: node for node in found.inputs}
    for node in found.nodes:
        new[node] = change(rebuilt(node, tuple([new[parent] for parent in node.inputs])))
    return reaching(found.inputs, tuple(new[node] for node in found.outputs))


def reaching(inputs: tuple[Node, ...], outputs: tuple[Node, ...]) -> Program:
    """The program from inputs to outputs, in an order found anew."""
    given = set(inputs)
    nodes = [node for node in topological(outputs, stop=given) if node not in given]
    return Program(inputs, tuple(nodes), outputs)


def sealed(found: Program) -> Program:
    """The same program, which does not tell how its inputs were computed.

    A plan is found by what programs have in common, and that is not how values came about which
    are known already: a pass must not look through them.
    """
    inputs = sealed_inputs(found)
    new = dict(zip(found.inputs, inputs, strict=True))
    if inputs == found.inputs:
        return found
    for node in found.nodes:
        new[node] = rebuilt(node, tuple([new[parent] for parent in node.inputs]))
    nodes = tuple(new[node] for node in found.nodes)
    return Program(inputs, nodes, tuple(new[node] for node in found.outputs))


def sealed_inputs(found: Program) -> tuple[Node, ...]:
    """Inputs that do not tell how they were computed."""
    return tuple(
        [
            node if node.op in (LEAF, PLACEHOLDER) else Node(PLACEHOLDER, (), (at,), node.spec)
            for at, node in enumerate(found.inputs)
        ]
    )


_closed: WeakValueDictionary[tuple[Any, ...], Program] = WeakValueDictionary()


def closed(inputs: Sequence[Node], outputs: Sequence[Node]) -> Program:
    """The one program that computes `outputs` from `inputs` and nothing else, by structure.

    It is a copy with inputs of its own. The same computation is the same object, so ops may hold
    it as a param: whatever repeats the op finds the same node.
    """
    given = set(inputs)
    order = [node for node in topological(outputs, stop=given) if node not in given]
    number = {node: index for index, node in enumerate(inputs)}
    key: list[Any] = [tuple(node.spec for node in inputs)]
    for node in order:
        if node.op is LEAF or node.op is PLACEHOLDER:
            raise GraphError(f"closed: {node} is read, but is no input.")
        number[node] = len(number)
        key.append((node.op, node.params, *[number[parent] for parent in node.inputs]))
    key.append(tuple(number[node] for node in outputs))
    found = _closed.get(tuple(key))
    if found is None:
        # setdefault: of two threads that race here, both must end with the same object.
        found = _closed.setdefault(tuple(key), _copied(inputs, order, outputs))
    noted = provenance()
    if noted is not None:
        for old, new in zip(order, found.nodes, strict=True):
            noted.copy(old, new)
    return found


def _copied(inputs: Sequence[Node], order: Sequence[Node], outputs: Sequence[Node]) -> Program:
    new = {
        node: Node(PLACEHOLDER, (), (position,), node.spec) for position, node in enumerate(inputs)
    }
    given = tuple(new.values())
    for node in order:
        parents = tuple(new[parent] for parent in node.inputs)
        new[node] = Node(node.op, parents, node.params, node.spec)
    return Program(given, tuple(new[node] for node in order), tuple(new[n] for n in outputs))
