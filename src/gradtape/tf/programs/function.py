"""tf.function: gradtape's compiled functions, on tensors of gradtape.tf."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

import gradtape as gt
from gradtape import Tensor as CoreTensor
from gradtape.ir.spec import Spec
from gradtape.jit.captured import Contract
from gradtape.libraries import check_exports
from gradtape.pytree import flatten, flatten_up_to, map_leaves, register_pytree, unflatten
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import PLAIN, functions, graphs
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.slices import IndexedSlices, of_rows
from gradtape.tf.base.tensor import Tensor, adopt, sharing
from gradtape.tf.base.types import UserFunction
from gradtape.tf.programs.concrete_function import ConcreteFunction, SignatureError, agreeing

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
    """The result of a captured function, whose tensors are not shared, as tensors of this class."""
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
    func: UserFunction | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: object = None,
    experimental_autograph_options: object = None,
    experimental_attributes: object = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """Run a function without the Python between its ops, from the second call of a kind on.

    >>> @tf.function
    ... def f(x, y):
    ...     return x * x + y
    >>> f(tf.constant(2.0), 1.0).numpy().item()
    5.0

    `if` and `while` on values work as they do in Python; their outcomes become guards. Python
    outside (globals, attributes, lists) is read once for each signature, as in TensorFlow; what
    changes belongs into Variables or arguments. The options beyond `input_signature` and
    `reduce_retracing` are accepted and change nothing.
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

        # TensorFlow reads Python outside once for each signature, and its users count on that.
        self._recorded = gt.Function(inside, (), reduce_retracing, Contract(frozen=True))

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
            return graphs.take(self._call, args, kwargs, PLAIN)
        return self._call(*args, **kwargs)

    def _checked(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], signature: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Arguments by position, as tensors that agree with the signature, which may be nests."""
        if kwargs or len(args) < len(signature):
            bound = inspect.signature(self.python_function).bind(*args, **kwargs)
            args = bound.args
            if len(args) < len(signature):
                bound.apply_defaults()
                args = bound.args[: len(signature)]
        if len(args) != len(signature):
            raise SignatureError(
                f"{self.__name__}: input_signature has {len(signature)} entries and the call "
                f"{len(args)} arguments. Pass one for each."
            )
        pairs = enumerate(zip(args, signature, strict=True))
        return tuple(self._agreeing(at, argument, entry) for at, (argument, entry) in pairs)

    def _agreeing(self, position: int, argument: object, entry: object) -> object:
        specs, structure = flatten(entry)
        label = f"{self.__name__}: argument {position}"
        parts = zip(flatten_up_to(structure, argument, label), specs, strict=True)
        found = [agreeing(self.__name__, position, x, _spec(spec)) for x, spec in parts]
        return unflatten(structure, found)

    def trace(self, *args: Any, **kwargs: Any) -> None:
        """Capture the function for these arguments now; that changes no variable."""
        if self.input_signature is not None:
            args, kwargs = self._checked(args, kwargs, self.input_signature), {}
        if not Switch.eagerly and not graphs.in_use:
            self._recorded.capture(*args, **kwargs)

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        # A decorated function of a module is found there by its name.
        made = (Function, (self.python_function, self.input_signature, self._reduce))
        return name if found is self else made

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if Switch.eagerly:
            return self.python_function(*args, **kwargs)
        return _received(self._recorded(*args, **kwargs))

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function for arguments like these; specs may stand for tensors."""
        if self.input_signature is not None and not args and not kwargs:
            args = tuple(self.input_signature)
        return ConcreteFunction(self, args, kwargs)

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

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function for arguments like these; specs may stand for tensors."""
        return self._function.get_concrete_function(*self._first, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.__self__, self.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def _arguments(nest: object) -> Any:
    """Arguments with tensors of this class, as the user's function expects them."""
    return map_leaves(_argument, nest)


def _argument(leaf: object) -> object:
    if isinstance(leaf, CoreTensor) and not isinstance(leaf, Tensor):
        # Stand-in arguments of a capture have no other reference, so their class may change.
        fresh = leaf.recording is not None and leaf.recording.capturing
        return adopt(leaf) if fresh else sharing(leaf)
    return leaf


def _spec(entry: Any) -> TensorSpec:
    return entry if isinstance(entry, TensorSpec) else TensorSpec.from_tensor(entry)


check_exports(globals(), __all__)
