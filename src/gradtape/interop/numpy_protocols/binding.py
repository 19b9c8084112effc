"""Binding: NumPy's own signature in front of the function that records.

`RecordedFunction` takes the arguments of a call as NumPy's signature names them, by position or
keyword. Each parameter that our function has too is passed on; every other one must have its
default value, or make no difference to a tensor, or the call is refused with a sentence that names
it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.dtypes import SUPPORTED

AnyFunction = Callable[..., Any]
NO_VALUE: Any = np._NoValue

# Parameters about memory or speed, which a tensor's value does not depend on: what NumPy accepts.
_FLAG = (True, False, None, 0, 1)
_WITHOUT_EFFECT: dict[str, tuple[object, ...]] = {
    "subok": _FLAG,
    "overwrite_input": _FLAG,
    "assume_unique": (True, False),
    "device": (None, "cpu"),
    "max_work": (None, 0, -1, 1),
    "kind": (None, "quicksort", "mergesort", "heapsort", "stable", "introselect", "sort", "table"),
    "stable": (None, True, False),
    "optimize": (True, False, "greedy", "optimal"),
    "copy": (True, False, None),
}
_MEMORY_ORDERS = ("C", "F", "A", "K", "c", "f", "a", "k", None)

_REMEDIES = {
    "out": "Tensors are rebound, not written into: y = np.f(x).",
    "where": "Elements would be left without a value: use gt.where on the result.",
    "order": "Transpose the tensor first.",
    "dtype": "Cast with gt.cast to one of gradtape's dtypes.",
}


def refusal(name: str, parameter: str, value: Any) -> TypeError:
    """The error for a parameter of a NumPy function that has no meaning on tensors."""
    remedy = _REMEDIES.get(
        parameter,
        "Leave it out, or call NumPy on x.numpy() if no derivative is needed.",
    )
    shown = f"an array of shape {np.shape(value)}" if np.ndim(value) else repr(value)
    return TypeError(f"{name}: {parameter}={shown} is not recorded for tensors. {remedy}")


def unrecorded(name: str) -> TypeError:
    """The error for a NumPy function that is not in the table."""
    return TypeError(
        f"{name} is not recorded for tensors. Use the gradtape function, x.numpy() if no "
        "derivative is needed, or gt.numpy_function. gt.numpy_protocols.covered() lists what is."
    )


def checked_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """A dtype that tensors can have, or a refusal that names the parameter."""
    found = np.dtype(dtype)
    if found not in SUPPORTED:
        raise refusal(name, "dtype", found)
    return found


def functions(names: str) -> tuple[AnyFunction, ...]:
    """NumPy's functions of these names."""
    return tuple(getattr(np, name) for name in names.split())


def same_names(
    theirs: object, ours: Mapping[str, Any], names: str
) -> dict[AnyFunction, AnyFunction]:
    """A table of NumPy's functions and ours that have the same names."""
    return {getattr(theirs, name): ours[name] for name in names.split()}


class RecordedFunction:
    """One NumPy function on tensors: its parameters, and the function that records it."""

    def __init__(self, name: str, theirs: AnyFunction, ours: AnyFunction) -> None:
        self.name = name
        self.ours = ours
        self.signature = inspect.signature(theirs)
        given = list(self.signature.parameters.values())
        mine = inspect.signature(ours).parameters.values()
        fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        variadic = [p.name for p in given if p.kind is p.VAR_POSITIONAL]
        self.variadic = variadic[0] if variadic else None
        self.keywords = next((p.name for p in given if p.kind is p.VAR_KEYWORD), None)
        # Our positional-only parameters take NumPy's first ones, whatever these are called there.
        positional = [p.name for p in given if p.kind in fixed]
        count = sum(p.kind is p.POSITIONAL_ONLY for p in mine)
        count = len(positional) if variadic else count
        self.operands = positional[:count]
        self.honoured = {*self.operands, *(p.name for p in mine if p.kind is not p.POSITIONAL_ONLY)}
        # A call that has only these arguments is passed on as it is: most calls are.
        own = [p.name for p in mine if p.kind in fixed]
        self.direct = 0
        for place, (theirs_here, ours_here) in enumerate(zip(positional, own, strict=False)):
            if (place >= count and theirs_here != ours_here) or theirs_here == "dtype":
                break
            self.direct = place + 1
        named = {p.name for p in mine if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        self.by_keyword = (named & self.signature.parameters.keys()) - {"dtype"}

    def __call__(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        if len(args) <= self.direct and kwargs.keys() <= self.by_keyword:
            for value in (*args, *kwargs.values()):
                if value is NO_VALUE:
                    break
            else:
                return self.ours(*args, **kwargs)
        try:
            bound = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}.") from None
        several = bound.pop(self.variadic, ()) if self.variadic else ()
        more = bound.pop(self.keywords, {}) if self.keywords else {}
        passed = self._passed_on(bound | more)
        operands = [passed.pop(name) for name in self.operands if name in passed]
        return self.ours(*operands, *several, **passed)

    def _passed_on(self, bound: Mapping[str, object]) -> dict[str, object]:
        """The arguments without those that say nothing; one that we cannot honour is refused."""
        passed = {}
        for name, value in bound.items():
            if value is NO_VALUE:
                continue
            if name not in self.honoured and name in self.signature.parameters:
                self._check_without_effect(name, value)
                continue
            if name == "dtype" and value is not None:
                value = checked_dtype(self.name, value)
            passed[name] = value
        return passed

    def _check_without_effect(self, name: str, value: object) -> None:
        default = self.signature.parameters[name].default
        if value is default or (value is None and name == "out"):
            return
        harmless = _WITHOUT_EFFECT.get(name, ())
        if name == "order" and default == "K":
            harmless = _MEMORY_ORDERS
        plain = isinstance(value, (str, bool, int, float, np.bool_, type(None)))
        if not plain or value not in (*harmless, default):
            raise refusal(self.name, name, value)
