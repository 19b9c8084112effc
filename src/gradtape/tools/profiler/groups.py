"""Groups: the times that native code counted, by fused loop and library call, with their lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradtape.compiler.passes import for_loops, optimize
from gradtape.compiler.passes.routine_op import ROUTINE, body_of
from gradtape.compiler.passes.routines import with_routines
from gradtape.compiler.passes.units import Call, Fused, Unit
from gradtape.ir import Node, Program
from gradtape.ir.origin import LINES, Recorded, SourcePlace, following_passes
from gradtape.ir.program import sealed
from gradtape.runtime.tiers import for_numpy
from gradtape.tools.profiler import costs
from gradtape.tools.profiler.collector import NumpyRuns, ObservedPlan

UNKNOWN = Recorded(None)


@dataclass
class Group:
    """One fused loop, product or library call of a plan, and what its runs took together."""

    plan: int
    number: int
    kind: str
    title: str
    dtype: str
    space: tuple[int, ...]
    runs: int
    seconds: float
    # Of one run.
    flops: float
    nbytes: int
    parallel: bool
    # Average seconds with the team and without, where both were measured.
    shared: float | None = None
    serial: float | None = None
    # The share of each line, forward and backward apart.
    shares: dict[tuple[SourcePlace | None, bool], float] = field(default_factory=dict)
    # The share of each layer (`named_scope`) in each of these.
    layers: dict[tuple[SourcePlace | None, bool, str | None], float] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    # Groups of the same plan whose results it reads.
    reads: list[int] = field(default_factory=list)
    keeps: int = 0
    # The names of ops that it calls in Python, in a compiled plan.
    python_ops: frozenset[str] = frozenset()

    @property
    def place(self) -> SourcePlace | None:
        """The line that most of its time belongs to."""
        return max(self.shares, key=lambda key: self.shares[key])[0]

    @property
    def backward(self) -> float:
        """The share of its time that belongs to derivatives."""
        return sum(share for (_, backward), share in self.shares.items() if backward)


@dataclass
class PlanRecord:
    """One plan that ran."""

    plan: Any
    tier: str
    runs: int
    seconds: float
    ops: int
    groups: list[Group]
    binding: ObservedPlan | None
    # The program that its groups compute, and the line of each node.
    program: Program | None = None
    lines: Mapping[Node, Recorded] = field(default_factory=dict)
    # The place in the list of plans, the longest first.
    number: int = 0
    owner: str | None = None
    owner_place: SourcePlace | None = None
    arena: int = 0
    addresses: tuple[int, ...] = ()
    # Inputs that are the same in every call of the function, by position; None if not known.
    fixed: set[int] | None = None

    def places_of(self, nodes: Sequence[Node]) -> set[SourcePlace | None]:
        """The lines of some nodes."""
        return {self.lines.get(node, UNKNOWN).place for node in nodes}

    def is_backward(self, node: Node) -> bool:
        """Whether a node belongs to a derivative."""
        return self.lines.get(node, UNKNOWN).backward

    @property
    def place(self) -> SourcePlace | None:
        """The line whose flush made the plan, or the function that it belongs to."""
        if self.owner_place is not None or self.binding is None:
            return self.owner_place
        return self.binding.place


# The counters of a plan: of its runs, and of each instruction.
Baseline = tuple[tuple[int, int, int, int], Sequence[tuple[int, int]]]


def baseline(compiled: Any) -> Baseline:
    """The counters of a plan now."""
    stream = compiled.stretch.instructions
    return stream.counted(), stream.times()


def recorded_lines(binding: ObservedPlan, plan: Any) -> dict[Node, Recorded]:
    """The line of each node of a plan's programs, by following the passes once more.

    A plan is shared by all programs of its structure, so its nodes are those of whichever program
    came first. The passes are deterministic: run on this program, they give the same nodes in the
    same order, with the lines of this one.
    """
    with following_passes():
        program = sealed(binding.program)
        found: dict[Node, Recorded] = {}
        if plan.in_numpy is not None:
            found |= _aligned(for_numpy(program, plan.fast, plan.work()), plan.in_numpy.program)
        if plan.compiled is not None:
            real = plan.compiled.lowered.program
            made = optimize(program, plan.fast)
            if any(node.op is ROUTINE for node in real.nodes):
                # Here because it loads the compiler.
                from gradtape.compiler.lower.fused_loops import fusible

                made = with_routines(made, fusible)
            found |= _aligned(for_loops(made), real)
        return found


def _aligned(made: Program, real: Program) -> dict[Node, Recorded]:
    if [node.op for node in made.nodes] == [node.op for node in real.nodes]:
        pairs = list(zip(made.nodes, real.nodes, strict=True))
    else:
        # Copies of operands may be missing in the one: both are gone through in step.
        pairs, rest = [], iter(made.nodes)
        current = next(rest, None)
        for node in real.nodes:
            if current is not None and current.op is node.op and current.spec == node.spec:
                pairs.append((current, node))
                current = next(rest, None)
    found = {node: LINES.found.get(old, UNKNOWN) for old, node in pairs}
    for old, node in pairs:
        if node.op is ROUTINE:
            found |= _aligned(body_of(old), body_of(node))
    return found


def compiled_record(
    compiled: Any,
    since: Baseline | None,
    rate: float,
    binding: ObservedPlan | None,
    plan: Any,
) -> PlanRecord | None:
    """The work of a compiled plan since the profile began; None if it did not run."""
    fused: Fused = compiled.lowered.fused
    seconds = [0.0] * len(fused.units)
    pairs: dict[int, tuple[float | None, float | None]] = {}
    stretch, units = compiled.stretch, compiled.lowered.item_units
    counted, times = baseline(compiled)
    if since is not None:
        runs, cycles, serial, _ = (new - old for new, old in zip(counted, since[0], strict=True))
        times = [(a - c, b - d) for (a, b), (c, d) in zip(times, since[1], strict=True)]
    else:
        runs, cycles, serial, _ = counted
    if not runs:
        return None
    own = times[stretch.preparing : stretch.preparing + len(units)]
    for unit, (shared_cycles, serial_cycles) in zip(units, own, strict=True):
        seconds[unit] += (shared_cycles + serial_cycles) / rate
        if serial and runs > serial:
            one, other = pairs.get(unit, (0.0, 0.0))
            pairs[unit] = (
                (one or 0.0) + shared_cycles / rate / (runs - serial),
                (other or 0.0) + serial_cycles / rate / serial,
            )
    lines = {} if binding is None else recorded_lines(binding, plan)
    groups = [
        _group(index, unit, fused, runs, spent, lines)
        for index, (unit, spent) in enumerate(zip(fused.units, seconds, strict=True))
    ]
    for index, group in enumerate(groups):
        group.parallel = stretch.parallel
        native = compiled.lowered.natives.get(group.nodes[0])
        group.python_ops = frozenset() if native is None else native.python_ops
        group.shared, group.serial = pairs.get(index, (None, None))
    _connect(groups, fused, compiled.lowered.program)
    return PlanRecord(
        plan,
        "compiled",
        runs,
        cycles / rate,
        len(compiled.program.nodes),
        groups,
        binding,
        compiled.lowered.program,
        lines,
        arena=compiled.arena_size,
        addresses=(stretch.instructions.address,),
    )


def _group(
    number: int,
    unit: Unit,
    fused: Fused,
    runs: int,
    seconds: float,
    lines: Mapping[Node, Recorded],
) -> Group:
    nodes = costs.unit_nodes(unit)
    shares: dict[tuple[SourcePlace | None, bool], float] = {}
    layers: dict[tuple[SourcePlace | None, bool, str | None], float] = {}
    for node, weight in costs.weights(unit).items():
        found = lines.get(node, UNKNOWN)
        key = (found.place, found.backward)
        shares[key] = shares.get(key, 0.0) + weight
        part = (*key, found.scope)
        layers[part] = layers.get(part, 0.0) + weight
    last = nodes[-1].spec if type(nodes[-1].spec) is not tuple else nodes[-1].spec[0]
    return Group(
        0,
        number,
        costs.kind(unit),
        costs.title(unit),
        str(last.dtype),
        tuple(getattr(unit, "space", last.shape)),
        runs,
        seconds,
        costs.unit_flops(unit),
        costs.unit_bytes(unit, fused),
        False,
        shares=shares,
        layers=layers,
        nodes=nodes,
    )


def _connect(groups: list[Group], fused: Fused, program: Program) -> None:
    """Note which groups read the results of which, and how many bytes each leaves for callers."""
    # A value that later groups compute again is stored by the first.
    home = {node: group.number for group in reversed(groups) for node in group.nodes}
    for group in groups:
        found: dict[int, None] = {}
        for node in group.nodes:
            for parent in node.inputs:
                access = fused.access.get(parent)
                base = parent if access is None else access.base
                if base in home and home[base] != group.number:
                    found[home[base]] = None
        group.reads = list(found)
    for node in dict.fromkeys(program.outputs):
        access = fused.access.get(node)
        base = node if access is None else access.base
        if base in home:
            groups[home[base]].keeps += costs.stored(base)


def numpy_record(made: NumpyRuns, binding: ObservedPlan | None) -> PlanRecord:
    """The work of a plan in tier 0, where each op is a group of its own."""
    plan, program = made.plan, made.plan.in_numpy.program
    lines = {} if binding is None else recorded_lines(binding, plan)
    fused = Fused([Call(node) for node in program.nodes], {}, set())
    groups = [
        _group(index, unit, fused, made.count, spent * 1e-9, lines)
        for index, (unit, spent) in enumerate(zip(fused.units, made.times, strict=True))
    ]
    for group in groups:
        group.kind = "NumPy call"
    _connect(groups, fused, program)
    seconds = made.nanoseconds * 1e-9
    return PlanRecord(
        plan, "NumPy", made.count, seconds, len(groups), groups, binding, program, lines
    )
