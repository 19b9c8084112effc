"""Advice: what would save time, one sentence each, with the line and the gain that was measured.

A finding names a fault that the profile has seen in the act, not a rule of thumb: the gain is made
from times of this run, in which all calls count as steady ones (`steady`), so that it does not
depend on when the compiler was done. Gains below `LEAST` of the time without compiling and waiting
are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.autodiff.sparse.detect import jacobian_pattern
from gradtape.config import (
    DETECTED_SIZE,
    LEAST_GAIN,
    LEAST_ROWS,
    LOOP_COUNT,
    MEMORY_BOUND_FLOPS,
    REPLAY_SECONDS,
    SMALL_PLAN_SECONDS,
    SPARSE_DENSITY,
    SPARSE_SIZE,
    TINY_TAPES,
)
from gradtape.ir import Node, topological
from gradtape.ir.origin import SourcePlace
from gradtape.ir.walk import dependents
from gradtape.runtime.tiers import MODE
from gradtape.tools.profiler import costs
from gradtape.tools.profiler.formats import plural
from gradtape.tools.profiler.groups import PlanRecord
from gradtape.tools.profiler.steady import typical, whole_loop

if TYPE_CHECKING:
    from gradtape.tools.profiler.measured import Findings

LEAST = LEAST_GAIN


@dataclass(frozen=True)
class Advice:
    """One finding."""

    kind: str
    sentence: str
    remedy: str
    place: SourcePlace | None
    # The time that this run would have saved, and how it was measured.
    seconds: float
    how: str


def advice(found: Findings) -> list[Advice]:
    """All findings, the largest gain first."""
    findings: list[Advice] = []
    for rule in (
        computed_again,
        never_read,
        read_in_a_loop,
        captured_again,
        kept_in_python,
        jacobian_by_a_loop,
        tiny_tapes,
        dense_jacobian,
        wider_than_needed,
        stops_fusion,
        threads_do_not_pay,
    ):
        findings += rule(found)
    findings = _together(findings)
    findings = [each for each in findings if each.seconds >= LEAST * found.busy]
    return sorted(findings, key=lambda each: -each.seconds)


def _together(findings: list[Advice]) -> list[Advice]:
    """One finding of a kind for a line: a plan runs in NumPy at first, then compiled.

    The sentence is that of the larger gain.
    """
    found: dict[tuple[str, SourcePlace | None], Advice] = {}
    for each in findings:
        key = each.kind, each.place
        other = found.get(key)
        if other is not None:
            larger = max(each, other, key=lambda one: one.seconds)
            each = replace(larger, seconds=each.seconds + other.seconds)
        found[key] = each
    return list(found.values())


def _time_of(plan: PlanRecord, nodes: set[Node]) -> float:
    """The time that some nodes of a plan take, by their shares in their groups.

    A group whose time is that of memory still has to read for its other nodes: only groups that
    would go altogether, or lose flops, get faster.
    """
    total = 0.0
    for group in plan.groups:
        inside = [node for node in group.nodes if node in nodes]
        if not inside:
            continue
        if len(inside) == len(group.nodes):
            total += group.seconds
            continue
        # A group that moves memory does not move less for it.
        if group.flops < MEMORY_BOUND_FLOPS * group.nbytes:
            continue
        all_flops = sum(map(costs.flops, group.nodes))
        total += group.seconds * sum(map(costs.flops, inside)) / max(all_flops, 1.0)
    return total


def _place_of(plan: PlanRecord, nodes: set[Node]) -> SourcePlace | None:
    """The line that the longest part of some nodes comes from."""
    weights: defaultdict[SourcePlace | None, float] = defaultdict(float)
    for group in plan.groups:
        inside = [node for node in group.nodes if node in nodes]
        places = plan.places_of(inside)
        share = group.seconds * len(inside) / max(len(group.nodes), 1)
        for (place, _), part in group.shares.items():
            if len(inside) == len(group.nodes) or place in places:
                weights[place] += share * part
    return _heaviest(weights) or plan.place


def _heaviest(weights: dict[SourcePlace | None, float]) -> SourcePlace | None:
    """The known line with the largest weight."""
    known = {place: weight for place, weight in weights.items() if place is not None}
    return max(known, key=lambda place: known[place], default=None)


# The findings.


def computed_again(found: Findings) -> Iterator[Advice]:
    """Preprocessing in the loop: a part of a plan reads the same values in every run."""
    for plan in found.plans:
        program = plan.program
        if program is None or plan.runs < LOOP_COUNT:
            continue
        changing = _changing_inputs(plan)
        if changing is None:
            continue
        random = {node for node in program.nodes if node.op.opaque or node.op.calls_python}
        moving = dependents((*program.inputs, *program.nodes), changing | random)
        still = {
            node
            for node in program.nodes
            if node not in moving and not node.op.constant and node.inputs
        }
        gain = _time_of(plan, still) * (1 - 1 / plan.runs)
        if gain <= 0:
            continue
        place = _place_of(plan, still)
        if place in found.measured.collector.dense_jacobians:
            continue  # these are seeds, which no program can compute before
        yield Advice(
            "computed again",
            f"{plural(len(still), 'op')} here gave the same result in each of {plan.runs} runs: "
            "the inputs did not change.",
            "Compute this once, before the loop and outside the tape.",
            place,
            gain,
            "the time of these ops, less one run",
        )


def _changing_inputs(plan: PlanRecord) -> set[Node] | None:
    """The inputs of a plan that differ between runs; None if that is not known."""
    assert plan.program is not None
    inputs = plan.program.inputs
    if plan.fixed is not None:
        return {node for at, node in enumerate(inputs) if at not in plan.fixed}
    binding = plan.binding
    if binding is None or binding.compared < 2 or len(binding.program.inputs) != len(inputs):
        return None
    return {node for at, node in enumerate(inputs) if at in binding.changed}


def never_read(found: Findings) -> Iterator[Advice]:
    """A derivative by something that is watched is computed and never read."""
    for plan in found.plans:
        binding, program = plan.binding, plan.program
        if binding is None or program is None or not binding.given or plan.runs < 3:
            continue
        if len(binding.program.outputs) != len(program.outputs):
            continue
        unread = {
            number
            for number, count in binding.unread.items()
            if count >= 3 and count == binding.given.get(number)
        }
        # An output that is also another one is read with that.
        read = [node for at, node in enumerate(program.outputs) if at not in unread]
        needed = set(topological(read))
        idle = {node for node in program.nodes if node not in needed}
        gain = _time_of(plan, idle)
        if not unread or gain <= 0:
            continue
        backward = any(plan.is_backward(node) for node in idle)
        alone = [program.outputs[at] for at in sorted(unread) if program.outputs[at] in idle]
        sizes = ", ".join(str(node.spec) for node in alone[:3])
        what = "A gradient" if backward else "A value"
        yield Advice(
            "never read",
            f"{what} ({sizes}) is computed in each of {plan.runs} runs and never read.",
            "Ask for derivatives only by what you update, and do not keep the others alive."
            if backward
            else "Drop it before the others are read, or do not compute it.",
            _asking_place(found, plan) if backward else _place_of(plan, idle),
            gain,
            "the time of the ops that only this result needs",
        )


def _asking_place(found: Findings, plan: PlanRecord) -> SourcePlace | None:
    """The line that requested the gradients, if there is one; else the plan's."""
    nodes = set() if plan.binding is None else set(plan.binding.program.nodes)
    for place, asking in found.measured.collector.askings.items():
        if not nodes.isdisjoint(asking.targets):
            return place
    return plan.place


