"""Scalar steps: an op on tiny arrays as steps on single elements.

An op that moves elements gives them other places, and has no step. All others have a step for each
element of their result. The steps of an op depend on its params and on the specs of its operands,
so they are found once for all nodes that have these in common: a `Template`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gradtape.caches import remembered
from gradtape.compiler.passes.compositions import is_composed
from gradtape.config import (
    ESTIMATED_VECTOR,
    FUNCTION_STEPS,
    LOOPS_PER_LIBRARY_PRODUCT,
    MOST_COMPUTED_SCALARS,
    MOST_JOINED_SCALARS,
    MOST_SCALAR_PRODUCTS,
    MOST_TEMPLATE_NUMBERS,
    MOST_VIEWED_SCALARS,
)
from gradtape.dtypes import DType
from gradtape.ir import (
    OPERATORS,
    Accumulation,
    Node,
    Op,
    Shape,
    View,
    placeholder,
    scratch,
    topological,
)
from gradtape.ops.families.casting import CAST
from gradtape.ops.families.lowering import COMBINATIONS
from gradtape.ops.families.memory_copies import Index, Piece
from gradtape.ops.families.strides import Strides, is_strided_view, row_major, viewed, whole
from gradtape.records import dataclass

# Steps, and elements in the order of an array, are numbered.
Ordinals = Sequence[int]


class Apply(NamedTuple):
    """An element-wise op of steps."""

    op: Op
    params: tuple[object, ...]
    arguments: tuple[int, ...]
    dtype: str


class Combine(NamedTuple):
    """A reduction of steps; `compared` is the dtype of values whose positions are found, or ''."""

    accumulation: Accumulation
    compared: str
    arguments: tuple[int, ...]
    dtype: str


class Follow(NamedTuple):
    """One more element of a scan, from its state, the factor if there is one, and the element."""

    accumulation: Accumulation
    arguments: tuple[int, ...]
    dtype: str


class Literal(NamedTuple):
    """A number, by its bytes: 0.0 and -0.0 are two."""

    content: bytes
    dtype: str


class Load(NamedTuple):
    """An element of an array in memory: the number of the array, and the byte of the element."""

    array: int
    byte: int
    dtype: str


Computed = Apply | Combine | Follow
Step = Computed | Literal | Load


@dataclass(frozen=True)
class Template:
    """The steps of a node over elements of its operands.

    Ordinals below `len(reads)` are elements that are read: an operand and the place in it.
    """

    reads: Sequence[tuple[int, int]]
    steps: Sequence[Computed | Literal]
    # The elements of each output.
    outputs: Sequence[Ordinals]
    # About how long all steps take, and how long they take on vectors, as a loop computes them.
    cost: int
    vector_cost: float
    # The loops that a node would be, unless it joins others of its space.
    loops: int
    joins: bool

    @property
    def numbers(self) -> int:
        """The count of its numbers."""
        return 4 * (len(self.reads) + len(self.steps)) + sum(map(len, self.outputs))

    @cached_property
    def parts(self) -> Sequence[tuple[type, tuple[object, ...], tuple[int, ...], str]]:
        """The steps apart: class, what comes before the arguments, arguments, dtype."""
        return [
            (Literal, step, (), "")
            if isinstance(step, Literal)
            else (type(step), step[:-2], step.arguments, step.dtype)
            for step in self.steps
        ]


def code_of(dtype: DType) -> str:
    """The code of a dtype in kernels, such as `f8`."""
    return dtype.str[1:]


def is_table(node: Node) -> bool:
    """Whether a node is the same in every run, and so small that its elements can be literals."""
    one = type(node.spec) is not tuple
    return one and node.op.constant and not node.inputs and node.size <= MOST_VIEWED_SCALARS


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes of its operand that a reduction combines."""
    found: int | tuple[int, ...] | None = node.params[0]
    if found is None:
        return tuple(range(node.inputs[0].ndim))
    return found if isinstance(found, tuple) else (found,)


class NotTiny(Exception):  # noqa: N818 - a result, not a fault
    """A node is too large for steps on single elements, or some op has no such steps."""


# Whether kernels compute a node.
Lowers = Callable[[Node], bool]


