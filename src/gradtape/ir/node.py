"""Nodes: applications of ops, interned, so that a repeated program is the same graph.

Recording looks nodes up in a table keyed by op, params and inputs. The second run of a program
walks the graph that its first run built: no node is made, the root *is* the structural key, and
everything derived from a graph (gradients, plans) is found by identity.

Each thread has two tables of nodes. `Table.nodes` holds what users record, `Table.slopes` what
derivatives are made of. They are apart because a tape treats nodes recorded outside its window as
constants: see `apart_from_recorded`.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Union

import numpy as np

from gradtape.concurrency import WeakTable
from gradtape.config import LARGEST_NODE_TABLE, MOST_PROGRAMS_OF_A_TABLE, REMEMBERED_SPECS
from gradtape.dtypes import DType
from gradtape.errors import SizeError
from gradtape.ir.derived import Derived
from gradtape.ir.op import Op, Undefined, declare
from gradtape.ir.operators import OPERATORS
from gradtape.ir.origin import LINES, is_large, note, note_line, provenance
from gradtape.ir.spec import Shape, Spec

Params = tuple[Any, ...]
# The key under which a node is interned: equal keys are the same computation.
Key = tuple[object, ...]


Scalar = bool | int | float | complex
NodeOrScalar = Union["Node", Scalar]


def _operator(
    op: Callable[[], Op], reflected: bool = False
) -> Callable[[Node, NodeOrScalar], Node]:
    """The method of a binary operator."""

    def method(self: Node, other: NodeOrScalar) -> Node:
        # The usual case first: most operands that rules make are nodes.
        if type(other) is Node:
            return apply(op(), (self, other))
        operands = (other, self) if reflected else (self, other)
        return _binary(op(), *operands)

    return method


class Node:
    """One application of an Op: op, inputs, params, spec. Immutable but for `stamp`."""

    __slots__ = ("__weakref__", "inputs", "op", "params", "spec", "stamp")

    # Operands that carry a recording are handles; a Node never does.
    recording = None

    def __init__(self, op: Op, inputs: tuple[Node, ...], params: Params, spec: Any) -> None:
        self.op = op
        self.inputs = inputs
        self.params = params
        # A Spec, or a tuple of them if the op has several outputs.
        self.spec: Any = spec
        # The newest recording that applied this node: a second application there needs a twin.
        self.stamp = 0

    @property
    def shape(self) -> Shape:
        return self.spec.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> DType:
        return self.spec.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return self.spec.ndim  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        return self.spec.size  # type: ignore[no-any-return]

    @property
    def keywords(self) -> dict[str, Any]:
        return dict(zip(self.op.params, self.params, strict=True))

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.spec}>"

    # Derivative rules are written with operators on nodes; each operator is one op.
    __add__ = _operator(lambda: OPERATORS.add)
    __radd__ = _operator(lambda: OPERATORS.add, reflected=True)
    __sub__ = _operator(lambda: OPERATORS.subtract)
    __rsub__ = _operator(lambda: OPERATORS.subtract, reflected=True)
    __mul__ = _operator(lambda: OPERATORS.multiply)
    __rmul__ = _operator(lambda: OPERATORS.multiply, reflected=True)
    __truediv__ = _operator(lambda: OPERATORS.divide)
    __rtruediv__ = _operator(lambda: OPERATORS.divide, reflected=True)
    __rpow__ = _operator(lambda: OPERATORS.pow, reflected=True)
    __matmul__ = _operator(lambda: OPERATORS.matmul)
    __lt__ = _operator(lambda: OPERATORS.less)
    __gt__ = _operator(lambda: OPERATORS.greater)
    __le__ = _operator(lambda: OPERATORS.less_equal)
    __ge__ = _operator(lambda: OPERATORS.greater_equal)
    __and__ = _operator(lambda: OPERATORS.logical_and)
    __or__ = _operator(lambda: OPERATORS.logical_or)

    def __pow__(self, other: NodeOrScalar) -> Node:
        if type(other) is int and -8 <= other <= 8 and self.spec.inexact:
            return apply(OPERATORS.integer_power, (self,), (other,))
        return _binary(OPERATORS.pow, self, other)

    def __neg__(self) -> Node:
        return apply(OPERATORS.negative, (self,))

    def __invert__(self) -> Node:
        return apply(OPERATORS.logical_not, (self,))


class Table:
    """A thread's interned nodes, with the derivatives and plans made from them."""

    # The native recorder reads two attributes by slot.
    __slots__ = ("__dict__", "__weakref__", "cache", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[Key, Node] = {}
        # Nodes that derivatives are made of: see `apart_from_recorded`.
        self.slopes: dict[Key, Node] = {}
        self.derived = Derived()
        # Bound plans of flushes, by the nodes they compute: see gradtape.runtime.flush.
        self.plans: dict[Key, Any] = {}
        # Slices of nodes, by the bounds that the user wrote.
        self.reads: dict[Key, Node] = {}
        # A cache of some of `nodes` that the native recorder fills and reads.
        self.cache: bytes | None = None
        # For debugging: the node whose derivative new nodes are part of.
        self.deriving: Node | None = None
        # Functions of the user's that nodes call, by id.
        self.functions: dict[int, weakref.ref[Any]] = {}
        # Its size at the last call of `is_full`, or -1 if it is full; and how many programs have
        # added to it.
        self.size, self._structures = 0, 0

    def is_full(self) -> bool:
        """Whether the next program should have a new table. Called between two programs.

        What is in the table is found again as long as it is not full. Then all of it goes at once:
        nodes, plans and derivatives refer to each other.
        """
        size = len(self.nodes) + len(self.slopes) + len(self.plans) + len(self.derived)
        if size != self.size:
            # The latest program does not count for its own size: if it runs again, all of it is
            # found, however long it is.
            if self.size > LARGEST_NODE_TABLE:
                self.retire()
            self.size = size
            self._structures += 1
        too_many = len(self.functions) > UserFunctions.limit
        if too_many or self._structures > MOST_PROGRAMS_OF_A_TABLE:
            self.retire()
        return self.size < 0

    def retire(self) -> None:
        """Let the next program have a new table."""
        self._structures = MOST_PROGRAMS_OF_A_TABLE + 1
        self.size = -1

    def note_functions(self, op: Op, params: Params) -> None:
        """Note the functions of the user's that a node calls, and so keeps alive."""
        if op.calls_python:
            self._note_function(params[0])
        for param in params:
            for body in param if isinstance(param, tuple) else (param,):
                for node in getattr(body, "nodes", ()):
                    self.note_functions(node.op, node.params)

    def _note_function(self, function: Any) -> None:
        while type(function) in WRAPPERS:
            function = function.function
        bound_to = getattr(function, "__self__", None)
        function = function if bound_to is None else bound_to
        with contextlib.suppress(TypeError):  # something that has no weak references lives for good
            self.functions[id(function)] = weakref.ref(function)


# Classes of callables of ours whose attribute `function` is the user's.
WRAPPERS: set[type] = set()


class UserFunctions:
    """The number of functions of the user's that one table may keep alive.

    Most are made anew for each call, and a table must not keep many of these. But a program that
    calls many functions again and again needs them all in one table.
    """

    limit = LEAST_FUNCTIONS = 32
    # Those of the last two tables that were full of them. Other caches keep the last ones alive.
    _earlier: tuple[tuple[weakref.ref[Any], ...], ...] = ((), ())

    @classmethod
    def leave(cls, full: Table) -> None:
        """Set the number of functions of the next table, from a table that is full."""
        if len(full.functions) > cls.limit:
            alive = sum(each() is not None for each in cls._earlier[0])
            cls.limit = 2 * cls.limit if 2 * alive > cls.limit else cls.LEAST_FUNCTIONS
            cls._earlier = cls._earlier[1], tuple(full.functions.values())


class _Tables(threading.local):
    def __init__(self) -> None:
        self.table = new_table()
        # Whether new nodes are part of a derivative.
        self.differentiates = False


# Those in which threads and traces intern nodes.
_tables: WeakTable[int, Table] = WeakTable()


def new_table(full: Table | None = None) -> Table:
    """An empty table for a thread or a trace, in the place of a full one."""
    if full is not None:
        UserFunctions.leave(full)
    made = Table()
    return _tables.setdefault(id(made), made)


def retire_tables() -> None:
    """Let the next program of every thread have a new table."""
    for each in _tables.values():
        each.retire()
    _specs.clear()


_local = _Tables()


def table() -> Table:
    """This thread's table."""
    return _local.table


def renewed_table() -> Table:
    """This thread's table; a new one if the old one is full."""
    if _local.table.is_full():
        _local.table = new_table(_local.table)
    return _local.table


def exchange(new: Table) -> Table:
    """Make another table this thread's, and return the one it had."""
    before, _local.table = _local.table, new
    return before


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """Intern the nodes made in this context in a table of their own, which is then forgotten."""
    new = Table()
    new.deriving = _local.table.deriving
    before = exchange(new)
    try:
        yield
    finally:
        exchange(before)


@contextlib.contextmanager
def apart_from_recorded() -> Iterator[None]:
    """Intern the nodes made in this context apart from those that users record.

    A tape differentiates the nodes recorded in its window and takes all others for constants. Say
    the user computes cos(x) before an outer tape begins, and sin(x) with its derivative inside. If
    the cos(x) of the derivative were the node that the user recorded, the outer tape would take it
    for a constant, and the second derivative of sin(x) would be zero.
    """
    before, _local.differentiates = _local.differentiates, True
    try:
        yield
    finally:
        _local.differentiates = before


def is_slope(node: Node) -> bool:
    """Whether a node was made for a derivative and is not one that a user recorded.

    A derivative that is returned twice, to two tapes, must be two nodes, as two recorded
    applications are; `autodiff.window` checks this before it makes a second node.
    """
    return _local.table.slopes.get(structural_key(node.op, node.inputs, node.params)) is node


# The result specs of ops by their operands' specs, for operands that need no cast and results that
# are not large.
_specs: dict[Key, Any] = {}


def structural_key(op: Op, inputs: tuple[Node, ...], params: Params) -> Key:
    """The key under which an application is interned."""
    return (op, params, *inputs) if params else (op, *inputs)


def build(op: Op, inputs: tuple[Node, ...], params: Params) -> Node:
    """A new node: casts the operands as the op requires, infers the spec, raises shape errors."""
    key = (op, params, *[node.spec for node in inputs])
    found = _specs.get(key)
    if found is not None:
        new = Node(op, inputs, params, found)
        if LINES.noting:
            note(new, _local.table.deriving)
        return new
    if not op.self_contained:
        _local.table.note_functions(op, params)
    cast = inputs if op.promote is None else op.promote(inputs)
    try:
        found = op.spec(*[node.spec for node in cast], **op.keywords(params))
    except SizeError as error:
        raise SizeError(f"{op.name}: {error}") from None
    if any(a is not b for a, b in zip(cast, inputs, strict=True)):
        return note_line(Node(op, cast, params, found), _local.table.deriving)
    # Functions and bodies in params are not kept alive there, and lines of large results are noted
    # each time.
    if op.self_contained and not is_large(found):
        if len(_specs) > REMEMBERED_SPECS:
            _specs.clear()
        _specs[key] = found
    return note_line(Node(op, inputs, params, found), _local.table.deriving)


def is_cast_by_default(found: Node, inputs: tuple[Node, ...]) -> bool:
    """Whether integers were cast to the default dtype, which may change.

    Such a node is interned under its own inputs alone: the operands do not determine it.
    """
    if found.inputs is inputs or any(node.spec.inexact for node in inputs):
        return False
    return any(node.spec.inexact for node in found.inputs)


def apply(op: Op, inputs: tuple[Node, ...], params: Params = ()) -> Node:
    """The node that applies `op` to `inputs`: the interned one, or a new one."""
    current = _local.table
    # The outputs of a node are recorded with it: there is one node for each output.
    apart = _local.differentiates and op is not PICK
    nodes = current.slopes if apart else current.nodes
    key = (op, params, *inputs) if params else (op, *inputs)  # `structural_key`
    found = nodes.get(key)
    if found is None:
        found = build(op, inputs, params)
        if is_cast_by_default(found, inputs):
            return apply(op, found.inputs, params)
        nodes[key] = found
        noted = provenance()
        if noted is not None:
            noted.origins[found] = current.deriving
    return found


def derive_from(node: Node | None) -> None:
    """Note that the nodes made from here on belong to the derivative of `node`."""
    _local.table.deriving = node


def leaf(ordinal: int, of: Spec) -> Node:
    """The node that stands for the recording's leaf number `ordinal`."""
    # Not by its op, which would take longer to hash.
    return _numbered(LEAF, (of, ordinal), ordinal, of)


def numbered_placeholder(number: int, of: Spec) -> Node:
    """The placeholder with this number: the same node for the same number."""
    return _numbered(PLACEHOLDER, (PLACEHOLDER, number, of), number, of)


def _numbered(op: Op, key: Key, number: int, of: Spec) -> Node:
    nodes = _local.table.nodes
    found = nodes.get(key)
    if found is None:
        found = nodes[key] = Node(op, (), (number,), of)
    return found


def placeholder(of: Spec) -> Node:
    """A new input that belongs to no recording; it is substituted before a plan runs."""
    return Node(PLACEHOLDER, (), (object(),), of)


def constant(value: Scalar, of: Spec) -> Node:
    """A constant that is part of the program, not a leaf."""
    if value == 0 and math.copysign(1.0, np.real(value)) < 0:
        # Keys compare by value and -0.0 == 0.0: negative zero is the negative of zero.
        return apply(OPERATORS.negative, (constant(0, of),))
    # The spec is found by identity: shapes and dtypes are slow to hash. The type is part of the key
    # because True == 1.
    current = table()
    nodes = current.slopes if _local.differentiates else current.nodes
    key = ("constant", type(value), value, of)
    found = nodes.get(key)
    if found is None:
        found = apply(OPERATORS.full, (), (of.shape, value, of.dtype))
        nodes[key] = found
    return found


def constant_value(node: Node) -> Scalar | None:
    """The number that every element of a constant has; None for any other node."""
    return node.params[1] if node.op is OPERATORS.full else None


def slope_constant(value: Scalar, of: Spec) -> Node:
    """A constant that is part of a derivative, apart from those that users record."""
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


def _binary(op: Op, left: NodeOrScalar, right: NodeOrScalar) -> Node:
    if not isinstance(left, Node):
        assert isinstance(right, Node)
        left = constant(left, right.spec.scalar(type(left)))
    elif not isinstance(right, Node):
        right = constant(right, left.spec.scalar(type(right)))
    return apply(op, (left, right))


def _no_kernel(*_: object, **__: object) -> NoReturn:
    raise AssertionError("leaves and placeholders have no kernel")


def _source(name: str, param: str) -> Op:
    """An op without operands and without a kernel."""
    why = Undefined(f"a {name} is a source")
    rules: Any = {"spec": _no_kernel, "numpy": _no_kernel, "jvp": why, "vjp": why, "batch": why}
    return declare(Op(name, "structure", params=(param,), opaque=True, **rules))


LEAF = _source("leaf", "ordinal")
PLACEHOLDER = _source("placeholder", "key")


def _pick_vjp(
    index: int, g: Node, y: Node, inputs: tuple[Node, ...], *, position: int
) -> tuple[Node | None, ...]:
    # The cotangents of a node with several outputs are one tuple; see autodiff.modes.
    cotangents: list[Node | None] = [None] * len(inputs[0].spec)
    cotangents[position] = g
    return tuple(cotangents)


def _pick_jvp(
    tangents: Sequence[Sequence[Node | None]], y: Node, inputs: tuple[Node, ...], *, position: int
) -> Node | None:
    return tangents[0][position]


PICK = declare(
    Op(
        "pick",
        "structure",
        spec=lambda specs, position: specs[position],
        numpy=lambda values, position: values[position],
        params=("position",),
        jvp=_pick_jvp,
        vjp=_pick_vjp,
        batch=Undefined("the transform itself picks from what the op's rule gave"),
        mask=lambda index, mask, y, inputs, position: None,
    )
)


def bytes_of(of: Any) -> int:
    """The bytes of a result, of all of them if an op has several."""
    return sum(each.nbytes for each in of) if type(of) is tuple else int(of.nbytes)
