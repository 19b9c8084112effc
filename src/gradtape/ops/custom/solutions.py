"""The op that solves an equation at run time, when its operands have no values yet, as in vmap.

The op computes the solution only. Its derivative is zero: the derivative follows from the equation
and belongs to a node around this one; see gradtape.autodiff.solution_rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ir.node import Node, apply
from gradtape.ir.op import Op, declare
from gradtape.ir.spec import Spec, spec
from gradtape.ops.families import batching, independence
from gradtape.ops.families.samples import Sample
from gradtape.ops.families.sparsity import nothing
from gradtape.records import dataclass

# `equation` is an object of an upper package; equations that compute the same are equal. Method:
#   solve(start, others, example)   the solution near a start; `example` is its number, or None
# `over` has a flag for each operand with an axis of examples in front; None if there is none.


def _spec(start: Spec, *others: Spec, equation: Any, over: batching.Flags | None) -> Spec:
    if over is None or over[0]:
        return start
    size = next(of.shape[0] for of, flag in zip(others, over[1:], strict=True) if flag)
    return spec((size, *start.shape), start.dtype)


def _kernel(start: Any, *others: Any, equation: Any, over: batching.Flags | None) -> np.ndarray:
    if over is None:
        return np.asarray(equation.solve(start, others, None), start.dtype)
    arrays = (start, *others)
    size = next(len(array) for array, flag in zip(arrays, over, strict=True) if flag)
    found = np.empty((size, *start.shape[1 if over[0] else 0 :]), start.dtype)
    for number in range(size):
        one, *rest = [
            array[number] if flag else array for array, flag in zip(arrays, over, strict=True)
        ]
        found[number] = equation.solve(one, rest, number)
    return found


def _batch(
    inputs: batching.Inputs,
    batched: batching.Flags,
    y: Node,
    equation: Any,
    over: batching.Flags | None,
) -> Node:
    """Solve one example after the other."""
    if over is None:
        return apply(SOLVE_EQUATION, inputs, (equation, batched))
    outer_size = batching.size_of(inputs, batched)
    rows, flags = batching.rows_of(inputs, over, batched, outer_size, y.shape[0])
    found = apply(SOLVE_EQUATION, rows, (equation, flags))
    return batching.reshaped(found, (outer_size, *y.shape))


@dataclass(frozen=True)
class SquareRoot:
    """The equation that the generated tests use."""

    def solve(self, start: np.ndarray, others: Any, example: int | None) -> np.ndarray:
        return np.sign(start) * np.sqrt(others[0])


def _samples() -> list[Sample]:
    start, square = np.array([1.0, -1.0]), np.array([4.0, 9.0])
    cases: list[tuple[tuple[np.ndarray, ...], batching.Flags | None]] = [
        ((start, square), None),
        ((start, np.stack([square, 2 * square])), (False, True)),
        ((np.stack([start, -start]), square), (True, False)),
        ((start, np.zeros((0, 2))), (False, True)),
    ]
    return [Sample(x, {"equation": SquareRoot(), "over": over}, 0) for x, over in cases]


SOLVE_EQUATION = declare(
    Op(
        "solve_equation",
        "library",
        params=("equation", "over"),
        spec=_spec,
        numpy=_kernel,
        jvp=lambda tangents, y, inputs, **params: None,
        vjp=lambda index, g, y, inputs, **params: None,
        batch=_batch,
        examples=independence.matrices,
        sparsity=nothing,
        expensive=True,
        may_fail=True,
        samples=_samples,
    )
)
