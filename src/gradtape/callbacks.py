"""Real Python inside any program: numpy_function and py_function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype
from gradtape.graph.recording import host_value, record
from gradtape.graph.spec import Spec, spec
from gradtape.ops.callback import NUMPY_FUNCTION, PULL, PY_FUNCTION, isolated
from gradtape.tape import GradientTape
from gradtape.tensor import Tensor, asarray, from_value

__all__ = ["numpy_function", "py_function"]


def numpy_function(f: Callable[..., Any], args: Sequence[Any], spec: Any) -> Any:
    """Call `f` on NumPy arrays as part of the program; it has no derivative and says so.

    `spec` is what `f` returns: a dtype, a (shape, dtype) pair, or a list of either.

    >>> gt.numpy_function(np.cumsum, [gt.asarray([1.0, 2.0])], ((2,), gt.float64)).tolist()
    [1.0, 3.0]
    """
    operands = [asarray(argument) for argument in args]

    def trial() -> Any:
        return f(*[np.array(operand.numpy()) for operand in operands])

    specs, several = _specs(spec, trial)
    results = record(NUMPY_FUNCTION, tuple(operands), (f, specs))
    return list(results) if several else results[0]


def py_function(
    f: Callable[..., Any],
    args: Sequence[Any],
    spec: Any,
    gradient: Callable[..., Any] | None = None,
) -> Any:
    """Call `f` on tensors as part of the program; differentiable through what it does.

    With `gradient`, `gradient(*args, *dys)` gives the cotangents of the arguments instead.

    >>> x = gt.Variable(2.0)
    >>> with gt.GradientTape() as tape:
    ...     y = gt.py_function(lambda x: x * x, [x], ((), gt.float64))
    >>> float(tape.gradient(y, x))
    4.0
    """
    operands = [asarray(argument) for argument in args]

    def trial() -> Any:
        return isolated(lambda: f(*[from_value(host_value(o.numpy())) for o in operands]))

    specs, several = _specs(spec, trial)
    results = record(PY_FUNCTION, tuple(operands), (f, specs, gradient))
    return list(results) if several else results[0]


def _specs(given: Any, trial: Callable[[], Any]) -> tuple[tuple[Spec, ...], bool]:
    """Specs of the results, and whether they are a list. A bare dtype means: find the shape."""
    several = isinstance(given, list)
    items = given if several else [given]
    if all(_known(item) is not None for item in items):
        return tuple(_known(item) for item in items), several  # type: ignore[misc]
    results = trial()
    listed = results if isinstance(results, (tuple, list)) else (results,)
    if len(listed) != len(items):
        raise ValueError(f"the function returned {len(listed)} values, {len(items)} were declared.")
    return tuple(
        spec(np.shape(r), as_dtype(item)) for r, item in zip(listed, items, strict=True)
    ), several


def _known(item: Any) -> Spec | None:
    if isinstance(item, Spec):
        return item
    if isinstance(item, tuple):
        shape, dtype = item
        return spec(tuple(shape), as_dtype(dtype))
    shape, dtype = getattr(item, "shape", None), getattr(item, "dtype", None)
    if dtype is None or isinstance(item, (np.dtype, type)):
        return None
    return spec(tuple(shape or ()), as_dtype(dtype))


def _pull(function: Any, arguments: Sequence[Tensor], dys: Sequence[Tensor], index: int) -> Any:
    """The cotangent of one argument of a callback, by running it under a tape."""
    tape = GradientTape()
    with tape:
        sources = [argument.copy() for argument in arguments]
        tape.watch(sources[index])
        results = function(*sources)
    listed = list(results) if isinstance(results, (tuple, list)) else [results]
    return tape.gradient(listed, sources[index], list(dys), unconnected_gradients="zero")


PULL["tape"] = _pull
PULL["tensor"] = lambda array: from_value(host_value(array))
