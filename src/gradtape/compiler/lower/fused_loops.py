"""Lower: a fused loop becomes a kernel, which has no sizes, and the kernel's arguments."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from gradtape.caches import remembered
from gradtape.compiler.emit.builder import Builder
from gradtape.compiler.lower.arguments import (
    Entry,
    Lowered,
    SpaceAxis,
    access_of,
    lowered,
    merge_axes,
    target_access,
    walks_of,
)
from gradtape.compiler.lower.copy_kernels import lower_copies
from gradtape.compiler.lower.kernel import (
    CHUNK,
    SAME,
    UNIT,
    Kernel,
    KernelArray,
    KernelLayout,
    KernelStep,
    Reduce,
    Store,
    lane_count,
    scalar_type,
)
from gradtape.compiler.passes.scalar_steps import code_of
from gradtape.compiler.passes.units import FusedLoop, LoopContent
from gradtape.config import LONG_KEPT_AXIS, SHORT_REDUCED_ROW
from gradtape.dtypes import DType
from gradtape.ir import Accumulation, Node, NotLowered, Op, Shape
from gradtape.ops.families.casting import CAST
from gradtape.ops.families.lowering import COMBINATIONS
from gradtape.ops.families.strides import Access, Strides, is_strided_view, row_major
from gradtape.ops.families.vector_code import Vector
from gradtape.records import dataclass


def lower_scan(node: Node, access: dict[Node, Access], bits: int) -> Lowered:
    """The kernel of a scan that is alone in its loop.

    One axis is walked in order and another is vectorised, whichever lies innermost.
    """
    axis, reverse = node.params
    sources = [access[parent] for parent in node.inputs]
    strides = [source.strides for source in sources] + [row_major(node.shape)]
    length = node.shape[axis]
    # In reverse, each array starts at its last element along the axis.
    ends = [(length - 1) * steps[axis] if reverse else 0 for steps in strides]
    sign = -1 if reverse else 1
    kept: list[SpaceAxis] = [
        (n, False, [steps[at] for steps in strides])
        for at, n in enumerate(node.shape)
        if at != axis and n != 1
    ]
    kept = merge_axes(kept) or [(1, False, [1] * len(strides))]
    walked: SpaceAxis = (length, True, [sign * steps[axis] for steps in strides])
    axes = [*kept[:-1], walked, kept[-1]]
    walks = walks_of(axes, len(strides))
    kernel = _kernel(node, walks)
    owners = [*((source.base, source.offset) for source in sources), (node, 0)]
    dtypes = [*(parent.dtype for parent in node.inputs), node.dtype]
    entries: list[Entry] = [
        (owner, dtype.itemsize * (offset + end), tuple(dtype.itemsize * step for step in walk))
        for (owner, offset), dtype, end, walk in zip(owners, dtypes, ends, walks, strict=True)
    ]
    outermost = len(axes) > 2
    total, grain = (axes[0][0], 1) if outermost else (axes[-1][0], lane_count(kernel, bits))
    return lowered(kernel, axes, entries, total, grain)


def _kernel(node: Node, walks: list[list[int]]) -> Kernel:
    operands = tuple(
        KernelArray(code_of(parent.dtype), access_of(walk))
        for parent, walk in zip(node.inputs, walks, strict=False)
    )
    code = code_of(node.dtype)
    body: list[KernelStep] = []
    numbers = []
    for number, parent in enumerate(node.inputs):
        if parent.dtype != node.dtype:
            body.append(KernelStep(CAST, (node.dtype,), (number,), code))
            number = len(operands) + len(body) - 1
        numbers.append(number)
    assert node.op.scan is not None
    # A recurrence has a second operand, the factor; it comes first.
    factor = numbers[0] if numbers[1:] else -1
    reduction = Reduce(numbers[-1], node.op.scan, code, target_access(walks[-1]), factor=factor)
    return Kernel(KernelLayout.RUNNING, len(walks[0]), operands, tuple(body), (), (reduction,), 1)


@dataclass(frozen=True)
class ReadArray:
    """An array that a loop reads: the node whose memory holds it, and its strides over the space.

    Strides and offset are in elements.
    """

    node: Node
    dtype: DType
    strides: Strides
    offset: int


def fusible(node: Node) -> bool:
    """Whether a loop can compute a node; for a movement, whether a loop can copy it."""
    if is_strided_view(node) or node.op.copies is not None:
        return _plain(node.dtype)
    if node.op.scan is not None:
        return _plain(node.dtype) and node.size > 0
    if node.op.reduction is not None:
        # An empty extremum raises, and an empty sum is a constant: both are rare enough for NumPy.
        dtype, kinds = node.inputs[0].dtype, COMBINATIONS[node.op.reduction].kinds
        return _plain(node.dtype) and dtype.kind in kinds and node.inputs[0].size > 0
    if node.op.llvm is None or not node.op.elementwise or type(node.spec) is tuple:
        return False
    return _lowers(node.op, node.params, tuple(parent.dtype for parent in node.inputs), node.dtype)


def _plain(dtype: DType) -> bool:
    return dtype.kind in "biufc"


_known: dict[tuple[object, ...], bool] = {}


def _lowers(op: Op, params: tuple[object, ...], dtypes: tuple[DType, ...], result: DType) -> bool:
    """Whether the op's `llvm` rule accepts these dtypes: found by trying, and remembered."""
    key = (op, params, dtypes)
    found = _known.get(key)
    if found is None:
        try:
            values = [
                Vector(f"%x{n}", dtype, f"%y{n}" if dtype.kind == "c" else "")
                for n, dtype in enumerate(dtypes)
            ]
            for dtype in (*dtypes, result):
                scalar_type(dtype)
            assert op.llvm is not None
            # In loops, and in register code.
            made = [op.llvm(Builder(lanes), *values, **op.keywords(params)) for lanes in (4, 1)]
            found = all(value.dtype == result for value in made)
        except NotLowered:
            found = False
        if len(_known) > 10_000:
            _known.clear()
        _known[key] = found
    return found


