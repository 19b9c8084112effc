"""Searches: how root, fixed_point and minimize find a solution, by SciPy or by own solvers.

A search works on arrays. It takes a function on tensors and evaluates it in recordings of its own.
It is compared by its options, so it can be a param of an op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradtape.autodiff.solution_rules import ITERATIVE
from gradtape.autodiff.sparse.choose_colouring import Coloured
from gradtape.config import LARGEST_POLISHED
from gradtape.errors import ConvergenceError
from gradtape.interop.solve.solvers import Equation, anderson, newton, polish
from gradtape.ops.elementwise.arithmetic import clip
from gradtape.tape.function_at_point import FunctionAtPoint, Layout, join
from gradtape.tape.gradient_tape import function_tape
from gradtape.tensor.tensor import Tensor

if TYPE_CHECKING:
    from gradtape.tape.tape_jacobians import SparseOption

SOLVERS = ("direct", *ITERATIVE)
FIXED_POINT_METHODS = ("anderson", "iteration", "newton")
ROOT_METHODS = (
    "hybr",
    "newton",
    "lm",
    "broyden1",
    "broyden2",
    "anderson",
    "linearmixing",
    "diagbroyden",
    "excitingmixing",
    "krylov",
    "df-sane",
)
# The options of methods that are not SciPy's.
OPTIONS = {"newton": ("maxiter",), "iteration": ("maxiter",), "anderson": ("maxiter", "memory")}
# Methods of scipy.optimize.minimize by what they take beside the gradient.
TAKES_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov")
TAKES_HESSIAN = ("dogleg", "trust-exact", "trust-constr")
TAKES_NO_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
TAKES_BOUNDS = ("l-bfgs-b", "tnc", "slsqp", "trust-constr", *TAKES_NO_GRADIENT)
MINIMIZE_METHODS = ("bfgs", "cg", *TAKES_BOUNDS, *TAKES_PRODUCTS, "dogleg", "trust-exact")
# The decrease of a residual, and of a gradient, from the start, that confirms SciPy's success
# where no Newton step confirms it.
FALLEN, FLATTER = 1e-6, 1e-2

# Lower and upper bounds of the unknowns: arrays for a search, tensors for the derivatives.
Bounds: TypeAlias = tuple[Tensor, Tensor] | tuple[np.ndarray, np.ndarray]
# A function of the unknowns, as a nest of tensors.
UserEquation: TypeAlias = Callable[[Any], object]


@dataclass(frozen=True, eq=False)
class Search:
    """The options of a call; each kind has its equation and the way a solution is found."""

    name: str
    method: str
    tol: float | None
    options: dict[str, Any] | None
    solver: str
    sparse: SparseOption

    # Whether the function is a scalar, and the equation says that its gradient is zero.
    scalar = False

    @cached_property
    def _key(self) -> tuple[object, ...]:
        given = (self.name, self.method, self.tol, self.solver)
        options = () if self.options is None else tuple(self.options.items())
        return (type(self), *given, *map(_hashable, (options, self.sparse)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Search) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _passed_on(self) -> dict[str, Any]:
        """The options that SciPy takes."""
        return {"method": self.method, "tol": self.tol, "options": self.options}

    def residual(self, function: UserEquation, bounds: Bounds | None) -> UserEquation:
        """The function of the unknowns, as a nest, that is zero at a solution."""
        return function

    def is_symmetric(self, bounds: Bounds | None) -> bool:
        """Whether the Jacobian of the residual is symmetric."""
        return False

    def find(
        self, function: UserEquation, layout: Layout, start: np.ndarray, bounds: Bounds | None
    ) -> np.ndarray:
        """The solution, as a vector."""
        raise NotImplementedError

    def coloured(
        self, function: UserEquation, layout: Layout, found: np.ndarray, bounds: Bounds | None
    ) -> Coloured | None:
        """The colours of the sparse Jacobian; None if it is dense."""
        if self.sparse is False:
            return None
        if self.is_symmetric(bounds):
            return self._equation(function, layout, scalar=True).prepared(found).coloured
        residual = self.residual(function, bounds)
        return self._equation(residual, layout).prepared(found).coloured

    def _equation(self, f: UserEquation, layout: Layout, scalar: bool = False) -> Equation:
        name = self.name if scalar else None

        def at(x: np.ndarray) -> FunctionAtPoint:
            return FunctionAtPoint(f, x, layout, scalar=name)

        return Equation(self.name, at, self.solver, self.sparse, scalar)

    def _may_be_polished(self, layout: Layout) -> bool:
        dense = self.solver == "direct" and self.sparse is False
        return not dense or layout.size <= LARGEST_POLISHED

    def _checked(
        self,
        layout: Layout,
        equation: Equation,
        found: np.ndarray,
        iterations: int,
        solved: bool,
        result: Any = None,
    ) -> np.ndarray:
        """The solution, or an error with the point that the search came to."""
        if solved and np.all(np.isfinite(found)):
            return found
        residual = equation.size(found)
        message = f" {result.message}" if getattr(result, "message", None) else ""
        raise ConvergenceError(
            f"{self.name}: {self.method} found no solution: the largest residual is {residual:.3e} "
            f"after {iterations} iterations.{message.rstrip('.')}{'.' if message else ''} Start "
            "closer to a solution, allow more with options={'maxiter': ...}, or choose another "
            "method. The point it came to is in the error's x.",
            x=layout.unravel(found),
            residual=residual,
            iterations=iterations,
            result=result,
        )


def _iterations(result: Any) -> int:
    return int(result.get("nit", result.get("nfev", 0)))


def _hashable(item: object) -> object:
    """An item that can be hashed as it is; any other is equal to itself alone."""
    try:
        hash(item)
    except TypeError:
        return _Itself(item)
    return item


class _Itself:
    def __init__(self, item: object) -> None:
        self.item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.item is other.item

    def __hash__(self) -> int:
        return id(self.item)


class RootSearch(Search):
    """The search for an x with f(x) = 0."""

    def find(
        self, function: UserEquation, layout: Layout, start: np.ndarray, bounds: Bounds | None
    ) -> np.ndarray:
        equation = self._equation(function, layout)
        if self.method == "newton":
            options: dict[str, Any] = self.options or {}
            return self._checked(layout, equation, *newton(equation, start, self.tol, **options))
        # An optional part of SciPy that takes long to load.
        from scipy import optimize

        solve: Any = optimize.root
        jac = equation.jacobian if self.method in ("hybr", "lm") else None
        with np.errstate(all="ignore"):
            result = solve(equation.value, start, jac=jac, **self._passed_on)
        found = np.reshape(result.x, -1)
        solved = result.success
        if self._may_be_polished(layout):
            found, certain = polish(equation, found, start)
            # A least-squares method succeeds at any minimum of the residual, zero or not.
            if self.method == "lm":
                solved = solved and equation.size(found) <= FALLEN * equation.size(start)
            solved = solved or certain
        return self._checked(layout, equation, found, _iterations(result), solved, result)


class FixedPointSearch(Search):
    """The search for an x with x = f(x)."""

    def residual(self, function: UserEquation, bounds: Bounds | None) -> UserEquation:
        return lambda x: join(x) - join(function(x))

    def find(
        self, function: UserEquation, layout: Layout, start: np.ndarray, bounds: Bounds | None
    ) -> np.ndarray:
        equation = self._equation(self.residual(function, bounds), layout)
        options: dict[str, Any] = self.options or {}
        if self.method == "newton":
            found = newton(equation, start, self.tol, **options)
        else:
            memory = {"memory": 0} if self.method == "iteration" else {}
            found = anderson(equation, start, self.tol, **options, **memory)
        return self._checked(layout, equation, *found)


class MinimumSearch(Search):
    """The search for an x where a scalar f(x) is least, within bounds if there are any."""

    scalar = True

    def residual(self, function: UserEquation, bounds: Bounds | None) -> UserEquation:
        """The gradient or, with bounds, the part of it along which x may move.

        x - clip(x - f'(x)) is the gradient between the bounds. On a bound that holds x back it is
        the distance from the bound, so x moves with the bound and with nothing else.
        """

        def slope(x: object) -> object:
            tape = function_tape()
            with tape:
                tape.watch(x)
                value = function(x)
            return tape.gradient(value, x, unconnected_gradients="zero")

        def moved(x: object) -> Tensor:
            assert bounds is not None
            flat = join(x)
            return flat - clip(flat - join(slope(x)), *bounds)

        return slope if bounds is None else moved

    def is_symmetric(self, bounds: Bounds | None) -> bool:
        return bounds is None

    def find(
        self, function: UserEquation, layout: Layout, start: np.ndarray, bounds: Bounds | None
    ) -> np.ndarray:
        # An optional part of SciPy that takes long to load.
        from scipy import optimize

        equation = self._equation(function, layout, scalar=True)
        solve: Any = optimize.minimize
        given: dict[str, Any] = {}
        word = self.method.lower()
        if word not in TAKES_NO_GRADIENT:
            given["jac"] = equation.value
        if word in TAKES_PRODUCTS:
            given["hessp"] = equation.product
        elif word in TAKES_HESSIAN:
            given["hess"] = equation.jacobian
        condition, inside = equation, start
        if bounds is not None:
            lower, upper = (np.asarray(bound, np.float64) for bound in bounds)
            given["bounds"] = optimize.Bounds(lower, upper)
            inside = np.clip(start, lower, upper)
            condition = self._equation(self.residual(function, (lower, upper)), layout)
        with np.errstate(all="ignore"):
            result = solve(equation.objective, inside, **given, **self._passed_on)
        found = np.reshape(result.x, -1)
        if bounds is not None:
            found = np.clip(found, lower, upper)
        solved = result.success
        if self._may_be_polished(layout):
            lowest = equation.objective(found)
            better, certain = polish(condition, found, inside)
            if bounds is not None:
                better = np.clip(better, lower, upper)
            # A step that climbs by more than rounding leads to a saddle.
            if equation.objective(better) <= lowest + 1e-12 * (1.0 + abs(lowest)):
                found = better
            # SciPy reports success also where numbers overflow, or where steps become short
            # beside a huge x.
            solved = solved and condition.size(found) <= FLATTER * condition.size(inside)
            solved = solved or certain
        return self._checked(layout, condition, found, _iterations(result), solved, result)
