"""Chunks: a dense Jacobian whose intermediates do not fit in memory, some seeds at a time.

One program gives the products with seeds number `offset` to `offset` + c, and `offset` is an input:
all chunks run the same plan, and so do all later calls. The forward pass, which depends on no seed,
is computed once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real

from gradtape.autodiff.jacobian import either_way, fewer_seeds, jacobian_dtype, products
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.seeded import Seeded, numbered
from gradtape.autodiff.window import Window
from gradtape.compiler.machine_limits import parse_bytes, physical_memory
from gradtape.config import variable
from gradtape.ir import PICK, Fact, Node, dependents, of_structure, placeholder, spec, user_line
from gradtape.ir.program import Program, program
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.elementwise.arithmetic import equal
from gradtape.ops.families.casting import cast
from gradtape.progress import Progress
from gradtape.records import dataclass
from gradtape.runtime.bound_plans import BoundPlan, bind, plan_settings
from gradtape.runtime.buffer_pool import allocate
from gradtape.runtime.footprint import intermediate_bytes, total_bytes
from gradtape.trace import Recording, Trace, Value, state

# Intermediates may take this fraction of the machine's memory by default: 1 / SHARE.
SHARE = 8
# A cheap value larger than this fraction of the budget, 1 / HELD, is recomputed in every chunk.
HELD = 16
# The number of seeds of the program from which the memory per seed is estimated.
PROBE = 8


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
    return physical_memory() // SHARE


@dataclass(frozen=True)
class Chunks:
    """A Jacobian as a plan for `count` seeds at a time; `before` computes the forward pass."""

    way: str
    count: int
    target: Node
    source: Node
    offset: Node
    before: BoundPlan
    bound: BoundPlan

    def run(self, recording: Recording, title: str = "jacobian") -> Value:
        """The whole Jacobian, computed now; progress is shown under the title."""
        of = spec(self.target.shape + self.source.shape, jacobian_dtype(self.target, self.source))
        buffer = allocate(of.nbytes)
        whole = buffer.array((self.target.size, self.source.size), of.dtype)
        seeds = whole.shape[0 if self.way == "reverse" else 1]
        known = self._known(recording)
        with Progress(title, seeds) as progress:
            for start in range(0, seeds, self.count):
                # The last chunk ends with the last seed, and may compute some seeds again.
                first = min(start, seeds - self.count)
                (part,) = self.bound.arrays(recording, {**known, self.offset: first})
                rows = slice(first, first + self.count)
                if self.way == "reverse":
                    whole[rows] = part.reshape(self.count, -1)
                else:
                    whole[:, rows] = part.reshape(self.count, -1).T
                progress.update(first + self.count)
        return Value(buffer, of)

    def _known(self, recording: Recording) -> Mapping[Node, Value]:
        contents = self.before.contents(recording)
        pairs = zip(self.before.outputs, contents, strict=True)
        return {node: Value(content, node.spec) for node, content in pairs}


def chunks_for(
    window: Window, target: Node, source: Node, mode: str, whole: Node, wanted: Limits
) -> Chunks | None:
    """The plan that computes the Jacobian `whole` in chunks; None if not needed or not possible.

    Chunks give numbers. An outer tape, a capture or a trace needs the graph.
    """
    recording = window.recording
    if wanted.chunk_size is None and _total(recording, whole) <= wanted.budget:
        return None
    if state.tapes or needs_graph(recording):
        return None

    def derive(rules: PythonRules) -> Chunks | None:
        steps = program([whole], recording.values.keys())
        if wanted.chunk_size is None and intermediate_bytes(steps) <= wanted.budget:
            return None
        return _chunks(window, rules, target, source, mode, wanted)

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
        f"bytes, more than the {physical_memory()} of this machine (asked for at {user_line()})."
        f"{because} Use sparse=True or give a pattern, or use products (vjp, jvp)."
    )


def needs_graph(recording: Recording) -> bool:
    """Whether a capture or a trace is recording: numbers will not do for it."""
    return any(one.capturing or isinstance(one, Trace) for one in (recording, state.recording))


def _total(recording: Recording, whole: Node) -> int:
    key = of_structure("bytes", whole)
    return recording.table.derived.once(key, lambda: total_bytes(program([whole])))


def _chunks(
    window: Window, rules: PythonRules, target: Node, source: Node, mode: str, wanted: Limits
) -> Chunks | None:
    def one(way: str) -> Chunks | None:
        return _chunks_one_way(window, rules, target, source, way, wanted)

    return either_way(fewer_seeds(target, source, mode), mode, one)


def _chunks_one_way(
    window: Window, rules: PythonRules, target: Node, source: Node, way: str, wanted: Limits
) -> Chunks | None:
    seeds = (source if way == "forward" else target).size
    if seeds <= 1:
        return None
    count = wanted.chunk_size
    if count is None:
        tried = min(PROBE, seeds)
        found = _part(window, rules, target, source, way, tried, wanted)
        if found is None:
            return None
        # The output of a chunk is copied into the result: it counts as an intermediate.
        one = intermediate_bytes(found.bound.plan.program) + found.bound.outputs[0].spec.nbytes
        count = wanted.budget * tried // max(1, one)
    return _part(window, rules, target, source, way, max(1, min(count, seeds)), wanted)


def _part(
    window: Window,
    rules: PythonRules,
    target: Node,
    source: Node,
    way: str,
    count: int,
    wanted: Limits,
) -> Chunks | None:
    """The plan for `count` seeds."""
    like = source if way == "forward" else target
    numbers = numbered(0, like.size)
    offset = placeholder(spec((), numbers.dtype))
    column = reshape_node(numbered(0, count) + offset, (count, *(1,) * like.ndim))
    chosen = equal(reshape_node(numbers, like.shape), column)
    start = Seeded(cast(chosen, like.dtype), (0,), ())
    found = products(
        target, window.question(source, mode="auto", rules=rules), way, start, (count,)
    )
    if found is None:
        return None
    recording = window.recording
    steps = program([found], recording.values.keys())
    held = frontier(recording, steps, offset, wanted.budget)
    before = [node for node in held if type(node.spec) is not tuple]
    return Chunks(
        way,
        count,
        target,
        source,
        offset,
        bind(recording, before),
        bind(recording, [found], before),
    )


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
                if parent.op.view or (cheap and parent.spec.nbytes > budget // HELD):
                    moving.add(parent)
    found = dict.fromkeys(
        parent
        for node in steps.nodes
        if node in moving
        for parent in node.inputs
        if parent not in moving and parent.inputs and parent not in recording.values
    )
    return list(found)
