"""Node: one application of an Op, interned, so that a repeated program is the same graph.

Recording looks nodes up in a table keyed by op, params and inputs. The second time a program
runs it walks the graph that its first run built: no node is made, the root *is* the structural
key, and everything derived from a graph (gradients, plans) is found by identity.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradtape.graph.op import Op, Undefined, declare
from gradtape.graph.operators import OPERATORS
from gradtape.graph.provenance import provenance
from gradtape.graph.spec import Shape, Spec

# Above this many interned nodes a thread starts a new table; old nodes live while they are used.
TABLE_LIMIT = 200_000


class Node:
    """One application of an Op: op, inputs, params, spec. Immutable but for `stamp`."""

    __slots__ = ("__weakref__", "inputs", "op", "params", "spec", "stamp")

    # Operands that carry a recording are handles; a Node never does.
    recording = None

    def __init__(
        self, op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...], spec: Any
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.params = params
        self.spec: Any = spec
        # The recording that last applied this node: a second application there needs a twin.
        self.stamp = 0

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def dtype(self) -> Any:
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        return self.spec.ndim

    @property
    def size(self) -> int:
        return self.spec.size

    @property
    def keywords(self) -> dict[str, Any]:
        return self.op.keywords(self.params)

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.spec}>"

    # Rules are written with operators on nodes; each applies one op.
    def __add__(self, other: Any) -> Node:
        return _binary(OPERATORS.add, self, other)

    def __radd__(self, other: Any) -> Node:
        return _binary(OPERATORS.add, other, self)

    def __sub__(self, other: Any) -> Node:
        return _binary(OPERATORS.subtract, self, other)

    def __rsub__(self, other: Any) -> Node:
        return _binary(OPERATORS.subtract, other, self)

    def __mul__(self, other: Any) -> Node:
        return _binary(OPERATORS.multiply, self, other)

    def __rmul__(self, other: Any) -> Node:
        return _binary(OPERATORS.multiply, other, self)

    def __truediv__(self, other: Any) -> Node:
        return _binary(OPERATORS.divide, self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return _binary(OPERATORS.divide, other, self)

    def __pow__(self, other: Any) -> Node:
        if type(other) is int and -8 <= other <= 8 and self.spec.inexact:
            return apply(OPERATORS.integer_power, (self,), (other,))
        return _binary(OPERATORS.pow, self, other)

    def __rpow__(self, other: Any) -> Node:
        return _binary(OPERATORS.pow, other, self)

    def __matmul__(self, other: Node) -> Node:
        return apply(OPERATORS.matmul, (self, other))

    def __neg__(self) -> Node:
        return apply(OPERATORS.negative, (self,))

    def __lt__(self, other: Any) -> Node:
        return _binary(OPERATORS.less, self, other)

    def __gt__(self, other: Any) -> Node:
        return _binary(OPERATORS.greater, self, other)

    def __le__(self, other: Any) -> Node:
        return _binary(OPERATORS.less_equal, self, other)

    def __ge__(self, other: Any) -> Node:
        return _binary(OPERATORS.greater_equal, self, other)

    def __and__(self, other: Any) -> Node:
        return _binary(OPERATORS.logical_and, self, other)

    def __or__(self, other: Any) -> Node:
        return _binary(OPERATORS.logical_or, self, other)

    def __invert__(self) -> Node:
        return apply(OPERATORS.logical_not, (self,))


class Table:
    """A thread's interned nodes, with what was derived from them."""

    __slots__ = ("cache", "derived", "deriving", "nodes", "plans", "reads", "slopes")

    def __init__(self) -> None:
        self.nodes: dict[tuple[Any, ...], Node] = {}
        # Nodes that derivatives are made of: see `apart_from_recorded`.
        self.slopes: dict[tuple[Any, ...], Node] = {}
        self.derived: dict[Any, Any] = {}
        self.plans: dict[Any, Any] = {}
        # Parts of nodes, by the bounds that the user wrote.
        self.reads: dict[tuple[Any, ...], Node] = {}
        # Where a native recorder finds some of `nodes` faster; it fills it itself.
        self.cache: bytes | None = None
        # For debugging: of which node new ones are part of the derivative.
        self.deriving: Node | None = None


class _Tables(threading.local):
    def __init__(self) -> None:
        self.table = Table()
        # Whether nodes are being made for a derivative.
        self.differentiates = False


_local = _Tables()


def table() -> Table:
    """This thread's table, begun anew when it has grown past its limit."""
    current = _local.table
    if len(current.nodes) + len(current.slopes) > TABLE_LIMIT:
        current = _local.table = Table()
    return current


def exchange(new: Table) -> Table:
    """Make another table this thread's, and give the one it had."""
    before, _local.table = _local.table, new
    return before


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """Nodes made meanwhile are interned among themselves, and forgotten."""
    new = Table()
    new.deriving = _local.table.deriving
    before = exchange(new)
    try:
        yield
    finally:
        exchange(before)


@contextlib.contextmanager
def apart_from_recorded() -> Iterator[None]:
    """Nodes made meanwhile are none that a program records, whatever it computes.

    A tape takes for constants what was recorded while it was not recording. The cos(x) in the
    derivative of sin(x) must not be the node of a cos(x) that the user computed before.
    """
    before, _local.differentiates = _local.differentiates, True
    try:
        yield
    finally:
        _local.differentiates = before


def is_slope(node: Node) -> bool:
    """Whether a node was made for a derivative, and nobody recorded it."""
    return _local.table.slopes.get(structural_key(node.op, node.inputs, node.params)) is node


