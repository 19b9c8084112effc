"""for_each: applies an op to each example in turn, for ops that one call cannot batch.

Its kernel is a loop over the NumPy kernel of the op. It serves ops whose results are integers or
booleans, so it needs no derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ir import REGISTRY, Node, Op, Spec, Undefined, apply, closed, declare, spec
from gradtape.ir.node import outputs, placeholder
from gradtape.ops.families import batching, independence
from gradtape.ops.families.batching import Flags, Inputs
from gradtape.ops.families.samples import Sample
from gradtape.ops.families.sparsity import dense


def _spec(*inputs: Spec, op: Op, params: tuple[Any, ...], over: Flags) -> Spec:
    alone = [
        spec(of.shape[1:], of.dtype) if flag else of for of, flag in zip(inputs, over, strict=True)
    ]
    result = op.spec(*alone, **op.keywords(params))
    size = next(of.shape[0] for of, flag in zip(inputs, over, strict=True) if flag)
    return spec((size, *result.shape), result.dtype)


def _kernel(*arrays: Any, op: Op, params: tuple[Any, ...], over: Flags) -> Any:
    of = _spec(
        *[spec(array.shape, array.dtype) for array in arrays],
        op=op,
        params=params,
        over=over,
    )
    result = np.empty(of.shape, of.dtype)
    keywords = op.keywords(params)
    for number in range(of.shape[0]):
        result[number] = op.numpy(
            *[array[number] if flag else array for array, flag in zip(arrays, over, strict=True)],
            **keywords,
        )
    return result


def _batch(
    inputs: Inputs, batched: Flags, y: Node, op: Op, params: tuple[Any, ...], over: Flags
) -> Node:
    """A batch of batches becomes one batch, of all pairs of examples."""
    outer_size = batching.size_of(inputs, batched)
    rows, flags = rows_of(inputs, over, batched, outer_size, y.shape[0])
    found = apply(FOR_EACH, rows, (op, params, flags))
    return batching.reshaped(found, (outer_size, *y.shape))


def rows_of(
    inputs: Inputs, over: Flags, batched: Flags, outer_size: int, inner_size: int
) -> tuple[Inputs, Flags]:
    """Operands with outer and inner axes of examples joined to one, and which of them have it."""
    rows = []
    for node, own, more in zip(inputs, over, batched, strict=True):
        if not own and not more:
            rows.append(node)
            continue
        if not more:
            node = batching.spread(node, outer_size)
        elif not own:
            node = batching.lifted(node, node.ndim)
            shape = (outer_size, inner_size, *node.shape[2:])
            node = apply(REGISTRY["broadcast_to"], (node,), (shape,))
        rows.append(batching.reshaped(node, (outer_size * inner_size, *node.shape[2:])))
    return tuple(rows), tuple(own or more for own, more in zip(over, batched, strict=True))


def _samples() -> list[Sample]:
    search = REGISTRY["searchsorted"]
    rows, values = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]]), np.array([1.5, 2.5])
    return [
        Sample((rows, values), {"op": search, "params": ("left",), "over": (True, False)}),
        Sample((rows, values), {"op": search, "params": ("right",), "over": (True, True)}),
        Sample((rows[:0], values), {"op": search, "params": ("left",), "over": (True, False)}),
    ]


def _composition(*inputs: Node, op: Op, params: tuple[Any, ...], over: Flags) -> Node:
    """A scan over the examples, whose body is native code."""
    of = _spec(*[node.spec for node in inputs], op=op, params=params, over=over)
    shared = [node for node, flag in zip(inputs, over, strict=True) if not flag]
    rows = [node for node, flag in zip(inputs, over, strict=True) if flag]
    outside = [placeholder(node.spec) for node in shared]
    inside = [placeholder(spec(node.shape[1:], node.dtype)) for node in rows]
    fixed, elements = iter(outside), iter(inside)
    operands = tuple(next(elements) if flag else next(fixed) for flag in over)
    body = closed((*outside, *inside), (apply(op, operands, params),))
    # The body, the numbers of constants, of carried values and of steps, and two options.
    scan = (body, len(shared), 0, of.shape[0], False, False)
    return outputs(apply(REGISTRY["scan"], (*shared, *rows), scan))[0]


FOR_EACH = declare(
    Op(
        "for_each",
        "library",
        params=("op", "params", "over"),
        spec=_spec,
        numpy=_kernel,
        jvp=Undefined("it serves ops that give integers or booleans"),
        vjp=Undefined("it serves ops that give integers or booleans"),
        batch=_batch,
        examples=independence.matrices,
        sparsity=dense,
        expensive=True,
        composition=_composition,
        samples=_samples,
    )
)


def each(inputs: Inputs, batched: Flags, y: Node, **params: Any) -> Node:
    """A batch rule: one `for_each` node applies the op to each example."""
    return apply(FOR_EACH, inputs, (y.op, y.params, batched))
