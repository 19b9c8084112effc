"""tf.function: gradtape's compiled functions, on tensors of gradtape.tf."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.functions.function import Function as CoreFunction
from gradtape.graph.spec import Spec
from gradtape.pytree import flatten, map_leaves, register_pytree, unflatten
from gradtape.tensor.tensor import Tensor as CoreTensor
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import FRESH, WithoutValue, functions, graphs
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.slices import IndexedSlices, of_rows
from gradtape.tf.base.tensor import Tensor, adopt, sharing
from gradtape.tf.base.types import UserFunction

__all__ = ["function"]


class Switch:
    """The setting of `tf.config.run_functions_eagerly`."""

    eagerly = False


class _Rows:
    """An IndexedSlices as a nest of plain tensors, which captured functions can return."""

    def __init__(self, rows: tuple[Any, ...], spec: Spec) -> None:
        self.rows = rows
        self.spec = spec


register_pytree(_Rows, lambda r: (r.rows, r.spec), lambda spec, rows: _Rows(tuple(rows), spec))


def _sent(result: object) -> Any:
    """The result of the user's function, as the captured function returns it."""
    return map_leaves(_sent_leaf, result)


def _sent_leaf(leaf: object) -> object:
    if isinstance(leaf, IndexedSlices):
        return _Rows(leaf.rows, leaf.spec)
    return convert(leaf) if isinstance(leaf, np.ndarray) else leaf


def _received(result: Any) -> Any:
    """The result of a captured function with tensors of this class; nobody else holds them."""
    if type(result) is CoreTensor:
        return adopt(result)
    if isinstance(result, _Rows):
        return of_rows(result)
    if isinstance(result, (bool, int, float, complex, np.ndarray, np.generic)):
        return convert(result)
    if isinstance(result, dict):
        return type(result)((key, _received(value)) for key, value in result.items())
    if isinstance(result, (list, tuple)):
        parts = [_received(part) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    leaves, structure = flatten(result)
    return result if structure.kind is None else unflatten(structure, [adopt(x) for x in leaves])


def function(
    func: UserFunction | None = None, input_signature: Sequence[Any] | None = None,
    autograph: bool = True, jit_compile: bool | None = None, reduce_retracing: bool = False,
    experimental_implements: object = None, experimental_autograph_options: object = None,
    experimental_attributes: object = None, experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None, experimental_follow_type_hints: bool | None = None,
) -> Any:  # fmt: skip
    """Run a function without the Python between its ops, from the second call of a kind on.

    >>> @tf.function
    ... def f(x, y):
    ...     return x * x + y
    >>> f(tf.constant(2.0), 1.0).numpy().item()
    5.0

    `if` and `while` on values work as they do in Python; their outcomes become guards. The options
    beyond `input_signature` and `reduce_retracing` are accepted and change nothing.
    """
    if func is None:
        return functools.partial(
            function, input_signature=input_signature, reduce_retracing=reduce_retracing
        )
    return Function(func, input_signature, bool(reduce_retracing or experimental_relax_shapes))


class Function:
    """A function with its captures; made by `tf.function`."""

    def __init__(
        self, func: UserFunction, input_signature: Sequence[Any] | None, reduce_retracing: bool
    ) -> None:
        self.__name__ = getattr(func, "__name__", type(func).__name__)
        functools.update_wrapper(self, func)
        self.python_function = func
        self.input_signature = input_signature
        self._reduce = reduce_retracing
        self._bound: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()

        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with functions.call():
                return _sent(func(*_arguments(args), **_arguments(kwargs)))

        specs = None if input_signature is None else [_spec(each) for each in input_signature]
        self._recorded = CoreFunction(inside, (), specs, reduce_retracing)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if self.input_signature is None:
            return BoundFunction(self, instance, (instance,))
        # The signature has no entry for the instance, so each instance has its own function.
        result = self._bound.get(instance)
        if result is None:
            method = functools.partial(self.python_function, weakref.proxy(instance))
            functools.update_wrapper(method, self.python_function, ("__name__", "__doc__"), ())
            del method.__wrapped__  # type: ignore[attr-defined] # which has the instance, too
            result = self._bound[instance] = Function(method, self.input_signature, self._reduce)
        return BoundFunction(result, instance, ())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.input_signature is not None:
            args, kwargs = self._checked(args, kwargs, self.input_signature), {}
        if graphs.in_use:
            return graphs.take(self._call, args, kwargs, FRESH)
        return self._call(*args, **kwargs)

    def _checked(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], signature: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Arguments by position, as tensors that agree with the signature."""
        if kwargs:
            args = inspect.signature(self.python_function).bind(*args, **kwargs).args
        specs = [_spec(each) for each in signature]
        if len(args) != len(specs):
            raise SignatureError(
                f"{self.__name__}: input_signature has {len(specs)} entries and the call "
                f"{len(args)} arguments. Pass one for each."
            )
        return tuple(
            _agreeing(self.__name__, position, argument, spec)
            for position, (argument, spec) in enumerate(zip(args, specs, strict=True))
        )

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if Switch.eagerly:
            return self.python_function(*args, **kwargs)
        return _received(self._recorded(*args, **kwargs))

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Function:
        """The function to call for arguments like these; specs may stand for tensors."""
        passed = (*args, *kwargs.values())
        if passed and not any(isinstance(x, TensorSpec) for x in passed):
            self(*args, **kwargs)
        return self

    def explain(self) -> str:
        """A report of the captures: their reasons and their costs."""
        return self._recorded.explain()

    def experimental_get_tracing_count(self) -> int:
        """The number of captures."""
        return self._recorded.captures


class BoundFunction:
    """A compiled method and its instance, which it keeps alive."""

    def __init__(self, function: Function, instance: object, first: tuple[Any, ...]) -> None:
        self._function = function
        self.__self__ = instance
        self._first = first
        functools.update_wrapper(self, function.python_function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*self._first, *args, **kwargs)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> BoundFunction:
        """The function to call for arguments like these; specs may stand for tensors."""
        self._function.get_concrete_function(*self._first, *args, **kwargs)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class SignatureError(TypeError, ValueError):
    """Arguments that do not agree with an input_signature."""


def _agreeing(name: str, position: int, argument: object, spec: TensorSpec) -> object:
    if isinstance(argument, WithoutValue):
        return argument
    try:
        tensor = convert(argument, spec.dtype)
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"{name}: argument {position} does not agree with {spec!r}: {error}"
        ) from None
    if not spec.shape.is_compatible_with(tensor.shape):
        raise SignatureError(
            f"{name}: argument {position} has shape {tensor.shape}, and input_signature asks for "
            f"{spec.shape}. Pass such a shape, or write None for a length that may vary."
        )
    return tensor


def _arguments(nest: object) -> Any:
    """Arguments with tensors of this class, as the user's function expects them."""
    return map_leaves(_argument, nest)


def _argument(leaf: object) -> object:
    if isinstance(leaf, CoreTensor) and not isinstance(leaf, Tensor):
        # Stand-in arguments of a capture are held by nobody else, so their class may change.
        fresh = leaf.recording is not None and leaf.recording.capturing
        return adopt(leaf) if fresh else sharing(leaf)
    return leaf


def _spec(entry: Any) -> TensorSpec:
    return entry if isinstance(entry, TensorSpec) else TensorSpec.from_tensor(entry)
