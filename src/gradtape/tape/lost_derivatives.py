"""Derivatives that are lost without an error: the warnings that name the cause and the remedy.

Two ways lead there. A number that is read out of a tensor, as by `math.sin(w)`, goes on into what a
tape records: the derivative misses a part. A source that nothing connects with the target has the
gradient None.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape.ir.node import LEAF, Node
from gradtape.ir.origin import warn
from gradtape.ir.walk import topological
from gradtape.tape.user_code import (
    Parsed,
    Site,
    assignments,
    is_tape,
    may_be_recorded,
    names_of_tensors,
    parsed,
    reads,
)
from gradtape.tensor import Variable
from gradtape.trace.recording import Recording
from gradtape.trace.value import Value

if TYPE_CHECKING:
    from gradtape.tape.tape_jacobians import Jacobians

# Arrays with more elements are not searched for a number.
MOST_SEARCHED = 10_000


class ReadNumber(NamedTuple):
    """A number that was read out of a tensor that a tape follows."""

    name: str
    number: Any
    site: Site
    # The number of leaves of the recording.
    leaves: int


def warn_of_numbers(
    numbers: Sequence[ReadNumber], recording: Recording, targets: Iterable[Node]
) -> None:
    """Warn of numbers that targets are computed from, once for each line that read one."""
    first, leaves = min(read.leaves for read in numbers), recording.leaves
    entered = [
        (node.params[0], leaves[node.params[0]])
        for node in topological(tuple(targets))
        if node.op is LEAF and node.params[0] >= first and node not in recording.watched
    ]
    lines = set()
    for read in numbers:
        later = [value for at, value in entered if at >= read.leaves]
        if later and str(read.site) not in lines and _goes_on(read, later):
            lines.add(str(read.site))
            warn(
                f"{read.name}: a number that {read.site} reads out of a tensor goes on into what "
                "the tape records, and no derivative passes through it. Use gt functions on the "
                "tensor (gt.sin, not math.sin), or gt.stop_gradient(x) where only the value is "
                "meant."
            )


def warn_of_read(read: ReadNumber) -> None:
    """Warn of a number read by a function that `gt.grad` or a similar transform differentiates."""
    if may_be_recorded(read.site, names_of_tensors(read.site.code)):
        warn(
            f"{read.name}: a tensor of a function that is being differentiated becomes a number, "
            "through which no derivative passes. Use gt functions on the tensor (gt.sin, not "
            "math.sin), or x.numpy() where only the value is meant."
        )


def _goes_on(read: ReadNumber, later: list[Any]) -> bool:
    numbers = np.ravel(np.asarray(read.number))
    is_text = numbers.dtype.kind not in "iufc"
    known = [each for each in later if not is_text and _holds(each, numbers)]
    if known and not (isinstance(read.number, int) or read.number in (0.0, 1.0)):
        return True
    if not may_be_recorded(read.site, names_of_tensors(read.site.code)):
        return False
    constants = [each for each in read.site.code.co_consts if isinstance(each, (int, float))]
    others = [
        each.array.item() if isinstance(each, Value) else each
        for each in later
        if not isinstance(each, Value) or each.spec.shape == ()
    ]
    return bool(known) or any(each not in constants for each in others)


def _holds(entered: Any, numbers: np.ndarray) -> bool:
    """Whether a leaf holds one of the numbers."""
    array = np.asarray(entered.array if isinstance(entered, Value) else entered)
    return array.size <= MOST_SEARCHED and bool(np.isin(array, numbers).any())


def warn_of_none(
    title: str,
    tape: Jacobians | None,
    targets: Sequence[Node],
    sources: Sequence[tuple[int, Any, Node]],
) -> None:
    """Warn that the derivatives by some sources are None, with the cause of each.

    A source comes with its place among all sources, and its node. There is no tape if what is
    watched does not matter.
    """
    causes: dict[str, list[str]] = {}
    site = Site.here()
    call = None if site is None else _call_of(parsed(site))
    for place, source, node in sources:
        passed = None if call is None else call.source(place)
        if isinstance(passed, (ast.Name, ast.Attribute, ast.Subscript)):
            name = ast.unparse(passed)
        else:
            name = source.name if isinstance(source, Variable) else f"source {place}"
        causes.setdefault(_cause(tape, targets, source, node, name, call), []).append(name)
    for cause, names in causes.items():
        listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        warn(
            f"{title}: the gradient of {listed} is None: {cause} Where that is meant, pass "
            'unconnected_gradients="none" or "zero".'
        )


class GradientCall(NamedTuple):
    """The call of `tape.gradient` in the user's source text."""

    target: ast.expr | None
    sources: ast.expr | None
    parsed: Parsed

    def source(self, place: int) -> ast.expr | None:
        """The expression that is passed as one of the sources."""
        if isinstance(self.sources, (ast.List, ast.Tuple)):
            return self.sources.elts[place] if place < len(self.sources.elts) else None
        return self.sources if place == 0 else None

    def rebinding(self, name: str) -> ast.stmt | None:
        """The statement that binds a name to a value computed from its old one."""
        bound = assignments(self.parsed.function())
        return next((each for each, names in bound if name in names & reads(each)), None)

    def line_before(self, name: str) -> int | None:
        """The line outside the tape that computes from a name what the target is computed from."""
        line = self.parsed.node.lineno
        tapes = [
            node
            for node in ast.walk(self.parsed.function())
            if is_tape(node) and node.lineno < line  # type: ignore[attr-defined]
        ]
        if not tapes:
            return None
        inside = tapes[-1]
        used = reads(inside) | (set() if self.target is None else reads(self.target))
        lines = [
            each.lineno
            for each, names in assignments(self.parsed.function())
            if names & used and name in reads(each) and each.lineno < line
        ]
        within = range(inside.lineno, (inside.end_lineno or inside.lineno) + 1)  # type: ignore[attr-defined]
        return next((each for each in reversed(lines) if each not in within), None)


