"""while: apply a body as long as a condition holds.

Condition and body take constants and carried values; the condition returns a boolean, the body the
next carried values. The outputs are the final values and the number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape.config import WHILE_CHUNK
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir import REGISTRY, Op, Program, Spec, closed, declare, of_structure, spec, substitute
from gradtape.ir.node import Node, apply, constant, outputs, placeholder
from gradtape.ops.control import bodies, loop_rules
from gradtape.ops.control.branch import branch_node
from gradtape.ops.control.composed_reads import while_reads
from gradtape.ops.control.scan import SCAN, scan_node
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.elementwise.arithmetic import where
from gradtape.ops.families import Sample, cast, generator
from gradtape.ops.families.batching import Flags, Inputs, reshaped, size_of, spread

# Reverse mode through a while of unknown length: backwards in chunks of steps, each run once more.
# The number of steps is known at run time, not when the loop is recorded, so no array of known
# shape can hold residuals of all steps. A second loop goes back from the last step. For each chunk
# of WHILE_CHUNK steps it reruns the first loop from its start up to the chunk, then the chunk as a
# scan, and goes back through that scan: n steps cost about 2n + n² / (2 WHILE_CHUNK) further steps.

NUMBER = spec((), np.dtype(np.int64))


def _pullback_program(
    body: Program, constants: int, wanted: Sequence[int], given: Flags
) -> tuple[Program, Flags]:
    """The cotangents of wanted inputs, from the inputs, the number of steps, and cotangents."""
    fixed, carried = body.inputs[:constants], body.inputs[constants:]
    chunk = _chunk(body, constants)
    states, seeds, slopes = loop_rules.pull(_as_scan(body, constants), chunk, wanted, given)
    # The backward loop carries cotangents of carried values (states) and of constants (sums).
    summed = [at for at in wanted if at < constants and at in slopes]
    k = placeholder(NUMBER)
    sums = [placeholder(body.inputs[at].spec) for at in summed]
    start = apply(REGISTRY["floor_divide"], (k - 1, constant(WHILE_CHUNK, NUMBER))) * WHILE_CHUNK
    there = _state_at(body, constants, start)
    roots = [
        *[bodies.zero_if_absent(slopes.get(constants + n), carried[n].spec) for n in states],
        *[slopes[at] for at in summed],
    ]
    results = substitute(roots, dict(zip(chunk.inputs, (*fixed, *there, k - start), strict=True)))
    cut = len(states)
    totals = [old + new for old, new in zip(sums, results[cut:], strict=True)]
    inputs = (*body.inputs, k, *seeds.values(), *sums)
    step = closed(inputs, (start, *results[:cut], *totals))
    condition = closed(inputs, (k > 0,))
    # The operands are those of the body, then the number of steps and the cotangents.
    cotangents = {n: placeholder(carried[n].spec) for n, flag in enumerate(given) if flag}
    initial = [cotangents.get(n) or constant(0, carried[n].spec) for n in states]
    initial += [constant(0, total.spec) for total in sums]
    params = (condition, step, len(body.inputs), None)
    node = apply(REGISTRY["while"], (*body.inputs, k, *initial), params)
    places = [*[constants + n for n in states], *summed]
    found = dict(zip(places, outputs(node)[1:-1], strict=True))
    having = tuple(at in found for at in wanted)
    kept = [found[at] for at in wanted if at in found]
    return closed((*body.inputs, k, *cotangents.values()), kept), having


def _chunk(body: Program, constants: int) -> Program:
    """A program of WHILE_CHUNK steps; steps from a limit on change nothing."""
    number, limit = placeholder(NUMBER), placeholder(NUMBER)
    fixed, carried = body.inputs[:constants], body.inputs[constants:]
    stay = closed(body.inputs, carried)
    chosen = branch_node((stay, body), cast(number < limit, NUMBER.dtype), body.inputs)
    one = closed((*fixed, limit, number, *carried), (number + 1, *outputs(chosen)))
    node = scan_node(one, (*fixed, limit), (constant(0, NUMBER), *carried), (), WHILE_CHUNK)
    return closed((*body.inputs, limit), outputs(node)[1:])


def _state_at(body: Program, constants: int, start: Node) -> tuple[Node, ...]:
    """The carried values after `start` steps."""
    number, limit = placeholder(NUMBER), placeholder(NUMBER)
    fixed, carried = body.inputs[:constants], body.inputs[constants:]
    inputs = (*fixed, limit, number, *carried)
    condition = closed(inputs, (number < limit,))
    one = closed(inputs, (number + 1, *body.outputs))
    operands = (*fixed, start, constant(0, NUMBER), *carried)
    node = apply(REGISTRY["while"], operands, (condition, one, constants + 1, None))
    return outputs(node)[1:-1]


INTEGER = np.dtype(np.int64)


class While(NamedTuple):
    """The params of a loop, in the order in which its op has them."""

    condition: Program
    body: Program
    constants: int
    maximum: int | None


def _spec(*inputs: Spec, **params: Any) -> tuple[Spec, ...]:
    condition, body, constants, _ = While(**params)
    for program in (condition, body):
        bodies.check_specs("while", program, inputs)
    (tested,) = condition.outputs
    if tested.shape != () or tested.dtype.kind != "b":
        raise DtypeError(f"while: a condition of {tested.spec} is not a single boolean.")
    results = tuple(node.spec for node in body.outputs)
    if results != inputs[constants:]:
        raise ShapeError(f"while: values carried as {inputs[constants:]} come back as {results}.")
    return (*results, spec((), INTEGER))


def _kernel(*arrays: np.ndarray, **params: Any) -> tuple[np.ndarray, ...]:
    condition, body, constants, maximum = While(**params)
    fixed, carried = arrays[:constants], list(arrays[constants:])
    count = 0
    while (maximum is None or count < maximum) and bodies.run(condition, (*fixed, *carried))[0]:
        carried = bodies.run(body, (*fixed, *carried))
        count += 1
    return (*[np.asarray(one) for one in carried], np.asarray(count, INTEGER))


def _as_scan(body: Program, constants: int) -> Scan:
    """The loop as the rules of loops take it: a scan without sequences and results."""
    return Scan(body, constants, len(body.inputs) - constants, 0, False, False)


def _jvp(
    tangents: Sequence[Node | None], y: Sequence[Node], inputs: Inputs, **params: Any
) -> tuple[Node | None, ...]:
    """Loop once with values and tangents; the condition reads values only."""
    condition, body, constants, maximum = While(**params)
    pushed = loop_rules.push(_as_scan(body, constants), inputs, tangents)
    if pushed is None:
        return (None,) * len(y)
    scan, operands, found = pushed

    def build() -> Program:
        fixed, carried, _ = scan.parts(scan.body.inputs)
        values = (*fixed[:constants], *carried[: len(inputs) - constants])
        return closed(scan.body.inputs, bodies.inlined(condition, values))

    tested = bodies.remembered(scan.body, of_structure("tested", condition, constants), build)
    node = apply(WHILE, operands, (tested, scan.body, scan.constants, maximum))
    return (*found(outputs(node)[:-1]), None)


def bounded(inputs: Inputs, loop: While, maximum: int) -> Node:
    """The same loop as a scan of `maximum` steps; steps after its end change nothing."""
    condition, body, constants, _ = loop

    def build() -> Program:
        (tested,) = bodies.inlined(condition, body.inputs)
        stay = closed(body.inputs, body.inputs[constants:])
        node = branch_node((stay, body), cast(tested, INTEGER), body.inputs)
        return closed(body.inputs, outputs(node))

    step = bodies.remembered(body, of_structure("bounded", condition, constants), build)
    return scan_node(step, inputs[:constants], inputs[constants:], (), maximum)


def _pullback(
    wanted: Sequence[int],
    cotangents: Sequence[Node | None],
    y: Sequence[Node],
    inputs: Inputs,
    **params: Any,
) -> list[Node | None]:
    loop = While(**params)
    _, body, constants, maximum = loop
    if maximum is None:
        given = tuple(cotangent is not None for cotangent in cotangents[:-1])
        key = of_structure("while pullback", constants, tuple(wanted), given)
        seeds = [cotangent for cotangent in cotangents[:-1] if cotangent is not None]
        return bodies.by_program(
            body,
            key,
            lambda: _pullback_program(body, constants, wanted, given),
            (*inputs, y[-1], *seeds),
        )
    node = bounded(inputs, loop, maximum)
    rule: Any = SCAN.pullback
    return rule(wanted, list(cotangents)[:-1], outputs(node), inputs, **node.keywords)


def _batch(inputs: Inputs, flags: Flags, y: Node, **params: Any) -> tuple[Node, ...]:
    """Loop once for all examples; if they end at different times, run until the last one ends."""
    condition, body, constants, maximum = While(**params)
    size, scan = size_of(inputs, flags), _as_scan(body, constants)
    step, later, having, carried = loop_rules.batched(scan, inputs, flags, flags, size)
    tested, (apart,) = bodies.batched(condition, later, size, (False,))
    if not apart:
        node = apply(WHILE, (*inputs[:constants], *carried), (tested, step, constants, maximum))
        kept = zip(outputs(node), (*having, False), strict=True)
        return tuple(result if flag else spread(result, size) for result, flag in kept)
    every = (*later[:constants], *(True,) * len(carried))
    step, _, _, carried = loop_rules.batched(scan, inputs, flags, every, size)
    tested, _ = bodies.batched(condition, every, size, (True,))
    any_left, step = bodies.remembered(
        step,
        of_structure("while apart", tested, constants, size),
        lambda: _apart(tested, step, constants, size),
    )
    (first,) = bodies.inlined(tested, (*inputs[:constants], *carried))
    operands = (*inputs[:constants], first, constant(0, spec((size,), INTEGER)), *carried)
    _, counts, *finals, _ = outputs(apply(WHILE, operands, (any_left, step, constants, maximum)))
    return (*finals, counts)


def _apart(tested: Program, body: Program, constants: int, size: int) -> tuple[Program, Program]:
    """Condition and body that also carry which examples still run, and each one's step count."""
    running = placeholder(spec((size,), np.dtype(bool)))
    counts = placeholder(spec((size,), INTEGER))
    fixed, carried = body.inputs[:constants], body.inputs[constants:]
    inputs = (*fixed, running, counts, *carried)
    any_left = apply(REGISTRY["any"], (running,), ((0,), False))
    new = [
        where(reshaped(running, (size, *(1,) * (node.ndim - 1))), node, old)
        for node, old in zip(body.outputs, carried, strict=True)
    ]
    (again,) = bodies.inlined(tested, (*fixed, *new))
    results = (running & again, counts + cast(running, INTEGER), *new)
    return closed(inputs, (any_left,)), closed(inputs, results)


