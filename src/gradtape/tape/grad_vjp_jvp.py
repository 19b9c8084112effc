"""Derivatives of functions: grad, value_and_grad, vjp, jvp, on nests of tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from gradtape.argument_checks import check_function, check_returned
from gradtape.errors import DtypeError, ShapeError
from gradtape.ops.elementwise.arithmetic import identity
from gradtape.pytree import Tree, map_leaves
from gradtape.tape.gradient_tape import GradientTape, function_tape
from gradtape.tensor import Tensor, TensorLike, asarray

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]

P = ParamSpec("P")
Result = TypeVar("Result")
Aux = TypeVar("Aux")
Argument_contra = TypeVar("Argument_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)
# From a cotangent of the value to a tuple of cotangents, one like each primal.
Pullback: TypeAlias = Callable[[object], tuple[Any, ...]]
NO_KEYWORDS: Mapping[str, object] = {}


class FunctionOf(Protocol[Argument_contra, P, Result_co]):
    """A function by its first argument, which a transform differentiates by.

    It is a protocol because mypy infers no lambda from overloads with `Callable[Concatenate[…]]`.
    """

    def __call__(self, x: Argument_contra, /, *args: P.args, **kwargs: P.kwargs) -> Result_co: ...


@overload
def grad(
    f: FunctionOf[Tensor, P, TensorLike],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[TensorLike, P], Tensor]: ...


@overload
def grad(
    f: FunctionOf[Tree, P, TensorLike],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[Tree, P], Tree]: ...


@overload
def grad(
    f: Callable[..., object], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]: ...


def grad(
    f: Callable[..., object], argnums: int | Sequence[int] = 0, has_aux: bool = False
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
    def gradient(*args: object, **kwargs: object) -> object:
        value, slopes = both(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return gradient


@overload
def value_and_grad(
    f: FunctionOf[Tensor, P, TensorLike],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[TensorLike, P], tuple[Tensor, Tensor]]: ...


@overload
def value_and_grad(
    f: FunctionOf[Tree, P, TensorLike],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
) -> Callable[Concatenate[Tree, P], tuple[Tensor, Tree]]: ...


@overload
def value_and_grad(
    f: Callable[..., object], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]: ...


def value_and_grad(
    f: Callable[..., object], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """Like `grad`, and gives (value, gradient).

    >>> value, slope = gt.value_and_grad(lambda x: x * x)(3.0)
    >>> float(value), float(slope)
    (9.0, 6.0)
    """
    chosen = chosen_arguments("grad", argnums)
    check_function("grad", f)

    @functools.wraps(f)
    def both(*args: object, **kwargs: object) -> tuple[object, object]:
        tape, sources, returned, aux = recorded_at("grad", f, args, chosen, kwargs, has_aux)
        value = asarray(returned)
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
        found = slopes[0] if isinstance(chosen, int) else tuple(slopes)
        return ((value, aux) if has_aux else value), found

    return both


@overload
def vjp(
    f: Callable[..., Result], *primals: object, has_aux: Literal[False] = False
) -> tuple[Result, Pullback]: ...


@overload
def vjp(
    f: Callable[..., tuple[Result, Aux]], *primals: object, has_aux: Literal[True]
) -> tuple[Result, Pullback, Aux]: ...


def vjp(f: Callable[..., object], *primals: object, has_aux: bool = False) -> Any:
    """The value of `f` and the function that pulls a cotangent of it back to the primals.

    >>> y, pull = gt.vjp(lambda x: x * x, gt.asarray([1.0, 2.0]))
    >>> pull([1.0, 1.0])[0].tolist()
    [2.0, 4.0]
    """
    tape, sources, value, aux = recorded_at("vjp", f, primals, has_aux=has_aux, persistent=True)

    def pull(cotangent: object) -> tuple[Any, ...]:
        return pulled_back(tape, sources, value, cotangent)

    return (value, pull, aux) if has_aux else (value, pull)


@overload
def jvp(
    f: Callable[..., Result], primals: object, tangents: object, has_aux: Literal[False] = False
) -> tuple[Result, Result]: ...


@overload
def jvp(
    f: Callable[..., tuple[Result, Aux]],
    primals: object,
    tangents: object,
    has_aux: Literal[True],
) -> tuple[Result, Result, Aux]: ...


def jvp(f: Callable[..., object], primals: object, tangents: object, has_aux: bool = False) -> Any:
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
    tape, sources, value, aux = recorded_at(
        "jvp", f, tuple(primals), has_aux=has_aux, persistent=True
    )
    pushed = pushed_forward(tape, sources, value, tangents)
    return (value, pushed, aux) if has_aux else (value, pushed)


def recorded_at(
    name: str,
    f: Callable[..., object],
    args: tuple[object, ...],
    chosen: int | Sequence[int] | None = None,
    kwargs: Mapping[str, object] = NO_KEYWORDS,
    has_aux: bool = False,
    persistent: bool = False,
) -> tuple[GradientTape, list[Any], Any, Any]:
    """A tape over a call of `f` that watches the chosen arguments, or all of them.

    With the sources, the value and the aux of the call.
    """
    tape = function_tape(persistent)
    with tape:
        numbers = range(len(args)) if chosen is None else chosen
        sources, given = watched_arguments(name, tape, args, numbers)
        result = f(*given, **kwargs)
    value, aux = split_result(result, has_aux)
    check_returned(name, f, value)
    return tape, sources, map_leaves(asarray, value), aux


def pushed_forward(
    tape: GradientTape, sources: list[Any], value: object, tangents: Sequence[object]
) -> Any:
    """The derivative of a recorded value along tangents, one for each source."""
    if len(tangents) != len(sources):
        raise ValueError(
            f"jvp: {len(sources)} primals and {len(tangents)} tangents. Give one each."
        )
    return tape.jvp(value, sources, list(tangents))


def pulled_back(
    tape: GradientTape, sources: list[Any], value: object, cotangent: object
) -> tuple[Any, ...]:
    """The cotangents of the sources, from that of a recorded value."""
    return tuple(tape.gradient(value, sources, cotangent, unconnected_gradients="zero"))


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
    name: str, tape: GradientTape, args: tuple[object, ...], chosen: int | Sequence[int]
) -> tuple[list[Any], list[object]]:
    """A source for each chosen number, and all arguments with the sources among them."""
    numbers = (chosen,) if isinstance(chosen, int) else chosen
    positions = [argument_position(name, number, len(args)) for number in numbers]
    # By position: an argument that is chosen twice is one source.
    sources = {position: as_sources(args[position], name, position) for position in positions}
    tape.watch(list(sources.values()))
    given = [sources.get(position, argument) for position, argument in enumerate(args)]
    return [sources[position] for position in positions], given


def as_sources(tree: object, name: str, position: int) -> Any:
    """Every leaf as the result of an `identity` of its own.

    A derivative by a source is found by the node of the source. Without the identity, an argument
    that is passed twice, or that an enclosing derivative watches as well, would be one node for
    both, and derivatives by the one would include those by the other. To tapes around, whenever
    they began, the copy is the argument.
    """

    def source(leaf: TensorLike) -> Tensor:
        tensor = asarray(leaf)
        if tensor.dtype.kind not in "fc":
            raise DtypeError(
                f"{name}: argument {position} has dtype {tensor.dtype}, which has no derivative. "
                "Pass floats, or differentiate by other arguments."
            )
        copy: Tensor = identity(tensor)
        if copy.recording is not None:
            copy.recording.log.add_alias(copy.node)
        return copy

    return map_leaves(source, tree)


def split_result(result: object, has_aux: bool) -> tuple[Any, Any]:
    """The value of a function, and the aux that it returned beside it."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError("has_aux: the function must return (value, aux), a tuple of two.")
    return result
