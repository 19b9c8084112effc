"""The op of py_function: a Python function of tensors, differentiated by running it under a tape.

It lies above the other ops that call Python (`ops.custom.callback`) because its kernel makes
tensors, and its derivative a tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.ir import Spec, spec
from gradtape.ir.node import WRAPPERS, Node, apply, pick
from gradtape.ops.custom.callback import (
    EachExample,
    callback_batch,
    callback_op,
    checked,
    happens,
)
from gradtape.ops.elementwise.unary import sin
from gradtape.ops.families.samples import Sample
from gradtape.records import dataclass
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor import Tensor, from_value
from gradtape.trace import host_value


@dataclass(frozen=True)
class Pullback:
    """A callback's gradient as another callback, so that all orders of derivatives work alike."""

    function: Any
    outputs: int
    index: int
    gradient: Any = None

    def __call__(self, *operands: Any) -> Any:
        cut = len(operands) - self.outputs
        arguments, dys = operands[:cut], operands[cut:]
        if self.gradient is not None:
            slopes = self.gradient(*arguments, *dys)
            listed = slopes if isinstance(slopes, (tuple, list)) else (slopes,)
            if len(listed) != cut:
                raise ValueError(
                    f"py_function: gradient returned {len(listed)} cotangents for {cut} arguments. "
                    "Return one for each, None for what has no derivative."
                )
            slope = listed[self.index]
            return np.zeros(arguments[self.index].shape) if slope is None else slope
        return _pulled(self.function, arguments, dys, self.index)


WRAPPERS.add(Pullback)


def _pulled(
    function: Callable[..., object], arguments: Sequence[Tensor], dys: Sequence[Tensor], index: int
) -> Tensor:
    """The cotangent of one argument of a callback, by running it under a tape."""
    tape = GradientTape()
    with tape:
        sources = [argument.copy() for argument in arguments]
        tape.watch(sources[index])
        results = function(*sources)
    listed = list(results) if isinstance(results, (tuple, list)) else [results]
    return tape.gradient(listed, sources[index], list(dys), unconnected_gradients="zero")


def _tensor_kernel(*arrays: Any, function: Any, specs: tuple[Spec, ...], gradient: Any) -> Any:
    results = happens(function, lambda: on_tensors(function, arrays))
    name = "the gradient of py_function" if isinstance(function, Pullback) else "py_function"
    return checked(name, results, specs)


def on_tensors(function: Any, arrays: Any) -> Any:
    """Call a function of tensors on arrays; return its results as a tuple of arrays."""
    results = function(*[from_value(host_value(array)) for array in arrays])
    listed = results if isinstance(results, (tuple, list)) else (results,)
    return tuple(r.numpy() if hasattr(r, "numpy") else r for r in listed)


def _tensor_vjp(
    index: int, g: Any, y: Any, inputs: tuple[Node, ...], function: Any, specs: Any, gradient: Any
) -> Node:
    pullback = Pullback(function, len(specs), index, gradient)
    node = apply(PY_FUNCTION, (*inputs, *g), (pullback, (inputs[index].spec,), None))
    return pick(node, 0)


def _batch(
    inputs: tuple[Node, ...],
    batched: tuple[bool, ...],
    y: Node,
    function: Any,
    specs: tuple[Spec, ...],
    gradient: Any,
) -> Node:
    """Call the function, or its gradient, once for each example."""
    if gradient is not None:
        # The gradient also takes a cotangent of each result, and returns one of each operand.
        flags = (*batched, *(True,) * len(specs))
        slopes = tuple(node.spec for node in y.inputs)
        gradient = EachExample(gradient, flags, slopes, batched)
    return callback_batch(inputs, batched, y, function, specs, gradient=gradient)


PY_FUNCTION = callback_op(
    "py_function",
    "gradient",
    numpy=_tensor_kernel,
    vjp=_tensor_vjp,
    batch=_batch,
    opaque=True,
    samples=lambda: [
        Sample(
            (np.array([1.0, 0.5]),),
            {"function": sin, "specs": (spec((2,), np.dtype("float64")),), "gradient": None},
        )
    ],
)
