"""Layer: a module that makes its variables when it first sees an input."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gradtape.dtypes import DType, DTypeLike, as_dtype, default_dtype
from gradtape.nn import initializers
from gradtape.nn.initializers import InitializerLike
from gradtape.nn.module import Module
from gradtape.ops.families.casting import cast
from gradtape.tensor import Tensor, TensorLike, Variable, asarray

__all__ = ["Layer"]

_counts: dict[str, int] = defaultdict(int)


class Layer(Module):
    """A module that makes its variables when it first sees an input; derive your own from it.

    >>> class Scale(gt.nn.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_variable("factor", input_shape[-1:], "ones")
    ...
    ...     def call(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale(np.array([[1.0, 2.0]])).tolist()
    [[1.0, 2.0]]
    >>> scale.variables[0].shape
    (2,)

    Without a `dtype` it takes that of its first input, and the default for integers. Later inputs
    are cast to it.
    """

    def __init__(self, name: str | None = None, dtype: DTypeLike | None = None) -> None:
        self.name = _unique(type(self).__name__.lower()) if name is None else name
        self.dtype = None if dtype is None else as_dtype(dtype)
        self.built = False

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make the variables for inputs of this shape. It is called once."""

    def add_variable(
        self,
        name: str,
        shape: tuple[int, ...],
        initializer: InitializerLike,
        trainable: bool = True,
    ) -> Variable:
        """A variable with a starting value, named after the layer."""
        start = initializers.get(initializer)(tuple(shape), self.dtype)
        # Computed now: a pending tensor would become part of the current recording.
        return Variable(asarray(start).numpy(), trainable, f"{self.name}.{name}", self.dtype)

    def __call__(self, x: TensorLike, *args: Any, **kwargs: Any) -> Any:
        """The result of `call` for the input as a tensor of the layer's dtype."""
        tensor: Tensor = asarray(x)
        self.ensure_built(tensor.shape, tensor.dtype)
        return self.call(self.cast_input(tensor), *args, **kwargs)

    def ensure_built(self, input_shape: tuple[int, ...], dtype: DType | None = None) -> None:
        """Make the variables, if they are not made yet."""
        if self.built:
            return
        if self.dtype is None:
            self.dtype = dtype if dtype is not None and dtype.kind in "fc" else default_dtype()
        self.build(tuple(input_shape))
        self.built = True

    def cast_input(self, x: Tensor) -> Tensor:
        """The input in the dtype of the layer; complex inputs keep theirs."""
        if self.dtype is None or x.dtype == self.dtype or x.dtype.kind == "c":
            return x
        return cast(x, self.dtype)

    def describe(self) -> str:
        """The arguments that `repr` shows."""
        return f"name={self.name!r}"


def _unique(name: str) -> str:
    number = _counts[name]
    _counts[name] += 1
    return f"{name}_{number}" if number else name


def words(**arguments: Any) -> str:
    """Arguments as `repr` shows them; a function by its name."""
    return ", ".join(
        f"{name}={getattr(value, '__name__', value)!s}" for name, value in arguments.items()
    )
