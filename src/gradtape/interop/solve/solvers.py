"""Solvers on arrays: Newton's method, fixed-point iteration, and Anderson acceleration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gradtape.autodiff.solution_rules import factor, iterate
from gradtape.autodiff.sparse.programs import SparseProgram
from gradtape.errors import ShapeError
from gradtape.tape.function_at_point import FunctionAtPoint

if TYPE_CHECKING:
    from gradtape.tape.tape_jacobians import SparseOption

# A full Newton step this much smaller than x says that x is a solution.
NEGLIGIBLE = 1e-8
# A step longer than this part of x may lead to another solution than the one that was found.
CLOSE = 1e-2
NEWTON_STEPS = 50
ITERATIONS = 1000
MEMORY = 5
# A step is accepted if it reduces the residual by this part of its length, or more.
SUFFICIENT = 1e-4
SHORTEST = 2.0**-20

# A solution or the last point, the number of iterations, and whether it is a solution.
_Solved: TypeAlias = tuple[np.ndarray, int, bool]


@dataclass(eq=False)
class Equation:
    """F(x) = 0 as solvers see it; F may be the gradient of a scalar, and its Jacobian the Hessian.

    Value, Jacobian and products at one point come from one recording.
    """

    _name: str
    _record: Callable[[np.ndarray], FunctionAtPoint]
    _solver: str
    _sparse: SparseOption
    _scalar: bool
    _x: np.ndarray | None = None
    _point: FunctionAtPoint | None = None

    def at(self, x: np.ndarray) -> FunctionAtPoint:
        """The recording at a point."""
        if self._point is None or self._x is None or not np.array_equal(x, self._x):
            self._point = point = self._record(x)
            self._x = np.array(x)
            if not self._scalar and point.shape[0] != point.shape[1]:
                raise ShapeError(
                    f"{self._name}: {point.shape[1]} unknowns and {point.shape[0]} equations. "
                    "Return as many numbers as x has."
                )
        return self._point

    def objective(self, x: np.ndarray) -> float:
        """The scalar whose gradient this is."""
        return float(self.at(x).value())

    def value(self, x: np.ndarray) -> np.ndarray:
        """F(x)."""
        point = self.at(x)
        found = point.gradient() if self._scalar else point.value()
        return np.asarray(found, np.float64)

    def size(self, x: np.ndarray) -> float:
        """The largest element of F(x)."""
        return largest(self.value(x))

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """The dense Jacobian."""
        point = self.at(x)
        found = point.hessian() if self._scalar else point.jacobian()
        return np.asarray(found, np.float64)

    def product(self, x: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """The Jacobian times a vector."""
        kind = "hessian" if self._scalar else "push"
        return np.array(self.at(x).product(kind, direction), np.float64)

    def prepared(self, x: np.ndarray) -> SparseProgram:
        """Pattern, colours and program of the sparse Jacobian."""
        point = self.at(x)
        if self._scalar:
            return point.sparse_hessian(self._sparse)
        return point.sparse_jacobian(self._sparse)

    def step(self, x: np.ndarray) -> np.ndarray:
        """Newton's step, which solves (Jacobian) step = -F."""
        right = -self.value(x)
        if self._solver != "direct":
            return iterate(self._solver, lambda v: self.product(x, v), right, right.size)
        if self._sparse is not False:
            return factor(self.at(x).matrix(self.prepared(x)).tocsc()).solve(right)
        return np.linalg.solve(self.jacobian(x), right)


def newton(
    equation: Equation, x: np.ndarray, tolerance: float | None, maxiter: int = NEWTON_STEPS
) -> _Solved:
    """Newton's method; a step that does not reduce the residual is shortened."""
    tolerance = tolerance or 1e-10
    size = float(np.linalg.norm(equation.value(x)))
    scale = 0.0
    for iteration in range(1, maxiter + 1):
        if size == 0:
            return x, iteration - 1, True
        scale = max(scale, largest(x))
        regular = True
        try:
            step = equation.step(x)
        except np.linalg.LinAlgError:
            # The least-squares step of least norm; a short one is no evidence of a solution.
            step = np.linalg.lstsq(equation.jacobian(x), -equation.value(x), rcond=None)[0]
            regular = False
        small = regular and largest(step) <= tolerance * scale
        length = 1.0
        while True:
            trial = x + length * step
            reached = float(np.linalg.norm(equation.value(trial)))
            if reached <= (1 - SUFFICIENT * length) * size:
                x, size = trial, reached
                break
            if small or length <= SHORTEST:
                # At rounding level nothing improves any more.
                return x, iteration, regular and largest(step) <= NEGLIGIBLE * scale
            length /= 2
        if small:
            return x, iteration, True
    return x, maxiter, False


def polish(equation: Equation, x: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, bool]:
    """x after up to three Newton steps, and whether the first was so short that x is a solution."""
    size = equation.size(x)
    solved = size == 0
    scale = max(largest(x), largest(start))
    for number in range(3):
        if size == 0:
            break
        try:
            step = equation.step(x)
        except (np.linalg.LinAlgError, RuntimeError):
            break
        if not np.all(np.isfinite(step)):
            break
        if number == 0:
            solved = largest(step) <= NEGLIGIBLE * scale
        trial = x + step
        reached = equation.size(trial)
        if not reached < size or largest(step) > CLOSE * scale:
            break
        x, size = trial, reached
    return x, solved


def anderson(
    equation: Equation,
    x: np.ndarray,
    tolerance: float | None,
    maxiter: int = ITERATIONS,
    memory: int = MEMORY,
) -> _Solved:
    """Anderson acceleration: the combination of the last steps whose residual is least.

    D. G. Anderson (1965), in the form of Walker and Ni (2011) with unconstrained differences. The
    equation is x - f(x); without memory, x becomes f(x) until it stays.
    """
    tolerance = tolerance or 1e-12
    points: list[np.ndarray] = []
    steps: list[np.ndarray] = []
    scale = 0.0
    for count in range(1, maxiter + 1):
        step = -equation.value(x)
        if not np.all(np.isfinite(step)):
            if not points or not memory:
                return x, count, False
            # The accelerated step left the domain: back to the last point, and a plain step.
            x = points[-1] + steps[-1]
            points, steps = [], []
            continue
        scale = max(scale, largest(x))
        if largest(step) <= tolerance * scale:
            return x + step, count, True
        points = [*points, x][-memory - 1 :]
        steps = [*steps, step][-memory - 1 :]
        x = x + step
        if len(points) > 1:
            slopes = np.diff(np.array(steps), axis=0).T
            moves = np.diff(np.array(points), axis=0).T
            weights = np.linalg.lstsq(slopes, step, rcond=1e-14)[0]
            x = x - (moves + slopes) @ weights
    return x, maxiter, False


def largest(x: np.ndarray) -> float:
    """The largest magnitude in an array.

    Steps are compared with the largest x so far: a solution may be 0, and has no scale of its own.
    """
    return float(np.max(np.abs(x), initial=0.0))
