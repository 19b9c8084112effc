"""ConcreteFunction: a tf.function for arguments of one kind, with some values filled in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradtape import Tensor as CoreTensor
from gradtape.pytree import flatten, flatten_up_to, map_leaves, unflatten
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import WithoutValue
from gradtape.tf.base.shapes import TensorSpec


class SignatureError(TypeError, ValueError):
    """Arguments that do not agree with a signature."""


class ConcreteFunction:
    """A function for arguments of one kind; made by `get_concrete_function`.

    Tensors and specs among the arguments are to be passed in a call. All other values are part of
    the function: a call may leave them out, or pass the same.
    """

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self._signature = inspect.signature(function.python_function)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self._made_for = {name: map_leaves(_spec, nest) for name, nest in bound.arguments.items()}
        self._open = [
            name
            for name, nest in self._made_for.items()
            if any(isinstance(leaf, TensorSpec) for leaf in flatten(nest)[0])
        ]
        leaves = flatten((args, dict(kwargs)))[0]
        if leaves and not any(isinstance(leaf, TensorSpec) for leaf in leaves):
            function.trace(*args, **kwargs)

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The specs and values of the arguments, by position and by name."""
        bound = inspect.BoundArguments(self._signature, dict(self._made_for))
        return bound.args, bound.kwargs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, if the arguments are of its kind."""
        missing = [name for name in self._open if name not in kwargs]
        if len(args) == len(missing):
            passed = {**dict(zip(missing, args, strict=True)), **kwargs}
        else:
            passed = dict(self._signature.bind_partial(*args, **kwargs).arguments)
        absent = [name for name in self._open if name not in passed]
        unknown = [name for name in passed if name not in self._made_for]
        if absent or unknown:
            raise SignatureError(
                f"{self.__name__}: arguments {absent or unknown} are "
                f"{'missing' if absent else 'unknown'}. It was made for {self._made_for}."
            )
        agreeing = {
            name: self._agreeing(name, wanted, passed.get(name, wanted))
            for name, wanted in self._made_for.items()
        }
        bound = inspect.BoundArguments(self._signature, agreeing)
        return self.function(*bound.args, **bound.kwargs)

    def _agreeing(self, name: str, wanted: object, passed: object) -> object:
        if name not in self._open:
            if wanted is not passed and not _equal(wanted, passed):
                raise SignatureError(
                    f"{self.__name__}: {name} is {passed!r}, and the function was made for "
                    f"{wanted!r}. Make another with get_concrete_function."
                )
            return wanted
        specs, structure = flatten(wanted)
        parts = flatten_up_to(structure, passed, f"{self.__name__}: {name}")
        pairs = zip(specs, parts, strict=True)
        return unflatten(structure, [self._leaf(name, spec, part) for spec, part in pairs])

    def _leaf(self, name: str, wanted: object, passed: object) -> object:
        if isinstance(wanted, TensorSpec):
            return agreeing(self.__name__, name, passed, wanted, any_shape=True)
        return wanted

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


def agreeing(
    function: str, argument: object, passed: object, spec: TensorSpec, any_shape: bool = False
) -> object:
    """An argument as a tensor that agrees with a spec."""
    if isinstance(passed, WithoutValue):
        return passed
    try:
        tensor = convert(passed, spec.dtype)
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"{function}: argument {argument} does not agree with {spec!r}: {error}"
        ) from None
    if not any_shape and not spec.shape.is_compatible_with(tensor.shape):
        raise SignatureError(
            f"{function}: argument {argument} has shape {tensor.shape}, but input_signature "
            f"has {spec.shape}. Pass such a shape, or write None for a length that may vary."
        )
    return tensor


def _spec(leaf: object) -> object:
    """The spec of a tensor or an array; everything else is a value, and stays."""
    if isinstance(leaf, (CoreTensor, np.ndarray)):
        return TensorSpec.from_tensor(convert(leaf))
    return leaf


def _equal(wanted: object, passed: object) -> bool:
    try:
        return type(wanted) is type(passed) and bool(wanted == passed)
    except Exception:
        return False