def _samples() -> list[Sample]:
    rng = generator("while")
    found = []
    for dtype in ("float64", "complex128", "float32"):
        of, number = spec((2,), np.dtype(dtype)), spec((), INTEGER)
        k, x, n = placeholder(spec((), np.dtype(dtype))), placeholder(of), placeholder(number)
        grows = closed((k, x, n), (apply(REGISTRY["sin"], (x * k,)), n + 1))
        short = closed((k, x, n), (n < 3,))
        size = apply(REGISTRY["sum"], (apply(REGISTRY["abs"], (x,)),), ((0,), False))
        small = closed((k, x, n), (size < 5.0,))
        doubles = closed((k, x, n), (x + x * k, n))
        for condition, body, maximum in (
            (short, grows, 3),
            (short, grows, 2),
            (small, doubles, 12),
            (small, grows, 0),
        ):
            arrays = (np.array(0.9, dtype), rng.uniform(0.5, 1, 2).astype(dtype), np.array(0))
            found.append(Sample(arrays, While(condition, body, 1, maximum)._asdict()))
    return found


WHILE = declare(
    Op(
        "while",
        "control",
        params=While._fields,
        spec=_spec,
        numpy=_kernel,
        jvp=_jvp,
        batch=_batch,
        sparsity=while_reads,
        pullback=_pullback,
        expensive=True,
        samples=_samples,
    )
)