def read_in_a_loop(found: Findings) -> Iterator[Advice]:
    """A value is read back many times: each read runs a plan of its own."""
    others = {each.place for rule in (jacobian_by_a_loop, stops_fusion) for each in rule(found)}
    others |= {read for _, read, _ in _tiny_tapes(found)}
    wall, rate = found.wall, found.rate
    events = found.measured.collector.events
    captures = Counter(event.place for event in events if event.kind == "capture")
    for place, reading in found.readings.items():
        if place is None or reading.count < LOOP_COUNT or place in others:
            continue
        # Captures have a finding of their own.
        if 2 * captures[place] > reading.count:
            continue
        running = reading.running + reading.cycles / rate
        overhead = reading.seconds - running - reading.building
        overhead += found.lines.get(place, {}).get("recording", 0.0)
        # Plans of a few microseconds are calls, not work. A longer plan is a step of the program,
        # and what its read takes besides is time in which the thread waited for others.
        if running >= 0.5 * (overhead + running) or running >= SMALL_PLAN_SECONDS * reading.count:
            continue
        # The loop's own reads of a result per step are few beside its work.
        gain = overhead * (1 - 1 / reading.count) + running * 0.5
        each = reading.seconds / reading.count * 1e6
        yield Advice(
            "read back in a loop",
            f"{reading.count} reads of a value here, {each:.0f} us each, ran a small plan each.",
            "Collect tensors and read them once after the loop, or compute with whole arrays.",
            place,
            min(gain, wall, whole_loop(reading)),
            "the time of these reads beside the work in their plans",
        )


