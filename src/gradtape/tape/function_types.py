"""Static types of the functions that transforms take."""

from __future__ import annotations

from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
Argument = TypeVar("Argument", contravariant=True)
Result = TypeVar("Result", covariant=True)


class FunctionOf(Protocol[Argument, P, Result]):
    """A function by its first argument, which a transform differentiates by.

    It is a protocol because mypy infers no lambda from overloads with `Callable[Concatenate[…]]`.
    """

    def __call__(self, x: Argument, /, *args: P.args, **kwargs: P.kwargs) -> Result: ...
