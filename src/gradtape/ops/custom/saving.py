"""Ops for values that a checkpoint keeps: a name for policies, and the use of a saved value."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ir.node import Node, apply
from gradtape.ir.op import Op, declare
from gradtape.ops.families import batching
from gradtape.ops.families.samples import Sample
from gradtape.ops.families.sparsity import RuleInput, elements, stretched

# A value with a name, by which the policy of a checkpoint can choose to keep it.
NAMED = declare(
    Op(
        "checkpoint_name",
        "custom",
        params=("name",),
        spec=lambda x, name: x,
        numpy=lambda x, name: x,
        jvp=lambda tangents, y, inputs, name: tangents[0],
        vjp=lambda index, g, y, inputs, name: g,
        mask=lambda index, mask, y, inputs, name: mask,
        batch=batching.leading,
        sparsity=elements,
        transparent=True,
        samples=lambda: [Sample((np.array([1.0, 2.0]),), {"name": "x"})],
    )
)


def _saved_sparsity(y: Node, operands: tuple[RuleInput, ...]) -> tuple[Any, ...]:
    return None, stretched(operands[1].shape, y.shape)


# The value of the first operand with the derivative of the second, which is equal. The pass
# share_subexpressions replaces the node by `saved`: `again` is computed only for derivatives.
USE_SAVED = declare(
    Op(
        "use_saved",
        "custom",
        spec=lambda saved, again: saved,
        numpy=lambda saved, again: saved,
        jvp=lambda tangents, y, inputs: tangents[1],
        vjp=lambda index, g, y, inputs: g if index else None,
        mask=lambda index, mask, y, inputs: mask if index else None,
        batch=lambda inputs, batched, y: apply(y.op, batching.spread_all(inputs, batched)),
        sparsity=_saved_sparsity,
        transparent=True,
        # Derivatives assume that both operands are equal, so only values are tested.
        samples=lambda: [Sample((np.array([1.0, 2.0]), np.array([1.0, 2.0])), {}, 0)],
    )
)
