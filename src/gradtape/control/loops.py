"""Loops that are one op: while_loop, fori_loop and map; see `scan` for the other.

Like branches they call their functions once, on tensors without values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeGuard

import numpy as np

from gradtape.argument_checks import as_count, check_function
from gradtape.control.branches import operands_and_programs
from gradtape.control.carry import Carry
from gradtape.control.scan import Carried, Row, length_of, scanned
from gradtape.control.traced_bodies import (
    BodyTrace,
    Returned,
    TracedBody,
    apply_outside,
    count_of,
    is_tracked,
    settled,
    trace,
)
from gradtape.control.vmap import vmap
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir.node import Node, outputs
from gradtape.ops.arrays.creation import arange
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.while_loop import INTEGER, WHILE
from gradtape.ops.families.casting import cast
from gradtape.pytree import flatten, map_leaves, unflatten
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor import Tensor, TensorLike, asarray
from gradtape.trace import Recording, Trace, state


def while_loop(
    cond_fn: Callable[[Carried], TensorLike],
    body_fn: Callable[[Carried], Carried],
    init: object,
    maximum_iterations: int | None = None,
) -> Carried:
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

    `body_fn` may assign variables.

    >>> gt.grad(lambda a: gt.while_loop(lambda x: x < 10.0, lambda x: x * a, 1.0))(2.0).item()
    32.0
    """
    maximum = None
    if maximum_iterations is not None:
        maximum = as_count("while_loop: maximum_iterations", maximum_iterations)
    check_function("while_loop: cond_fn", cond_fn)
    check_function("while_loop: body_fn", body_fn)
    settled()
    carry = Carry("while_loop", "body_fn", init)
    traced: list[TracedBody] = []
    try:
        while True:
            body = _traced_step("while_loop", carry, body_fn)
            if not carry.adapted(body):
                break
            body.give_up()
        traced = [_traced_condition(carry, cond_fn), body]
        outer = state.recording
        inputs, (condition, step) = operands_and_programs(outer, traced, carry.given)
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
    """Whether reverse mode through a loop may follow, of values that are known.

    In a captured function the values are those of one call, and the number of steps with them.
    """
    if isinstance(outer, Trace) or outer.capturing:
        return False
    reverses = any(isinstance(tape, GradientTape) for tape in state.tapes)
    return reverses and is_tracked(outer, inputs)


def _traced_step(name: str, carry: Carry, function: Callable[[Any], object]) -> TracedBody:
    def call(made: BodyTrace, arguments: list[Tensor]) -> Returned[None]:
        return carry.returned(made, function(carry.opened(made, arguments))), None

    body, _ = trace(name, call, carry.all_specs, carries=True)
    if body.draws:
        body.end()
        raise ValueError(
            f"{name}: body_fn draws random numbers, and the number of steps is not known. Use "
            "fori_loop or scan with a fixed number of steps, or draw before the loop."
        )
    return body


def _traced_condition(carry: Carry, function: Callable[[Any], TensorLike]) -> TracedBody:
    def call(made: BodyTrace, arguments: list[Tensor]) -> Returned[None]:
        result = asarray(function(carry.opened(made, arguments)))
        if result.shape != ():
            raise ShapeError(
                f"while_loop: cond_fn gives shape {result.shape}, not a single truth value. "
                "Reduce it with gt.all or gt.any."
            )
        return [result if result.dtype.kind == "b" else result != 0], None

    return trace("while_loop", call, carry.all_specs)[0]


def fori_loop(
    lower: TensorLike,
    upper: TensorLike,
    body_fn: Callable[[Tensor, Carried], Carried],
    init: object,
) -> Carried:
    """`for i in range(lower, upper): init = body_fn(i, init)`, as one op.

    >>> float(gt.fori_loop(0, 5, lambda i, total: total + i, 0.0))
    10.0

    With bounds that are Python integers it is a `scan`, with tensors a `while_loop`.
    """
    check_function("fori_loop: body_fn", body_fn)
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

    def step(carried: tuple[Tensor, Carried]) -> tuple[Tensor, Carried]:
        return carried[0] + 1, body_fn(*carried)

    return while_loop(lambda carried: carried[0] < stop, step, (cast(start, INTEGER), init))[1]


def _is_static(limit: object) -> TypeGuard[SupportsIndex]:
    return isinstance(limit, (int, np.integer)) and not isinstance(limit, bool)


def map(f: Callable[[Any], Row], xs: object, *, batch_size: int | None = None) -> Row:
    """`f` applied to each element along axis 0 in turn, with results stacked: a loop, as one op.

    >>> gt.map(lambda x: x * x, gt.asarray([1.0, 2.0, 3.0])).tolist()
    [1.0, 4.0, 9.0]

    `vmap` computes the same for all elements at once; `map` takes the memory of one at a time, or
    of `batch_size` of them.
    """
    check_function("map: f", f)
    if batch_size is None:
        return scanned("map", lambda _, x: (None, f(x)), None, xs)[1]
    width = as_count("map: batch_size", batch_size, least=1)
    leaves, shape = flatten(xs)
    sequences = [asarray(leaf) for leaf in leaves]
    rounds, rest = divmod(length_of("map", shape, sequences, None), width)
    full = rounds * width
    parts = []
    if rounds or not rest:
        rows = [reshape(x[:full], (rounds, width, *x.shape[1:])) for x in sequences]
        _, found = scanned("map", lambda _, x: (None, vmap(f)(x)), None, unflatten(shape, rows))
        parts.append(map_leaves(lambda y: reshape(y, (full, *y.shape[2:])), found))
    if rest:
        parts.append(vmap(f)(unflatten(shape, [x[full:] for x in sequences])))
    if len(parts) == 1:
        return parts[0]
    _, structure = flatten(parts[0])
    columns = zip(*[flatten(part)[0] for part in parts], strict=True)
    return unflatten(structure, [concat(column) for column in columns])
