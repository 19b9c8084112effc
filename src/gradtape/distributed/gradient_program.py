"""The program of a shard: loss, gradients and new averages as functions of variables and batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape import RowSparse, Tensor
from gradtape.distributed.programs import (
    NotAProgramError,
    TravellingProgram,
    compile_ahead,
    trace_leaves,
)
from gradtape.distributed.replica import DENSE, NONE, ROWS, averaged, counted, gradients_of
from gradtape.ir.spec import spec


def gradient_program(
    loss: Callable[..., Any], model: Any, batch: Sequence[np.ndarray]
) -> TravellingProgram:
    """The program for batches like this one. Raises NotAProgramError where there is none."""
    variables = model.variables
    if not all(isinstance(part, np.ndarray) for part in batch):
        raise NotAProgramError("the batch is not made of arrays")
    specs = tuple(spec(tuple(each.shape), np.dtype(each.dtype)) for each in (*variables, *batch))

    def call(made: Any, tensors: list[Tensor]) -> tuple[list[Any], list[str]]:
        # Variables are inputs of the program: a read of one finds its argument.
        for variable, tensor in zip(variables, tensors, strict=False):
            made.bind(variable, tensor)
        start = {id(v): made.bound(v) for v in counted(model)}
        value, gradients = gradients_of(loss, model, tensors[len(variables) :])
        if any(made.bound(v) is not start[id(v)] for v in counted(model)):
            raise NotAProgramError("it counts in variables")
        others = {id(v) for v in made.assigned()} - {id(v) for v in variables}
        if others:
            raise NotAProgramError("it assigns variables that are not in the model")
        results: list[Any] = [value]
        kinds = []
        for gradient in gradients:
            if gradient is None:
                kinds.append(NONE)
            elif isinstance(gradient, RowSparse):
                kinds.append(ROWS)
                results += [gradient.indices, gradient.values]
            else:
                kinds.append(DENSE)
                results.append(gradient)
        for buffer in averaged(model):
            kinds.append(DENSE)
            results.append(made.bound(buffer))
        return results, kinds

    found = trace_leaves("data_parallel", call, specs, carries=True)
    compile_ahead(found)
    return found
