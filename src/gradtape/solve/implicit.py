"""Solutions of equations, with their derivatives: root, fixed_point, minimize."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.control.traced_bodies import trace
from gradtape.derive.solution_rules import Implicit, frontier, is_pure
from gradtape.errors import ConvergenceError, DtypeError, NoValueError, ShapeError
from gradtape.graph.node import pick
from gradtape.graph.program import Program
from gradtape.graph.spec import spec
from gradtape.ops.arrays.movement import broadcast_to, reshape
from gradtape.ops.control.bodies import inlined
from gradtape.ops.custom.callback import isolated
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.custom.solutions import SOLVE_EQUATION
from gradtape.ops.families.casting import cast
from gradtape.pytree import flatten
from gradtape.recording.thread_state import state
from gradtape.recording.value import host_value
from gradtape.solve.searches import (
    FIXED_POINT_METHODS,
    MINIMIZE_METHODS,
    OPTIONS,
    ROOT_METHODS,
    SOLVERS,
    TAKES_BOUNDS,
    FixedPointSearch,
    MinimumSearch,
    RootSearch,
    Search,
)
from gradtape.tape.flat_vector import Layout, join, layout_of, vector_layout
from gradtape.tape.point import as_scalar
from gradtape.tape.tape_jacobians import check_sparse
from gradtape.tensor.tensor import Tensor, asarray, from_value

__all__ = ["fixed_point", "minimize", "root"]


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
    sparse = _check("root", solver, sparse, tol)
    if method is None:
        method = "hybr" if solver == "direct" and sparse is False else "newton"
    method = _known_method("root", method, ROOT_METHODS)
    if method == "newton":
        _check_options("root", method, options)
    search = RootSearch("root", method, tol, options, solver, sparse)
    return _solution(search, lambda x: f(x, *args), x0)


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
    method = _known_method("fixed_point", method, FIXED_POINT_METHODS)
    sparse = _check("fixed_point", solver, sparse, tol)
    _check_options("fixed_point", method, options)
    search = FixedPointSearch("fixed_point", method, tol, options, solver, sparse)
    return _solution(search, lambda x: f(x, *args), x0)


def minimize(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    method: str | None = None,
    bounds: Any = None,
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

    `method` is one of `scipy.optimize.minimize` without constraints, `"BFGS"` by default; it is
    given the gradient, and the Hessian or products with it where it takes them. The result is
    polished by Newton steps on the gradient. Derivatives follow from the gradient being zero there;
    they, `solver` (`"cg"` where the Hessian is large) and `sparse` are as in `root`.

    `bounds` keep x between two values: a pair (lower, upper) of numbers, arrays, nests like `x0` or
    None, or as in SciPy a `Bounds` or a list of one (lower, upper) for each element. The method is
    `"L-BFGS-B"` then. What a bound holds back has derivative zero by `args` and one by the bound;
    an element that would stay on its bound without it counts as free.

    >>> held = lambda a: gt.minimize(lambda x: gt.sum((x - a) ** 2), np.zeros(2), bounds=(0.0, 1.0))
    >>> a = np.array([0.5, 3.0])
    >>> held(a).tolist(), gt.jacobian(held)(a).tolist()
    ([0.5, 1.0], [[1.0, 0.0], [0.0, 0.0]])
    """
    sparse = _check("minimize", solver, sparse, tol)
    if method is None:
        method = "BFGS" if bounds is None else "L-BFGS-B"
    _known_method("minimize", method, MINIMIZE_METHODS)
    if bounds is not None and method.lower() not in TAKES_BOUNDS:
        raise ValueError(
            f"minimize: {method} takes no bounds. Use one of {', '.join(TAKES_BOUNDS)}."
        )
    search = MinimumSearch("minimize", method, tol, options, solver, sparse)
    return _solution(search, lambda x: f(x, *args), x0, bounds)


def _known_method(name: str, method: Any, known: Sequence[str]) -> str:
    word = method.lower() if isinstance(method, str) else method
    if word not in known:
        raise ValueError(f"{name}: method {method!r} is unknown. Use one of {', '.join(known)}.")
    return word


def _check_options(name: str, method: str, options: dict[str, Any] | None) -> None:
    """Of methods that are built in; SciPy checks those of its own."""
    wrong = [option for option in options or {} if option not in OPTIONS[method]]
    if wrong:
        raise ValueError(
            f"{name}: {method} has no option {wrong[0]!r}. Use {' or '.join(OPTIONS[method])}."
        )


def _check(name: str, solver: str, sparse: Any, tol: float | None) -> Any:
    if tol is not None and not tol > 0:
        raise ValueError(f"{name}: tol={tol} is not positive. Use a small number such as 1e-10.")
    if solver not in SOLVERS:
        raise ValueError(f"{name}: solver {solver!r} is unknown. Use one of {', '.join(SOLVERS)}.")
    if isinstance(sparse, str):
        raise ValueError(f"{name}: sparse={sparse!r} is unknown. Use True, False or a pattern.")
    sparse = check_sparse(name, sparse)
    if sparse is not False and solver != "direct":
        raise ValueError(
            f"{name}: solver {solver!r} needs no matrix, sparse or not. Drop sparse=, or use "
            "solver='direct'."
        )
    return sparse


