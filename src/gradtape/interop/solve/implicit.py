"""Solutions of equations, with their derivatives: root, fixed_point, minimize."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from gradtape.autodiff.solution_rules import Implicit, frontier, is_pure
from gradtape.control.traced_bodies import BodyTrace, Returned, trace
from gradtape.errors import ConvergenceError, DtypeError, NoValueError, ShapeError
from gradtape.interop.solve import searches
from gradtape.interop.solve.searches import Search, UserEquation
from gradtape.ir import Program, pick, spec
from gradtape.ops.arrays.movement import broadcast_to, reshape
from gradtape.ops.control.bodies import inlined
from gradtape.ops.custom.callback import isolated
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.custom.solutions import SOLVE_EQUATION
from gradtape.ops.families.casting import cast
from gradtape.pytree import Tree, flatten
from gradtape.tape.function_at_point import Layout, as_scalar, join, layout_of, vector_layout
from gradtape.tape.tape_jacobians import check_sparse
from gradtape.tensor import Tensor, asarray, from_value
from gradtape.tensor.tensor_like import TensorLeaf
from gradtape.trace import host_value, state

if TYPE_CHECKING:
    from gradtape.tape.tape_jacobians import SparseOption


# A solution inside vmap or the body of a loop, where numbers are known only when the program runs.
# The equation becomes a program, and the search a param of one op that calls it.
@dataclass(frozen=True)
class Later:
    """An equation as a program of the unknowns and of the values that it reads.

    It is a param of the op SOLVE_EQUATION, which calls `solve` when it runs.
    """

    search: Search
    program: Program
    bounded: bool

    def solve(
        self, start: np.ndarray, others: Sequence[np.ndarray], example: int | None
    ) -> np.ndarray:
        """The solution for these numbers, in a recording of its own."""
        bounds = (others[0], others[1]) if self.bounded else None
        read = others[2:] if self.bounded else others
        return isolated(lambda: self._solved(np.array(start), read, bounds, example))

    def _solved(
        self,
        start: np.ndarray,
        read: Sequence[np.ndarray],
        bounds: tuple[np.ndarray, np.ndarray] | None,
        example: int | None,
    ) -> np.ndarray:
        unknown, *given = self.program.inputs
        operands = [
            from_value(host_value(array, node.dtype))
            for array, node in zip(read, given, strict=True)
        ]

        def function(x: Tensor) -> Tensor:
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


def found_later(
    search: Search,
    function: UserEquation,
    layout: Layout,
    x0: object,
    limits: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """The solution as a node that is computed with the program around it."""

    def flat(made: BodyTrace, arguments: Sequence[Tensor]) -> Returned[None]:
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


def bounds_as_tensors(bounds: Any, layout: Layout) -> tuple[Tensor, Tensor]:
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
            f"the {layout.size} elements of x0, not {type(bounds).__name__}."
        )
    return _bound(lower, -np.inf, layout), _bound(upper, np.inf, layout)


def _is_list_of_pairs(bounds: object, count: int) -> bool:
    """Whether bounds are given as in SciPy: one pair of numbers for each unknown."""
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


def _bound(given: object, otherwise: float, layout: Layout) -> Tensor:
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


Options: TypeAlias = dict[str, Any] | None


class SolverOptions(TypedDict, total=False):
    """The options that all three functions take."""

    method: str
    tol: float | None
    options: Options
    solver: str
    sparse: SparseOption


class BoundedOptions(SolverOptions, total=False):
    """The options of `minimize`."""

    bounds: object


@overload
def root(
    f: Callable[..., object], x0: TensorLeaf, *args: object, **options: Unpack[SolverOptions]
) -> Tensor: ...


@overload
def root(
    f: Callable[..., object], x0: Tree, *args: object, **options: Unpack[SolverOptions]
) -> Tree: ...


def root(
    f: Callable[..., object],
    x0: object,
    *args: object,
    method: str | None = None,
    tol: float | None = None,
    options: Options = None,
    solver: str = "direct",
    sparse: SparseOption = False,
) -> Any:
    """The x near `x0` with f(x, *args) = 0, as a tensor with derivatives.

    >>> round(float(gt.root(lambda x, a: x**2 - a, 1.0, 2.0)), 12)
    1.414213562373
    >>> float(gt.grad(lambda a: gt.root(lambda x, a: x**2 - a, 1.0, a))(4.0))
    0.25

    Derivatives of every order, in both modes, by `args` and by tensors and variables that `f` reads
    otherwise, follow from the equation alone, not from how it was solved. They are recorded where a
    tape (or `grad`, `jvp`, …) is active. `x0`, `args` and the value of `f` may be nests.

    `method` is one of `scipy.optimize.root`, `"hybr"` by default, or `"newton"`, which is built in
    and the default for sparse and iterative solvers. SciPy's result is polished by Newton steps.
    Linear systems, of Newton's method and of the derivatives, are solved by a dense decomposition,
    by a sparse one with `sparse=True` (or a pattern), or without any matrix by `solver="gmres"`,
    `"bicgstab"`, `"cg"` or `"minres"`. Where no solution is found, the ConvergenceError has the
    last point.
    """
    sparse = _check("root", solver, sparse, tol)
    if method is None:
        method = "hybr" if solver == "direct" and sparse is False else "newton"
    method = _known_method("root", method, searches.ROOT_METHODS)
    if method == "newton":
        _check_options("root", method, options)
    search = searches.RootSearch("root", method, tol, options, solver, sparse)
    return _solution(search, _real("root", lambda x: f(x, *args)), x0)


@overload
def fixed_point(
    f: Callable[..., object], x0: TensorLeaf, *args: object, **options: Unpack[SolverOptions]
) -> Tensor: ...


@overload
def fixed_point(
    f: Callable[..., object], x0: Tree, *args: object, **options: Unpack[SolverOptions]
) -> Tree: ...


def fixed_point(
    f: Callable[..., object],
    x0: object,
    *args: object,
    method: str = "anderson",
    tol: float | None = None,
    options: Options = None,
    solver: str = "direct",
    sparse: SparseOption = False,
) -> Any:
    """The x near `x0` with x = f(x, *args), as a tensor with derivatives.

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
    method = _known_method("fixed_point", method, searches.FIXED_POINT_METHODS)
    sparse = _check("fixed_point", solver, sparse, tol)
    _check_options("fixed_point", method, options)
    search = searches.FixedPointSearch("fixed_point", method, tol, options, solver, sparse)
    return _solution(search, _real("fixed_point", lambda x: f(x, *args)), x0)