@remembered(4096)
def positions(shape: Shape, strides: Strides, start: int) -> Ordinals:
    """The places of the elements of an array in memory, in row-major order."""
    found = [start]
    for n, stride in zip(shape, strides, strict=True):
        steps = [stride * index for index in range(n)]
        found = [place + step for place in found for step in steps]
    return tuple(found)


@remembered(4096)
def lines(shape: Shape, axes: tuple[int, ...]) -> Sequence[Ordinals]:
    """For each element of a reduction over `axes`: the elements that it combines."""
    strides = row_major(shape)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    starts = positions(tuple(shape[at] for at in kept), tuple(strides[at] for at in kept), 0)
    inner = positions(tuple(shape[at] for at in axes), tuple(strides[at] for at in axes), 0)
    return tuple(tuple([start + step for step in inner]) for start in starts)


_templates: dict[tuple[object, ...], Template | None] = {}
_held = [0]


def template_of(node: Node, lowers: Lowers) -> Template | None:
    """The steps of a node; None if it is not tiny, or has none."""
    key = (
        lowers,
        node.op,
        # 0.0 and -0.0 are equal.
        repr(node.params) if float in map(type, node.params) else node.params,
        node.spec,
        # Elements that are known are in the template.
        *[(e.op, repr(e.params)) if e.op.constant else e.spec for e in node.inputs],
    )
    try:
        return _templates[key]
    except KeyError:
        pass
    try:
        found = _Template(node, lowers).found()
    except NotTiny:
        found = None
    if _held[0] > MOST_TEMPLATE_NUMBERS:
        _templates.clear()
        _held[0] = 0
    _held[0] += len(key) + (0 if found is None else found.numbers)
    _templates[key] = found
    return found


def is_known(node: Node) -> bool:
    """Whether the elements of a node are literals wherever they are read."""
    return node.op is OPERATORS.full or is_table(node)


