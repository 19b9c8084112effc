"""scan: a loop over the elements of sequences, as one op.

The function is called once, on tensors without values, and its graph becomes the body of the op.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from gradtape.argument_checks import as_count, check_function
from gradtape.control.carry import Carry
from gradtape.control.traced_bodies import (
    BodyTrace,
    Returned,
    TracedBody,
    apply_outside,
    bind,
    settled,
    trace,
)
from gradtape.errors import ShapeError
from gradtape.ir import (
    Node,
    Program,
    apply,
    closed,
    of_structure,
    outputs,
    placeholder,
    scratch,
    spec,
)
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_params import Scan
from gradtape.pytree import Structure, flatten, leaf_names, unflatten
from gradtape.tensor import Tensor, asarray
from gradtape.trace import state


# Segments: a checkpointed scan, as a scan over segments of steps whose body is a scan. Reverse mode
# saves only what is carried between segments, and computes the steps inside again.
def segment_length(checkpoint: bool | int | None, length: int) -> int | None:
    """The number of steps between two carries that are saved; None if every one is saved."""
    if checkpoint is None or checkpoint is False:
        return None
    if checkpoint is True:
        return max(1, math.isqrt(length))
    return min(as_count("scan: checkpoint", checkpoint, least=1), max(length, 1))


def _in_segments(
    body: Program,
    captured: Sequence[Tensor],
    carry: Sequence[Tensor],
    sequences: Sequence[Tensor],
    length: int,
    reverse: bool,
    segment: int,
) -> list[Tensor]:
    """The results of a scan over segments of steps; steps left over are one more segment."""
    count, rest = divmod(length, segment)
    cut, whole = len(carry), length - rest
    # The steps left over are done last: in a reversed scan these are the first elements.
    parts = [(rest if reverse else 0, count, segment), (0 if reverse else whole, 1, rest)]
    finals, rows = list(carry), []
    for start, rounds, steps in parts if rest else parts[:1]:
        split = [
            reshape(along_axis(x, 0, start, rounds * steps), (rounds, steps, *x.shape[1:]))
            for x in sequences
        ]
        operands = [x.enter(state.recording) for x in (*captured, *finals, *split)]
        inner = _segment_body(body, len(captured), cut, steps, reverse)
        params = (inner, len(captured), cut, rounds, reverse, True)
        found = apply_outside(SCAN, operands, params)
        finals = found[:cut]
        rows.append([reshape(y, (rounds * steps, *y.shape[2:])) for y in found[cut:]])
    ordered = zip(*(rows[::-1] if reverse else rows), strict=True)
    return [*finals, *[concat(pair, axis=0) if rest else pair[0] for pair in ordered]]


def _segment_body(
    body: Program, constants: int, carries: int, steps: int, reverse: bool
) -> Program:
    """The body that does several steps."""

    def derive() -> Program:
        scan = Scan(body, constants, carries, steps, reverse, recompute=False)
        with scratch():
            inputs = tuple([placeholder(of) for of in scan.specs(body.inputs)])
            return closed(inputs, outputs(apply(SCAN, inputs, scan.params)))

    return body.derived.once(of_structure("segment", constants, carries, steps, reverse), derive)


Carried = TypeVar("Carried")
Row = TypeVar("Row")


def scan(
    f: Callable[[Carried, Any], tuple[Carried, Row]],
    init: object,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    checkpoint: bool | int | None = None,
) -> tuple[Carried, Row]:
    """Apply `f(carry, x)`, which gives (carry, y), to the elements of `xs` along axis 0 in turn.

    >>> def step(total, x):
    ...     total = total + x
    ...     return total, total * total
    >>> final, squares = gt.scan(step, 0.0, np.array([1.0, 2.0, 3.0]))
    >>> float(final), squares.tolist()
    (6.0, [1.0, 9.0, 36.0])

    The result is the last carry and all y stacked, in the order of `xs` also with `reverse`. Carry,
    xs and y are nests of tensors; `xs` may be None if `length` is given. The carry keeps its
    structure, shapes and dtypes.

    Reverse mode saves what it needs of every step. With `checkpoint` it saves only some carries and
    recomputes the rest: `checkpoint=n` saves every n-th carry, and True about as many as the square
    root of the length. `unroll` is accepted for JAX's sake and changes nothing.

    Random numbers are those that a Python loop would draw, new ones in every step. Variables may be
    assigned in `f`: they are carried along, and hold the last value afterwards.

    >>> v = gt.Variable(1.0)
    >>> _ = gt.scan(lambda carry, x: (carry, v.assign(v * x).value), None, np.array([2.0, 3.0]))
    >>> float(v)
    6.0
    """
    return scanned("scan", f, init, xs, length, reverse, checkpoint)


def scanned(
    name: str,
    f: Callable[[Any, Any], object],
    init: object,
    xs: object,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int | None = None,
) -> tuple[Any, Any]:
    """`scan` under another name: its errors are those of the function that the user called."""
    check_function(f"{name}: f", f)
    settled()
    leaves, shape = flatten(xs)
    sequences = [asarray(leaf) for leaf in leaves]
    count = length_of(name, shape, sequences, length)
    carry = Carry(name, {"scan": "f", "map": "f"}.get(name, "body_fn"), init)
    elements = [spec(tensor.shape[1:], tensor.dtype) for tensor in sequences]

    def call(made: BodyTrace, arguments: list[Tensor]) -> Returned[Structure]:
        carried = carry.opened(made, arguments)
        result = f(carried, unflatten(shape, arguments[carry.count :]))
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"{name}: the function returned {type(result).__name__}, not a tuple of two, the "
                "next carry and an output. Return (carry, None) if there is no output."
            )
        rows, structure = flatten(result[1])
        return [*carry.returned(made, result[0]), *rows], structure

    while True:
        body, structure = trace(name, call, [*carry.all_specs, *elements], carries=True)
        try:
            if carry.adapted(body):
                body.trace.rewind()
                continue
            results = _applied(body, carry, sequences, count, bool(reverse), checkpoint)
        finally:
            body.end()
        return carry.closed(results), unflatten(structure, results[carry.count :])


def length_of(name: str, shape: Structure, sequences: Sequence[Tensor], length: int | None) -> int:
    """The number of steps, which must be the same for all sequences."""
    count = None if length is None else as_count(f"{name}: length", length)
    for leaf, tensor in zip(leaf_names(shape, "xs"), sequences, strict=True):
        if not tensor.ndim:
            raise ShapeError(
                f"{name}: {leaf} is 0-d and has no axis to take elements along. Give it axis 0."
            )
        if count is None:
            count = tensor.shape[0]
        elif tensor.shape[0] != count:
            given = "length is" if length is not None else "another sequence has"
            raise ShapeError(
                f"{name}: {leaf} has {tensor.shape[0]} elements along axis 0 and {given} {count}. "
                "Give sequences of one length."
            )
    if count is None:
        raise ValueError(f"{name}: there are no xs to count. Pass length, the number of steps.")
    return count


def _applied(
    body: TracedBody,
    carry: Carry,
    sequences: list[Tensor],
    length: int,
    reverse: bool,
    checkpoint: bool | int | None,
) -> list[Tensor]:
    """The results of the scan of a traced body, which is recorded here."""
    if not body.roots:
        return []
    outer = state.recording
    positions = _positions(body, length, reverse)
    fixed = [leaf for leaf in body.leaves if leaf not in positions]
    captured = [body.bind(outer, leaf) for leaf in fixed]
    program = body.program([*fixed, *body.arguments, *positions])
    drawn = [bind(body.trace, outer, leaf, rows) for leaf, rows in positions.items()]
    segment = segment_length(checkpoint, length)
    if segment is None:
        operands = [tensor.enter(outer) for tensor in (*carry.given, *sequences)]
        params = (program, len(captured), carry.count, length, reverse, False)
        return apply_outside(SCAN, (*captured, *operands, *drawn), params, [body])
    # Ops are recorded between the scans of segments, so nodes are held by handles meanwhile.
    held = outer.hold_all([*captured, *drawn], Tensor)
    outer.lines.update(body.trace.lines)
    rows = [*sequences, *held[len(captured) :]]
    return _in_segments(program, held[: len(captured)], carry.given, rows, length, reverse, segment)


def _positions(body: TracedBody, length: int, reverse: bool) -> dict[Node, np.ndarray]:
    """For each random draw in the body its positions in all steps: one more sequence each."""
    if not body.trace.draws:
        return {}
    found = body.trace.repeated_draws(length)
    return {leaf: found[leaf][:: -1 if reverse else 1] for leaf in body.draws}
