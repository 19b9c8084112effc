"""Derivatives at a point as linear maps, SciPy's operators among them: no matrix is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

import numpy as np

from gradtape.control.vmap import vmap
from gradtape.errors import DtypeError
from gradtape.tape.function_at_point import FunctionAtPoint, join, layout_of
from gradtape.tape.grad_vjp_jvp import Aux, Result, pulled_back, pushed_forward, recorded_at
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import Tensor, asarray

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

__all__ = ["Linearized", "hessian_operator", "linear_operator", "linearize"]


def _operator_of(point: FunctionAtPoint | _Flat, forward: str, adjoint: str) -> LinearOperator:
    """A derivative at a point for SciPy; several columns are one batched product."""
    # At the first call, because scipy.sparse.linalg takes longer to load than all of gradtape.
    from scipy.sparse.linalg import LinearOperator

    rows, columns = point.shape
    shape = (columns if forward == "hessian" else rows, columns)

    def times(kind: str, X: np.ndarray) -> np.ndarray:
        if np.iscomplexobj(X) and point.dtype.kind == "f":
            # A real map takes the real and the imaginary part one after the other.
            return times(kind, X.real) + 1j * times(kind, X.imag)
        if X.ndim == 1:
            return np.array(point.product(kind, X)).reshape(-1)
        if not X.shape[1]:
            return np.zeros((shape[0] if kind == forward else shape[1], 0), point.dtype)
        found = point.product(kind, np.ascontiguousarray(X.T), X.shape[1])
        return np.array(found).reshape(X.shape[1], -1).T

    make: Any = LinearOperator
    return make(
        shape,
        dtype=point.dtype,
        matvec=lambda x: times(forward, np.reshape(x, -1)),
        rmatvec=lambda x: times(adjoint, np.reshape(x, -1)),
        matmat=lambda X: times(forward, X),
        rmatmat=lambda X: times(adjoint, X),
    )


class _Flat:
    """A linearized function on flat vectors."""

    def __init__(self, push: Linearized[Any], sources: list[Any], value: object) -> None:
        self._push = push
        self._sources = layout_of(tuple(sources), "linearize")
        self._value = layout_of(value, "linearize")
        self.shape = (self._value.size, self._sources.size)
        self.dtype = np.result_type(self._value.dtype, self._sources.dtype)

    def product(self, kind: str, direction: np.ndarray, count: int | None = None) -> np.ndarray:
        """The map, or its adjoint, times a vector or times rows."""
        layout = self._value if kind == "pull" else self._sources
        given = asarray(np.ascontiguousarray(direction, layout.dtype))
        one = self._pulled if kind == "pull" else self._pushed
        return (one if count is None else vmap(one))(given).numpy()

    def _pushed(self, direction: Tensor) -> Tensor:
        return join(self._push(*self._sources.unravel(direction)))

    def _pulled(self, direction: Tensor) -> Tensor:
        return join(self._push.transpose(self._value.unravel(direction)))


def linear_operator(f: Callable[..., object], *primals: object) -> LinearOperator:
    """The Jacobian of `f` at the primals as a `scipy.sparse.linalg.LinearOperator`.

    >>> A = gt.linear_operator(lambda x: x**2, np.array([1.0, 2.0]))
    >>> A.matvec(np.array([1.0, 1.0])).tolist(), A.rmatvec(np.array([1.0, 0.0])).tolist()
    ([2.0, 4.0], [2.0, 0.0])
    >>> (A @ np.eye(2)).tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    `f` is recorded once. A product is a forward pass, one with the adjoint a reverse pass, and one
    with a matrix a pass over all its columns together. Several primals, and nests of them, are laid
    end to end, and so are the parts of the value.
    """
    return _operator(f, primals, "push", "pull", None)


def hessian_operator(f: Callable[..., object], *primals: object) -> LinearOperator:
    """The Hessian of a scalar function at the primals as a `scipy.sparse.linalg.LinearOperator`.

    >>> H = gt.hessian_operator(lambda x: gt.sum(x**3), np.array([1.0, 2.0]))
    >>> H.matvec(np.array([1.0, 1.0])).tolist()
    [6.0, 12.0]
    """
    return _operator(f, primals, "hessian", "hessian", "hessian_operator")


def _operator(
    f: Callable[..., object],
    primals: tuple[object, ...],
    forward: str,
    adjoint: str,
    scalar: str | None,
) -> LinearOperator:
    name = scalar or "linear_operator"
    if not primals:
        raise ValueError(f"{name}: there are no primals. Pass the point to differentiate at.")
    layout = layout_of(primals, name)
    if scalar and layout.dtype.kind == "c":
        raise DtypeError(f"{name}: a primal is complex. Pass its real and imaginary parts.")
    point = FunctionAtPoint(lambda parts: f(*parts), layout.ravel(primals), layout, scalar=scalar)
    return _operator_of(point, forward, adjoint)


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
    tape, sources, value, aux = recorded_at(
        "linearize", f, primals, has_aux=has_aux, persistent=True
    )
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
        return _operator_of(_Flat(self, self._sources, self._value), "push", "pull")
