"""Kernels of one matrix for stacks of matrices, for ops that appear in compiled programs only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.dtypes import Array
from gradtape.ir import Node, Rule, apply, spec
from gradtape.ops.families import batching


def over_stacks(kernel: Callable[..., Any], of: Callable[..., Any], *cores: int) -> Rule:
    """The kernel of one matrix for stacks; `cores` counts the axes that belong to one matrix."""

    def run(*arrays: Array, **params: Any) -> Any:
        pairs = list(zip(arrays, cores, strict=True))
        batch = np.broadcast_shapes(*(x.shape[: x.ndim - core] for x, core in pairs))
        if not batch:
            return kernel(*arrays, **params)
        specs = of(*(spec(x.shape, x.dtype) for x in arrays), **params)
        several = type(specs) is tuple
        listed = specs if several else (specs,)
        results = tuple(np.empty(one.shape, one.dtype) for one in listed)
        stacks = [np.broadcast_to(x, batch + x.shape[x.ndim - core :]) for x, core in pairs]
        for item in np.ndindex(*batch):
            found = kernel(*(stack[item] for stack in stacks), **params)
            for result, part in zip(results, found if several else (found,), strict=True):
                result[item] = part
        return results if several else results[0]

    return run


def batch_all(inputs: batching.Inputs, batched: batching.Flags, y: Node, **params: Any) -> Node:
    """The batching rule: every operand gets the batch axis."""
    return apply(y.op, batching.spread_all(inputs, batched), y.params)