def captured_again(found: Findings) -> Iterator[Advice]:
    """A function is captured again and again, because an argument keeps changing its kind."""
    names: dict[tuple[str, SourcePlace | None], list[Any]] = {}
    for record in found.functions:
        names.setdefault((record.name, record.place), []).append(record)
    for (name, place), records in names.items():
        again = [record for record in records if record.captures and record.why is not None]
        if len(again) < 2:
            continue
        label, old, new = again[-1].why
        # A capture may have waited for the compiler, which the first would then have done.
        each = [record.capture_seconds / record.captures for record in again]
        gain = typical(each) * sum(record.captures for record in again)
        yield Advice(
            "captured again",
            f"{name} was captured for {len(records)} kinds of arguments; lately because {label} "
            f"was {old} and is {new}.",
            "Call it with fewer distinct shapes; pass numbers as floats, or use dynamic_ints=True.",
            place,
            gain,
            "the time of all captures but the first",
        )


def kept_in_python(found: Findings) -> Iterator[Advice]:
    """A decorated function runs in Python."""
    for record in found.functions:
        if record.refused is None or record.calls < 2 or record.place is None:
            continue
        inside = [
            entry
            for place, entry in found.lines.items()
            if place is not None
            and place.file == record.place.file
            and record.place.line <= place.line <= record.last_line
        ]
        gain = sum(entry["python"] + entry["recording"] + entry["reading"] for entry in inside)
        # A replay has its values at once; here each read of a result is a flush, and each call
        # goes through Python.
        results = {
            place: reading
            for place, reading in found.readings.items()
            if 0.8 * record.calls <= reading.count <= 1.2 * record.calls
        }
        gain += sum(
            found.lines[place]["reading"] + found.lines[place]["recording"]
            for place in results
            if place in found.lines and found.lines[place] not in inside
        )
        most = min(map(whole_loop, results.values()), default=found.wall)
        yield Advice(
            "kept in Python",
            f"gt.function leaves {record.name} to Python: {record.refused}.",
            record.remedy or "Move this out of the function.",
            record.place,
            min(gain, most),
            "the time of Python and recording on its lines",
        )


def jacobian_by_a_loop(found: Findings) -> Iterator[Advice]:
    """Gradients of many elements of one recording: the rows of a Jacobian, one by one."""
    for place, asking in found.measured.collector.askings.items():
        if place is None or asking.most < LEAST_ROWS or not asking.scalars:
            continue
        near = [
            entry
            for other, entry in found.lines.items()
            if other is not None and other.file == place.file and abs(other.line - place.line) <= 3
        ]
        spent = sum(sum(entry.values()) - entry["forward"] for entry in near)
        spent += found.measured.collector.event_seconds.get("derive", 0.0)
        yield Advice(
            "Jacobian by a loop",
            f"{asking.most} gradients of single elements of one recording: the rows of a Jacobian, "
            "one by one.",
            "Call tape.jacobian, or gt.jacobian, which computes all rows in one plan.",
            place,
            min(spent, whole_loop(found.readings.get(place))) * (1 - 1 / asking.most),
            "the time of this loop, less one row",
        )


def tiny_tapes(found: Findings) -> Iterator[Advice]:
    """Many steps of few operations, each with a tape of its own."""
    for asked, read, gain in _tiny_tapes(found):
        count = found.measured.collector.steps[asked, read]
        yield Advice(
            "many tiny tapes",
            f"{count} gradients here, each with a tape of its own and a tiny plan: recording and "
            "reading take longer than computing.",
            "Make the step a function and decorate it with gt.function: its calls skip the tape.",
            asked,
            gain,
            "the time of recording and reading near this line, less that of as many calls",
        )


def _tiny_tapes(found: Findings) -> Iterator[tuple[SourcePlace, SourcePlace, float]]:
    """The lines of the gradient and of the read of such steps, and the gain."""
    collector, rate = found.measured.collector, found.rate
    for (asked, read), count in collector.steps.items():
        reading = found.readings.get(read)
        if asked is None or read is None or reading is None or count < TINY_TAPES:
            continue
        running = reading.running + reading.cycles / rate
        if collector.askings[asked].most >= LEAST_ROWS:
            continue
        overhead = reading.seconds - running - reading.building
        overhead += sum(
            entry["recording"]
            for place, entry in found.lines.items()
            if place is not None and place.file == asked.file and abs(place.line - asked.line) <= 8
        )
        if running >= SMALL_PLAN_SECONDS * reading.count or running >= overhead:
            continue
        yield asked, read, min(overhead, whole_loop(reading)) - REPLAY_SECONDS * count


