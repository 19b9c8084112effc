"""Whole matrices of derivatives of functions: jacobian, hessian, and products with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gradtape.errors import ShapeError
from gradtape.pytree import flatten, map_leaves
from gradtape.tape.grad_vjp_jvp import as_sources, chosen_arguments, split_result, watched_arguments
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tape.tape_jacobians import check_real
from gradtape.tensor.tensor import asarray

__all__ = ["hessian", "hvp", "jacfwd", "jacobian", "jacrev", "vhp"]


def jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    mode: str = "auto",
    sparse: Any = False,
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
    chosen = chosen_arguments("jacobian", argnums)

    @functools.wraps(f)
    def at(*args: Any, **kwargs: Any) -> Any:
        tape, sources, value, aux = _recorded("jacobian", f, chosen, args, kwargs, has_aux)
        found = tape.jacobian(
            value,
            sources[0] if isinstance(chosen, int) else tuple(sources),
            "zero",
            mode=mode,
            sparse=sparse,
            chunk_size=chunk_size,
            memory_budget=memory_budget,
        )
        return (found, aux) if has_aux else found

    return at


def jacfwd(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[..., Any]:
    """`jacobian` in forward mode: one pass for each element of the argument.

    >>> gt.jacfwd(lambda x: x * x)(gt.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return jacobian(
        f,
        argnums,
        "forward",
        has_aux=has_aux,
        chunk_size=chunk_size,
        memory_budget=memory_budget,
    )


def jacrev(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    memory_budget: int | str | None = None,
) -> Callable[..., Any]:
    """`jacobian` in reverse mode: one pass for each element of the value.

    >>> gt.jacrev(lambda x: gt.sum(x * x))(gt.asarray([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    return jacobian(
        f,
        argnums,
        "reverse",
        has_aux=has_aux,
        chunk_size=chunk_size,
        memory_budget=memory_budget,
    )


def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    sparse: Any = False,
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
    chosen = chosen_arguments("hessian", argnums)

    @functools.wraps(f)
    def at(*args: Any, **kwargs: Any) -> Any:
        tape, sources, value, aux = _recorded("hessian", f, chosen, args, kwargs, has_aux)
        value = _scalar("hessian", value)
        found = tape.hessian(
            value,
            sources[0] if isinstance(chosen, int) else tuple(sources),
            "zero",
            sparse=sparse,
            chunk_size=chunk_size,
            memory_budget=memory_budget,
        )
        return (found, aux) if has_aux else found

    return at


def hvp(f: Callable[..., Any], primals: Any, vectors: Any) -> Any:
    """The Hessian of a scalar function at `primals`, times `vectors`: forward over reverse.

    >>> gt.hvp(lambda x: gt.sum(x**3), gt.asarray([1.0, 2.0]), gt.asarray([1.0, 0.0])).tolist()
    [6.0, 0.0]

    A tuple of primals is a list of arguments; the result then is a tuple, too.
    """
    return _hessian_product("hvp", f, primals, vectors)


def vhp(f: Callable[..., Any], primals: Any, vectors: Any) -> Any:
    """`vectors` times the Hessian of a scalar function: reverse over reverse.

    >>> gt.vhp(lambda x: gt.sum(x**3), gt.asarray([1.0, 2.0]), gt.asarray([0.0, 1.0])).tolist()
    [0.0, 12.0]
    """
    several = isinstance(primals, tuple)
    given = primals if several else (primals,)
    along = vectors if several else (vectors,)
    outer = GradientTape(watch_accessed_variables=False)
    with outer:
        sources = [as_sources(primal, "vhp") for primal in given]
        outer.watch(sources)
        inner = GradientTape(watch_accessed_variables=False)
        with inner:
            inner.watch(sources)
            value = _scalar("vhp", f(*sources))
        check_real("vhp", value, flatten(sources)[0])
        slopes = inner.gradient(value, sources, unconnected_gradients="zero")
    found = outer.gradient(slopes, sources, list(along), unconnected_gradients="zero")
    return tuple(found) if several else found[0]


def _hessian_product(name: str, f: Callable[..., Any], primals: Any, vectors: Any) -> Any:
    several = isinstance(primals, tuple)
    given = primals if several else (primals,)
    tape, sources, value, _ = _recorded(name, f, tuple(range(len(given))), given, {}, False)
    found = tape.hvp(_scalar(name, value), sources, list(vectors) if several else [vectors])
    return tuple(found) if several else found[0]


def _recorded(
    name: str,
    f: Callable[..., Any],
    chosen: int | tuple[int, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    has_aux: bool,
) -> tuple[GradientTape, list[Any], Any, Any]:
    """Call `f` under a tape that watches the chosen arguments."""
    tape = GradientTape(watch_accessed_variables=False)
    with tape:
        sources, given = watched_arguments(name, tape, args, chosen)
        result = f(*given, **kwargs)
    value, aux = split_result(result, has_aux)
    return tape, sources, map_leaves(asarray, value), aux


def _scalar(name: str, value: Any) -> Any:
    value = asarray(value)
    if value.shape != ():
        raise ShapeError(
            f"{name}: the function returned shape {value.shape}, not a scalar. "
            "Sum it, or take the jacobian of its gradient."
        )
    return value
