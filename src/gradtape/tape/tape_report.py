"""tape_report: what one tape recorded, what of it reaches a target, and what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradtape.display import Text, escaped, rows_as_html
from gradtape.ir import Node, dependents, topological
from gradtape.ir.origin import LINES
from gradtape.records import dataclass
from gradtape.runtime.kept_for_backward import is_expensive
from gradtape.tensor.variable import Variable

if TYPE_CHECKING:
    from gradtape.tape.gradient_tape import GradientTape

# Maximum number of rows of a table.
MOST = 12


@dataclass(frozen=True)
class Row:
    """Some recorded ops, or one kept value, in words."""

    what: str
    spec: str
    nbytes: int
    why: str
    line: str


class TapeReport(Text):
    """The report of a tape: a text to print, which notebooks show as a table.

    >>> x = gt.Variable(2.0)
    >>> with gt.GradientTape() as tape:
    ...     y = x * x
    >>> tape.report().kept
    []
    """

    recorded: int
    kept: list[Row]
    idle: list[Row]

    def _repr_html_(self) -> str:
        """The report as HTML."""
        head, *lines = str(self).split("\n")
        facts = "".join(f"<li>{escaped(line.strip())}</li>" for line in lines if line[2:3] != " ")
        kinds = {"kept": self.kept, "recorded for nothing": self.idle}
        rows = [
            (kind, row.what, row.spec, f"{row.nbytes:,}", row.why, row.line)
            for kind, found in kinds.items()
            for row in found
        ]
        if rows and not any(row[-1] for row in rows):
            facts += "<li>lines are known inside <code>with gt.profile():</code></li>"
        return f"{rows_as_html(head, _COLUMNS, rows)}<ul>{facts}</ul>"


_COLUMNS = ("", "op", "spec", "bytes", "why", "line")


def tape_report(tape: GradientTape, targets: Sequence[Node]) -> TapeReport:
    """The report of a tape. Without targets, those count whose gradient was taken."""
    recording = tape._recording
    lines: list[str] = []
    inside: list[Node] = []
    kept: list[Row] = []
    idle: list[Row] = []
    if recording is not None:
        outside = tape._outside()
        inside = [node for node in recording.log if node not in outside]
        watched = [node for _, node in tape._watched.values()]
        known = targets or list(recording.targets)
        reached = set(topological(known))
        followed = dependents([*watched, *inside], watched)
        kept = [
            Row(node.op.name, str(node.spec), value.spec.nbytes, _why(node, reached), _line(node))
            for node, value in recording.values.items()
            if node not in outside
        ]
        for node in inside:
            why = None
            if node not in followed:
                why = "it depends on nothing that is watched"
            elif known and node not in reached:
                why = "it does not reach the target"
            if why is not None:
                spec = str(node.spec) if type(node.spec) is not tuple else "several"
                idle.append(Row(node.op.name, spec, 0, why, _line(node)))
    size = sum(row.nbytes for row in kept)
    sources = len(tape._watched)
    lines.append(
        f"{len(inside)} {_plural('op', len(inside))} recorded, {sources} "
        f"{_plural('source', sources)} watched, {len(kept)} {_plural('value', len(kept))} kept "
        f"({size} bytes)"
    )
    for source, node in tape._watched.values():
        name = f"variable {source.name}" if isinstance(source, Variable) else "tensor"
        lines.append(f"  {name}: {node.spec}")
    lines += _listed("kept for the backward pass", kept)
    lines += _listed("recorded for nothing", idle)
    found = TapeReport("\n".join(lines))
    found.recorded, found.kept, found.idle = len(inside), kept, idle
    return found


def _listed(title: str, rows: list[Row]) -> list[str]:
    if not rows:
        return []
    rows = sorted(rows, key=lambda row: -row.nbytes)
    lines = [f"  {title}: {len(rows)}"]
    for row in rows[:MOST]:
        size = f", {row.nbytes} bytes" if row.nbytes else ""
        where = f", at {row.line}" if row.line else ""
        lines.append(f"    {row.what}: {row.spec}{size}: {row.why}{where}")
    if len(rows) > MOST:
        lines.append(f"    and {len(rows) - MOST} more")
    return lines


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _why(node: Node, reached: set[Node]) -> str:
    if reached and node not in reached:
        return "it was computed, and does not reach the target"
    return "expensive to compute again" if is_expensive(node) else "it was read"


def _line(node: Node) -> str:
    """The user's line, if a profile notes lines."""
    found = LINES.found.get(node)
    return "" if found is None or found.place is None else str(found.place)
