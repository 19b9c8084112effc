"""Program: a closed static graph with numbered inputs. Every observation ends in one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from gradtape.graph.node import LEAF, PLACEHOLDER, Node
from gradtape.graph.walk import topological


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
