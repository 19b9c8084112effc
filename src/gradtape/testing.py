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
    setting = Setting(
        modes=tuple(modes),
        labels=labels,
        atol=tolerance if atol is None else atol,
        rtol=tolerance if rtol is None else rtol,
        # The step at which truncation and rounding of a central difference are about equal.
        eps=float(np.finfo(np.float32 if coarse else np.float64).eps) ** (1 / 3)
        if eps is None
        else eps,
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
                labels.append(
                    f"argument {position}" + (f", leaf {number}" if len(leaves) > 1 else "")
                )

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
    if not all(np.isfinite(value).all() for value in values):
        what = f"derivative ({setting.inner.removeprefix(' over ')})" if setting.inner else "value"
        raise AssertionError(
            f"check_gradients: the {what} is not finite here, so nothing can be compared. "
            "Choose other arguments."
        )
    # The rounding of large values spoils a difference quotient, however small it is itself.
    size = max((float(np.abs(value).max()) for value in values if value.size), default=0.0)
    atol = setting.atol * max(1.0, size) if setting.scaled else setting.atol
    local = replace(setting, atol=atol)
    directions = [_direction(rng, leaf) for leaf in leaves]
    weights = [_direction(rng, value) for value in values]
    quotients = [
        _central_difference(f, leaves, position, direction, local.eps)
        for position, direction in enumerate(directions)
    ]
    pushed = None
    if "forward" in local.modes:
        pushed = _check_forward(f, leaves, directions, quotients, local)
    if "reverse" in local.modes:
        _check_reverse(f, leaves, directions, weights, quotients, pushed, local)
    if order > 1:
        for mode in local.modes:
            inner = _push(f, directions) if mode == "forward" else _pull(f, weights)
            above = replace(setting, order=setting.order + 1, inner=f" over {mode}{setting.inner}")
            _check(inner, leaves, rng, order - 1, above)


def _check_forward(
    f: Flat,
    leaves: list[Tensor],
    directions: _Arrays,
    quotients: list[_Arrays],
    setting: Setting,
) -> _Arrays:
    """Check the tangents of each argument alone, then of all at once, which are returned."""
    title = setting.title("forward")
    for position, label in enumerate(setting.labels):
        alone = _push(f, directions, position)(leaves)
        _compare_all(alone, quotients[position], f"{label}, {title}", setting)
    together = _push(f, directions)(leaves)
    expected = [sum(column) for column in zip(*quotients, strict=True)]
    _compare_all(together, expected, f"all arguments, {title}", setting)
    return [tangent.numpy() for tangent in together]


def _check_reverse(
    f: Flat,
    leaves: list[Tensor],
    directions: _Arrays,
    weights: _Arrays,
    quotients: list[_Arrays],
    pushed: _Arrays | None,
    setting: Setting,
) -> None:
    """Check cotangents against differences and forward mode by the dot-product test."""
    title = setting.title("reverse")
    products = []
    pulled = _pull(f, weights)(leaves)
    for position, label in enumerate(setting.labels):
        gradient, leaf = pulled[position], leaves[position]
        if gradient.shape != leaf.shape or gradient.dtype != leaf.dtype:
            raise AssertionError(
                f"check_gradients: {label}, {title}: the gradient is {gradient.dtype} of shape "
                f"{gradient.shape}, the argument {leaf.dtype} of shape {leaf.shape}."
            )
        products.append(_inner(gradient.numpy(), directions[position]))
        expected = sum(
            _inner(weight, quotient)
            for weight, quotient in zip(weights, quotients[position], strict=True)
        )
        _compare(products[-1], expected, f"{label}, {title}, <Jᵀ g, v>", "differences", setting)
    if pushed is not None:
        expected = sum(_inner(weight, t) for weight, t in zip(weights, pushed, strict=True))
        where = f"all arguments, {title} against forward, <Jᵀ g, v>"
        _compare(sum(products), expected, where, "forward mode", setting)


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


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    wide = np.result_type(a.dtype, np.float64)
    return float(np.sum(np.conj(a.astype(wide)) * b).real)


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
        worst = np.unravel_index(
            int(np.argmax(np.where(np.isnan(error), np.inf, error))), got.shape
        )
        index = f" at {tuple(int(i) for i in worst)}" if got.ndim else ""
        raise AssertionError(
            f"check_gradients: {where}{index}: expected {expected[worst]:.10g} (by {source}), "
            f"got {got[worst]:.10g}; error {error[worst]:.3g} exceeds tolerance {tolerance:.3g}."
        )


check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
