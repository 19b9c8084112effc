"""Batching: the graph of one example becomes the graph of many, by each op's own batch rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradtape.errors import NoValueError
from gradtape.ir import PICK, Node, Undefined, pick, topological
from gradtape.ir.origin import provenance
from gradtape.ops.custom.custom import CUSTOM, CUSTOM_BATCH
from gradtape.ops.families.batching import spread
from gradtape.records import dataclass

# A batch rule written in Python: (node, arguments, which are batched) -> outputs.
PythonRule = Callable[[Node, tuple[Node, ...], tuple[bool, ...]], Sequence[Node]]


@dataclass(frozen=True)
class Unbatched:
    """A result that depends on no batched leaf: `node` is the same for all examples."""

    node: Node


def batch(outputs: Sequence[Node], batched: Mapping[Node, Node]) -> list[Node | Unbatched]:
    """The outputs for all examples at once, along a new axis 0.

    `batched` maps leaves of the graph of one example (any nodes, in fact) to nodes with an
    additional axis 0, all of one length. An output that does not depend on them comes back as
    `Unbatched`.
    """
    return Batching(batched).of(outputs)


def batch_all(outputs: Sequence[Node], batched: Mapping[Node, Node], size: int) -> list[Node]:
    """The same, with outputs that all examples share repeated along the new axis."""
    return [
        spread(found.node, size) if isinstance(found, Unbatched) else found
        for found in batch(outputs, batched)
    ]


def batch_node(node: Node, batched: Mapping[Node, Node]) -> Node | tuple[Node, ...]:
    """A node for all examples, where `batched` has all of its operands that differ between them.

    The graph behind the other operands is not walked: it may be long, and have many such nodes.
    """
    flags = tuple(parent in batched for parent in node.inputs)
    batching = Batching(batched)
    found = batching.batched[node] = batching.through(node, flags)
    batching.note(node)
    return found


class Batching:
    """One walk: the batched form of each node, and pairs of nodes with derivatives in Python."""

    def __init__(self, batched: Mapping[Node, Node], python_rule: PythonRule | None = None) -> None:
        # Nodes with an axis of examples in front; for several outputs also a tuple of nodes.
        self.batched: dict[Node, Any] = dict(batched)
        self._given = frozenset(batched)
        # If it is None, functions with a rule of their own are batched like others.
        self._python_rule = python_rule
        # Whether the rule was called: Python code may do something else the next time.
        self.called = False
        # Pairs of a `custom_derivative` node of one example and that of all; equal if unbatched.
        self.custom: list[tuple[Node, Node]] = []
        self._seen: set[Node] = set(batched)

    def of(self, outputs: Sequence[Node]) -> list[Node | Unbatched]:
        """The outputs batched, or marked as not being so."""
        for node in topological(outputs, self._seen, self._parents):
            if node in self._seen:
                continue
            self._seen.add(node)
            if self._has_rule(node):
                self._through_python(node)
                continue
            flags = tuple(parent in self.batched for parent in node.inputs)
            if any(flags):
                self.batched[node] = self.through(node, flags)
                self.note(node)
            if node.op is CUSTOM:
                self.custom.append((node, self.batched.get(node, node)))
        return [self.batched[node] if node in self.batched else Unbatched(node) for node in outputs]

    def note(self, node: Node) -> None:
        """For debugging: the nodes that a node has become inherit its line."""
        noted = provenance()
        if noted is not None:
            many = self.batched[node]
            ends = {self.batched.get(parent, parent) for parent in node.inputs}
            ends = {end for end in ends if not isinstance(end, tuple)}
            made = topological(many if isinstance(many, tuple) else (many,), stop=ends)
            noted.inherit(node, (one for one in made if one not in ends))

    def _parents(self, node: Node) -> tuple[Node, ...]:
        return node.inputs[node.params[0] :] if self._has_rule(node) else node.inputs

    def _has_rule(self, node: Node) -> bool:
        is_called = self._python_rule is not None and node.op is CUSTOM_BATCH
        return is_called and node.params[1] is not None

    def _through_python(self, node: Node) -> None:
        """A function with its own rule: the nodes that computed it for one example are skipped."""
        count, call = node.params
        arguments = node.inputs[count:]
        flags = tuple(argument in self.batched for argument in arguments)
        if not any(flags):
            self.of(node.inputs[:count])
            flags = tuple(parent in self.batched for parent in node.inputs)
            if any(flags):
                self.batched[node] = self.through(node, flags)
            return
        self._refuse_if_read(call, "it", node.inputs[:count], arguments)
        many = tuple(self.batched.get(argument, argument) for argument in arguments)
        results: Sequence[Node] = self._python_rule(node, many, flags)  # type: ignore[misc]
        self.called = True
        self._refuse_if_read(call, "its rule", results, many)
        self.batched[node] = tuple(results)
        for found in topological(results, stop=set(many)):
            if found.op is CUSTOM:
                self.custom.append((found, found))

    def _refuse_if_read(
        self, call: Any, reader: str, results: Sequence[Node], arguments: Sequence[Node]
    ) -> None:
        ends = set(arguments)
        if any(node in self._given - ends for node in topological(results, stop=ends)):
            raise NoValueError(
                f"custom_vmap: {call.name}: {reader} reads a tensor that differs from example to "
                "example and is not among the arguments. Pass it as an argument."
            )

    def through(self, node: Node, flags: tuple[bool, ...]) -> Node | tuple[Node, ...]:
        """A node by its op's rule, given which of its operands are batched."""
        if node.op is PICK:
            found = self.batched[node.inputs[0]]
            position = node.params[0]
            return found[position] if isinstance(found, tuple) else pick(found, position)
        rule = node.op.batch
        if isinstance(rule, Undefined):
            rule.refuse(node.op.name, "the batch rule")
        if rule is None:
            Undefined("none is declared. Give the op one of families/batching.py").refuse(
                node.op.name, "the batch rule"
            )
        inputs = tuple(self.batched.get(parent, parent) for parent in node.inputs)
        result: Node | tuple[Node, ...] = rule(inputs, flags, node, **node.keywords)
        return result