class _Template:
    """The template of a node while it is found: numbers below 0 are elements of operands."""

    def __init__(self, node: Node, lowers: Lowers) -> None:
        self._lowers = lowers
        self._steps: list[Computed | Literal] = []
        self._number: dict[Computed | Literal, int] = {}
        self._reads: dict[tuple[int, int], int] = {}
        self._elements: dict[Node, Ordinals] = {}
        self._operands: dict[Node, int] = {}
        self._cost, self._vector_cost = 0, 0.0
        self._loops = 0
        # Compositions may read the ops of operands, which nodes with this template do not share.
        inputs = tuple([each if is_known(each) else placeholder(each.spec) for each in node.inputs])
        self._node = Node(node.op, inputs, node.params, node.spec)
        for position, each in enumerate(inputs):
            if type(each.spec) is tuple:
                raise NotTiny
            if not is_known(each):
                self._operands[each] = position

    def found(self) -> Template:
        outputs = self._add(self._node)
        first = len(self._reads)

        def moved(numbers: Ordinals) -> tuple[int, ...]:
            return tuple([first + n if n >= 0 else -1 - n for n in numbers])

        steps = [
            step if isinstance(step, Literal) else step._replace(arguments=moved(step.arguments))
            for step in self._steps
        ]
        op = self._node.op
        joins = self._loops == 1 and op.composition is None and (op.elementwise or op.reduces)
        return Template(
            tuple(self._reads),
            steps,
            [moved(each) for each in outputs],
            self._cost,
            self._vector_cost,
            self._loops,
            joins,
        )

    # Nodes.

    def _add(self, node: Node) -> list[Ordinals]:
        """The elements of each output of a node."""
        if is_composed(node) and all(each.size <= MOST_VIEWED_SCALARS for each in node.inputs):
            found = self._composed(node)
            if found is not None:
                if type(node.spec) is not tuple:
                    (self._elements[node],) = found
                return found
        most = MOST_VIEWED_SCALARS if node.op.join is None else MOST_JOINED_SCALARS
        if type(node.spec) is tuple or not 0 < node.size <= most:
            raise NotTiny
        self._elements[node] = numbers = self._one(node)
        return [numbers]

    def _composed(self, node: Node) -> list[Ordinals] | None:
        assert node.op.composition is not None
        with scratch():
            made = node.op.composition(*node.inputs, **node.keywords)
            results = made if isinstance(made, tuple) else (made,)
            specs = node.spec if type(node.spec) is tuple else (node.spec,)
            pairs = zip(results, specs, strict=True)
            if any(one is None or one.spec is not of for one, of in pairs):
                return None
            before = self._loops
            for one in topological(results, stop={*self._operands, *self._elements}):
                if one.op is node.op:
                    # A library call with other operands.
                    raise NotTiny
                if one not in self._operands and one not in self._elements:
                    self._add(one)
        # Most of its ops share a loop.
        self._loops = before + -(-(self._loops - before) // 2)
        return [self._of(one, one.shape) for one in results]

    def _one(self, node: Node) -> Ordinals:
        op = node.op
        if op is OPERATORS.full:
            return self._constant(node, node.shape)
        if is_table(node):
            values = np.asarray(op.numpy(**node.keywords), node.dtype)
            return [self._literal(value, node.dtype) for value in values.ravel().tolist()]
        if is_strided_view(node):
            return self._viewed(node)
        if op.transparent and op.elementwise:
            return self._of(node.inputs[0], node.shape)
        if op.labels is not None:
            return self._contracted(node)
        if not self._lowers(node):
            raise NotTiny
        if node.size > MOST_COMPUTED_SCALARS and op.join is None:
            raise NotTiny
        if op.copies is not None:
            return self._moved(node)
        self._loops += 1
        if op.scan is not None:
            return self._scanned(node, op.scan)
        if op.reduction is not None:
            return self._reduced(node, op.reduction)
        self._count(node, 1 if op.function is None else FUNCTION_STEPS)
        code = code_of(node.dtype)
        operands = [self._of(parent, node.shape) for parent in node.inputs]
        return [
            self._step(Apply(op, node.params, arguments, code))
            for arguments in zip(*operands, strict=True)
        ]

    def _viewed(self, node: Node) -> Ordinals:
        (parent,) = node.inputs
        if node.op.view is View.RESHAPE:
            return self._of(parent, parent.shape)
        found = viewed(node, whole(parent))
        if found is None:
            raise NotTiny
        return self._at(parent, positions(found.shape, found.strides, found.offset))

    def _reduced(self, node: Node, accumulation: Accumulation) -> Ordinals:
        (parent,), code = node.inputs, code_of(node.dtype)
        if parent.size > MOST_COMPUTED_SCALARS:
            raise NotTiny
        self._count(parent, 1)
        numbers = self._of(parent, parent.shape)
        compared = code_of(parent.dtype) if accumulation.gives_positions else ""
        if not compared:
            numbers = self._cast(numbers, parent.dtype, node.dtype)
        return [
            self._step(Combine(accumulation, compared, tuple([numbers[at] for at in line]), code))
            for line in lines(parent.shape, reduced_axes(node))
        ]

    def _contracted(self, node: Node) -> Ordinals:
        """A sum of products of elements."""
        assert node.op.labels is not None
        if any(parent.size == 0 for parent in node.inputs):
            raise NotTiny
        terms, result = node.op.labels(node)
        sizes: dict[str, int] = {}
        for labels, parent in zip(terms, node.inputs, strict=True):
            for label, n in zip(labels, parent.shape, strict=True):
                sizes[label] = max(n, sizes.get(label, 1))
        every = (*result, *[label for label in sizes if label not in result])
        space = tuple(sizes[label] for label in every)
        if not 0 < math.prod(space) <= MOST_SCALAR_PRODUCTS or node.dtype.kind == "b":
            raise NotTiny
        operands = []
        for labels, parent in zip(terms, node.inputs, strict=True):
            steps = dict(zip(labels, whole(parent).stretched(parent.shape), strict=True))
            strides = tuple(steps.get(label, 0) for label in every)
            operands.append(self._at(parent, positions(space, strides, 0)))
        code, depth = code_of(node.dtype), math.prod(space[len(result) :])
        products = [
            self._step(Apply(OPERATORS.multiply, (), pair, code))
            for pair in zip(*operands, strict=True)
        ]
        found = []
        for start in range(0, len(products), depth):
            total = products[start]
            for number in products[start + 1 : start + depth]:
                total = self._step(Apply(OPERATORS.add, (), (total, number), code))
            found.append(total)
        self._loops += LOOPS_PER_LIBRARY_PRODUCT
        self._cost += 2 * len(products)
        self._vector_cost += 2 * len(products) / ESTIMATED_VECTOR
        return found

    def _scanned(self, node: Node, accumulation: Accumulation) -> Ordinals:
        axis, reverse = node.params
        code = code_of(node.dtype)
        self._count(node, 1)
        operands = [
            self._cast(self._of(parent, node.shape), parent.dtype, node.dtype)
            for parent in node.inputs
        ]
        first = self._literal(COMBINATIONS[accumulation].identity(node.dtype), node.dtype)
        found = [0] * node.size
        for line in lines(node.shape, (axis,)):
            state = first
            for at in reversed(line) if reverse else line:
                arguments = (state, *[each[at] for each in operands])
                found[at] = state = self._step(Follow(accumulation, arguments, code))
        return found

    def _moved(self, node: Node) -> Ordinals:
        """Elements that copies bring to their places, in the order of the copies."""
        assert node.op.copies is not None
        if any(parent.size == 0 for parent in node.inputs):
            raise NotTiny
        copies: list[Piece] | None = node.op.copies(
            node, lambda each: None if each.op is OPERATORS.full else whole(each)
        )
        if copies is None:
            raise NotTiny
        self._loops += len(copies)
        found = [0] * node.size
        code = code_of(node.dtype)
        for piece in copies:
            if math.prod(piece.shape) > MOST_COMPUTED_SCALARS:
                raise NotTiny
            targets = self._places(piece.shape, piece.target, piece.start, piece.writes)
            for target, number in zip(targets, self._source(piece), strict=True):
                if piece.adds:
                    self._cost += 1
                    arguments = (found[target], number)
                    number = self._step(Combine(Accumulation.SUM, "", arguments, code))
                found[target] = number
        return found

    def _source(self, piece: Piece) -> Ordinals:
        if piece.strides is None:
            return self._constant(piece.source, piece.shape)
        places = self._places(piece.shape, piece.strides, piece.offset, piece.reads)
        return self._at(piece.source, places)

    def _places(
        self, shape: Shape, strides: Strides, start: int, indices: Iterable[Index]
    ) -> Ordinals:
        """Places in an array, moved by positions that are known."""
        found = positions(shape, strides, start)
        for index in indices:
            if not is_table(index.positions):
                raise NotTiny
            known = np.asarray(index.positions.op.numpy(**index.positions.keywords)).ravel()
            at = known[list(positions(shape, index.strides, 0))]
            # As in kernels: a wrong position is the last one.
            inside = np.where((at < 0) | (at > index.last), index.last, at)
            found = [a + b for a, b in zip(found, (inside * index.step).tolist(), strict=True)]
        return found

    # Elements.

    def _of(self, node: Node, shape: Shape) -> Ordinals:
        """The elements of a node, broadcast to a shape."""
        if node.op is OPERATORS.full:
            return self._constant(node, shape)
        return self._at(node, positions(shape, whole(node).stretched(shape), 0))

    def _constant(self, node: Node, shape: Shape) -> Ordinals:
        _, value, dtype = node.params
        return [self._literal(value, dtype)] * math.prod(shape)

    def _at(self, node: Node, places: Ordinals) -> Ordinals:
        """Elements of a node by their places."""
        operand = self._operands.get(node)
        if operand is not None:
            reads = self._reads
            return [reads.setdefault((operand, place), -1 - len(reads)) for place in places]
        if node not in self._elements:
            self._add(node)  # a table
        elements = self._elements[node]
        return [elements[place] for place in places]

    # Steps.

    def _step(self, step: Computed | Literal) -> int:
        found = self._number.get(step)
        if found is None:
            found = self._number[step] = len(self._steps)
            self._steps.append(step)
        return found

    def _literal(self, value: complex, dtype: DType) -> int:
        return self._step(Literal(np.array(value, dtype).tobytes(), code_of(dtype)))

    def _cast(self, numbers: Ordinals, old: DType, new: DType) -> Ordinals:
        if old == new:
            return numbers
        code = code_of(new)
        return [self._step(Apply(CAST, (new,), (each,), code)) for each in numbers]

    def _count(self, node: Node, weight: int) -> None:
        """Count steps for all elements of a node."""
        weight *= 2 if node.dtype.kind == "c" else 1
        self._cost += weight * node.size
        self._vector_cost += weight * -(-node.size // ESTIMATED_VECTOR)
