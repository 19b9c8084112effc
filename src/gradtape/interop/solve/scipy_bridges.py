"""Adapters for SciPy's solvers: functions of arrays, with their derivatives beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradtape.argument_checks import check_function
from gradtape.config import LARGE_MATRIX
from gradtape.tape.function_at_point import FunctionAtPoint, Layout, layout_of, pays, vector_layout
from gradtape.tape.tape_jacobians import check_mode, check_sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from scipy.sparse import csc_array, csr_array

    from gradtape.tape.tape_jacobians import SparseOption

    HostMatrix: TypeAlias = np.ndarray | csr_array

__all__ = ["Objective", "Ode", "Residuals", "objective", "ode", "residuals"]


@dataclass(frozen=True)
class _Visit:
    """The point evaluated last, as one object, so that threads never see half of a change."""

    point: FunctionAtPoint
    x: np.ndarray
    args: tuple[object, ...]
    # Recordings belong to the thread that made them.
    thread: int
    # The names of what was computed at this point.
    computed: set[str]

    def is_at(self, x: np.ndarray, args: tuple[object, ...]) -> bool:
        return (
            self.thread == get_ident()
            and np.array_equal(x, self.x)
            and len(args) == len(self.args)
            and all(_equal(a, b) for a, b in zip(args, self.args, strict=True))
        )


class _Bridge:
    """State that the adapters share: the last evaluated point, and the layout of the argument."""

    _name = ""
    _scalar = False

    def __init__(
        self, f: Callable[..., object], example: object, sparse: SparseOption, mode: str
    ) -> None:
        sparse = check_sparse(self._name, sparse)
        check_mode(self._name, mode)
        self._f = check_function(self._name, f)
        self._layout = None if example is None else layout_of(example, self._name)
        self._sparse = sparse
        self._mode = mode
        self._example = None if self._layout is None else self._layout.ravel(example)
        self.forget()
        # Whether the derivative is sparse, once that is known.
        self._is_sparse: bool | None = None

    def forget(self) -> None:
        """Let go of the point evaluated last; call it when a value that `f` closes over changed."""
        self._last: _Visit | None = None

    def ravel(self, tree: object) -> np.ndarray:
        """The vector to give SciPy for a nest like the example."""
        return self._known_layout().ravel(tree)

    def unravel(self, x: ArrayLike) -> Any:
        """The nest of a vector that SciPy gave."""
        return self._known_layout().unravel(np.asarray(x))

    def _known_layout(self) -> Layout:
        if self._layout is None:
            raise ValueError(
                f"{self._name}: the structure of the argument is not known. Pass one like it as "
                "example=."
            )
        return self._layout

    def _at(
        self,
        what: str,
        given_x: ArrayLike,
        args: tuple[object, ...],
        before: tuple[object, ...] = (),
    ) -> FunctionAtPoint:
        """The recording at a point: the last one, if this was not computed there yet.

        What is needed again is recorded again, because values that the function closes over may
        have changed. Only products, which have no name here, are computed many times.
        """
        x = np.asarray(given_x, np.float64).reshape(-1)
        given = (*before, *args)
        last = self._last
        if last is None or what in last.computed or not last.is_at(x, given):
            layout = vector_layout(x.size) if self._layout is None else self._layout
            if layout.size != x.size:
                raise ValueError(
                    f"{self._name}: got {x.size} numbers, the example has {layout.size}. "
                    "Start from .ravel(example)."
                )
            # The old point goes before the new one is recorded: memory never holds both.
            self._last = last = None
            name = self._name if self._scalar else None
            point = FunctionAtPoint(self._f, x, layout, before, args, name)
            # SciPy changes its vectors in place, so x is copied for later comparisons.
            self._last = last = _Visit(point, np.array(x), given, get_ident(), set())
        if what:
            last.computed.add(what)
        return last.point

    def _matrix(self, point: FunctionAtPoint) -> HostMatrix:
        """The Jacobian or Hessian at a point, in the form that was chosen."""
        if self._sparse is not False and self._is_sparse is not False:
            rows, columns = (point.shape[1],) * 2 if self._scalar else point.shape
            if not isinstance(self._sparse, str) or rows * columns >= LARGE_MATRIX:
                prepared = (
                    point.sparse_hessian(self._sparse)
                    if self._scalar
                    else point.sparse_jacobian(self._sparse, self._mode)
                )
                self._is_sparse = not isinstance(self._sparse, str) or pays(prepared)
                if self._is_sparse:
                    return point.matrix(prepared)
            else:
                self._is_sparse = False
        return point.hessian() if self._scalar else point.jacobian(self._mode)

    def __repr__(self) -> str:
        name = getattr(self._f, "__name__", repr(self._f))
        return f"{type(self).__name__}({name})"


def _equal(a: object, b: object) -> bool:
    if a is b:
        # An array may have been changed in place since.
        return not isinstance(a, np.ndarray)
    numbers = (bool, int, float, complex, np.generic)
    return isinstance(a, numbers) and isinstance(b, numbers) and bool(a == b)


class Objective(_Bridge):
    """A scalar function with gradient and Hessian, for `scipy.optimize.minimize`.

    >>> p = gt.objective(lambda x: gt.sum((x - 1.0) ** 4))
    >>> type(p).__name__
    'Objective'
    """

    _name = "objective"
    _scalar = True

    def __call__(self, x: ArrayLike, *args: object) -> tuple[float, np.ndarray]:
        """Value and gradient, for `minimize(p, x0, jac=True)`."""
        value, slope = self._at("both", x, args).value_and_gradient()
        return value, np.asarray(slope, np.float64)

    def fun(self, x: ArrayLike, *args: object) -> float:
        """The value."""
        return float(self._at("value", x, args).value())

    def jac(self, x: ArrayLike, *args: object) -> np.ndarray:
        """The gradient."""
        return np.asarray(self._at("gradient", x, args).gradient(), np.float64)

    def hess(self, x: ArrayLike, *args: object) -> HostMatrix:
        """The Hessian: an array, or a CSR array where that was chosen."""
        return self._matrix(self._at("hessian", x, args))

    def hessp(self, x: ArrayLike, p: ArrayLike, *args: object) -> np.ndarray:
        """The Hessian times a vector, from the recording at the point."""
        return np.array(self._at("", x, args).product("hessian", np.asarray(p)), np.float64)


class Residuals(_Bridge):
    """A vector function with its Jacobian, for `least_squares` and `root`.

    >>> r = gt.residuals(lambda x: x**2 - 4.0)
    >>> type(r).__name__
    'Residuals'
    """

    _name = "residuals"

    def __call__(self, x: ArrayLike, *args: object) -> np.ndarray:
        """The residuals, flattened."""
        return np.asarray(self._at("value", x, args).value(), np.float64)

    fun = __call__

    def jac(self, x: ArrayLike, *args: object) -> HostMatrix:
        """The Jacobian: an array, or a CSR array where it pays or was chosen."""
        return self._matrix(self._at("jacobian", x, args))

    @property
    def jac_sparsity(self) -> csr_array | None:
        """The pattern of a sparse Jacobian as a CSR array, else None.

        It is detected at the point of `example`, or of the last evaluation.
        """
        last = self._last
        point = None if last is None else last.point
        if point is None and self._example is not None and self._sparse is not False:
            point = FunctionAtPoint(self._f, self._example, self._known_layout())
        if point is None or self._sparse is False:
            return None
        prepared = point.sparse_jacobian(self._sparse, self._mode)
        if isinstance(self._sparse, str) and not pays(prepared):
            return None
        return prepared.pattern.matrix


class Ode(_Bridge):
    """The right-hand side of an ODE with its Jacobian, for `scipy.integrate.solve_ivp`.

    >>> o = gt.ode(lambda t, y: -y)
    >>> type(o).__name__
    'Ode'
    """

    _name = "ode"

    def __call__(self, t: float, y: ArrayLike, *args: object) -> np.ndarray:
        """dy/dt, flattened."""
        return np.asarray(self._at("value", y, args, (float(t),)).value(), np.float64)

    fun = __call__

    def jac(self, t: float, y: ArrayLike, *args: object) -> np.ndarray | csc_array:
        """The Jacobian by y: an array, or a CSC array where it pays or was chosen."""
        found = self._matrix(self._at("jacobian", y, args, (float(t),)))
        return found if isinstance(found, np.ndarray) else found.tocsc()


def objective(
    f: Callable[..., object], example: object = None, *, sparse: SparseOption = False
) -> Objective:
    """A scalar function for `scipy.optimize.minimize`: value, gradient, Hessian and products.

    >>> from scipy.optimize import minimize
    >>> p = gt.objective(lambda x: gt.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))
    >>> found = minimize(p.fun, np.zeros(5), jac=p.jac, hess=p.hess, method="trust-exact")
    >>> np.round(found.x, 5).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    >>> np.round(minimize(p, np.zeros(5), jac=True).x, 3).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]

    `p.fun`, `p.jac`, `p.hess` and `p.hessp` take and give NumPy arrays; `p` itself gives value and
    gradient in one run. All evaluations at one point use one recording. With `example`, `f` takes
    nests like it (or arrays of its shape), and `p.ravel` and `p.unravel` translate. With
    `sparse=True` the Hessian is a CSR array; `"auto"` makes it one where that pays.
    """
    return Objective(f, example, sparse, "auto")


def residuals(
    f: Callable[..., object],
    example: object = None,
    *,
    sparse: SparseOption = "auto",
    mode: str = "auto",
) -> Residuals:
    """A vector function with its Jacobian, for `scipy.optimize.least_squares` and `root`.

    >>> from scipy.optimize import least_squares
    >>> t = np.linspace(0.0, 1.0, 9)
    >>> r = gt.residuals(lambda x, t, y: x[0] * gt.exp(x[1] * t) - y)
    >>> found = least_squares(r, [1.0, 0.0], jac=r.jac, args=(t, 2.0 * np.exp(-t)))
    >>> np.round(found.x, 6).tolist()
    [2.0, -1.0]

    The value of `f`, a tensor of any shape or a nest, is flattened. `r.jac` gives an array, or a
    CSR array: always with `sparse=True` or a pattern, never with `sparse=False`, and with `"auto"`
    where the matrix is large and one entry in eight or fewer can be nonzero. `root` needs arrays:
    pass `sparse=False` there. `r.jac_sparsity` is the pattern. `example` and `mode` are as in
    `objective` and `jacobian`.
    """
    return Residuals(f, example, sparse, mode)


def ode(
    f: Callable[..., object],
    example: object = None,
    *,
    sparse: SparseOption = "auto",
    mode: str = "auto",
) -> Ode:
    """A right-hand side dy/dt = f(t, y) with its Jacobian, for `scipy.integrate.solve_ivp`.

    >>> from scipy.integrate import solve_ivp
    >>> o = gt.ode(lambda t, y: [y[1], 10.0 * (1.0 - y[0] ** 2) * y[1] - y[0]])
    >>> found = solve_ivp(o, (0.0, 5.0), [2.0, 0.0], method="BDF", jac=o.jac, rtol=1e-6)
    >>> bool(found.success)
    True

    `o.jac` gives an array, or a CSC array under the rules of `residuals`. LSODA needs arrays: pass
    `sparse=False` there.
    """
    return Ode(f, example, sparse, mode)
