"""Programs: closed static graphs with numbered inputs, and their text form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import count, product
from string import ascii_lowercase

from gradtape.concurrency import WeakTable
from gradtape.display import Text
from gradtape.errors import GraphError
from gradtape.ir.derived import Derived
from gradtape.ir.node import LEAF, PLACEHOLDER, Key, Node
from gradtape.ir.origin import follow, is_noting
from gradtape.ir.walk import rebuilt, topological
from gradtape.records import dataclass


@dataclass(frozen=True, eq=False)
class Program:
    """A closed graph: inputs, nodes in an order in which they can run, outputs.

    >>> x = gt.asarray([1.0, 2.0])
    >>> print(gt.program_of(gt.sum(x * x)))
    program(a: float64[2]) -> c
      b: float64[2] = multiply(a, a)
      c: float64[] = sum(b, axis=(0,), keepdims=False)
    """

    inputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    derived: Derived = field(default_factory=Derived, repr=False)

    def key(self) -> Key:
        """A key that is equal for programs of the same structure, whichever leaves they read."""
        number = {node: index for index, node in enumerate(self.inputs)}
        key: list[object] = [node.spec for node in self.inputs]
        for node in self.nodes:
            number[node] = len(number)
            key.append((node.op, node.params, *[number[parent] for parent in node.inputs]))
        key.append(tuple(number[node] for node in self.outputs))
        return tuple(key)

    def to_dot(self) -> str:
        """The program as a graph for Graphviz.

        >>> print(gt.program_of(gt.sin(gt.asarray(1.0))).to_dot().splitlines()[-2])
          n0 -> n1;
        """
        return dot(self.inputs, self.nodes, self.outputs)

    def _repr_html_(self) -> str:
        """The program as text, for notebooks."""
        return Text(show(self))._repr_html_()

    def __str__(self) -> str:
        return show(self)


def program(outputs: Iterable[Node], known: Collection[Node] = ()) -> Program:
    """The program that computes `outputs` from the leaves and the nodes already `known`."""
    outputs = tuple(outputs)
    inputs, nodes = _divided(topological(outputs, stop=known), known)
    return Program(tuple(inputs), tuple(nodes), outputs)


def with_outputs(found: Program, more: Sequence[Node], known: Collection[Node] = ()) -> Program:
    """The result of `program` for the outputs of `found` and some more, without walking it again.

    `found` must be the program of its outputs and the same `known` nodes.
    """
    own = {*found.inputs, *found.nodes}

    def read(node: Node) -> Sequence[Node]:
        return () if node in own or node in known else node.inputs

    # The walk over all outputs in order would list the nodes of `found` first, as they are there.
    new = [node for node in topological(more, parents=read) if node not in own]
    inputs, nodes = _divided(new, known)
    return Program((*found.inputs, *inputs), (*found.nodes, *nodes), (*found.outputs, *more))


def _divided(order: Iterable[Node], known: Collection[Node]) -> tuple[list[Node], list[Node]]:
    """Nodes in their order: those that a program is given, and those that it computes."""
    inputs: list[Node] = []
    nodes: list[Node] = []
    for node in order:
        if node in known or (not node.inputs and node.op in (LEAF, PLACEHOLDER)):
            inputs.append(node)
        else:
            nodes.append(node)
    return inputs, nodes


def sealed(found: Program) -> Program:
    """The same program with placeholders for the inputs that are computed nodes.

    A plan is shared by all programs of the same structure, and the structure ends at the inputs: an
    optimiser pass must not depend on how an input was computed.
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
    """The inputs of a program, with placeholders for computed nodes."""
    return tuple(
        [
            node if node.op in (LEAF, PLACEHOLDER) else Node(PLACEHOLDER, (), (at,), node.spec)
            for at, node in enumerate(found.inputs)
        ]
    )


_closed: WeakTable[Key, Program] = WeakTable()