@overload
def minimize(
    f: Callable[..., object], x0: TensorLeaf, *args: object, **options: Unpack[BoundedOptions]
) -> Tensor: ...


@overload
def minimize(
    f: Callable[..., object], x0: Tree, *args: object, **options: Unpack[BoundedOptions]
) -> Tree: ...


def minimize(
    f: Callable[..., object],
    x0: object,
    *args: object,
    method: str | None = None,
    bounds: object = None,
    tol: float | None = None,
    options: Options = None,
    solver: str = "direct",
    sparse: SparseOption = False,
) -> Any:
    """The x near `x0` that minimises a scalar f(x, *args), as a tensor with derivatives.

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
    `"L-BFGS-B"` then. An element that a bound holds back has derivative zero by `args` and one by
    the bound; an element that would lie there without the bound counts as free.

    >>> held = lambda a: gt.minimize(lambda x: gt.sum((x - a) ** 2), np.zeros(2), bounds=(0.0, 1.0))
    >>> a = np.array([0.5, 3.0])
    >>> held(a).tolist(), gt.jacobian(held)(a).tolist()
    ([0.5, 1.0], [[1.0, 0.0], [0.0, 0.0]])
    """
    sparse = _check("minimize", solver, sparse, tol)
    if method is None:
        method = "BFGS" if bounds is None else "L-BFGS-B"
    _known_method("minimize", method, searches.MINIMIZE_METHODS)
    if bounds is not None and method.lower() not in searches.TAKES_BOUNDS:
        raise ValueError(
            f"minimize: {method} takes no bounds. Use one of {', '.join(searches.TAKES_BOUNDS)}."
        )
    search = searches.MinimumSearch("minimize", method, tol, options, solver, sparse)
    return _solution(search, lambda x: f(x, *args), x0, bounds)


