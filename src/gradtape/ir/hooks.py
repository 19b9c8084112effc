"""Hooks: calls from lower packages into upper ones, listed in one place.

Imports point from upper packages to lower ones. A hook is needed where the call goes the other way:
entering a pending tensor computes it, the derivative rule of a loop differentiates the loop's body.
The module named in `FILLED_BY` assigns the hook when it is imported; no other module assigns
attributes of another package's objects (tests/formalities/test_hooks.py).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

FILLED_BY = {
    "evaluator": "gradtape.runtime.flush",
    "handle_class": "gradtape.tensor.tensor",
    "transforms": "gradtape.autodiff.body_transforms",
    "numpy_protocols": "gradtape.interop.numpy_protocols.dispatch",
}


class Evaluator(NamedTuple):
    """The function that computes pending work."""

    compute: Callable[[Any], None]
    flush: Callable[[Any], None]


class NumpyProtocols(NamedTuple):
    """NEP 13 and NEP 18 for tensors."""

    array_ufunc: Callable[..., Any]
    array_function: Callable[..., Any]


class Hooks:
    """One attribute for each hook, in a slot: reading it costs as much as any other attribute."""

    __slots__ = tuple(FILLED_BY)

    # trace/: a handle that is pending in another recording is computed before it enters this one,
    # and a recording that has grown too long is flushed in the middle of recording an op.
    evaluator: Evaluator
    # trace/: the class of the results of ops none of whose operands is a handle: Tensor.
    handle_class: type[Any]
    # ops/control: the rules of loops and branches transform the bodies that these ops hold. The
    # object has forward, reverse, batch and detect.
    transforms: Any
    # tensor/: NumPy's functions on tensors. Their tables name most of the library.
    numpy_protocols: NumpyProtocols

    def __getattr__(self, name: str) -> Any:
        """Reached only while the slot is empty: import the module that fills it."""
        if name not in FILLED_BY:
            raise AttributeError(name)
        # Late: `import gradtape` leaves out some packages until their public names are used, and a
        # program that another process sent, or a test, may need their hooks before that.
        import_module(FILLED_BY[name])
        return object.__getattribute__(self, name)


hooks = Hooks()
