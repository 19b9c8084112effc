"""Loops that are one op: while_loop, fori_loop, scan; gradtape.mapping has map.

Like the branches of gradtape.control they call their functions once, on tensors without values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.control.branches import bound, check_function, described
from gradtape.control.carried_state import CarriedState
from gradtape.control.traced_bodies import Body, apply_outside, count_of, is_tracked, settled, trace
from gradtape.errors import DtypeError, ShapeError
from gradtape.graph.node import Node, apply, outputs, placeholder, scratch
from gradtape.graph.program import Program, closed
from gradtape.graph.spec import Spec, spec
from gradtape.ops.arrays.creation import arange
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.arrays.slicing import along_axis
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.while_loop import INTEGER, WHILE
from gradtape.ops.families.casting import cast
from gradtape.pytree import Structure, flatten, leaf_names, unflatten
from gradtape.recording.deferred_number import Deferred
from gradtape.recording.operands import SCALARS, enter
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.recording.trace import Trace
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import Tensor, asarray

__all__ = ["fori_loop", "scan", "while_loop"]


class _Carry:
    """The values that a loop carries: given, and checked when they come back.

    Variables that the body assigns are carried after them.
    """

    def __init__(self, name: str, function: str, init: Any) -> None:
        self.name = name
        self.function = function
        self.leaves, self.structure = flatten(init)
        self.tensors = [asarray(leaf) for leaf in self.leaves]
        self.state = CarriedState(name)

    @property
    def given(self) -> list[Any]:
        """What the loop begins with."""
        return [*self.tensors, *self.state.values()]

    @property
    def specs(self) -> list[Spec]:
        return [tensor.spec for tensor in self.tensors]

    @property
    def all_specs(self) -> list[Spec]:
        """Those of variables included."""
        return [*self.specs, *self.state.specs()]

    @property
    def count(self) -> int:
        """How many tensors are carried."""
        return len(self.tensors) + len(self.state.variables)

    def opened(self, made: Any, arguments: list[Any]) -> Any:
        """The nest of values at the beginning of a step; variables are what they are there."""
        cut = len(self.tensors)
        self.state.enter(made, arguments[cut : self.count])
        return unflatten(self.structure, arguments[:cut])

    def returned(self, made: Any, value: Any) -> list[Any]:
        """The leaves of what a body returned as the next values."""
        leaves, structure = flatten(value)
        if structure != self.structure:
            raise ValueError(
                f"{self.name}: {self.function} was given {described(self.structure)} to carry and "
                f"returned {described(structure)}. Return the same structure."
            )
        # A Python number takes the dtype of what it replaces, where it fits.
        own = [
            enter(made, leaf, of.dtype) if _fits(leaf, of) else leaf
            for leaf, of in zip(leaves, self.specs, strict=True)
        ]
        return [*own, *self.state.leave(made)]

    def closed(self, results: Sequence[Any]) -> Any:
        """The nest of values after the loop; variables are assigned."""
        cut = len(self.tensors)
        self.state.assign(results[cut : self.count])
        return unflatten(self.structure, results[:cut])

    def adapted(self, body: Body) -> bool:
        """Check what came back; True if Python numbers at the start took its dtypes: once more.

        So it is if there are more variables to carry.
        """
        again = self.state.grows(body.trace)
        names = leaf_names(self.structure, "carry")
        for number, (name, of) in enumerate(zip(names, self.specs, strict=True)):
            found = body.roots[number].spec
            if found is of:
                continue
            adapts = type(self.leaves[number]) in SCALARS and found.shape == ()
            if adapts and np.can_cast(of.dtype, found.dtype, "same_kind"):
                self.tensors[number] = asarray(self.leaves[number], dtype=found.dtype)
                again = True
                continue
            kind, what = (ShapeError, "shape") if found.shape != of.shape else (DtypeError, "dtype")
            raise kind(
                f"{self.name}: {name} is {of} going in and {found} coming out of {self.function}. "
                f"A loop carries values of one {what}: change the start, or what is returned."
            )
        return again


def _fits(leaf: Any, of: Spec) -> bool:
    """Whether something is a Python number that the dtype of what is carried can hold."""
    if type(leaf) not in SCALARS:
        return False
    number = leaf.value if type(leaf) is Deferred else leaf
    return bool(np.can_cast(np.min_scalar_type(number), of.dtype))


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    init: Any,
    maximum_iterations: int | None = None,
) -> Any:
    """`body_fn` applied to `init` again and again, as long as `cond_fn` holds of the result.

    >>> halve = gt.while_loop(lambda x: gt.sum(x) > 1.0, lambda x: x / 2.0, np.array([4.0, 2.0]))
    >>> halve.tolist()
    [0.5, 0.25]

    Values may be nests of tensors; their structure, shapes and dtypes stay. After
    `maximum_iterations` steps the loop ends in any case.

    Forward mode carries tangents along. Reverse mode goes back through every step, so under a tape
    that tracks an operand the loop runs at once, to count its steps, and is recorded as a `scan` of
    that length. Where the values are not known or differ from call to call, as inside `vmap`, the
    body of another loop or `gt.function`, the loop runs again in chunks on the way back: n steps
    take about n² / 128 more. With `maximum_iterations` it is a scan of that length instead, which
    saves every step.

    Variables may be assigned in `body_fn`.

    >>> gt.grad(lambda a: gt.while_loop(lambda x: x < 10.0, lambda x: x * a, 1.0))(2.0).item()
    32.0
    """
    maximum = None
    if maximum_iterations is not None:
        maximum = as_count("while_loop", "maximum_iterations", maximum_iterations)
    check_function("while_loop", "cond_fn", cond_fn)
    check_function("while_loop", "body_fn", body_fn)
    settled()
    carry = _Carry("while_loop", "body_fn", init)
    traced: list[Body] = []
    try:
        while True:
            body = _traced_step("while_loop", carry, body_fn)
            if not carry.adapted(body):
                break
            body.give_up()
        traced = [_traced_condition(carry, cond_fn), body]
        outer = state.recording
        inputs, (condition, step) = bound(outer, traced, carry.given)
        constants = len(inputs) - carry.count
        params = (condition, step, constants, maximum)
        if _needs_steps(outer, inputs):
            node = outer.application(WHILE, tuple(inputs), params)
            length = count_of(outer, outputs(node)[-1])
            fixed = (step, constants, carry.count, length, False, False)
            results = apply_outside(SCAN, inputs, fixed, traced)
        else:
            results = apply_outside(WHILE, inputs, params, traced)[:-1]
        return carry.closed(results)
    finally:
        for body in traced:
            body.end()


def _needs_steps(outer: Recording, inputs: Sequence[Node]) -> bool:
    """Whether reverse mode through a loop may be asked for, of values that are known.

    In a captured function they are those of one call, and another call makes other steps.
    """
    if isinstance(outer, Trace) or outer.capturing:
        return False
    reverses = any(isinstance(tape, GradientTape) for tape in state.tapes)
    return reverses and is_tracked(outer, inputs)


def _traced_step(name: str, carry: _Carry, function: Callable[..., Any]) -> Body:
    def call(made: Any, arguments: list[Any]) -> Any:
        return carry.returned(made, function(carry.opened(made, arguments))), None

    body, _ = trace(name, call, carry.all_specs, carries=True)
    if body.draws:
        body.end()
        raise ValueError(
            f"{name}: body_fn draws random numbers, and how many steps will is not known. Use "
            "fori_loop or scan with a fixed number of steps, or draw before the loop."
        )
    return body


def _traced_condition(carry: _Carry, function: Callable[..., Any]) -> Body:
    def call(made: Any, arguments: list[Any]) -> Any:
        result = asarray(function(carry.opened(made, arguments)))
        if result.shape != ():
            raise ShapeError(
                f"while_loop: cond_fn gives shape {result.shape}, not a single truth value. "
                "Reduce it with gt.all or gt.any."
            )
        return [result if result.dtype.kind == "b" else result != 0], None

    return trace("while_loop", call, carry.all_specs)[0]


def fori_loop(lower: Any, upper: Any, body_fn: Callable[..., Any], init: Any) -> Any:
    """`for i in range(lower, upper): init = body_fn(i, init)`, as one op.

    >>> float(gt.fori_loop(0, 5, lambda i, total: total + i, 0.0))
    10.0

    With bounds that are Python integers it is a `scan`, with tensors a `while_loop`.
    """
    check_function("fori_loop", "body_fn", body_fn)
    if _is_static(lower) and _is_static(upper):
        first, last = operator.index(lower), operator.index(upper)
        numbers = arange(first, max(first, last), dtype=np.int64)
        final, _ = scanned("fori_loop", lambda x, i: (body_fn(i, x), None), init, numbers)
        return final
    start, stop = asarray(lower), asarray(upper)
    for what, limit in (("lower", start), ("upper", stop)):
        if limit.shape != () or limit.dtype.kind not in "iu":
            raise DtypeError(
                f"fori_loop: {what} is {limit.spec}, not a single integer. Pass an int or an "
                "integer tensor."
            )
    _, final = while_loop(
        lambda state: state[0] < stop,
        lambda state: (state[0] + 1, body_fn(*state)),
        (cast(start, INTEGER), init),
    )
    return final


def _is_static(bound: Any) -> bool:
    return isinstance(bound, (int, np.integer)) and not isinstance(bound, bool)


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    checkpoint: bool | int | None = None,
) -> tuple[Any, Any]:
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

    Reverse mode saves what it needs of every step. With `checkpoint` it saves the carry only once
    in a while and computes the rest again: every so many steps for an integer, and about every
    square root of the length for True. `unroll` is accepted for JAX's sake and changes nothing.

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
    f: Callable[..., Any],
    init: Any,
    xs: Any,
    length: Any = None,
    reverse: bool = False,
    checkpoint: bool | int | None = None,
) -> tuple[Any, Any]:
    check_function(name, "f", f)
    settled()
    leaves, shape = flatten(xs)
    sequences = [asarray(leaf) for leaf in leaves]
    count = length_of(name, shape, sequences, length)
    carry = _Carry(name, {"scan": "f", "map": "f"}.get(name, "body_fn"), init)
    elements = [spec(tensor.shape[1:], tensor.dtype) for tensor in sequences]

    def call(made: Any, arguments: list[Any]) -> Any:
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


def length_of(name: str, shape: Structure, sequences: Sequence[Any], length: Any) -> int:
    """The number of steps, on which all sequences agree."""
    count = None if length is None else as_count(name, "length", length)
    for leaf, tensor in zip(leaf_names(shape, "xs"), sequences, strict=True):
        if not tensor.ndim:
            raise ShapeError(f"{name}: {leaf} is 0-d and has no axis to take elements along.")
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


def as_count(name: str, what: str, value: Any) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {what} {value!r} is not an integer. Pass an int.") from None
    if found < 0:
        raise ValueError(f"{name}: {what} {found} is negative. Pass 0 or more.")
    return found


def _applied(
    body: Body,
    carry: _Carry,
    sequences: list[Any],
    length: int,
    reverse: bool,
    checkpoint: bool | int | None,
) -> list[Any]:
    """Record the scan of a traced body; gives its results as tensors."""
    if not body.roots:
        return []
    outer = state.recording
    positions = _positions(body, length, reverse)
    fixed = [leaf for leaf in body.leaves if leaf not in positions]
    captured = [body.bind(outer, leaf) for leaf in fixed]
    program = body.program([*fixed, *body.arguments, *positions])
    drawn = [body.bind_draw(outer, leaf, rows) for leaf, rows in positions.items()]
    segment = _segment(checkpoint, length)
    if segment is None:
        operands = [tensor.enter(outer) for tensor in (*carry.given, *sequences)]
        params = (program, len(captured), carry.count, length, reverse, False)
        return apply_outside(SCAN, (*captured, *operands, *drawn), params, [body])
    # More is recorded in between: nodes are held.
    held = outer.hold_all([*captured, *drawn], Tensor)
    outer.lines.update(body.trace.lines)
    segments = _Segments(program, held[: len(captured)], reverse)
    return segments.record(carry.given, [*sequences, *held[len(captured) :]], length, segment)


def _positions(body: Body, length: int, reverse: bool) -> dict[Node, Any]:
    """Where each step begins in its streams of random numbers: one more sequence for each."""
    if not body.trace.draws:
        return {}
    found = body.trace.repeated_draws(length)
    return {leaf: found[leaf][:: -1 if reverse else 1] for leaf in body.draws}


def _segment(checkpoint: bool | int | None, length: int) -> int | None:
    """How many steps lie between two carries that are saved; None for all being saved."""
    if checkpoint is None or checkpoint is False:
        return None
    if checkpoint is True:
        return max(1, math.isqrt(length))
    found = as_count("scan", "checkpoint", checkpoint)
    if found < 1:
        raise ValueError("scan: checkpoint 0 is no number of steps. Pass 1 or more, True or None.")
    return min(found, max(length, 1))


class _Segments:
    """A scan over segments, whose body is a scan; only what is carried between them is saved."""

    def __init__(self, body: Program, captured: Sequence[Any], reverse: bool) -> None:
        self.body = body
        self.captured = tuple(captured)
        self.reverse = reverse

    def record(
        self, carry: Sequence[Any], sequences: Sequence[Any], length: int, segment: int
    ) -> list[Any]:
        """Segments of so many steps; what is left over is one more segment."""
        count, rest = divmod(length, segment)
        cut = len(carry)
        # The steps that are left over come last, and then lie at the front of a reversed scan.
        start = rest if self.reverse else 0
        split = [
            reshape(_part(x, start, length - rest), (count, segment, *x.shape[1:]))
            for x in sequences
        ]
        found = self._scan(carry, split, count, segment)
        finals = found[:cut]
        rows = [reshape(y, (length - rest, *y.shape[2:])) for y in found[cut:]]
        if rest:
            left = [_part(x, 0 if self.reverse else length - rest, rest) for x in sequences]
            found = self._scan(finals, [reshape(x, (1, *x.shape)) for x in left], 1, rest)
            finals = found[:cut]
            more = [reshape(y, y.shape[1:]) for y in found[cut:]]
            pairs = zip(rows, more, strict=True)
            rows = [concat([b, a] if self.reverse else [a, b], axis=0) for a, b in pairs]
        return [*finals, *rows]

    def _scan(
        self, carry: Sequence[Any], sequences: Sequence[Any], count: int, steps: int
    ) -> list[Any]:
        outer = state.recording
        operands = [tensor.enter(outer) for tensor in (*self.captured, *carry, *sequences)]
        body = self._segment_body(len(carry), steps)
        params = (body, len(self.captured), len(carry), count, self.reverse, True)
        return apply_outside(SCAN, operands, params)

    def _segment_body(self, carries: int, steps: int) -> Program:
        """The body that does several steps."""
        first = len(self.captured) + carries
        key = ("segment", carries, first, steps, self.reverse)
        found = self.body.derived.get(key)
        if found is None:
            with scratch():
                own = self.body.inputs[:first]
                rows = [
                    placeholder(spec((steps, *node.shape), node.dtype))
                    for node in self.body.inputs[first:]
                ]
                params = (self.body, len(self.captured), carries, steps, self.reverse, False)
                node = apply(SCAN, (*own, *rows), params)
                found = self.body.derived[key] = closed((*own, *rows), outputs(node))
        return found


def _part(x: Any, start: int, length: int) -> Any:
    """Some elements along axis 0."""
    return x if length == x.shape[0] else along_axis(x, 0, start, length)