def _known_method(name: str, method: str, known: Sequence[str]) -> str:
    word = method.lower() if isinstance(method, str) else method
    if word not in known:
        raise ValueError(f"{name}: method {method!r} is unknown. Use one of {', '.join(known)}.")
    return word


def _check_options(name: str, method: str, options: Options) -> None:
    """Check the options of a method that is built in; SciPy checks those of its own."""
    known = searches.OPTIONS[method]
    wrong = [option for option in options or {} if option not in known]
    if wrong:
        raise ValueError(f"{name}: {method} has no option {wrong[0]!r}. Use {' or '.join(known)}.")


def _check(name: str, solver: str, sparse: SparseOption, tol: float | None) -> SparseOption:
    if tol is not None and not tol > 0:
        raise ValueError(f"{name}: tol={tol} is not positive. Use a small number such as 1e-10.")
    if solver not in searches.SOLVERS:
        raise ValueError(
            f"{name}: solver {solver!r} is unknown. Use one of {', '.join(searches.SOLVERS)}."
        )
    if isinstance(sparse, str):
        raise ValueError(f"{name}: sparse={sparse!r} is unknown. Use True, False or a pattern.")
    sparse = check_sparse(name, sparse)
    if sparse is not False and solver != "direct":
        raise ValueError(
            f"{name}: solver {solver!r} needs no matrix, sparse or dense. Drop sparse=, or use "
            "solver='direct'."
        )
    return sparse


def _real(name: str, function: searches.UserEquation) -> searches.UserEquation:
    """The function, which raises a DtypeError for complex values: their imaginary part counts."""

    def real(x: Any) -> Any:
        value = function(x)
        for leaf in flatten(value)[0]:
            kind = getattr(getattr(leaf, "dtype", None), "kind", "")
            if isinstance(leaf, complex) or kind == "c":
                raise DtypeError(
                    f"{name}: the function gives complex values, and x0 is real. Return their real "
                    "and imaginary parts, as a pair, or use gt.real if they are real numbers."
                )
        return value

    return real


def _solution(
    search: searches.Search, function: searches.UserEquation, x0: object, bounds: object = None
) -> Any:
    """The solution as tensors, with the rule for their derivatives where a tape records."""
    name = search.name
    layout = layout_of(x0, name)
    if layout.dtype.kind == "c":
        raise DtypeError(
            f"{name}: x0 is complex. Solve for its real and imaginary parts, as a pair of floats."
        )
    limits = None if bounds is None else bounds_as_tensors(bounds, layout)
    coloured = None
    try:
        start = layout.ravel(x0).astype(np.float64)
        numbers = None if limits is None else (limits[0].numpy(), limits[1].numpy())
        found = search.find(function, layout, start, numbers)
        x = from_value(host_value(found, layout.dtype))
        if not state.tapes and state.recording.outer is None:
            return layout.unravel(x)
        coloured = search.coloured(function, layout, found, numbers)
    except NoValueError:
        # Inside vmap or the body of a loop the numbers are known only when the program runs.
        if state.recording.outer is None:
            raise
        x = found_later(search, function, layout, x0, limits)
    residual = search.residual(function, limits)
    left = cast(join(residual(layout.unravel(x))), x.dtype)
    recording = state.recording
    source, target = x.enter(recording), left.enter(recording)
    symmetric = search.is_symmetric(limits)
    rule = Implicit(name, search.solver, coloured, symmetric, is_pure(target))
    inputs = (source, target, *frontier(target, source))
    node = recording.application(CUSTOM, inputs, (1, rule))
    return layout.unravel(recording.hold(pick(node, 0), Tensor))
