"""Derivatives of functions: grad, value_and_grad, vjp, jvp, on nests of tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from gradtape.errors import DtypeError, ShapeError
from gradtape.ops.elementwise.arithmetic import identity
from gradtape.pytree import map_leaves
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import asarray

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]


def grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of a scalar function by some of its arguments.

    >>> float(gt.grad(lambda x: x**3)(2.0))
    12.0
    >>> gt.grad(lambda p: p["a"] * p["b"])({"a": gt.asarray(2.0), "b": gt.asarray(3.0)})["a"].item()
    3.0

    With `has_aux`, `f` returns (value, aux) and the result is (gradient, aux).
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, slopes = both(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return gradient


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Like `grad`, and gives (value, gradient).

    >>> value, slope = gt.value_and_grad(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    chosen = chosen_arguments("grad", argnums)

    @functools.wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        tape = GradientTape(watch_accessed_variables=False)
        with tape:
            sources, given = watched_arguments("grad", tape, args, chosen)
            result = f(*given, **kwargs)
        value, aux = split_result(result, has_aux)
        value = asarray(value)
        if value.shape != ():
            raise ShapeError(
                f"grad: the function returned shape {value.shape}, not a scalar. "
                "Sum it, or use gt.vjp or tape.gradient with output_gradients."
            )
        if value.dtype.kind != "f":
            raise DtypeError(
                f"grad: the function returned {value.dtype}, not a real float. "
                "Return a real loss, such as gt.real(y) or gt.abs(y)."
            )
        slopes = tape.gradient(value, sources, unconnected_gradients="zero")
        slopes = slopes[0] if isinstance(chosen, int) else tuple(slopes)
        return ((value, aux) if has_aux else value), slopes

    return both


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `f` and the function that pulls a cotangent of it back to the primals.

    >>> y, pull = gt.vjp(lambda x: x * x, gt.asarray([1.0, 2.0]))
    >>> pull([1.0, 1.0])[0].tolist()
    [2.0, 4.0]
    """
    tape = GradientTape(persistent=True, watch_accessed_variables=False)
    with tape:
        sources = [as_sources(primal, "vjp") for primal in primals]
        tape.watch(sources)
        result = f(*sources)
    value, aux = split_result(result, has_aux)
    value = map_leaves(asarray, value)

    def pull(cotangent: Any) -> tuple[Any, ...]:
        slopes = tape.gradient(value, sources, cotangent, unconnected_gradients="zero")
        return tuple(slopes)

    return (value, pull, aux) if has_aux else (value, pull)


def jvp(f: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """The value of `f` and its derivative along the tangents, in forward mode.

    >>> y, dy = gt.jvp(lambda x: x * x, (gt.asarray(3.0),), (gt.asarray(1.0),))
    >>> float(y), float(dy)
    (9.0, 6.0)

    `primals` is a tuple or list of the arguments of `f`, and `tangents` has one for each, or None
    for zero. Anything else than a tuple or list is the only argument itself.
    """
    if not isinstance(primals, (tuple, list)):
        primals, tangents = (primals,), (tangents,)
    elif not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"jvp: tangents of type {type(tangents).__name__} for a {type(primals).__name__} of "
            f"{len(primals)} primals. Give a tuple with one for each."
        )
    tape, sources, value, aux = recorded_at(f, primals, has_aux)
    pushed = pushed_forward(tape, sources, value, tangents)
    return (value, pushed, aux) if has_aux else (value, pushed)


def recorded_at(
    f: Callable[..., Any], primals: Sequence[Any], has_aux: bool
) -> tuple[GradientTape, list[Any], Any, Any]:
    """A persistent tape over a call of `f`: with the sources, the value, and what came with it."""
    tape = GradientTape(persistent=True, watch_accessed_variables=False)
    with tape:
        sources = [as_sources(primal, "jvp") for primal in primals]
        tape.watch(sources)
        result = f(*sources)
    value, aux = split_result(result, has_aux)
    return tape, sources, map_leaves(asarray, value), aux


def pushed_forward(
    tape: GradientTape, sources: list[Any], value: Any, tangents: Sequence[Any]
) -> Any:
    """The derivative of a recorded value along tangents, one for each source."""
    if len(tangents) != len(sources):
        raise ValueError(
            f"jvp: {len(sources)} primals and {len(tangents)} tangents. Give one each."
        )
    return tape.jvp(value, sources, list(tangents))


def chosen_arguments(name: str, argnums: Any) -> int | tuple[int, ...]:
    """The numbers of the arguments to differentiate by: one, or a tuple of them."""
    try:
        return operator.index(argnums)
    except TypeError:
        pass
    try:
        return tuple(operator.index(number) for number in argnums)
    except TypeError:
        raise TypeError(
            f"{name}: argnums={argnums!r} is not the number of an argument. "
            "Use an int such as 0, or a tuple of them."
        ) from None


def argument_position(name: str, number: int, count: int) -> int:
    """The place of an argument to differentiate by, counted from the front."""
    if not -count <= number < count:
        raise ValueError(
            f"{name}: argnums {number} with {count} positional arguments. Pass them by position."
        )
    return number % count


def watched_arguments(
    name: str, tape: GradientTape, args: tuple[Any, ...], chosen: int | tuple[int, ...]
) -> tuple[list[Any], list[Any]]:
    """A source for each number that was chosen, and all arguments with the sources among them."""
    numbers = (chosen,) if isinstance(chosen, int) else chosen
    positions = [argument_position(name, number, len(args)) for number in numbers]
    # By position: an argument that is chosen twice is one source.
    sources = {position: as_sources(args[position], name) for position in positions}
    tape.watch(list(sources.values()))
    given = [sources.get(position, argument) for position, argument in enumerate(args)]
    return [sources[position] for position in positions], given


def as_sources(tree: Any, name: str) -> Any:
    """Every leaf as a tensor of its own: nested derivatives of one value must not be confused."""

    def source(leaf: Any) -> Any:
        tensor = asarray(leaf)
        if tensor.dtype.kind not in "fc":
            raise DtypeError(
                f"{name}: an argument of dtype {tensor.dtype} has no derivative. "
                "Pass floats, or choose other argnums."
            )
        return identity(tensor)

    return map_leaves(source, tree)


def split_result(result: Any, has_aux: bool) -> tuple[Any, Any]:
    """The value of a function and what it returned beside it."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError("has_aux: the function must return (value, aux), a tuple of two.")
    return result