def _solution(search: Search, function: Callable[[Any], Any], x0: Any, bounds: Any = None) -> Any:
    """The solution as tensors; where a tape may ask, with the rule for their derivatives."""
    name = search.name
    layout = layout_of(x0, name)
    if layout.dtype.kind == "c":
        raise DtypeError(
            f"{name}: x0 is complex. Solve for its real and imaginary parts, as a pair of floats."
        )
    limits = None if bounds is None else _bounds(bounds, layout)
    coloured = None
    try:
        start = layout.ravel(x0).astype(np.float64)
        numbers = None if limits is None else tuple(bound.numpy() for bound in limits)
        found = search.find(function, layout, start, numbers)
        x: Any = from_value(host_value(found, layout.dtype))
        if not state.tapes and state.recording.outer is None:
            return layout.unravel(x)
        coloured = search.coloured(function, layout, found, numbers)
    except NoValueError:
        # Inside vmap, or the body of a loop: the numbers are known when the program runs.
        if state.recording.outer is None:
            raise
        x = _found_later(search, function, layout, x0, limits)
    residual = search.residual(function, limits)
    left = cast(join(residual(layout.unravel(x))), x.dtype)
    recording = state.recording
    source, target = x.enter(recording), left.enter(recording)
    symmetric = search.is_symmetric(limits)
    rule = Implicit(name, search.solver, coloured, symmetric, is_pure(target))
    inputs = (source, target, *frontier(target, source))
    node = recording.application(CUSTOM, inputs, (1, rule))
    return layout.unravel(recording.hold(pick(node, 0), Tensor))


def _bounds(bounds: Any, layout: Layout) -> tuple[Any, Any]:
    """Lower and upper bounds as tensors, for the unknowns laid end to end."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        lower, upper = bounds.lb, bounds.ub
    elif _is_list_of_pairs(bounds, layout.size):
        lower, upper = ([pair[side] for pair in bounds] for side in (0, 1))
    elif isinstance(bounds, tuple) and len(bounds) == 2:
        lower, upper = bounds
    else:
        raise ValueError(
            "minimize: bounds are a pair (lower, upper), or a list with such a pair for each of "
            f"the {layout.size} elements of x0."
        )
    return _bound(lower, -np.inf, layout), _bound(upper, np.inf, layout)


def _is_list_of_pairs(bounds: Any, count: int) -> bool:
    """SciPy's way; a tuple of two numbers, arrays or nests is ours."""
    return (
        isinstance(bounds, (list, tuple))
        and len(bounds) == count
        and all(
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and all(end is None or np.isscalar(end) for end in pair)
            for pair in bounds
        )
    )


def _bound(given: Any, otherwise: float, layout: Layout) -> Any:
    leaves, _ = flatten(given)
    parts = [asarray(otherwise if leaf is None else leaf) for leaf in leaves] or [
        asarray(otherwise)
    ]
    if len(parts) == 1 and parts[0].size == 1:
        whole = broadcast_to(reshape(parts[0], (1,)), (layout.size,))
    else:
        whole = parts[0] if len(parts) == 1 and parts[0].ndim == 1 else join(parts)
    if whole.size != layout.size:
        raise ShapeError(
            f"minimize: a bound has {whole.size} elements and x0 has {layout.size}. Give one "
            "number for all of them, or one for each."
        )
    return cast(whole, layout.dtype)


@dataclass(frozen=True)
class Later:
    """An equation as a program of the unknowns and of what it reads; see ops/solutions.py."""

    search: Search
    program: Program
    bounded: bool

    def solve(self, start: Any, others: Sequence[Any], example: int | None) -> Any:
        """The solution for these numbers, in a recording of its own."""
        bounds = (others[0], others[1]) if self.bounded else None
        read = others[2:] if self.bounded else others
        return isolated(lambda: self._solved(np.array(start), read, bounds, example))

    def _solved(self, start: Any, read: Sequence[Any], bounds: Any, example: int | None) -> Any:
        unknown, *given = self.program.inputs
        operands = [
            from_value(host_value(array, node.dtype))
            for array, node in zip(read, given, strict=True)
        ]

        def function(x: Any) -> Any:
            recording = state.recording
            nodes = [operand.enter(recording) for operand in (x, *operands)]
            return recording.hold(inlined(self.program, nodes)[0], Tensor)

        layout = vector_layout(start.size, unknown.dtype)
        try:
            return self.search.find(function, layout, start.astype(np.float64), bounds)
        except ConvergenceError as error:
            if example is not None:
                error.args = (f"example {example}: {error.args[0]}", *error.args[1:])
            raise


def _found_later(
    search: Search, function: Callable[[Any], Any], layout: Layout, x0: Any, limits: Any
) -> Any:
    """The solution as a node that is computed with the program around it."""

    def flat(made: Any, arguments: Sequence[Any]) -> tuple[list[Any], None]:
        value = function(layout.unravel(arguments[0]))
        return [as_scalar(search.name, value) if search.scalar else join(value)], None

    body, _ = trace(search.name, flat, [spec((layout.size,), layout.dtype)])
    try:
        recording = state.recording
        program = body.program((*body.arguments, *body.leaves))
        read = [body.bind(recording, leaf) for leaf in body.leaves]
    finally:
        body.end()
    given = [cast(join(x0), layout.dtype), *(limits or ())]
    inputs = (*[part.enter(recording) for part in given], *read)
    later = Later(search, program, limits is not None)
    node = recording.application(SOLVE_EQUATION, inputs, (later, None))
    return recording.hold(node, Tensor)
