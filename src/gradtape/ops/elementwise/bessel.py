"""Bessel functions of a fixed order: SciPy computes the values, neighbouring orders the slopes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.caches import remembered
from gradtape.ir.math_function import Composition
from gradtape.ir.node import Node
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.ops.families.elementwise import elementwise
from gradtape.ops.families.math_functions import BESSEL, BESSEL_OF_ORDER, EXP, SQRT
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand

if TYPE_CHECKING:
    from gradtape.ops.families.vector_code import Body, VectorValue

_POSITIVE = [(0.5, 4.0)]
_ORDERS = ({"order": 0}, {"order": 1}, {"order": 2})


def _checked(name: str, order: Any) -> float:
    """The order as a number; whole ones are ints."""
    if isinstance(order, (bool, np.bool_)) or not isinstance(order, (int, float, np.number)):
        raise TypeError(f"{name}: the order is a {type(order).__name__}. Pass a number.")
    return int(order) if float(order).is_integer() else float(order)


@remembered(512)
def _function_of(kind: str, order: float) -> Composition:
    """A Bessel function of one order."""

    def write(body: Body, x: VectorValue) -> VectorValue:
        if kind == "iv":  # SciPy's is NaN at infinity, and infinite long before
            x = body.select(body.absolute(x) > 1e4, body.copysign(body.lift(1e4), x), x)
        if order in (0, 1):
            found = body.apply(BESSEL_OF_ORDER[kind, int(order)], x)
        elif kind == "kv":  # SciPy's is 0 from 698 on, though the value is in range
            scaled = body.apply(BESSEL["kve"], body.lift(order), body.select(x > 1e5, 1e5, x))
            found = scaled * body.apply(EXP, -x)
        else:
            found = body.apply(BESSEL[kind], body.lift(order), x)
        if kind in ("iv", "kv"):
            return found
        # Oscillations have died out at infinity.
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

    record = elementwise(
        name,
        doc,
        ("0.0", 1.0),
        [partial],
        function_of=lambda order: _function_of(kind, order),
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


@remembered(512)
def _scaled_of(kind: str, order: float, times: int) -> Composition:
    """A scaled Bessel function of one order, or one of its derivatives."""
    whole = kind == "ive" and float(order).is_integer()
    scale = 1.0 / math.sqrt(2.0 * math.pi) if kind == "ive" else math.sqrt(math.pi / 2.0)
    factors = _factors(order, times, -1 if kind == "ive" else 1)

    def write(body: Body, x: VectorValue) -> VectorValue:
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
            # Odd, and at a kink the mean of both sides.
            sign = body.copysign(body.lift(1.0), x)
            found = found * body.select(x.equals(0.0), 0.0, body.select(x.isnan(), x, sign))
        return found

    name = f"{kind}_of_{order!r}_{times}".replace(".", "p").replace("-", "m")
    return Composition(name, write)


def _scaled(name: str, kind: str, doc: str, **more: Any) -> Callable[..., Any]:
    record: Callable[..., Any] = elementwise(
        name,
        doc,
        ("0.0", 1.0),
        [lambda y, x, order, times: record(order, times + 1, x)],
        function_of=lambda order, times: _scaled_of(kind, order, times),
        accepts="float",
        params=("order", "times"),
        sample_params=[{"order": n, "times": m} for n, m in ((0, 0), (1, 0), (1, 1), (2, 2))],
        **more,
    )

    def function(order: float, x: Any, /) -> Any:
        return record(_checked(name, order), 0, x)

    return function


ive = _scaled("bessel_ie", "ive", "iv times exp(-|x|).", domains=_POSITIVE)
kve = _scaled("bessel_ke", "kve", "kv times exp(x).", domains=_POSITIVE)
