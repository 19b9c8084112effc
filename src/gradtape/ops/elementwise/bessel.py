"""Bessel functions of a fixed order: SciPy computes the values, neighbouring orders the slopes."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.caches import remembered
from gradtape.ir.math_function import Composition
from gradtape.ir.node import Node
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.ops.elementwise.compositions import BESSEL_I0, BESSEL_I1
from gradtape.ops.families import lowering
from gradtape.ops.families.elementwise import elementwise
from gradtape.ops.families.math_functions import BESSEL, BESSEL_OF_ORDER, EXP, SQRT
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand

if TYPE_CHECKING:
    from gradtape.ops.families.vector_code import FunctionBody, V

_POSITIVE = [(0.5, 4.0)]
_ORDERS = ({"order": 0}, {"order": 1}, {"order": 2})


def _scipy() -> ModuleType:
    # SciPy is imported at first use: it takes longer than importing gradtape.
    import scipy.special

    return scipy.special


def _checked(name: str, order: Any) -> float:
    """The order as a number; whole ones are ints."""
    if isinstance(order, (bool, np.bool_)) or not isinstance(order, (int, float, np.number)):
        raise TypeError(f"{name}: the order is a {type(order).__name__}. Pass a number.")
    return int(order) if float(order).is_integer() else float(order)


def _kernel(kind: str) -> Callable[[np.ndarray, float], np.ndarray]:
    def kernel(x: np.ndarray, order: float) -> np.ndarray:
        wide = np.asarray(x, np.float64) if order not in (0, 1) else x
        if kind == "iv":  # SciPy's is NaN at infinity, and infinite long before
            wide = np.clip(wide, -1e4, 1e4)
        if order in (0, 1):
            found = getattr(_scipy(), f"{kind[0]}{order}")(wide)
        elif kind == "kv":  # SciPy's is 0 from 698 on, though the value is in range
            found = _scipy().kve(order, np.minimum(wide, 1e5)) * np.exp(-wide)
        else:
            found = getattr(_scipy(), kind)(order, wide)
        return np.where(_vanishes(kind, x), 0.0, found).astype(x.dtype)

    return kernel


def _vanishes(kind: str, x: np.ndarray) -> np.ndarray:
    """Where oscillations have died out: at infinity."""
    at_end = np.isinf(x) if kind == "jv" else np.isposinf(x)
    return at_end & (kind in ("jv", "yv"))


@remembered(512)
def _function_of(kind: str, order: float) -> Composition:
    """The same in kernels, of float64."""

    def write(body: FunctionBody[V], x: V) -> V:
        if order in (0, 1):
            found = body.apply(BESSEL_OF_ORDER[kind, int(order)], x)
        elif kind == "kv":
            small = body.select(x > 1e5, 1e5, x)
            scaled = body.apply(BESSEL["kve"], body.lift(order), small)
            found = scaled * body.apply(EXP, -x)
        elif kind == "iv":
            near = body.select(body.absolute(x) > 1e4, body.copysign(body.lift(1e4), x), x)
            found = body.apply(BESSEL["iv"], body.lift(order), near)
        else:
            found = body.apply(BESSEL[kind], body.lift(order), x)
        if kind in ("iv", "kv"):
            return found
        at_end = (body.absolute(x) if kind == "jv" else x).equals(math.inf)
        return body.select(at_end, 0.0, found)

    return Composition(f"{kind}_of_{order!r}".replace(".", "p").replace("-", "m"), write)


def _of_order(
    name: str, kind: str, doc: str, slope: Callable[..., Node], **more: Any
) -> Callable[..., Any]:
    """Declare one kind; `slope` gets the functions of the order below and above."""

    def partial(y: Node, x: Node, order: float) -> Node:
        # f with order -1 is f or -f with order 1.
        above = record(order + 1, x)
        return slope(x, None if order == 0 else record(order - 1, x), above)

    more.setdefault("llvm", lowering.in_double(lambda order: _function_of(kind, order)))
    record = elementwise(
        name,
        doc,
        ("float(gt.i0(0.0))", "1.0"),
        [partial],
        numpy=_kernel(kind),
        accepts="float",
        params=("order",),
        sample_params=_ORDERS,
        **more,
    )

    def function(order: float, x: Any, /) -> Any:
        return record(_checked(name, order), x)

    return function


def _slope_of_y(x: Node, below: Node | None, above: Node) -> Node:
    if below is None:
        return -above
    # Both are -inf at 0.
    at_zero = equal(x, 0.0)
    return where(at_zero, math.inf, 0.5 * (below - where(at_zero, 0.0, above)))


iv = _of_order(
    "bessel_i",
    "iv",
    "Modified Bessel function of the first kind.",
    lambda x, below, above: above if below is None else 0.5 * (below + above),
    function=BESSEL_I0,
    llvm=lowering.call_of_order(
        BESSEL_I0,
        BESSEL_I1,
        otherwise=lowering.in_double(lambda order: _function_of("iv", order)),
    ),
)
jv = _of_order(
    "bessel_j",
    "jv",
    "Bessel function of the first kind.",
    lambda x, below, above: -above if below is None else 0.5 * (below - above),
)
yv = _of_order(
    "bessel_y", "yv", "Bessel function of the second kind.", _slope_of_y, domains=_POSITIVE
)
kv = _of_order(
    "bessel_k",
    "kv",
    "Modified Bessel function of the second kind.",
    lambda x, below, above: -above if below is None else -0.5 * (below + above),
    domains=_POSITIVE,
)


@kind_of_operand
def i0(x: TensorLike, /) -> Tensor:
    """Modified Bessel function of the first kind, of order 0.

    >>> float(gt.i0(0.0))
    1.0
    """
    return iv(0, x)


@kind_of_operand
def i1(x: TensorLike, /) -> Tensor:
    """Modified Bessel function of the first kind, of order 1; the derivative of i0.

    >>> float(gt.i1(0.0))
    0.0
    """
    return iv(1, x)


# Scaled by exp(-|x|) and by exp(x). For large x a derivative is much smaller than the terms of the
# recurrence, so derivatives of any order `times` are ops, and have an asymptotic series there.

_TERMS = 25


def _factors(order: float, times: int, sign: int) -> list[float]:
    """Factors of the derivative of Σ aₖ (sign/x)ᵏ / √x, aₖ = Π (4n² - (2j-1)²) / (8j) to k."""
    factor, factors = 1.0, []
    for k in range(_TERMS):
        falling = math.prod(-(k + 0.5 + j) for j in range(times))
        factors.append(factor * falling)
        factor *= sign * (4.0 * order * order - (2 * k + 1) ** 2) / (8.0 * (k + 1))
    return factors


def _asymptotic(x: np.ndarray, order: float, times: int, sign: int) -> np.ndarray:
    total = np.zeros_like(x)
    for one in reversed(_factors(order, times, sign)):
        total = total / x + one
    return total / (np.sqrt(x) * x**times)


def _weights(kind: str, order: float, times: int) -> dict[float, float]:
    """Each derivative is half of the neighbours, less the function (iₙ), or the reverse (kₙ)."""
    sign = 1.0 if kind == "ive" else -1.0
    weights = {order: 1.0}
    for _ in range(times):
        found: dict[float, float] = {}
        for n, weight in weights.items():
            for neighbour, part in ((n - 1, 0.5), (n + 1, 0.5), (n, -1.0)):
                found[neighbour] = found.get(neighbour, 0.0) + sign * part * weight
        weights = found
    return weights


def _recurrence(kind: str, x: np.ndarray, order: float, times: int) -> np.ndarray:
    function, weights = getattr(_scipy(), kind), _weights(kind, order, times)
    total = sum(weight * function(n, x) for n, weight in weights.items())
    return np.asarray(total, np.float64)


def _scaled_kernel(kind: str) -> Callable[..., np.ndarray]:
    def kernel(x: np.ndarray, order: float, times: int) -> np.ndarray:
        wide = np.asarray(x, np.float64)
        whole = kind == "ive" and float(order).is_integer()
        size = np.abs(wide) if whole else wide
        far = size > max(30.0, 2.0 * order * order)
        scale = 1.0 / math.sqrt(2.0 * math.pi) if kind == "ive" else math.sqrt(math.pi / 2.0)
        series = _asymptotic(np.where(far, size, 1.0), order, times, -1 if kind == "ive" else 1)
        near = _recurrence(kind, np.where(far, 1.0, size), order, times)
        if kind == "kve":
            near = np.where(size == 0, math.inf * (-1) ** times, near)
        found = np.where(far, scale * np.where(np.isinf(size), 0.0, series), near)
        if whole and (int(order) + times) % 2:  # odd, and at a kink the mean of both sides
            found = found * np.sign(wide)
        return found.astype(x.dtype)

    return kernel


@remembered(512)
def _scaled_of(kind: str, order: float, times: int) -> Composition:
    """The same in kernels, of float64."""
    whole = kind == "ive" and float(order).is_integer()
    scale = 1.0 / math.sqrt(2.0 * math.pi) if kind == "ive" else math.sqrt(math.pi / 2.0)
    factors = _factors(order, times, -1 if kind == "ive" else 1)

    def write(body: FunctionBody[V], x: V) -> V:
        size = body.absolute(x) if whole else x
        far = size > max(30.0, 2.0 * order * order)
        large = body.select(far, size, 1.0)
        series = body.lift(factors[-1])
        for one in factors[-2::-1]:
            series = series / large + one
        divisor = body.apply(SQRT, large)
        for _ in range(times):
            divisor = divisor * large
        series = body.select(body.absolute(large).equals(math.inf), 0.0, series / divisor) * scale
        small, near = body.select(far, 1.0, size), body.lift(0.0)
        for n, weight in _weights(kind, order, times).items():
            near = near + body.apply(BESSEL[kind], body.lift(n), small) * weight
        if kind == "kve":
            near = body.select(size.equals(0.0), math.inf * (-1) ** times, near)
        found = body.select(far, series, near)
        if whole and (int(order) + times) % 2:
            sign = body.copysign(body.lift(1.0), x)
            found = found * body.select(x.equals(0.0), 0.0, body.select(x.isnan(), x, sign))
        return found

    name = f"{kind}_of_{order!r}_{times}".replace(".", "p").replace("-", "m")
    return Composition(name, write)


def _scaled(name: str, kind: str, doc: str, **more: Any) -> Callable[..., Any]:
    record: Callable[..., Any] = elementwise(
        name,
        doc,
        ("float(gt.i0(0.0))", "1.0"),
        [lambda y, x, order, times: record(order, times + 1, x)],
        numpy=_scaled_kernel(kind),
        accepts="float",
        params=("order", "times"),
        sample_params=[{"order": n, "times": m} for n, m in ((0, 0), (1, 0), (1, 1), (2, 2))],
        llvm=lowering.in_double(lambda order, times: _scaled_of(kind, order, times)),
        **more,
    )

    def function(order: float, x: Any, /) -> Any:
        return record(_checked(name, order), 0, x)

    return function


ive = _scaled("bessel_ie", "ive", "iv times exp(-|x|).", domains=_POSITIVE)
kve = _scaled("bessel_ke", "kve", "kv times exp(x).", domains=_POSITIVE)
