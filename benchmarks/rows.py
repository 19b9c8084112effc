"""Rows: workloads from a table. A row is a formula, its inputs and the derivative that is asked.

The formula is written once, over a dialect, and every library runs it. The reference value is the
formula in NumPy, in float64. A derivative is compared along random directions with differences of
that formula, so no derivative has to be written by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.dialects import Formula, dialect
from benchmarks.workload import Arrays, Build, Call, Limit, Workload, Wrap

DIRECTIONS = 3
# Steps of differences: short ones cross fewer kinks of relu or max, and lose more digits.
SMOOTH, KINKED = 1e-4, 1e-6
# A table has many rows: forms that are hardly ever the best peer are left out.
LEFT_OUT = ("tf eager", "tf XLA", "torch 1 thr")
RATE = 0.125  # of the step of "descent"; a power of two, so that the gradient loses few digits


@dataclass(frozen=True)
class Row:
    """One line of the table. `inputs` makes the arguments of `formula`, in order."""

    name: str
    title: str
    inputs: Callable[[], Arrays]
    formula: Formula
    # "value", "gradient", "descent" (the loss and the arguments after a step against its gradient),
    # "jacobian" (by one argument), "blocks" (the Jacobian of each example of a batch by one
    # argument) or "curvature" (gradient and H @ ones).
    want: str = "value"
    by: tuple[int, ...] = (0,)
    forward: bool = False  # the mode of libraries that have to be told
    dtype: str = "float64"
    libraries: tuple[str, ...] = ("gradtape", "jax", "torch", "tensorflow")
    tolerance: float | None = None
    limit: Limit = field(default_factory=Limit)
    slow: bool = False
    step: float = SMOOTH
    curvature: float = 0.0  # the sum of H @ ones, which differences across kinks would not give
    tiny: Callable[[], Arrays] | None = None  # see `Workload.tiny`


def workload(row: Row) -> Workload:
    """The workload of a row."""
    derived = row.want != "value"
    error = {"float32": 2e-4, "float64": 1e-6} if derived else {"float32": 1e-5, "float64": 1e-10}
    return Workload(
        name=row.name,
        title=row.title,
        dtype=row.dtype,
        inputs=row.inputs,
        reference=lambda inputs: _reference(row, inputs),
        builds=tuple(_build(row, library) for library in row.libraries),
        limit=row.limit,
        judge=(lambda inputs, found: (_along(row, inputs, found), "")) if derived else None,
        tolerance=row.tolerance or error[row.dtype],
        slow=row.slow,
        left_out=LEFT_OUT,
        tiny=row.tiny,
    )


def _build(row: Row, library: str) -> Build:
    def build(inputs: Arrays, wrap: Wrap) -> Call:
        xp = dialect(library)
        given = [xp.array(array) for array in inputs.values()]
        if library == "torch" and row.want in ("gradient", "descent", "curvature"):
            for place in row.by:
                given[place].requires_grad_()

        def formula(*given: Any) -> Any:
            return row.formula(xp, *given)

        by: Any = row.by if len(row.by) > 1 else row.by[0]
        if row.want == "value":
            call = wrap(formula)
        elif library == "torch" and row.want == "gradient":
            # torch.compile compiles the function; the engine runs its compiled derivative.
            call = xp.gradient(wrap(formula), by)
        elif row.want == "gradient":
            call = wrap(xp.gradient(formula, by))
        elif row.want == "descent":
            eager = library == "torch"
            step = _descent(xp, wrap(formula) if eager else formula, row.by)
            call = step if eager else wrap(step)
        elif row.want == "jacobian":
            call = wrap(xp.jacobian(formula, by, row.forward))
        elif row.want == "blocks":
            call = wrap(xp.blocks(formula))
        else:
            # The second argument and those after it are constants of the curvature.
            function = wrap(lambda x, *rest: xp.curvature(lambda x: formula(x, *rest))(x))
            call = function
        return lambda: call(*given)

    build.__name__ = library
    return build


def _descent(xp: Any, formula: Formula, by: tuple[int, ...]) -> Formula:
    """A step of gradient descent, with the loss before it."""
    slopes = xp.value_and_gradient(formula, by)

    def step(*given: Any) -> Any:
        loss, gradients = slopes(*given)
        with xp.untracked():
            moved = zip(by, gradients, strict=True)
            return loss, *(given[place] - RATE * slope for place, slope in moved)

    return step


def _reference(row: Row, inputs: Arrays) -> list[np.ndarray]:
    xp = dialect("numpy")
    given = [_wide(array) for array in inputs.values()]
    if row.want == "value":
        found = row.formula(xp, *given)
        return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]
    along = []
    value = [np.asarray(row.formula(xp, *given))] if row.want == "descent" else []
    for directions in _directions(row, given):

        def at(times: float, directions: Any = directions) -> Any:
            moved = [
                array + times * row.step * directions[place] if place in directions else array
                for place, array in enumerate(given)
            ]
            return np.asarray(row.formula(xp, *moved))

        # Fourth order, so that the truncation error is far below the tolerance.
        along.append((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * row.step))
    if row.want == "curvature":
        along.append(np.asarray(row.curvature))
    return [*value, np.stack(along)]


def _along(row: Row, inputs: Arrays, found: list[Any]) -> list[np.ndarray]:
    """The derivative along the directions, in the dtype of the derivative."""
    given = [_wide(array) for array in inputs.values()]
    wide = [np.asarray(part, dtype="float64") for part in found]
    value = found[:1] if row.want == "descent" else []
    if row.want == "descent":
        pairs = zip(row.by, wide[1:], strict=True)
        wide = [(given[place] - after) / RATE for place, after in pairs]
    along = [
        sum(
            _product(row, part, directions[place])
            for part, place in zip(wide, row.by, strict=False)
        )
        for directions in _directions(row, given)
    ]
    if row.want == "curvature":
        along.append(np.asarray(wide[1].sum()))
    return [*value, np.stack(along).astype(np.asarray(found[0]).dtype)]


def _product(row: Row, derivative: Any, direction: Any) -> Any:
    if row.want == "blocks":
        return np.einsum("bij,bj->bi", derivative, direction)
    return np.tensordot(derivative, direction, direction.ndim)


def _directions(row: Row, given: list[Any]) -> list[dict[int, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        {place: rng.standard_normal(given[place].shape) for place in row.by}
        for _ in range(DIRECTIONS)
    ]


def _wide(array: Any) -> Any:
    return array.astype("float64") if np.asarray(array).dtype.kind == "f" else array
