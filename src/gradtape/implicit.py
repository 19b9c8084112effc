"""Solutions of equations, with their derivatives: root, fixed_point, minimize."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.errors import ConvergenceError, DtypeError
from gradtape.evaluation import Point
from gradtape.graph.node import pick
from gradtape.graph.recording import host_value, state
from gradtape.layout import Layout, join, layout_of
from gradtape.ops.casting import cast
from gradtape.ops.custom import CUSTOM
from gradtape.recording.implicit import Implicit, frontier, is_pure
from gradtape.recording.systems import ITERATIVE
from gradtape.solvers import Equation, anderson, iteration, newton, polish
from gradtape.tape import GradientTape
from gradtape.tensor import Tensor, from_value

__all__ = ["fixed_point", "minimize", "root"]

SOLVERS = ("direct", *ITERATIVE)
FIXED_POINT_METHODS = ("anderson", "iteration", "newton")
# Methods of scipy.optimize.minimize by what they take beside the gradient.
TAKES_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov")
TAKES_HESSIAN = ("dogleg", "trust-exact", "trust-constr")
TAKES_NO_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
# More unknowns than this are not polished by a dense matrix.
POLISHED = 1000
# How far a residual, and a gradient, must have fallen from the start where SciPy's word is not
# enough and no Newton step confirms it.
FALLEN, FLATTER = 1e-6, 1e-2


@dataclass(frozen=True)
class _Problem:
    """What the three have in common: names for messages, and how linear systems are solved."""

    name: str
    layout: Layout
    start: Any
    args: tuple[Any, ...]
    solver: str
    sparse: Any

    def equation(self, f: Callable[..., Any], scalar: bool = False) -> Equation:
        """The residual as the solvers see it."""
        name = self.name if scalar else None

        def at(x: Any) -> Point:
            return Point(f, x, self.layout, args=self.args, scalar=name)

        return Equation(self.name, at, self.solver, self.sparse, scalar)

    def failed(
        self, how: str, found: Any, equation: Equation, iterations: int, result: Any
    ) -> ConvergenceError:
        """The error of a solver that did not get there, with all it has found."""
        residual = equation.size(found)
        message = f" {result.message}" if getattr(result, "message", None) else ""
        return ConvergenceError(
            f"{self.name}: {how} found no solution: the largest residual is {residual:.3e} after "
            f"{iterations} iterations.{message.rstrip('.')}{'.' if message else ''} Start closer "
            f"to a solution, allow more with options={{'maxiter': ...}}, or choose another method. "
            "The point it came to is in the error's x.",
            x=self.layout.unravel(found),
            residual=residual,
            iterations=iterations,
            result=result,
        )


def root(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    method: str | None = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    solver: str = "direct",
    sparse: Any = False,
) -> Any:
    """The x near `x0` with f(x, *args) = 0, as a tensor that knows its derivatives.

    >>> round(float(gt.root(lambda x, a: x**2 - a, 1.0, 2.0)), 12)
    1.414213562373
    >>> float(gt.grad(lambda a: gt.root(lambda x, a: x**2 - a, 1.0, a))(4.0))
    0.25

    Derivatives of every order, in both modes, by `args` and by tensors and variables that `f` reads
    otherwise, follow from the equation alone, not from how it was solved. They are recorded where a
    tape (or `grad`, `jvp`, …) is active. `x0`, `args` and what `f` returns may be nests.

    `method` is one of `scipy.optimize.root`, `"hybr"` by default, or `"newton"`, which is built in
    and the default for sparse and iterative solvers. SciPy's result is polished by Newton steps.
    Linear systems, of Newton's method and of the derivatives, are solved by a dense decomposition,
    by a sparse one with `sparse=True` (or a pattern), or without any matrix by `solver="gmres"`,
    `"bicgstab"`, `"cg"` or `"minres"`. Where no solution is found, ConvergenceError says how far it
    came.
    """
    problem = _problem("root", x0, args, solver, sparse)
    equation = problem.equation(f)
    if method is None:
        method = "hybr" if solver == "direct" and sparse is False else "newton"
    if method == "newton":
        found, iterations, good = newton(equation, problem.start, tol, **(options or {}))
        if not good:
            raise problem.failed("newton", found, equation, iterations, None)
    else:
        found = _scipy_root(problem, equation, method, tol, options)
    return _with_derivatives(problem, equation, f, found, symmetric=False)


def fixed_point(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    method: str = "anderson",
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    solver: str = "direct",
    sparse: Any = False,
) -> Any:
    """The x near `x0` with x = f(x, *args), as a tensor that knows its derivatives.

    >>> round(float(gt.fixed_point(gt.cos, 1.0)), 10)
    0.7390851332
    >>> average = lambda x, a: 0.5 * (x + a / x)
    >>> float(gt.grad(lambda a: gt.fixed_point(average, 1.0, a))(4.0))
    0.25

    `method` is `"anderson"` (iteration accelerated by the last few steps), `"iteration"` (x becomes
    f(x) until it stays) or `"newton"` on x - f(x). It ends when x and f(x) differ by less than
    `tol` relative to x, 1e-12 if none is given. `options` are `maxiter` and, for Anderson,
    `memory`. Derivatives, `solver` and `sparse` are as in `root`.
    """
    if method not in FIXED_POINT_METHODS:
        raise ValueError(
            f"fixed_point: method {method!r} is unknown. Use one of "
            f"{', '.join(FIXED_POINT_METHODS)}."
        )
    problem = _problem("fixed_point", x0, args, solver, sparse)

    def residual(x: Any, *given: Any) -> Any:
        return join(x) - join(f(x, *given))

    equation = problem.equation(residual)
    step = {"anderson": anderson, "iteration": iteration, "newton": newton}[method]
    found, iterations, good = step(equation, problem.start, tol, **(options or {}))
    if not good:
        raise problem.failed(method, found, equation, iterations, None)
    return _with_derivatives(problem, equation, residual, found, symmetric=False)


def minimize(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    method: str = "BFGS",
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    solver: str = "direct",
    sparse: Any = False,
) -> Any:
    """The x near `x0` that minimises a scalar f(x, *args), as a tensor that knows its derivatives.

    >>> f = lambda x, a: gt.sum((x - a) ** 4 + x**2)
    >>> np.round(gt.minimize(f, np.zeros(2), np.array([1.0, 2.0])).numpy(), 6).tolist()
    [0.410245, 1.164878]
    >>> slope = gt.grad(lambda a: gt.minimize(lambda x: (x - a**2) ** 2, 0.0))
    >>> round(float(slope(3.0)), 9)
    6.0

    `method` is one of `scipy.optimize.minimize` without bounds or constraints; it is given the
    gradient, and the Hessian or products with it where it takes them. The result is polished by
    Newton steps on the gradient. Derivatives follow from the gradient being zero there; they,
    `solver` (`"cg"` where the Hessian is large) and `sparse` are as in `root`.
    """
    problem = _problem("minimize", x0, args, solver, sparse)
    equation = problem.equation(f, scalar=True)
    found = _scipy_minimize(problem, equation, method, tol, options)

    def slope(x: Any, *given: Any) -> Any:
        tape = GradientTape(watch_accessed_variables=False)
        with tape:
            tape.watch(x)
            value = f(x, *given)
        return tape.gradient(value, x, unconnected_gradients="zero")

    return _with_derivatives(problem, equation, slope, found, symmetric=True)


def _problem(name: str, x0: Any, args: tuple[Any, ...], solver: str, sparse: Any) -> _Problem:
    if solver not in SOLVERS:
        raise ValueError(f"{name}: solver {solver!r} is unknown. Use one of {', '.join(SOLVERS)}.")
    if isinstance(sparse, str):
        raise ValueError(f"{name}: sparse={sparse!r} is unknown. Use True, False or a pattern.")
    if sparse is not False and solver != "direct":
        raise ValueError(
            f"{name}: solver {solver!r} needs no matrix, sparse or not. Drop sparse=, or use "
            "solver='direct'."
        )
    layout = layout_of(x0, name)
    if layout.dtype.kind == "c":
        raise DtypeError(
            f"{name}: x0 is complex. Solve for its real and imaginary parts, as a pair of floats."
        )
    return _Problem(name, layout, layout.ravel(x0).astype(np.float64), args, solver, sparse)


def _scipy_root(problem: _Problem, equation: Equation, method: str, tol: Any, options: Any) -> Any:
    from scipy import optimize

    solve: Any = optimize.root
    jac = equation.jacobian if method in ("hybr", "lm") else None
    with np.errstate(all="ignore"):
        result = solve(
            equation.value, problem.start, method=method, jac=jac, tol=tol, options=options
        )
    found = np.reshape(result.x, -1)
    solved = result.success
    if _may_be_polished(problem):
        found, certain = polish(equation, found, problem.start)
        # A least-squares method is content where the residual cannot fall any more.
        if method == "lm":
            solved = solved and equation.size(found) <= FALLEN * equation.size(problem.start)
        solved = solved or certain
    if not solved or not np.all(np.isfinite(found)):
        iterations = int(result.get("nit", result.get("nfev", 0)))
        raise problem.failed(method, found, equation, iterations, result)
    return found


def _scipy_minimize(
    problem: _Problem, equation: Equation, method: str, tol: Any, options: Any
) -> Any:
    from scipy import optimize

    solve: Any = optimize.minimize
    given: dict[str, Any] = {}
    word = method.lower()
    if word not in TAKES_NO_GRADIENT:
        given["jac"] = equation.value
    if word in TAKES_PRODUCTS:
        given["hessp"] = equation.product
    elif word in TAKES_HESSIAN:
        given["hess"] = equation.jacobian
    with np.errstate(all="ignore"):
        result = solve(
            equation.objective, problem.start, method=method, tol=tol, options=options, **given
        )
    found = np.reshape(result.x, -1)
    solved = result.success
    if _may_be_polished(problem):
        lowest = equation.objective(found)
        better, certain = polish(equation, found, problem.start)
        # Rounding aside, a step that climbs leads to a saddle.
        if equation.objective(better) <= lowest + 1e-12 * (1.0 + abs(lowest)):
            found = better
        # SciPy also ends where numbers overflow, or steps become short beside a huge x.
        solved = solved and equation.size(found) <= FLATTER * equation.size(problem.start)
        solved = solved or certain
    if not solved or not np.all(np.isfinite(found)):
        raise problem.failed(method, found, equation, int(result.get("nit", 0)), result)
    return found


def _may_be_polished(problem: _Problem) -> bool:
    dense = problem.solver == "direct" and problem.sparse is False
    return not dense or problem.layout.size <= POLISHED


def _with_derivatives(
    problem: _Problem,
    equation: Equation,
    residual: Callable[..., Any],
    found: Any,
    symmetric: bool,
) -> Any:
    """The solution as tensors; where a tape is active, with the rule for their derivatives."""
    layout = problem.layout
    x: Any = from_value(host_value(found, layout.dtype))
    if not state.tapes:
        return layout.unravel(x)
    coloured = equation.prepared(found).coloured if problem.sparse is not False else None
    left = cast(join(residual(layout.unravel(x), *problem.args)), x.dtype)
    recording = state.recording
    source, target = x.enter(recording), left.enter(recording)
    rule = Implicit(problem.name, problem.solver, coloured, symmetric, is_pure(target))
    inputs = (source, target, *frontier(target, source))
    node = recording.application(CUSTOM, inputs, (1, rule))
    return layout.unravel(recording.hold(pick(node, 0), Tensor))
