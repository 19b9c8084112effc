"""Chunks: a derivative whose intermediates do not fit in memory, some seeds at a time.

One program gives the products with seeds number `offset` to `offset` + c, and `offset` is an input:
all chunks run the same plan, and so do all later calls. The forward pass, which depends on no seed,
is computed once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

from gradtape.autodiff.jacobian import either_way, fewer_seeds, jacobian_dtype, products
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.seeded import Seeded, numbered
from gradtape.autodiff.window import Window
from gradtape.compiler.machine_limits import parse_bytes, physical_memory
from gradtape.config import ESTIMATED_SEEDS, HELD_VALUE_SHARE, JACOBIAN_MEMORY_SHARE, variable
from gradtape.dtypes import Array
from gradtape.ir import PICK, Fact, Node, dependents, of_structure, placeholder, spec, user_line
from gradtape.ir.program import Program, program
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.elementwise.arithmetic import equal
from gradtape.ops.families.casting import cast
from gradtape.progress import Progress
from gradtape.records import dataclass
from gradtape.runtime.bound_plans import BoundPlan, bind, plan_settings
from gradtape.runtime.buffer_pool import allocate
from gradtape.runtime.program_memory import intermediate_bytes, total_bytes
from gradtape.trace import Recording, Trace, Value, state


@dataclass(frozen=True)
class Limits:
    """The limits that a user sets: a number of seeds at a time, or a number of bytes."""

    chunk_size: int | None = None
    memory_budget: int | None = None

    @property
    def budget(self) -> int:
        """The number of bytes that intermediates may take."""
        return default_budget() if self.memory_budget is None else self.memory_budget


UNLIMITED = Limits()


def limits(name: str, chunk_size: object, memory_budget: object) -> Limits:
    """The limits that a user gave, checked."""
    if chunk_size is None and memory_budget is None:
        return UNLIMITED
    if isinstance(chunk_size, bool) or (
        chunk_size is not None and (not isinstance(chunk_size, Integral) or chunk_size < 1)
    ):
        raise ValueError(
            f"{name}: chunk_size={chunk_size!r} is not a number of seeds. Use 1 or more, or None."
        )
    if isinstance(memory_budget, str):
        memory_budget = parse_bytes(f"{name}: memory_budget=", memory_budget, "64M")
    if isinstance(memory_budget, bool) or (
        memory_budget is not None and not isinstance(memory_budget, Real)
    ):
        raise TypeError(
            f"{name}: memory_budget={memory_budget!r} is not a number of bytes. Use an int, or a "
            'string such as "512M".'
        )
    if memory_budget is not None and (memory_budget < 0 or math.isnan(memory_budget)):
        raise ValueError(
            f"{name}: memory_budget={memory_budget!r} is less than nothing. Give a number of bytes."
        )
    return Limits(
        None if chunk_size is None else int(chunk_size),
        None if memory_budget is None else int(float(memory_budget)),
    )


@functools.cache
def default_budget() -> int:
    """GRADTAPE_JACOBIAN_BUDGET, or an eighth of the memory of the machine or the container."""
    text = variable("JACOBIAN_BUDGET")
    if text:
        return parse_bytes("GRADTAPE_JACOBIAN_BUDGET=", text, "64M")
    return physical_memory() // JACOBIAN_MEMORY_SHARE


# The products of a derivative with a batch of seeds; None if nothing connects the two.
ProductWith = Callable[[Seeded, int], Node | None]


@dataclass(frozen=True)
class Seeds:
    """The seeds of one mode: seed number k is 1 at the elements of number k."""

    like: Node
    count: int
    product: ProductWith
    # The number of each element, and its value if it is an input of the plan.
    numbers: Node
    given: Mapping[Node, Value]

    def products(self, count: int, offset: Node | None = None) -> Node | None:
        """The products with `count` seeds along a new axis 0."""
        chosen = numbered(0, count) if offset is None else numbered(0, count) + offset
        # Comparing costs less than reading seeds.
        column = reshape_node(chosen, (count, *(1,) * self.like.ndim))
        start = Seeded(cast(equal(self.numbers, column), self.like.dtype), (0,), ())
        return self.product(start, count)


@dataclass(frozen=True)
class SeedChunks:
    """The plan of one mode for `count` seeds at a time; `before` computes the forward pass."""

    seeds: Seeds
    count: int
    offset: Node
    before: BoundPlan
    bound: BoundPlan

    def run(self, recording: Recording, title: str) -> Iterator[tuple[int, Array]]:
        """The number of the first seed of each chunk, and the products with its seeds."""
        known: dict[Node, Any] = dict(self.seeds.given)
        contents = self.before.contents(recording, known)
        pairs = zip(self.before.outputs, contents, strict=True)
        known.update((node, Value(content, node.spec)) for node, content in pairs)
        total = self.seeds.count
        with Progress(title, total) as progress:
            for start in range(0, total, self.count):
                # The last chunk ends with the last seed, and may compute some seeds again.
                first = min(start, total - self.count)
                (part,) = self.bound.arrays(recording, {**known, self.offset: first})
                yield first, part.reshape(self.count, -1)
                progress.update(first + self.count)


def seed_chunks(recording: Recording, seeds: Seeds, wanted: Limits) -> SeedChunks | None:
    """The plan for as many seeds at a time as the limits allow."""
    count = wanted.chunk_size
    if count is None:
        tried = min(ESTIMATED_SEEDS, seeds.count)
        found = _part(recording, seeds, tried, wanted)
        if found is None:
            return None
        # The output of a chunk is copied into the result: it counts as an intermediate.
        one = intermediate_bytes(found.bound.plan.program) + found.bound.outputs[0].spec.nbytes
        count = wanted.budget * tried // max(1, one)
    return _part(recording, seeds, max(1, min(count, seeds.count)), wanted)


def _part(recording: Recording, seeds: Seeds, count: int, wanted: Limits) -> SeedChunks | None:
    """The plan for `count` seeds."""
    offset = placeholder(spec((), numbered(0, 1).dtype))
    found = seeds.products(count, offset)
    if found is None:
        return None
    steps = program([found], recording.values.keys())
    held = frontier(recording, steps, offset, wanted.budget)
    before = [node for node in held if type(node.spec) is not tuple]
    plans = bind(recording, before), bind(recording, [found], before)
    return SeedChunks(seeds, count, offset, *plans)


@dataclass(frozen=True)
class DenseChunks:
    """A dense Jacobian in chunks of its rows (`reverse`) or columns (`forward`)."""

    way: str
    target: Node
    source: Node
    chunks: SeedChunks

    def run(self, recording: Recording, title: str = "jacobian") -> Value:
        """The whole Jacobian, computed now; progress is shown under the title."""
        of = spec(self.target.shape + self.source.shape, jacobian_dtype(self.target, self.source))
        buffer = allocate(of.nbytes)
        whole = buffer.array((self.target.size, self.source.size), of.dtype)
        rows = whole if self.way == "reverse" else whole.T
        for first, part in self.chunks.run(recording, title):
            rows[first : first + len(part)] = part
        return Value(buffer, of)


def chunks_for(
    window: Window, target: Node, source: Node, mode: str, whole: Node, wanted: Limits
) -> DenseChunks | None:
    """The plan that computes the Jacobian `whole` in chunks; None if not needed or not possible.

    Chunks give numbers. An outer tape, a capture or a trace needs the graph.
    """
    recording = window.recording
    if wanted.chunk_size is None and _total(recording, whole) <= wanted.budget:
        return None
    if state.tapes or needs_graph(recording):
        return None

    def derive(rules: PythonRules) -> DenseChunks | None:
        steps = program([whole], recording.values.keys())
        if wanted.chunk_size is None and intermediate_bytes(steps) <= wanted.budget:
            return None
        return either_way(fewer_seeds(target, source, mode), mode, partial(one, rules))

    def one(rules: PythonRules, way: str) -> DenseChunks | None:
        like = source if way == "forward" else target
        if like.size <= 1:
            return None
        request = window.request(source, "auto", rules)

        def product(start: Seeded, count: int) -> Node | None:
            return products(target, request, way, start, (count,))

        numbers = reshape_node(numbered(0, like.size), like.shape)
        found = seed_chunks(recording, Seeds(like, like.size, product, numbers, {}), wanted)
        return None if found is None else DenseChunks(way, target, source, found)

    budget = None if wanted.chunk_size is not None else wanted.budget
    settings = (wanted.chunk_size, budget, *plan_settings(recording))
    key = Fact("chunks", (target, source, mode), (), settings)
    return window.remembered(key, derive)


def fits(recording: Recording, target: Node, source: Node, whole: Node) -> bool:
    """Whether the Jacobian `whole` needs no chunks by default, whatever else is recorded."""
    check_memory(target, source)
    return _total(recording, whole) <= default_budget()


def check_memory(target: Node, source: Node, notes: Sequence[str] = ()) -> None:
    """Raise a MemoryError for a dense matrix that is larger than the memory of the machine."""
    size = target.size * source.size * jacobian_dtype(target, source).itemsize
    if size <= physical_memory():
        return
    because = f" Its zeros are not known: {'; '.join(notes)}." if notes else ""
    op = (target.inputs[0] if target.op is PICK else target).op.name
    raise MemoryError(
        f"jacobian: the dense matrix of shape {(target.size, source.size)} of {op} takes {size} "
        f"bytes, more than the {physical_memory()} of this machine (requested at {user_line()})."
        f"{because} Use sparse=True or give a pattern, or use products (vjp, jvp)."
    )


def needs_graph(recording: Recording) -> bool:
    """Whether a capture or a trace is recording: numbers will not do for it."""
    return any(one.capturing or isinstance(one, Trace) for one in (recording, state.recording))


def _total(recording: Recording, whole: Node) -> int:
    key = of_structure("bytes", whole)
    return recording.table.derived.once(key, lambda: total_bytes(program([whole])))


def frontier(recording: Recording, steps: Program, offset: Node, budget: int) -> list[Node]:
    """The nodes that chunks read and that depend on no seed: they are computed once and held.

    Views are made again in every chunk, because held they would be copies. So are large values that
    are cheap to compute.
    """
    moving = dependents((*steps.inputs, *steps.nodes), {offset})
    # From the results back: the readers of a node are decided before the node itself.
    for node in reversed(steps.nodes):
        if node in moving:
            for parent in node.inputs:
                if parent in moving or parent in recording.values or not parent.inputs:
                    continue
                several = type(parent.spec) is tuple
                cheap = not several and not parent.op.expensive
                if parent.op.view or (cheap and parent.spec.nbytes > budget // HELD_VALUE_SHARE):
                    moving.add(parent)
    found = dict.fromkeys(
        parent
        for node in steps.nodes
        if node in moving
        for parent in node.inputs
        if parent not in moving and parent.inputs and parent not in recording.values
    )
    return list(found)
