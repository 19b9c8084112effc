"""saved_for_backward: the values that a tape keeps of a function for its gradient."""

from __future__ import annotations

from collections.abc import Callable

from gradtape.autodiff.window import derive_reverse
from gradtape.compiler.passes import optimize
from gradtape.dtypes import DType
from gradtape.ir.node import PICK, Node, Table, exchange
from gradtape.ir.origin import Provenance, note_into
from gradtape.ir.program import program, sealed
from gradtape.ir.row_cotangents import Rows
from gradtape.ops.control.scan import SCAN
from gradtape.ops.custom.custom import NAMED, passes_through
from gradtape.pytree import flatten, map_leaves
from gradtape.records import dataclass
from gradtape.runtime.flush import compute_pending, flush
from gradtape.runtime.kept_for_backward import is_expensive
from gradtape.tape.custom_derivatives import is_operand
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tape.recording_scope import direction
from gradtape.tensor import Tensor, Variable, asarray
from gradtape.trace.modes import modes
from gradtape.trace.recording import Recording, state
from gradtape.trace.trace import NotedHandles

__all__ = ["Saved", "SavedValues", "saved_for_backward"]

LineOf = Callable[[Node], str]


@dataclass(frozen=True)
class Saved:
    """One value that is kept for the backward pass.

    >>> w = gt.asarray([[1.0, 2.0]])
    >>> saved = gt.saved_for_backward(lambda x: gt.sum(gt.tanh(w @ x)), gt.asarray([1.0, 2.0]))
    >>> saved[0].op, saved[0].shape, saved[0].nbytes
    ('matmul', (1,), 8)
    """

    op: str
    shape: tuple[int, ...]
    dtype: DType
    nbytes: int
    # The user's code that recorded it, as `file:line`.
    line: str
    # The name given by `checkpoint_name`, if any.
    name: str | None = None


class SavedValues(list[Saved]):
    """The values kept for the backward pass; `print` shows them as a table.

    >>> print(gt.saved_for_backward(lambda x: gt.sin(x), 1.0))
    0 values kept (0 bytes)
    """

    @property
    def nbytes(self) -> int:
        """The size of all values, in bytes."""
        return sum(saved.nbytes for saved in self)

    def __str__(self) -> str:
        count, size = len(self), self.nbytes
        values = "value" if count == 1 else "values"
        rows = [
            (
                f"{one.dtype}[{','.join(map(str, one.shape))}]",
                f"{one.nbytes} bytes",
                _called(one),
                one.line,
            )
            for one in self
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  " + "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([f"{count} {values} kept ({size} bytes)", *lines])

    __repr__ = __str__


def _called(saved: Saved) -> str:
    return saved.op if saved.name is None else f"{saved.op} ({saved.name})"


def saved_for_backward(f: Callable[..., object], *args: object, **kwargs: object) -> SavedValues:
    """The values that a tape keeps of `f(*args)` between its evaluation and its gradient.

    >>> w = gt.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> def layer(x):
    ...     return gt.tanh(w @ x)
    >>> saved = gt.saved_for_backward(lambda x: gt.sum(layer(layer(x))), gt.asarray([1.0, 2.0]))
    >>> [one.op for one in saved], saved.nbytes
    (['matmul', 'matmul'], 32)

    Each entry has `op`, `shape`, `dtype`, `nbytes` and `line`, where the user's code recorded it.
    Arguments, variables and constants are not listed: they exist in any case. Cheap element-wise
    values are not kept but computed again inside the backward kernels. `gt.checkpoint` changes that
    choice.
    """
    compute_pending()
    earlier = modes.handle_list
    # A list of handles that notes the line of each op; the native recorder leaves it to Python.
    modes.handle_list = NotedHandles
    noted = Provenance()
    table, noting = exchange(Table()), note_into(noted)
    before, state.recording = state.recording, Recording()
    tapes, state.tapes = state.tapes, []
    try:
        return _run(f, args, kwargs, lambda node: _line(noted, node))
    finally:
        modes.handle_list = earlier
        exchange(table)
        note_into(noting)
        state.recording, state.tapes = before, tapes


def _line(noted: Provenance, node: Node) -> str:
    """The line that recorded a value; for a value that a loop saves of its steps, in its body."""
    several = node.inputs[0] if node.op is PICK else node
    if several.op is SCAN:
        inner = several.params[0].outputs[node.params[0]]
        inside = noted.lines.get(inner) or noted.lines.get(
            inner.inputs[0] if inner.inputs else inner
        )
        if inside is not None:
            return inside
    found = noted.lines.get(several) or noted.lines.get(noted.origin(several) or several)
    return "unknown" if found is None else found


def _run(
    f: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], line_of: LineOf
) -> SavedValues:
    with GradientTape(persistent=True) as tape:
        sources = map_leaves(_source, (args, kwargs))
        given = [
            leaf
            for leaf in flatten(sources)[0]
            if isinstance(leaf, (Tensor, Variable)) and leaf.dtype.kind in "fc"
        ]
        tape.watch(given)
        results = f(*sources[0], **sources[1])
        recording = state.recording
        targets = [
            asarray(leaf) for leaf in flatten(results)[0] if isinstance(leaf, (Tensor, Variable))
        ]
        roots = [target.enter(recording) for target in targets]
        del results
        flush(recording)
        watched = list(dict.fromkeys(recording.watched))
        read = _read(recording, [root for root in roots if root.spec.inexact], watched)
    shown = [
        (node, value)
        for node, value in recording.values.items()
        # A result is computed for the caller; it counts as kept only if the gradient reads it.
        if node in read
        or (node not in roots and (is_expensive(node) or node in recording.values.saved))
    ]
    found = SavedValues()
    buffers: set[int] = set()
    for node, value in shown:
        if id(value.content) in buffers:
            continue
        buffers.add(id(value.content))
        found.append(_described(node, line_of))
    return found


def _read(recording: Recording, roots: list[Node], sources: list[Node]) -> set[Node]:
    """The kept values that the gradient is computed from."""
    cotangents = [direction(recording, root, None) for root in roots]
    slopes = derive_reverse(recording, roots, cotangents, sources, frozenset(), None)
    nodes: list[Node] = []
    for slope in slopes:
        if isinstance(slope, Rows):
            nodes += [slope.indices, slope.values]
        elif slope is not None:
            nodes.append(slope)
    if not nodes:
        return set()
    found = program(nodes, recording.values.keys())
    made = optimize(sealed(found))
    used = {parent for node in made.nodes for parent in node.inputs} | set(made.outputs)
    return {
        node
        for node, copy in zip(found.inputs, made.inputs, strict=True)
        if copy in used and node in recording.values
    }


def _described(node: Node, line_of: LineOf) -> Saved:
    name, origin = None, node
    while True:
        if origin.op is NAMED:
            name, origin = origin.params[0], origin.inputs[0]
            continue
        passed = passes_through(origin)
        if passed is None:
            break
        origin = passed
    op = (origin.inputs[0] if origin.op is PICK else origin).op.name
    of = node.spec
    return Saved(op, of.shape, of.dtype, of.nbytes, line_of(origin), name)


def _source(leaf: object) -> object:
    if isinstance(leaf, (Tensor, Variable)) or not is_operand(leaf):
        return leaf
    return asarray(leaf)  # type: ignore[arg-type]