def closed(inputs: Sequence[Node], outputs: Sequence[Node]) -> Program:
    """The one program that computes `outputs` from `inputs` and nothing else, by structure.

    It is a copy with inputs of its own. The same computation is the same object, so an op may hold
    it as a param, and a repeated application of that op is the same node.
    """
    given = set(inputs)
    order = [node for node in topological(outputs, stop=given) if node not in given]
    number = {node: index for index, node in enumerate(inputs)}
    key: list[object] = [tuple(node.spec for node in inputs)]
    for node in order:
        if node.op is LEAF or node.op is PLACEHOLDER:
            raise GraphError(f"closed: {node} is read, but is not an input.")
        number[node] = len(number)
        key.append((node.op, node.params, *[number[parent] for parent in node.inputs]))
    key.append(tuple(number[node] for node in outputs))
    found = _closed.get(tuple(key))
    if found is None:
        # setdefault: two threads that race here must end with the same object.
        found = _closed.setdefault(tuple(key), _copied(inputs, order, outputs))
    if is_noting():
        for old, new in zip(order, found.nodes, strict=True):
            follow(old, new)
    return found


def forget_dead_bodies() -> None:
    """Drop the params of closed programs without a reference, such as functions of the user."""
    _closed.drop_dead()


def _copied(inputs: Sequence[Node], order: Sequence[Node], outputs: Sequence[Node]) -> Program:
    new = {
        node: Node(PLACEHOLDER, (), (position,), node.spec) for position, node in enumerate(inputs)
    }
    given = tuple(new.values())
    for node in order:
        parents = tuple(new[parent] for parent in node.inputs)
        new[node] = Node(node.op, parents, node.params, node.spec)
    return Program(given, tuple(new[node] for node in order), tuple(new[n] for n in outputs))


def names() -> Iterator[str]:
    """Names in order: a, b, …, z, aa, ab, …"""
    for length in count(1):
        for letters in product(ascii_lowercase, repeat=length):
            yield "".join(letters)


def show(program: Program) -> str:
    """One line per node: name, spec, op, inputs, params."""
    fresh = names()
    name: dict[Node, str] = {node: next(fresh) for node in program.inputs}
    arguments = ", ".join(f"{name[node]}: {node.spec}" for node in program.inputs)
    lines = []
    for node in program.nodes:
        name[node] = next(fresh)
        parts = [name[parent] for parent in node.inputs]
        parts += [f"{key}={_shown(value)}" for key, value in node.keywords.items()]
        lines.append(f"  {name[node]}: {node.spec} = {node.op.name}({', '.join(parts)})")
    results = ", ".join(name[node] for node in program.outputs)
    return "\n".join([f"program({arguments}) -> {results}", *lines])


def _shown(value: object) -> str:
    """A param as text; a body is indented."""
    if isinstance(value, tuple) and any(isinstance(one, Program) for one in value):
        return "(" + ", ".join(map(_shown, value)) + ")"
    return str(value).replace("\n", "\n    ") if isinstance(value, Program) else str(value)


_DOT_COLOURS = {"input": "#dbeafe", "output": "#fde68a", "op": "#ffffff"}


def dot(inputs: Iterable[Node], nodes: Iterable[Node], outputs: Iterable[Node]) -> str:
    """A digraph with a box for each node; inputs and outputs are filled."""
    number: dict[Node, int] = {}
    ends = set(outputs)
    lines = ["digraph program {", '  node [shape=box, style="rounded,filled", fontsize=10];']
    for kind, found in (("input", inputs), ("op", nodes)):
        for node in found:
            number[node] = len(number)
            colour = _DOT_COLOURS["output" if node in ends else kind]
            name = "input" if kind == "input" else node.op.name
            spec = node.spec if type(node.spec) is not tuple else ", ".join(map(str, node.spec))
            lines.append(f'  n{number[node]} [label="{name}\\n{spec}", fillcolor="{colour}"];')
    for node, target in number.items():
        lines += [
            f"  n{number[parent]} -> n{target};" for parent in node.inputs if parent in number
        ]
    return "\n".join([*lines, "}"])