def lower(
    loop: FusedLoop,
    access: dict[Node, Access],
    constants: set[Node],
    bits: int,
    streamed: Collection[Node] = (),
    steps: Mapping[Node, Strides] | None = None,
) -> list[Lowered]:
    """The kernels of a loop: one, unless a whole reduction needs more to combine its chunks.

    `streamed` nodes are results that nothing in the program reads, worth writing past the caches.
    `steps` are those of results that are not written to one run of memory, in elements.
    """
    if loop.pieces is not None:
        return lower_copies(loop.nodes[0], loop.pieces, access, bits)
    if loop.alone:
        return [lower_scan(loop.nodes[0], access, bits)]
    operands, numbers = ([], []) if loop.content is None else _numbered(loop, access)
    if loop.content is None or numbers != loop.content.numbers:
        loop.content = _content(loop, access, constants)
        operands, _ = _numbered(loop, access)
    content = loop.content
    nest = _Nest(loop, operands, content.stores, content.reductions, streamed, steps or {})
    return nest.kernels(content.body, bits)


def _numbered(loop: FusedLoop, access: dict[Node, Access]) -> tuple[list[ReadArray], list[int]]:
    """The arrays that a loop reads, each once, and the number of the array that each node is."""
    assert loop.content is not None
    operands: list[ReadArray] = []
    number: dict[tuple[Node, Strides, int], int] = {}
    numbers: list[int] = []
    for node in loop.content.reads:
        found = access[node]
        strides = found.stretched(loop.space)
        key = (found.base, strides, found.offset)
        at = number.get(key)
        if at is None:
            at = number[key] = len(operands)
            operands.append(ReadArray(found.base, node.spec.dtype, strides, found.offset))
        numbers.append(at)
    return operands, numbers


def _content(loop: FusedLoop, access: dict[Node, Access], constants: set[Node]) -> LoopContent:
    """The computation of a loop, as instructions on operands by number."""
    # Operands are numbered before the body, so they come first.
    reads = {
        parent: None
        for node in loop.nodes
        for parent in node.inputs
        if parent not in loop.pointwise and parent not in constants
    }
    loop.content = LoopContent(list(reads), [], (), [], [])
    operands, numbers = _numbered(loop, access)
    read = dict(zip(reads, numbers, strict=True))
    first = len(operands)
    inside: dict[Node, int] = {}
    body: list[KernelStep] = []

    def value_of(node: Node) -> int:
        found = inside.get(node)
        if found is None:
            found = read.get(node)
        if found is None:  # a constant
            _, value, dtype = node.params
            body.append(KernelStep(node.op, ((), value, dtype), (), code_of(dtype)))
            found = inside[node] = first + len(body) - 1
        return found

    stores: list[tuple[int, Node]] = []
    reductions: list[tuple[int, Node]] = []
    wanted = set(loop.outputs)
    for node in loop.nodes:
        if node in loop.copies:
            stores.append((value_of(node.inputs[0]), node))
            continue
        arguments = tuple([value_of(parent) for parent in node.inputs])
        if node.op.reduction is not None:
            source = arguments[0]
            if node.inputs[0].dtype != node.dtype and not node.op.reduction.gives_positions:
                body.append(KernelStep(CAST, (node.dtype,), (source,), code_of(node.dtype)))
                source = first + len(body) - 1
            reductions.append((source, node))
            continue
        body.append(KernelStep(node.op, node.params, arguments, code_of(node.dtype)))
        inside[node] = first + len(body) - 1
        if node in wanted:
            stores.append((inside[node], node))
    return LoopContent(list(reads), numbers, tuple(body), stores, reductions)


