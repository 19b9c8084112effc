"""linearize: the derivative of a function at a point, as a linear map to be called again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from gradtape.solve.linear_operators import operator_of
from gradtape.tape.grad_vjp_jvp import pulled_back, pushed_forward, recorded_at
from gradtape.tape.gradient_tape import GradientTape

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

__all__ = ["Linearized", "linearize"]

Result = TypeVar("Result")
Aux = TypeVar("Aux")


@overload
def linearize(
    f: Callable[..., Result], *primals: object, has_aux: Literal[False] = False
) -> tuple[Result, Linearized[Result]]: ...


@overload
def linearize(
    f: Callable[..., tuple[Result, Aux]], *primals: object, has_aux: Literal[True]
) -> tuple[Result, Linearized[Result], Aux]: ...


def linearize(f: Callable[..., object], *primals: object, has_aux: bool = False) -> Any:
    """The value of `f` and its derivative at the primals, a linear map to be called with tangents.

    >>> y, push = gt.linearize(lambda x: x * x, gt.asarray(3.0))
    >>> float(push(1.0)), float(push(2.0))
    (6.0, 12.0)

    `push.transpose(cotangent)` is the same derivative the other way, and
    `push.as_linear_operator()` is it for SciPy's iterative solvers.
    """
    tape, sources, value, aux = recorded_at("linearize", f, primals, has_aux)
    push: Linearized[Any] = Linearized(tape, sources, value)
    return (value, push, aux) if has_aux else (value, push)


class Linearized(Generic[Result]):
    """The derivative of a function at a point, as a linear map.

    >>> _, push = gt.linearize(lambda x: x[1:] * x[:-1], gt.asarray([1.0, 2.0, 3.0]))
    >>> push([1.0, 0.0, 0.0]).tolist(), push.transpose([1.0, 0.0])[0].tolist()
    ([2.0, 0.0], [2.0, 1.0, 0.0])
    >>> push.as_linear_operator() @ np.eye(3)
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """

    def __init__(self, tape: GradientTape, sources: list[Any], value: Result) -> None:
        self._tape = tape
        self._sources = sources
        self._value = value

    def __call__(self, *tangents: object) -> Result:
        """The derivative of the value along the tangents, one for each primal."""
        return pushed_forward(self._tape, self._sources, self._value, tangents)

    def transpose(self, cotangent: object) -> tuple[Any, ...]:
        """The cotangents of the primals from that of the value, as `vjp` gives them."""
        return pulled_back(self._tape, self._sources, self._value, cotangent)

    def as_linear_operator(self) -> LinearOperator:
        """The map as a `scipy.sparse.linalg.LinearOperator` on flat vectors.

        Several primals, and nests of them, are laid end to end, and so are the parts of the value.
        """
        return operator_of(self, self._sources, self._value)