def _call_of(found: Parsed | None) -> GradientCall | None:
    if found is None or not isinstance(found.node, ast.Call):
        return None
    given = dict(zip(("target", "sources"), found.node.args, strict=False))
    given |= {each.arg: each.value for each in found.node.keywords if each.arg}
    return GradientCall(given.get("target"), given.get("sources"), found)


def _cause(
    tape: Jacobians | None,
    targets: Sequence[Node],
    source: Any,
    node: Node,
    name: str,
    call: GradientCall | None,
) -> str:
    if not node.spec.inexact:
        made = "gt.Variable(3.0)" if isinstance(source, Variable) else "gt.asarray(3.0)"
        return f"it has dtype {source.dtype}, which has no derivative. Make it of floats: {made}."
    if not targets:
        return "the target has no float dtype, and so no derivative."
    if node not in targets and any(each in targets for each in topological((node,))):
        return "the arguments are swapped: it is tape.gradient(target, sources)."
    unconnected = "the target is not computed from it, or only through NumPy arrays or integers."
    if tape is None:
        return unconnected
    if id(source) not in tape._watched and not _is_computed_in(tape, node):
        found = _cause_in_watching(tape, source, name, call)
        if found is not None:
            return found
    line = None if call is None else call.line_before(name)
    where = "" if line is None else f", in line {line}"
    inside = "Compute it inside `with tape:`."
    if not any(_is_computed_in(tape, each) for each in targets):
        before = "the target was computed before the tape began or while it did not record"
        return f"{before}{where}. {inside}"
    if line is not None:
        return f"what the target needs of it was computed before the tape began{where}. {inside}"
    if not tape.numbers:
        return unconnected
    read = tape.numbers[-1]
    return (
        f"the target depends on a number only, which {read.name} reads out of a tensor at "
        f"{read.site}. Use gt functions on the tensor."
    )


def _cause_in_watching(
    tape: Jacobians, source: Any, name: str, call: GradientCall | None
) -> str | None:
    if not isinstance(source, Variable):
        rebinding = None if call is None else call.rebinding(name)
        if rebinding is None:
            return (
                f"the tape does not watch it. Call tape.watch({name}) before it is used, or make "
                "it a gt.Variable."
            )
        return (
            f"line {rebinding.lineno} binds the name to a new tensor, which the tape does not "
            f"watch (`{ast.unparse(rebinding)}`). Change a gt.Variable by {name}.assign_sub, or "
            "call tape.watch at each step."
        )
    first = f"Call tape.watch({name}) first."
    if not source.trainable:
        return f"it is not trainable, so the tape does not watch it. {first}"
    if not tape._watch_accessed:
        return f"the tape has watch_accessed_variables=False. {first}"
    return None


def _is_computed_in(tape: Jacobians, node: Node) -> bool:
    """Whether the tape recorded an application."""
    recording = tape._recording
    assert recording is not None
    position = recording.log.position(node) if node.inputs else None
    return position is not None and tape._recorded_at(position)