class _Nest:
    """Chooses axes and layout for one loop."""

    def __init__(
        self,
        loop: FusedLoop,
        operands: list[ReadArray],
        stores: list[tuple[int, Node]],
        reductions: list[tuple[int, Node]],
        streamed: Collection[Node],
        steps: Mapping[Node, Strides],
    ) -> None:
        self.loop = loop
        self.streamed = streamed
        self.operands = operands
        self.stores = stores
        self.reductions = reductions
        space = loop.space
        reduced = loop.axes or ()
        contiguous = row_major(space)
        strides = [entry.strides for entry in operands]
        strides += [steps.get(node, contiguous) for _, node in stores]
        strides += [_reduced_strides(space, reduced) for _ in reductions]
        axes = [
            (n, axis in reduced, [s[axis] for s in strides])
            for axis, n in enumerate(space)
            if n != 1
        ]
        # Positions count along reduced axes in their order: then these must not change places.
        positions = any(_accumulation(node).gives_positions for _, node in reductions)
        if reductions and (not positions or sum(axis[1] for axis in axes) < 2):
            # The axis with the shortest steps goes inside: transposed operands are read in order.
            read = len(operands) + len(stores)
            axes.sort(key=lambda axis: -sum(map(abs, axis[2][:read])))
        self.axes = merge_axes(axes)

    def kernels(self, body: tuple[KernelStep, ...], bits: int) -> list[Lowered]:
        """The kernels that compute the body over these axes."""
        roles = [reduced for _, reduced, _ in self.axes]
        count = sum(roles)
        if not self.reductions:
            # An axis of length 1 stands for no axis. Over a space without axes all that is read are
            # numbers: many of them go to a table, where an array each would take a pointer and a
            # masked load. Over any other space of one element the kernel is that of longer axes.
            read, step = len(self.operands), 1 if self.loop.space else 0
            axes = self.axes or [(1, False, [step] * read + [1] * (self._entries() - read))]
            return [self._lowered(KernelLayout.MAP, axes, body, bits)]
        if count == 0:  # All reduced axes have length 1: each result is its operand.
            axes = [*self.axes, (1, True, [0] * self._entries())]
            return [self._lowered(KernelLayout.ROWS, axes, body, bits)]
        if count == len(roles):
            return self._whole(self.axes, body, bits)
        reduced = [axis for axis in self.axes if axis[1]]
        kept = [axis for axis in self.axes if not axis[1]]
        if roles[-1] and not _are_short(reduced, kept[-1]):
            return [self._lowered(KernelLayout.ROWS, [*kept, *reduced], body, bits)]
        return [self._lowered(KernelLayout.COLUMNS, [*kept[:-1], *reduced, kept[-1]], body, bits)]

    def _entries(self) -> int:
        return len(self.operands) + len(self.stores) + len(self.reductions)

    def _whole(
        self, axes: list[SpaceAxis], body: tuple[KernelStep, ...], bits: int
    ) -> list[Lowered]:
        """All elements into one: chunks first, then the results of the chunks."""
        if not all(_accumulation(node).joins_results for _, node in self.reductions):
            # A chunk would have to pass on more than its result, as a value and its position.
            return [self._lowered(KernelLayout.ROWS, axes, body, bits)]
        first = self._lowered(KernelLayout.WHOLE, axes, body, bits)
        assert isinstance(first.kernel, Kernel)
        points = CHUNK * lane_count(first.kernel, bits)
        rows = max(1, points // math.prod(first.sizes[1:]))
        if len(axes) > 1:
            first.sizes = (*first.sizes, rows)
        chunks = -(-axes[0][0] // rows)
        first.total, first.grain = chunks, 1
        if chunks == 1:
            return [first]
        # Each chunk writes one partial result to scratch memory, which a second kernel combines.
        done = len(self.operands) + len(self.stores)
        kernels = [first]
        for position, (_, node) in enumerate(self.reductions):
            name = f"partial {position}"
            first.entries[done + position] = (name, chunks * node.dtype.itemsize, ())
            kernels += _combination(name, node, chunks, bits)
        return kernels

    def _known(self, kernel: Kernel) -> Kernel:
        """The kernel of another size of the same program, found without hashing its body."""
        assert self.loop.content is not None
        kernels = self.loop.content.kernels
        found = next((known for known in kernels if known == kernel), None)
        if found is None:
            kernels.append(kernel)
        return found or kernel

    def _lowered(
        self, layout: KernelLayout, axes: list[SpaceAxis], body: tuple[KernelStep, ...], bits: int
    ) -> Lowered:
        inner = len(axes) - 1
        walks = walks_of(axes, self._entries())
        operands = tuple(
            _operand(code_of(source.dtype), access_of(walks[position]))
            for position, source in enumerate(self.operands)
        )
        first = len(operands)
        stores = tuple(
            Store(
                value,
                KernelArray(code_of(node.dtype), target_access(walks[first + position])),
                # Every vector is aligned only if there is one axis.
                layout is KernelLayout.MAP and len(axes) == 1 and node in self.streamed,
            )
            for position, (value, node) in enumerate(self.stores)
        )
        first += len(stores)
        reductions = tuple(
            _reduce(value, node, target_access(walks[first + position]))
            for position, (value, node) in enumerate(self.reductions)
        )
        reduced = sum(axis[1] for axis in axes)
        kernel = self._known(Kernel(layout, len(axes), operands, body, stores, reductions, reduced))
        owners = [(source.node, source.dtype, source.offset) for source in self.operands]
        owners += [(node, node.dtype, 0) for _, node in self.stores]
        owners += [(node, node.dtype, 0) for _, node in self.reductions]
        entries: list[Entry] = [
            (node, offset * dtype.itemsize, tuple(s * dtype.itemsize for s in walks[position]))
            for position, (node, dtype, offset) in enumerate(owners)
        ]
        outer = inner > reduced if layout is KernelLayout.COLUMNS else inner > 0
        total, grain = (axes[0][0], 1) if outer else (axes[inner][0], 8 * lane_count(kernel, bits))
        if reduced == len(axes):  # There is nothing to divide; `_whole` divides chunks.
            total = grain = 1
        return lowered(kernel, axes, entries, total, grain)


def _are_short(reduced: list[SpaceAxis], kept: SpaceAxis) -> bool:
    """Whether rows are too short for vectors: then the lanes go along the axis that is kept."""
    return math.prod(axis[0] for axis in reduced) <= SHORT_REDUCED_ROW and kept[0] >= LONG_KEPT_AXIS


@remembered(256)
def _operand(code: str, access: str) -> KernelArray:
    return KernelArray(code, access)


def _accumulation(node: Node) -> Accumulation:
    assert node.op.reduction is not None
    return node.op.reduction


def _reduce(value: int, node: Node, access: str) -> Reduce:
    accumulation = _accumulation(node)
    compared = code_of(node.inputs[0].dtype) if accumulation.gives_positions else ""
    return Reduce(value, accumulation, code_of(node.dtype), access, compared)


def _combination(name: str, node: Node, count: int, bits: int) -> list[Lowered]:
    """The kernels that combine partial results that lie one after the other; nearly always one."""
    code = code_of(node.dtype)
    reduction = Reduce(0, _accumulation(node), code, SAME)
    kernel = Kernel(KernelLayout.WHOLE, 1, (KernelArray(code, UNIT),), (), (), (reduction,), 1)
    size = node.dtype.itemsize
    chunks = -(-count // (CHUNK * lane_count(kernel, bits)))
    if chunks == 1:
        return [Lowered(kernel, (count,), [(name, 0, (size,)), (node, 0, (0,))], 1, 1, count)]
    fewer = f"{name} again"
    entries: list[Entry] = [(name, 0, (size,)), (fewer, chunks * size, ())]
    first = Lowered(kernel, (count,), entries, chunks, 1, count)
    return [first, *_combination(fewer, node, chunks, bits)]


def _reduced_strides(space: Shape, axes: tuple[int, ...]) -> Strides:
    kept = [n for axis, n in enumerate(space) if axis not in axes]
    strides = iter(row_major(tuple(kept)))
    return tuple(0 if axis in axes else next(strides) for axis in range(len(space)))