# What an op makes of these specs where no operand needs a cast: most nodes of a growing program.
_specs: dict[tuple[Any, ...], Any] = {}


def structural_key(op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...]) -> tuple[Any, ...]:
    return (op, params, *inputs) if params else (op, *inputs)


def build(op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...]) -> Node:
    """A new node: operands cast as the op wants them, spec inferred, errors raised."""
    key = (op, params, *[node.spec for node in inputs])
    found = _specs.get(key)
    if found is None:
        cast = inputs if op.promote is None else op.promote(inputs)
        found = op.spec(*[node.spec for node in cast], **op.keywords(params))
        if any(a is not b for a, b in zip(cast, inputs, strict=True)):
            return Node(op, cast, params, found)
        if len(_specs) > TABLE_LIMIT:
            _specs.clear()
        _specs[key] = found
    return Node(op, inputs, params, found)


def apply(op: Op, inputs: tuple[Node, ...], params: tuple[Any, ...] = ()) -> Node:
    """The node that applies `op` to `inputs`: the interned one, or a new one."""
    current = table()
    # An output of a node is recorded with it, and the same to all.
    apart = _local.differentiates and op is not PICK
    nodes = current.slopes if apart else current.nodes
    key = structural_key(op, inputs, params)
    found = nodes.get(key)
    if found is None:
        found = nodes[key] = build(op, inputs, params)
        noted = provenance()
        if noted is not None:
            noted.origins[found] = current.deriving
    return found


def derive_from(node: Node | None) -> None:
    """Say that nodes made from here on belong to the derivative of `node`."""
    _local.table.deriving = node


def leaf(ordinal: int, of: Spec) -> Node:
    """The node that stands for the recording's leaf number `ordinal`."""
    nodes = table().nodes
    key = (of, ordinal)
    found = nodes.get(key)
    if found is None:
        found = nodes[key] = Node(LEAF, (), (ordinal,), of)
    return found


def placeholder(of: Spec) -> Node:
    """A fresh leaf that belongs to no recording; to be substituted before anything runs."""
    return Node(PLACEHOLDER, (), (object(),), of)


def numbered_placeholder(number: int, of: Spec) -> Node:
    """The placeholder with this number: the same node for the same number."""
    nodes = table().nodes
    key = (PLACEHOLDER, number, of)
    found = nodes.get(key)
    if found is None:
        found = nodes[key] = Node(PLACEHOLDER, (), (number,), of)
    return found


def constant(value: Any, of: Spec) -> Node:
    """A structural constant: part of the program, not a leaf."""
    if value == 0 and math.copysign(1.0, np.real(value)) < 0:
        # Keys compare by value and -0.0 == 0.0: negative zero gets a structure of its own.
        return apply(OPERATORS.negative, (constant(0, of),))
    # Found by the spec, an object: shapes and dtypes are slow to hash. True == 1, but not here.
    current = table()
    nodes = current.slopes if _local.differentiates else current.nodes
    key = ("constant", type(value), value, of)
    found = nodes.get(key)
    if found is None:
        found = apply(OPERATORS.full, (), (of.shape, value, of.dtype))
        nodes[key] = found
    return found


def constant_value(node: Node) -> Any:
    """The number that every element of a structural constant has; None for any other node."""
    return node.params[1] if node.op is OPERATORS.full else None


def slope_constant(value: Any, of: Spec) -> Node:
    """A constant of a derivative, which is none that a user records."""
    found = table().slopes.get(("constant", type(value), value, of))
    if found is not None:
        return found
    with apart_from_recorded():
        return constant(value, of)


def pick(node: Node, index: int) -> Node:
    """One output of a node with several."""
    return apply(PICK, (node,), (index,))


def outputs(node: Node) -> tuple[Node, ...]:
    """All outputs of a node with several."""
    return tuple(pick(node, index) for index in range(len(node.spec)))


def _binary(op: Op, left: Any, right: Any) -> Node:
    if type(left) is not Node:
        left = constant(left, right.spec.scalar(type(left)))
    elif type(right) is not Node:
        right = constant(right, left.spec.scalar(type(right)))
    return apply(op, (left, right))


def _no_kernel(*_: Any, **__: Any) -> Any:
    raise AssertionError("leaves and placeholders have no kernel")


LEAF = declare(
    Op("leaf", "structure", spec=_no_kernel, numpy=_no_kernel, params=("ordinal",), opaque=True,
       jvp=Undefined("a leaf is a source"), vjp=Undefined("a leaf is a source"),
       batch=Undefined("a leaf is a source"))
)  # fmt: skip
PLACEHOLDER = declare(
    Op("placeholder", "structure", spec=_no_kernel, numpy=_no_kernel, params=("key",),
       opaque=True, jvp=Undefined("a placeholder is a source"),
       vjp=Undefined("a placeholder is a source"), batch=Undefined("a placeholder is a source"))
)  # fmt: skip


def _pick_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], *, position: int) -> Any:
    # Cotangents of a node with several outputs travel as a tuple; see transforms.reverse.
    cotangents: list[Any] = [None] * len(inputs[0].spec)
    cotangents[position] = g
    return tuple(cotangents)


def _pick_jvp(tangents: Any, y: Node, inputs: tuple[Node, ...], *, position: int) -> Any:
    return tangents[0][position]


PICK = declare(
    Op("pick", "structure", spec=lambda specs, position: specs[position],
       numpy=lambda values, position: values[position], params=("position",),
       jvp=_pick_jvp, vjp=_pick_vjp,
       batch=Undefined("the transform itself picks from what the op's rule gave"),
       mask=lambda index, mask, y, inputs, position: None)
)  # fmt: skip
