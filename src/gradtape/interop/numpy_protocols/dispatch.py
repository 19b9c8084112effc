"""The functions behind NumPy's on tensors (NEP 18): the tables of all modules, and their calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gradtape.interop.numpy_protocols import (
    arranging,
    matrices,
    numeric,
    picking,
    reductions,
    without_derivative,
)
from gradtape.interop.numpy_protocols.binding import AnyFunction, RecordedFunction, unrecorded
from gradtape.interop.numpy_protocols.ufuncs import UFUNCS, array_ufunc
from gradtape.ir.hooks import NumpyProtocols, hooks
from gradtape.tensor.operators import Operators

# NumPy's functions, and the functions behind them, whose parameters have NumPy's names.
FUNCTIONS: dict[AnyFunction, AnyFunction] = {
    **reductions.FUNCTIONS,
    **arranging.FUNCTIONS,
    **picking.FUNCTIONS,
    **numeric.FUNCTIONS,
    **matrices.FUNCTIONS,
    **without_derivative.FUNCTIONS,
}

# The caller of each function: filled at the first call, because reading a signature takes time.
_calls: dict[AnyFunction, AnyFunction] = {}
_OURS = (Operators, np.ndarray)


def array_function(
    self: Operators,
    function: AnyFunction,
    kinds: Collection[type],
    args: Sequence[object],
    kwargs: dict[str, object],
) -> object:
    """NEP 18: `np.concatenate([t, u])` records `gt.concat`."""
    if len(kinds) > 1 and not all(issubclass(kind, _OURS) for kind in kinds):
        return NotImplemented
    return (_calls.get(function) or _call_of(function))(args, kwargs)


def _call_of(function: AnyFunction) -> AnyFunction:
    """The function that serves a call on tensors, with its arguments and keywords."""
    ours = FUNCTIONS.get(function)
    if ours is not None:
        call: AnyFunction = RecordedFunction(_name(function), function, ours)
    elif function in without_derivative.OF_VALUES:
        call = _of_arrays(function, without_derivative.value_of)
    elif function in without_derivative.READ_ARRAYS:
        # This conversion raises if a tape tracks the tensor.
        call = _of_arrays(function, np.asarray)
    else:
        raise unrecorded(_name(function))
    _calls[function] = call
    return call


def _of_arrays(function: AnyFunction, array_of: AnyFunction) -> AnyFunction:
    def call(args: Sequence[object], kwargs: dict[str, object]) -> object:
        return function(
            *without_derivative.with_arrays(tuple(args), array_of),
            **without_derivative.with_arrays(kwargs, array_of),
        )

    return call


def _name(function: AnyFunction) -> str:
    module = (getattr(function, "__module__", None) or "numpy").replace("numpy", "np", 1)
    part = module.split(".")[1] if "." in module else ""
    return (
        f"np.{part}.{function.__name__}" if part in ("linalg", "fft") else f"np.{function.__name__}"
    )


def covered() -> list[str]:
    """The names of all functions in the tables."""
    names = {ufunc.__name__ for ufunc in UFUNCS}
    functions = (*FUNCTIONS, *without_derivative.OF_VALUES, *without_derivative.READ_ARRAYS)
    return sorted(names | {_name(function).removeprefix("np.") for function in functions})


hooks.numpy_protocols = NumpyProtocols(array_ufunc, array_function)