def dense_jacobian(found: Findings) -> Iterator[Advice]:
    """A dense Jacobian of a function whose Jacobian is nearly all zeros."""
    for place, asked in found.measured.collector.dense_jacobians.items():
        rows, columns = asked.target.size, asked.source.size
        if not SPARSE_SIZE <= rows * columns <= DETECTED_SIZE:
            continue
        pattern = jacobian_pattern(asked.window, asked.target, asked.source, None)
        density = pattern.nnz / (rows * columns)
        if pattern.dense or density > SPARSE_DENSITY or not pattern.nnz:
            continue
        # A lower bound of the products: entries of one row, or of one column, need one each.
        products = min(
            np.bincount(numbers, minlength=1).max()
            for numbers in (pattern.row_numbers, pattern.indices)
        )
        gain = sum(_time_for(plan, asked.nodes) for plan in found.plans)
        yield Advice(
            "dense Jacobian",
            f"Of this Jacobian of {rows} x {columns} entries only {density:.1%} can differ from "
            "zero, and all are computed.",
            f"Pass sparse=True: {products} or few more products instead of {min(rows, columns)}.",
            place,
            gain * (1 - products / min(rows, columns)),
            "the time of the ops that only this Jacobian needs, less the share of the products",
        )


def _time_for(plan: PlanRecord, wanted: set[Node]) -> float:
    """The time of the ops of a plan that only results made of some nodes need."""
    binding, program = plan.binding, plan.program
    if binding is None or program is None:
        return 0.0
    outputs = binding.program.outputs
    if len(outputs) != len(program.outputs):
        return 0.0
    made = [not wanted.isdisjoint(topological([node])) for node in outputs]
    if not any(made):
        return 0.0
    others = [node for node, is_made in zip(program.outputs, made, strict=True) if not is_made]
    needed = set(topological(others))
    return _time_of(plan, {node for node in program.nodes if node not in needed})


def wider_than_needed(found: Findings) -> Iterator[Advice]:
    """float64 where the time is that of memory or of products, which float32 halves."""
    limits = found.limits
    weights: defaultdict[SourcePlace | None, float] = defaultdict(float)
    gain = 0.0
    for group in found.groups:
        # A loop over few numbers takes the time of its call, whatever they are.
        if group.dtype != "float64" or group.nbytes < 1 << 17:
            continue
        if group.kind == "matrix product":
            ratio = limits.flops_float64 / max(limits.flops_float32, 1.0)
        elif group.kind in ("fused loop", "copy", "NumPy call"):
            # Twice as many numbers fit into a vector, and into a byte of memory's time.
            ratio = 0.5
        else:
            continue
        part = group.seconds * (1 - min(1.0, ratio))
        gain += part
        for (place, _), share in group.shares.items():
            weights[place] += share * part
    heaviest = _heaviest(weights)
    if gain and heaviest is not None:
        yield Advice(
            "float64",
            "Most of this time moves float64 numbers or multiplies float64 matrices.",
            "If seven digits suffice, make the data float32: gt.asarray(x, dtype=gt.float32).",
            heaviest,
            gain,
            "half of the bytes, and products at the float32 rate of this machine",
        )


def stops_fusion(found: Findings) -> Iterator[Advice]:
    """A callback, or an op that Python computes, in a compiled plan."""
    for plan in found.plans:
        if plan.tier != "compiled":
            continue
        for group in plan.groups:
            op = group.nodes[0].op
            if not group.python_ops or group.runs < 2:
                continue
            place = group.place
            spent = group.seconds
            if op.calls_python and place in found.lines:
                # Its Python is not part of a plan, and its operands are computed on its line.
                spent = sum(found.lines[place].values())
            gain = spent - group.nbytes / found.limits.bytes_per_second * group.runs
            inner = ", ".join(sorted(group.python_ops))
            if op.calls_python:
                what = "A callback"
            elif op.runs_bodies:
                what = f"{group.title}, whose body calls Python for {inner},"
            else:
                what = f"{inner}, which NumPy computes,"
            yield Advice(
                "stops fusion",
                f"{what} stands between the fused loops of a plan and ran {group.runs} times.",
                "Write it with gt functions, so that it becomes part of the loops.",
                place or plan.place,
                gain,
                "its time, less that of its memory in a fused loop",
            )


def threads_do_not_pay(found: Findings) -> Iterator[Advice]:
    """Parallel groups that took no longer on one thread, measured in some runs."""
    if MODE == "off":
        return
    gain, worst, total = 0.0, None, 0
    for group in found.groups:
        if not group.parallel or not group.shared or not group.serial:
            continue
        saved = (group.shared - group.serial) * group.runs
        if saved > 0.05 * group.seconds:
            gain += saved
            total += 1
            if worst is None or group.seconds > worst.seconds:
                worst = group
    if worst is None:
        return
    assert worst.shared is not None
    assert worst.serial is not None
    yield Advice(
        "threads do not pay",
        f"{total} groups took longer with {found.limits.threads} threads than with one: "
        f"{worst.title} {worst.shared * 1e6:.0f} us beside {worst.serial * 1e6:.0f} us.",
        "Try gt.set_num_threads(1), or leave the other processors to this program.",
        worst.place,
        gain,
        "the same groups on one thread, in one run of 64",
    )
