"""Checks of derivatives: against finite differences, and of one mode against the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradtape.argument_checks import check_exports
from gradtape.dtypes import DType
from gradtape.pytree import flatten, unflatten
from gradtape.suggestions import namespace as _namespace
from gradtape.tape.forward_accumulator import ForwardAccumulator
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import Tensor, asarray

__all__ = ["check_gradients"]

MODES = ("forward", "reverse")

# A function of the differentiable leaves of the arguments, to a list of inexact tensors.
Flat: TypeAlias = Callable[[Sequence[Tensor]], list[Tensor]]
_Arrays: TypeAlias = list[np.ndarray]


def check_gradients(
    f: Callable[..., object],
    *args: object,
    order: int = 2,
    modes: Sequence[str] = MODES,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Raise AssertionError where derivatives of `f` disagree with finite differences.

    >>> gt.testing.check_gradients(lambda x: gt.sum(gt.sin(x) * x), np.array([0.5, 1.5]))

    Along a random direction of each argument, forward mode is compared with central differences;
    reverse mode is compared with both by the dot-product test, `<g, J v> = <Jᵀ g, v>`. At order 2
    the derivatives themselves are checked in this way, so that both modes are taken over both. The
    directions are the same in every run.

    Arguments are tensors, arrays, numbers or nests of them; integers and booleans are passed on
    and not differentiated. For complex arguments the inner product is `Re(sum(conj(a) * b))`, which
    goes with the gradient dL/dRe + i dL/dIm. `atol`, `rtol` and the step `eps` depend on the
    dtypes by default, and are wider where anything is float32 or complex64.
    """
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown or not modes:
        raise ValueError(
            f"check_gradients: modes {tuple(modes)!r} are unknown or none. Use some of {MODES}."
        )
    if order < 1:
        raise ValueError(f"check_gradients: order {order} is not a derivative. Use 1 or more.")
    flat, leaves, labels = _flatten_function(f, args)
    values = flat(leaves)
    if not leaves or not values:
        what = "argument" if not leaves else "result"
        raise ValueError(
            f"check_gradients: no {what} is a float or complex number. There is nothing to check."
        )
    coarse = any(leaf.dtype.itemsize == _single(leaf.dtype) for leaf in (*leaves, *values))
    tolerance = 5e-3 if coarse else 2e-6
    # The step at which truncation and rounding of a central difference are about equal.
    step = float(np.finfo(np.float32 if coarse else np.float64).eps) ** (1 / 3)
    setting = Setting(
        modes=tuple(modes),
        labels=labels,
        atol=tolerance if atol is None else atol,
        rtol=tolerance if rtol is None else rtol,
        eps=step if eps is None else eps,
        scaled=atol is None,
    )
    _check(flat, leaves, np.random.default_rng(0), order, setting)


@dataclass(frozen=True)
class Setting:
    """The settings of a check, and what errors call the order that is being checked."""

    modes: tuple[str, ...]
    labels: list[str]
    atol: float
    rtol: float
    eps: float
    # Whether the absolute tolerance grows with the values that are differenced.
    scaled: bool
    order: int = 1
    inner: str = ""

    def title(self, mode: str) -> str:
        return f"order {self.order}, {mode}{self.inner}"


def _single(dtype: DType) -> int:
    """The item size of single precision of the same kind."""
    return 8 if dtype.kind == "c" else 4


def _flatten_function(
    f: Callable[..., object], args: tuple[object, ...]
) -> tuple[Flat, list[Tensor], list[str]]:
    """`f` as a function of its differentiable leaves, these leaves, and a label of each."""
    trees = [flatten(arg) for arg in args]
    entered = [[asarray(leaf) for leaf in leaves] for leaves, _ in trees]
    places: list[tuple[int, int]] = []
    labels: list[str] = []
    for position, leaves in enumerate(entered):
        for number, leaf in enumerate(leaves):
            if leaf.dtype.kind in "fc":
                places.append((position, number))
                one_of = f", leaf {number}" if len(leaves) > 1 else ""
                labels.append(f"argument {position}{one_of}")

    def flat(given: Sequence[Tensor]) -> list[Tensor]:
        filled = [list(leaves) for leaves in entered]
        for (position, number), leaf in zip(places, given, strict=True):
            filled[position][number] = leaf
        result = f(
            *[unflatten(shape, leaves) for (_, shape), leaves in zip(trees, filled, strict=True)]
        )
        found = [asarray(leaf) for leaf in flatten(result)[0]]
        return [leaf for leaf in found if leaf.dtype.kind in "fc"]

    return flat, [entered[position][number] for position, number in places], labels


