"""Ops that attach users' derivative and batch rules to values, which pass unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.ir.node import PICK, Node, apply
from gradtape.ir.op import Op, Undefined, declare
from gradtape.ir.spec import Spec
from gradtape.ops.families import batching, independence
from gradtape.ops.families.native_code import NativeCall
from gradtape.ops.families.samples import Sample
from gradtape.ops.families.sparsity import SAME, RuleInput, dense, elements

_WHY = "it is a Python rule, which only a recording has"


def with_examples(inputs: batching.Inputs, batched: batching.Flags, count: int) -> batching.Inputs:
    """The first `count` operands, each with an axis of examples."""
    size = batching.size_of(inputs, batched)
    return tuple(
        node if flag else batching.spread(node, size)
        for node, flag in zip(inputs[:count], batched, strict=False)
    )


def _passing_batch(
    inputs: batching.Inputs, batched: batching.Flags, y: Node, *, count: int, **_: Any
) -> batching.Inputs:
    """Pass the batched outputs on: used where the Python rule cannot be called."""
    return with_examples(inputs, batched, count)


def _passing_sparsity(
    y: Node, operands: tuple[RuleInput, ...], *, count: int, **_: Any
) -> list[Any]:
    return [
        tuple(SAME if at == number else None for at in range(len(operands)))
        for number in range(count)
    ]


def by_rule(
    y: Node, operands: tuple[RuleInput, ...], *, count: int, having: Any = None, **_: Any
) -> list[Any]:
    """Dense in the sources, which follow the outputs: a rule may mix all their elements.

    There are as many as flags in `having`, or nothing follows them.
    """
    last = len(operands) if having is None else count + len(having)
    after = (None,) * (len(operands) - last)
    return [(None,) * count + reads[count:last] + after for reads in dense(y, operands)]


def passing(name: str, *params: str, **rules: Any) -> Op:
    """Declare an op whose outputs are its first `count` inputs, with the derivative of these.

    `rules` are other fields of Op.
    """
    fields: dict[str, Any] = {
        "spec": lambda *specs, count, **_: tuple(specs[:count]),
        "numpy": lambda *values, count, **_: tuple(values[:count]),
        "jvp": lambda tangents, y, inputs, *, count, **_: tuple(tangents[:count]),
        "vjp": lambda index, g, y, inputs, *, count, **_: g[index] if index < count else None,
        "batch": _passing_batch,
        "sparsity": _passing_sparsity,
    }
    return declare(Op(name, "custom", params=params, transparent=True, **(fields | rules)))


def _custom_batch(
    inputs: batching.Inputs, batched: batching.Flags, y: Node, count: int, key: Any
) -> Node:
    """Batch all outputs; the sources that the rule differentiates by stay as they are."""
    own = getattr(key, "batch_rule", None)
    if own is not None:
        return own(inputs, batched, y)
    return apply(y.op, (*with_examples(inputs, batched, count), *inputs[count:]), y.params)


# Inputs are the computed outputs, then the sources that the rule differentiates by. `key`
# identifies the function, not the call: the recording holds the closures of each call.
CUSTOM = passing(
    "custom_derivative",
    *("count", "key"),
    jvp=Undefined(_WHY),
    vjp=Undefined(_WHY),
    batch=_custom_batch,
    sparsity=by_rule,
    samples=lambda: [Sample((np.array([1.0]), np.array([2.0])), {"count": 1, "key": None}, 0)],
)

# Inputs are the outputs computed for one example, then the arguments; `call` has the rule for
# many examples. See gradtape.control.custom_vmap.
CUSTOM_BATCH = passing(
    "custom_batch",
    *("count", "call"),
    # Derivatives assume outputs computed from the arguments, so samples test values only.
    samples=lambda: [Sample((np.array([1.0]), np.array([2.0])), {"count": 1, "call": None}, 0)],
)


def _same_value(name: str, params: dict[str, Any], **rules: Any) -> Op:
    """Declare an op whose result is its operand; `params` are those of its sample."""
    return declare(
        Op(
            name,
            "custom",
            params=tuple(params),
            spec=lambda x, **_: x,
            numpy=lambda x, **_: x,
            jvp=lambda tangents, y, inputs, **_: tangents[0],
            vjp=lambda index, g, y, inputs, **_: g,
            mask=lambda index, mask, y, inputs, **_: mask,
            batch=batching.leading,
            sparsity=elements,
            samples=lambda: [Sample((np.array([1.0, 2.0]),), params)],
            **rules,
        )
    )


# A value with a name, by which the policy of a checkpoint can choose to keep it.
NAMED = _same_value("checkpoint_name", {"name": "x"}, transparent=True)

# The same value as a different node: nodes computed from it are not shared with equal nodes
# computed from the operand, so they are recomputed, as a checkpoint requires.
BARRIER = _same_value(
    "recompute",
    {},
    examples=independence.in_place,
    # A loop could compute it early; an instruction cannot move.
    native=lambda y: NativeCall("copy_words", (), (), y.spec.nbytes, y.size),
)


def _assigned_spec(new: Spec, old: Spec) -> Spec:
    if new is not old:
        raise ShapeError(f"assigned: {new} replaces {old}. Give a value of the same spec.")
    return new


# The value of `new` with the derivative of `old`: a variable after an assignment at which
# derivatives stop, since all its reads count as one source; or a value that a checkpoint saved,
# with the derivative of what computes it again.
ASSIGNED = declare(
    Op(
        "assigned",
        "elementwise",
        spec=_assigned_spec,
        numpy=lambda new, old: new,
        jvp=lambda tangents, y, inputs: tangents[1],
        vjp=lambda index, g, y, inputs: g if index == 1 else None,
        mask=lambda index, mask, y, inputs: mask,
        batch=lambda inputs, batched, y: apply(y.op, batching.spread_all(inputs, batched)),
        examples=independence.elementwise,
        sparsity=lambda y, operands: (None, SAME),
        llvm=lambda b, new, old: new,
        transparent=True,
        samples=lambda: [
            Sample((np.array([1.0, -2.0]), np.array([3.0, 4.0])), order=0),
            Sample((np.array(3), np.array(4)), order=0),
            Sample((np.array(1j), np.array(2j)), order=0),
        ],
    )
)


def passes_through(node: Node) -> Node | None:
    """The input that an output of a transparent node is equal to; None for any other node."""
    if node.op is PICK and node.inputs[0].op.transparent:
        return node.inputs[0].inputs[node.params[0]]
    return None
