"""Ops that attach users' derivative and batch rules inside a body, where rules are programs.

Outside bodies a rule is a Python closure held by the recording (custom.py). A body outlives its
recording, so the closure is called once while the body is traced.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.errors import NoValueError
from gradtape.ir.derived import of_structure
from gradtape.ir.node import Node, apply, placeholder
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import Program, closed
from gradtape.ir.spec import Spec, spec
from gradtape.ops.control import bodies
from gradtape.ops.custom.custom import by_rule, passing, with_examples
from gradtape.ops.families.batching import Flags, Inputs, size_of, spread
from gradtape.ops.families.samples import Sample

# Inputs are three groups: the computed outputs, the sources of the derivative, and further values
# that the rule reads. `body` takes the third group and the cotangents of the outputs, and returns
# the cotangents of the sources with a flag in `having`.


def _pullback(
    wanted: Sequence[int],
    cotangents: Sequence[Node | None],
    y: Sequence[Node],
    inputs: Inputs,
    *,
    count: int,
    having: Flags,
    body: Program,
) -> list[Node | None]:
    read = inputs[count + len(having) :]
    given = [
        bodies.zero_if_absent(cotangent, value.spec)
        for cotangent, value in zip(cotangents, y, strict=True)
    ]
    slopes = iter(bodies.inlined(body, (*read, *given)))
    by_source = [next(slopes) if flag else None for flag in having]
    return [
        by_source[index - count] if count <= index < count + len(having) else None
        for index in wanted
    ]


def _batch(
    inputs: Inputs, flags: Flags, y: Node, *, count: int, having: Flags, body: Program
) -> Node:
    size = size_of(inputs, flags)
    first = count + len(having)
    values = with_examples(inputs, flags, count)
    sources = [flag for flag, slope in zip(flags[count:first], having, strict=True) if slope]

    def build() -> Program:
        known = (*flags[first:], *(True,) * count)
        found, _ = bodies.batched(body, known, size, (True,) * len(sources))
        # A source that all examples share receives the sum of their cotangents.
        slopes = [
            node if own else apply(REGISTRY["sum"], (node,), ((0,), False))
            for node, own in zip(found.outputs, sources, strict=True)
        ]
        return closed(found.inputs, slopes)

    key = of_structure("custom batch", flags, size, count, having)
    made = bodies.remembered(body, key, build)
    return apply(CUSTOM_BODY, (*values, *inputs[count:]), (count, having, made))


def _samples() -> list[Sample]:
    of: Spec = spec((2,), np.dtype("float64"))
    read, seed = placeholder(of), placeholder(of)
    body = closed((read, seed), (seed * read,))
    params = {"count": 1, "having": (True, False), "body": body}
    arrays = tuple(np.array([0.5, 1.5]) * scale for scale in (1.0, 2.0, 3.0, 4.0))
    return [Sample(arrays, params, 0)]


CUSTOM_BODY = passing(
    "custom_body",
    *("count", "having", "body"),
    jvp=None,
    vjp=None,
    pullback=_pullback,
    batch=_batch,
    sparsity=by_rule,
    samples=_samples,
)


def _batch_by_rule(
    inputs: Inputs,
    flags: Flags,
    y: Node,
    *,
    count: int,
    arguments: int,
    name: str,
    rules: tuple[tuple[int, Program], ...],
) -> tuple[Node, ...]:
    """Apply the user's rule if it was traced for this number of examples; else pass values on."""
    size = size_of(inputs, flags)
    last = count + arguments
    body = dict(rules).get(size)
    if body is None or not any(flags[count:last]):
        return with_examples(inputs, flags, count)
    if any(flags[last:]):
        raise NoValueError(
            f"custom_vmap: {name}: its rule reads a tensor that differs from example to example "
            "and is not among the arguments. Pass it as an argument."
        )
    many = [
        node if flag else spread(node, size)
        for node, flag in zip(inputs[count:last], flags[count:last], strict=True)
    ]
    return tuple(bodies.inlined(body, (*inputs[last:], *many)))


def _rule_samples() -> list[Sample]:
    arrays = (np.array([0.5, 1.5]), np.array([1.0, 2.0]))
    return [Sample(arrays, {"count": 1, "arguments": 1, "name": "f", "rules": ()}, 0)]


# Inputs are three groups: the outputs computed for one example, the arguments, and further values
# that the rule reads. `rules` has a program of the user's rule for each possible number of
# examples; it takes the third group and the arguments of all examples.
CUSTOM_BATCH_BODY = passing(
    "custom_batch_body",
    *("count", "arguments", "name", "rules"),
    batch=_batch_by_rule,
    samples=_rule_samples,
)
