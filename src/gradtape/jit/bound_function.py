"""BoundFunction: a method that is a gt.function, on its instance."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from gradtape.ir.program import Program

if TYPE_CHECKING:
    from gradtape.jit.function import Function

P = ParamSpec("P")
R = TypeVar("R")


class BoundFunction(Generic[P, R]):
    """A method that was made a function, on its instance.

    >>> class Scale:
    ...     def __init__(self, factor):
    ...         self.factor = gt.Variable(factor)
    ...
    ...     @gt.function
    ...     def apply(self, x):
    ...         return self.factor * x
    >>> double = Scale(2.0)
    >>> float(double.apply(gt.asarray(3.0)))
    6.0
    """

    def __init__(self, function: Function[Any, R], instance: object) -> None:
        self.__func__ = function
        self.__self__ = instance
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the method."""
        return self.__func__(self.__self__, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundFunction)
            and self.__func__ is other.__func__
            and self.__self__ is other.__self__
        )

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {type(self.__self__).__name__}>"

    @property
    def python_function(self) -> Callable[P, R]:
        """The undecorated method."""
        return functools.partial(self.__func__.python_function, self.__self__)

    def capture(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Capture the method for arguments like these, and leave all state as it is."""
        self.__func__.capture(self.__self__, *args, **kwargs)

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Program:
        """The program that computes the results for arguments like these."""
        return self.__func__.program(self.__self__, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundFunction, (self.__func__, self.__self__)

    def __getattr__(self, name: str) -> Any:
        if name == "__func__":  # not set yet while an instance is copied
            raise AttributeError(name)
        return getattr(self.__func__, name)
