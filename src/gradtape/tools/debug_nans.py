"""debug_nans: stop at the first op, forward or backward, that makes a NaN or an infinity."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gradtape.errors import NonFiniteError
from gradtape.ir import Node, Op, Program, user_line
from gradtape.ir.node import LEAF, PICK, Table, exchange
from gradtape.ir.origin import Provenance, note_into
from gradtape.ir.program import program
from gradtape.ops.control.branch import BRANCH
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.while_loop import WHILE
from gradtape.runtime.flush import compute_handle, compute_pending
from gradtape.trace import Handle, Recording, Value
from gradtape.trace.modes import modes
from gradtape.trace.recording import state
from gradtape.trace.trace import note_line

IsBad: TypeAlias = Callable[[np.ndarray], bool]
_NodeArrays: TypeAlias = Sequence[np.ndarray]


@dataclass
class BadValue:
    """The node that made a bad value, its results, and whether an operand was bad before."""

    node: Node
    made: _NodeArrays
    came_in: bool
    # The steps of the loops around it, innermost first.
    steps: list[str] = field(default_factory=list)


def search(nodes: Sequence[Node], values: dict[Node, np.ndarray], is_bad: IsBad) -> BadValue | None:
    """Compute nodes one by one until one makes a bad value; `values` has those known, and grows."""
    for node in nodes:
        arrays = [values[parent] for parent in node.inputs]
        with np.errstate(all="ignore"):
            values[node] = node.op.numpy(*arrays, **node.keywords)
        made: _NodeArrays = list(values[node]) if type(node.spec) is tuple else [values[node]]
        if any(is_bad(array) for array in made):
            inside = INSIDE.get(node.op)
            found = None if inside is None else inside(arrays, is_bad, **node.keywords)
            came_in = any(is_bad(array) for array in arrays if isinstance(array, np.ndarray))
            return found or BadValue(node, made, came_in)
    return None


def _run(
    body: Program, arrays: _NodeArrays, is_bad: IsBad
) -> tuple[BadValue | None, list[np.ndarray]]:
    values = dict(zip(body.inputs, map(np.asarray, arrays), strict=True))
    found = search(body.nodes, values, is_bad)
    outputs = [] if found else [np.asarray(values[n], n.dtype) for n in body.outputs]
    return found, outputs


def _in_scan(arrays: _NodeArrays, is_bad: IsBad, **params: Any) -> BadValue | None:
    scan = Scan(**params)
    fixed, carried, rows = scan.parts(arrays)
    for step in scan.positions():
        found, outputs = _run(scan.body, [*fixed, *carried, *[row[step] for row in rows]], is_bad)
        if found is not None:
            found.steps.append(f"step {step} of {scan.length} of a loop")
            return found
        carried = outputs[: scan.carries]
    return None


def _in_while(
    arrays: _NodeArrays,
    is_bad: IsBad,
    *,
    condition: Program,
    body: Program,
    constants: int,
    maximum: int | None,
) -> BadValue | None:
    fixed, carried = arrays[:constants], arrays[constants:]
    number = 0
    while maximum is None or number < maximum:
        found, outputs = _run(condition, [*fixed, *carried], is_bad)
        if found is None and not outputs[0]:
            return None
        if found is None:
            found, carried = _run(body, [*fixed, *carried], is_bad)
        if found is not None:
            found.steps.append(f"step {number} of a loop")
            return found
        number += 1
    return None


def _in_branch(
    arrays: _NodeArrays, is_bad: IsBad, *, branches: Sequence[Program]
) -> BadValue | None:
    chosen = int(np.clip(arrays[0], 0, len(branches) - 1))
    found, _ = _run(branches[chosen], arrays[1:], is_bad)
    if found is not None:
        found.steps.append(f"branch {chosen}")
    return found


# The search of the bodies of an op.
INSIDE: dict[Op, Callable[..., BadValue | None]] = {
    SCAN: _in_scan,
    WHILE: _in_while,
    BRANCH: _in_branch,
}


@contextlib.contextmanager
def debug_nans(infinities: bool = True) -> Iterator[None]:
    """Raise an error where a NaN or an infinity first appears, forward or backward.

    >>> x = gt.asarray(0.0)
    >>> try:
    ...     with gt.debug_nans():
    ...         y = gt.log(x) * 0.0
    ... except gt.errors.NonFiniteError as error:
    ...     print(str(error).partition(" at ")[0])
    debug_nans: log made -inf

    Every op is computed on its own line, which takes longer. An op of a gradient is named together
    with the op that it is the derivative of, and the line that recorded that one; inside a loop or
    branch that is one op, the op inside and its step. With `infinities=False` only NaNs count.
    """
    compute_pending()
    earlier = modes.handle_list
    watch = _Watch(infinities)
    before, noting = exchange(Table()), note_into(watch.noted)

    class Watched(list[Handle]):
        def append(self, handle: Handle) -> None:
            super().append(handle)
            watch.see(handle, self)

    modes.handle_list = Watched
    state.recording = Recording()
    try:
        yield
    finally:
        modes.handle_list = earlier
        note_into(noting)
        recording = state.recording
        recording.handles = list(recording.handles)
        with contextlib.suppress(NonFiniteError):
            compute_pending()
        exchange(before)
        state.recording = Recording()


class _Watch:
    """Computes every op when it is recorded, checks its value, and notes the user's line."""

    def __init__(self, infinities: bool) -> None:
        self.infinities = infinities
        self.noted = Provenance()

    def see(self, handle: Handle, handles: list[Handle]) -> None:
        """Compute the op that has just been recorded, and check its value."""
        node = handle.node
        note_line(handle)
        recording = handle.recording
        assert recording is not None
        # The operands are noted before the op is computed, because a flush may close the recording.
        several = node.inputs[0] if node.op is PICK else node
        wanted = program([several], recording.values.keys())
        values = {found: _value(recording, found) for found in wanted.inputs}
        together = [handle]
        for other in reversed(handles[:-1]):
            if (
                other.node is None
                or other.node.op is not PICK
                or other.node.inputs[0] is not several
            ):
                break
            together.append(other)
        for one in together:
            compute_handle(one)
        computed = [one.computed for one in together if one.computed is not None]
        if any(self._is_bad(value.array) for value in computed):
            found = search(wanted.nodes, values, self._is_bad)
            if found is not None:
                raise NonFiniteError(self._sentence(found))

    def _is_bad(self, given: np.ndarray) -> bool:
        array = np.asarray(given)
        if array.dtype.kind not in "fc":
            return False
        fine = np.isfinite(array) if self.infinities else ~np.isnan(array)
        return not bool(np.all(fine))

    def _sentence(self, found: BadValue) -> str:
        node, noted = found.node, self.noted
        bad = next(array for array in map(np.asarray, found.made) if self._is_bad(array))
        chosen = bad[~np.isfinite(bad)] if self.infinities else bad[np.isnan(bad)]
        count = f" in {chosen.size} of {bad.size} elements" if bad.size > 1 else ""
        what = f"{node.op.name} made {chosen.reshape(-1)[0]}{count}"
        origin = noted.origin(node)
        if origin is not None:
            line = noted.lines.get(origin, "an unknown line")
            where = f"in the derivative of {origin.op.name}, recorded at {line}"
        else:
            where = f"at {noted.lines.get(node, user_line())}"
        steps = "".join(f", in {step}" for step in found.steps)
        hint = " An operand was not finite already." if found.came_in else ""
        return (
            f"debug_nans: {what} {where}{steps}.{hint} Guard its operand, with gt.where on both "
            "sides or with a small constant."
        )


def _value(recording: Recording, node: Node) -> np.ndarray:
    if node in recording.values:
        return recording.values[node].array
    assert node.op is LEAF
    value = recording.leaves[node.params[0]]
    return value.array if type(value) is Value else np.asarray(value, node.dtype)