def _check(
    f: Flat, leaves: list[Tensor], rng: np.random.Generator, order: int, setting: Setting
) -> None:
    values = [value.numpy() for value in f(leaves)]
    _check_finite(values, setting)
    # The rounding of large values spoils a difference quotient, however small it is itself.
    size = max((float(np.abs(value).max()) for value in values if value.size), default=0.0)
    local = replace(setting, atol=setting.atol * max(1.0, size)) if setting.scaled else setting
    directions = [_direction(rng, leaf) for leaf in leaves]
    weights = [_direction(rng, value) for value in values]
    quotients = [
        _central_difference(f, leaves, position, direction, local.eps)
        for position, direction in enumerate(directions)
    ]
    if "forward" in local.modes:
        title = local.title("forward")
        for position, label in enumerate(local.labels):
            alone = _push(f, directions, position)(leaves)
            _compare_all(alone, quotients[position], f"{label}, {title}", local)
        together = _push(f, directions)(leaves)
        expected = [sum(column) for column in zip(*quotients, strict=True)]
        _compare_all(together, expected, f"all arguments, {title}", local)
    if "reverse" in local.modes:
        title = local.title("reverse")
        products = []
        rows = zip(
            local.labels, _pull(f, weights)(leaves), leaves, directions, quotients, strict=True
        )
        for label, gradient, leaf, direction, quotient in rows:
            where = f"{label}, {title}"
            if gradient.shape != leaf.shape or gradient.dtype != leaf.dtype:
                raise AssertionError(
                    f"check_gradients: {where}: the gradient is {gradient.dtype} of shape "
                    f"{gradient.shape}, the argument {leaf.dtype} of shape {leaf.shape}."
                )
            products.append(_inner([gradient.numpy()], [direction]))
            expected_product = _inner(weights, quotient)
            _compare(products[-1], expected_product, f"{where}, <Jᵀ g, v>", "differences", local)
        if "forward" in local.modes:
            pushed = _inner(weights, [tangent.numpy() for tangent in together])
            where = f"all arguments, {title} against forward, <Jᵀ g, v>"
            _compare(sum(products), pushed, where, "forward mode", local)
    if order > 1:
        for mode in local.modes:
            inner = _push(f, directions) if mode == "forward" else _pull(f, weights)
            above = replace(setting, order=setting.order + 1, inner=f" over {mode}{setting.inner}")
            _check(inner, leaves, rng, order - 1, above)


def _check_finite(values: _Arrays, setting: Setting) -> None:
    if not all(np.isfinite(value).all() for value in values):
        what = f"derivative ({setting.inner.removeprefix(' over ')})" if setting.inner else "value"
        raise AssertionError(
            f"check_gradients: the {what} is not finite here, so nothing can be compared. "
            "Choose other arguments."
        )


def _push(f: Flat, directions: _Arrays, only: int | None = None) -> Flat:
    """The derivative of `f` along the directions, in forward mode, as a function of the leaves."""

    def derivative(leaves: Sequence[Tensor]) -> list[Tensor]:
        chosen = range(len(leaves)) if only is None else [only]
        tangents = [asarray(directions[position]) for position in chosen]
        primals = [leaves[position] for position in chosen]
        with ForwardAccumulator(primals, tangents) as accumulator:
            values = f(leaves)
        return [asarray(t) for t in accumulator.jvp(values, unconnected_gradients="zero")]

    return derivative


def _pull(f: Flat, weights: _Arrays) -> Flat:
    """The gradient of `<weights, f>` in reverse mode, as a function of the leaves."""

    def derivative(leaves: Sequence[Tensor]) -> list[Tensor]:
        sources = list(leaves)
        with GradientTape() as tape:
            tape.watch(sources)
            values = f(leaves)
        found = tape.gradient(
            values,
            sources,
            output_gradients=[asarray(weight) for weight in weights],
            unconnected_gradients="zero",
        )
        return [asarray(gradient) for gradient in found]

    return derivative


def _direction(rng: np.random.Generator, like: Tensor | np.ndarray) -> np.ndarray:
    """Random signs and sizes, none of them small, so that an error in any element shows."""

    def real() -> np.ndarray:
        return rng.uniform(0.5, 1.0, like.shape) * rng.choice([-1.0, 1.0], like.shape)

    found = real() + 1j * real() if like.dtype.kind == "c" else real()
    return np.asarray(found, like.dtype)


def _inner(some: _Arrays, others: _Arrays) -> float:
    """The real inner product, in double precision."""
    wide = [a.astype(np.result_type(a.dtype, np.float64)) for a in some]
    return sum(float(np.sum(np.conj(a) * b).real) for a, b in zip(wide, others, strict=True))


def _central_difference(
    f: Flat, leaves: list[Tensor], position: int, direction: np.ndarray, eps: float
) -> _Arrays:
    def moved(step: float) -> _Arrays:
        start = leaves[position].numpy()
        shifted = list(leaves)
        shifted[position] = asarray((start + step * direction).astype(start.dtype))
        return [value.numpy() for value in f(shifted)]

    return [
        (above.astype(np.result_type(above.dtype, np.float64)) - below) / (2.0 * eps)
        for above, below in zip(moved(eps), moved(-eps), strict=True)
    ]


def _compare_all(got: list[Tensor], expected: _Arrays, where: str, setting: Setting) -> None:
    for number, (one, other) in enumerate(zip(got, expected, strict=True)):
        if one.shape != other.shape:
            raise AssertionError(
                f"check_gradients: {where}: the tangent of result {number} has shape {one.shape}, "
                f"the result {other.shape}."
            )
        result = f"{where}, result {number}" if len(got) > 1 else where
        _compare(one.numpy(), other, result, "differences", setting)


def _compare(got: Any, expected: Any, where: str, source: str, setting: Setting) -> None:
    """Compare with a tolerance relative to the largest element, and name the worst one."""
    got, expected = np.asarray(got), np.asarray(expected)
    if not got.size:
        return
    error = np.abs(got - expected)
    tolerance = setting.atol + setting.rtol * float(np.abs(expected).max())
    # `not <=`, so that a NaN is an error.
    if not error.max() <= tolerance:
        place = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
        worst = np.unravel_index(place, got.shape)
        index = f" at {tuple(int(i) for i in worst)}" if got.ndim else ""
        raise AssertionError(
            f"check_gradients: {where}{index}: expected {expected[worst]:.10g} (by {source}), "
            f"got {got[worst]:.10g}; error {error[worst]:.3g} exceeds tolerance {tolerance:.3g}."
        )


check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
