"""Whole matrices of derivatives of functions: jacobian, hessian, and products with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, overload

from gradtape.argument_checks import check_function
from gradtape.autodiff.chunks import limits
from gradtape.errors import ShapeError
from gradtape.pytree import Tree, flatten
from gradtape.tape.grad_vjp_jvp import (
    FunctionOf,
    as_sources,
    chosen_arguments,
    recorded_at,
)
from gradtape.tape.gradient_tape import GradientTape, function_tape
from gradtape.tape.tape_jacobians import check_real
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.tensor.tensor_like import TensorLeaf, TensorLike

if TYPE_CHECKING:
    from gradtape.tape.tape_jacobians import SparseOption

__all__ = ["hessian", "hvp", "jacfwd", "jacobian", "jacrev", "vhp"]

P = ParamSpec("P")


@overload
def jacobian(
    f: FunctionOf[Tensor, P, Tensor],
    argnums: Literal[0] = 0,
    mode: str = "auto",
    sparse: Literal[False] = False,
    has_aux: Literal[False] = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[Concatenate[TensorLike, P], Tensor]: ...


@overload
def jacobian(
    f: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    sparse: SparseOption = False,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[..., Any]: ...


def jacobian(
    f: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    sparse: SparseOption = False,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[..., Any]:
    """The function that gives the Jacobian of `f` by some of its arguments.

    >>> gt.jacobian(lambda x: x * x)(gt.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    >>> gt.jacobian(lambda x: x[1:] * x[:-1], sparse=True)(np.arange(1.0, 4.0)).toarray().tolist()
    [[2.0, 1.0, 0.0], [0.0, 3.0, 2.0]]

    The shape is that of the value followed by that of the argument. Values and arguments may be
    nests: the result has the structure of the value, with that of the argument inside. `mode` is
    `auto` (by cost), `forward` or `reverse`. `sparse` is True, `"auto"` (whichever is smaller), or
    a pattern to use instead of detecting it: the entries that can be nonzero, as a `Pattern`, a
    sparse matrix or an array. One that leaves out an entry is an error, as far as a product with a
    random vector at the first point shows it. With `has_aux`, `f` returns (value, aux).

    A dense Jacobian whose intermediates would take more than `memory_budget` bytes (or such as
    "512M"; by default GRADTAPE_JACOBIAN_BUDGET, or an eighth of the memory) is computed for some
    seeds at a time; `chunk_size` says for how many.
    """
    limits("jacobian", chunk_size, memory_budget)

    def of_tape(tape: GradientTape, value: object, sources: object) -> object:
        return tape.jacobian(
            value,
            sources,
            "zero",
            mode=mode,
            sparse=sparse,
            chunk_size=chunk_size,
            memory_budget=memory_budget,
        )

    return _matrix_of("jacobian", f, argnums, has_aux, of_tape)


def jacfwd(
    f: Callable[P, object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[P, Any]:
    """`jacobian` in forward mode: one pass for each element of the argument.

    >>> gt.jacfwd(lambda x: x * x)(gt.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    bounds: dict[str, Any] = {"chunk_size": chunk_size, "memory_budget": memory_budget}
    return jacobian(f, argnums, "forward", has_aux=has_aux, **bounds)


def jacrev(
    f: Callable[P, object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[P, Any]:
    """`jacobian` in reverse mode: one pass for each element of the value.

    >>> gt.jacrev(lambda x: gt.sum(x * x))(gt.asarray([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    bounds: dict[str, Any] = {"chunk_size": chunk_size, "memory_budget": memory_budget}
    return jacobian(f, argnums, "reverse", has_aux=has_aux, **bounds)


@overload
def hessian(
    f: FunctionOf[Tensor, P, Tensor],
    argnums: Literal[0] = 0,
    sparse: Literal[False] = False,
    has_aux: Literal[False] = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[Concatenate[TensorLike, P], Tensor]: ...


@overload
def hessian(
    f: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    sparse: SparseOption = False,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[..., Any]: ...


def hessian(
    f: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    sparse: SparseOption = False,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[..., Any]:
    """The function that gives the second derivatives of a scalar function.

    >>> gt.hessian(lambda x: x[0] ** 2 * x[1])(gt.asarray([1.0, 2.0])).tolist()
    [[4.0, 2.0], [2.0, 0.0]]

    The shape is that of the argument twice. For several or nested arguments the result is a nest
    of nests: block [a][b] is the derivative by b of the gradient by a. `sparse`, `chunk_size` and
    `memory_budget` are as in `jacobian`. By complex arguments it is the derivative of a gradient
    that is holomorphic; where that is not so, no complex matrix has all second derivatives: take
    products by `hvp`, or derivatives by real and imaginary parts.
    """
    limits("hessian", chunk_size, memory_budget)

    def of_tape(tape: GradientTape, value: object, sources: object) -> object:
        return tape.hessian(
            _scalar("hessian", value),
            sources,
            "zero",
            sparse=sparse,
            chunk_size=chunk_size,
            memory_budget=memory_budget,
        )

    return _matrix_of("hessian", f, argnums, has_aux, of_tape)


def _matrix_of(
    name: str,
    f: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool,
    of_tape: Callable[[GradientTape, object, object], object],
) -> Callable[..., Any]:
    """The function that records `f` and takes a matrix of derivatives from the tape."""
    chosen = chosen_arguments(name, argnums)
    check_function(name, f)

    @functools.wraps(f)
    def at(*args: object, **kwargs: object) -> object:
        tape, sources, value, aux = recorded_at(name, f, args, chosen, kwargs, has_aux)
        found = of_tape(tape, value, sources[0] if isinstance(chosen, int) else tuple(sources))
        return (found, aux) if has_aux else found

    return at


@overload
def hvp(f: Callable[..., TensorLike], primals: TensorLeaf, vectors: TensorLike) -> Tensor: ...


@overload
def hvp(f: Callable[..., TensorLike], primals: Tree, vectors: object) -> Tree: ...


def hvp(f: Callable[..., TensorLike], primals: object, vectors: object) -> object:
    """The Hessian of a scalar function at `primals`, times `vectors`: forward over reverse.

    >>> gt.hvp(lambda x: gt.sum(x**3), gt.asarray([1.0, 2.0]), gt.asarray([1.0, 0.0])).tolist()
    [6.0, 0.0]

    A tuple of primals is a list of arguments; the result then is a tuple, too.
    """
    given, along = _arguments(primals, vectors)
    tape, sources, value, _ = recorded_at("hvp", f, given)
    found = tape.hvp(_scalar("hvp", value), sources, along)
    return tuple(found) if isinstance(primals, tuple) else found[0]


@overload
def vhp(f: Callable[..., TensorLike], primals: TensorLeaf, vectors: TensorLike) -> Tensor: ...


@overload
def vhp(f: Callable[..., TensorLike], primals: Tree, vectors: object) -> Tree: ...


def vhp(f: Callable[..., TensorLike], primals: object, vectors: object) -> object:
    """`vectors` times the Hessian of a scalar function: reverse over reverse.

    >>> gt.vhp(lambda x: gt.sum(x**3), gt.asarray([1.0, 2.0]), gt.asarray([0.0, 1.0])).tolist()
    [0.0, 12.0]
    """
    given, along = _arguments(primals, vectors)
    outer = function_tape()
    with outer:
        sources = [as_sources(primal, "vhp", at) for at, primal in enumerate(given)]
        outer.watch(sources)
        inner = function_tape()
        with inner:
            inner.watch(sources)
            value = _scalar("vhp", f(*sources))
        check_real("vhp", value, flatten(sources)[0])
        slopes = inner.gradient(value, sources, unconnected_gradients="zero")
    found = outer.gradient(slopes, sources, along, unconnected_gradients="zero")
    return tuple(found) if isinstance(primals, tuple) else found[0]


def _arguments(primals: object, vectors: Any) -> tuple[tuple[object, ...], list[object]]:
    """The arguments of a function, and a vector for each: those of a tuple, or one."""
    if isinstance(primals, tuple):
        return primals, list(vectors)
    return (primals,), [vectors]


def _scalar(name: str, returned: Any) -> Tensor:
    value = asarray(returned)
    if value.shape != ():
        raise ShapeError(
            f"{name}: the function returned shape {value.shape}, not a scalar. "
            "Sum it, or take the jacobian of its gradient."
        )
    return value
