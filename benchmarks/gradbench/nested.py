"""The evaluations with derivatives inside derivatives: `particle` and `saddle`.

Trajectories and inner descents are loop ops whose bodies hold derivatives; both modes differentiate
through them. The outer descent of `particle` runs in Python, because a first call computes loop ops
in NumPy, and its loop is long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt

Function = Callable[[Any], Any]
Derivative = Callable[[Function], Function]
CLOSE = 1e-5
INTERVAL = 0.1
GRADIENTS: dict[str, Derivative] = {"r": gt.grad, "f": gt.jacfwd}


def argmin(function: Function, gradient: Function, start: Any) -> Any:
    """GradBench's gradient descent: the rate doubles after ten successes and halves on failure."""

    def going(state: Any) -> Any:
        return state[-1]

    def step(state: Any) -> Any:
        x, value, slope, rate, successes, _ = state
        grown = successes == 10
        rate = gt.where(grown, 2.0 * rate, rate)
        successes = gt.where(grown, 0, successes)
        following = x - rate * slope
        after = function(following)
        far = (_length(slope) > CLOSE) & (_length(x - following) > CLOSE)
        better = far & (after < value)
        return (
            gt.where(better, following, x),
            gt.where(better, after, value),
            gt.where(better, gradient(following), slope),
            gt.where(better | ~far, rate, rate / 2.0),
            gt.where(better, successes + 1, 0),
            far,
        )

    state = (start, function(start), gradient(start), gt.asarray(1e-5), gt.asarray(0))
    return gt.while_loop(going, step, (*state, gt.asarray(True)))[0]


def python_argmin(function: Function, gradient: Function, x: Any) -> Any:
    """The same descent as a Python loop over compiled functions."""
    rate, successes = 1e-5, 0
    value, slope = function(x), gradient(x)
    while float(_length(slope)) > CLOSE:
        if successes == 10:
            rate, successes = 2.0 * rate, 0
        following = x - rate * slope
        if float(_length(x - following)) <= CLOSE:
            break
        after = function(following)
        if after < value:
            x, value, slope, successes = following, after, gradient(following), successes + 1
        else:
            rate, successes = rate / 2.0, 0
    return x


def _length(x: Any) -> Any:
    """The norm; descents only compare it, so it has no derivative."""
    x = gt.stop_gradient(x)
    return gt.sqrt(gt.sum(x * x))


def flight(inner: Derivative, w: Any) -> Any:
    """The square of the place where the particle meets the axis, by Euler's method."""
    second = gt.stack([gt.asarray(10.0), 10.0 - w])

    def potential(x: Any) -> Any:
        to_first, to_second = x - np.array([10.0, 0.0]), x - second
        squares = gt.stack([gt.sum(to_first * to_first), gt.sum(to_second * to_second)])
        return gt.sum(1.0 / gt.sqrt(squares))

    force = inner(potential)

    def going(state: Any) -> Any:
        x, speed = state
        return x[1] + INTERVAL * speed[1] > 0.0

    def step(state: Any) -> Any:
        x, speed = state
        return x + INTERVAL * speed, speed - INTERVAL * force(x)

    start = gt.asarray([0.0, 8.0]), gt.asarray([0.75, 0.0])
    x, speed = gt.while_loop(going, step, start)
    reached = x[0] - x[1] / speed[1] * speed[0]
    return reached * reached


def particle(outer: str, inner: str) -> Function:
    """The control that makes the particle meet the origin."""

    def objective(w: Any) -> Any:
        return flight(GRADIENTS[inner], w[0])

    value, slope = gt.function(objective), gt.function(GRADIENTS[outer](objective))
    return lambda w: python_argmin(value, slope, gt.asarray([w]))[0]


def saddle(outer: str, inner: str) -> Function:
    """The points x and y of min over x of max over y of (x₁² + x₂²) − (y₁² + y₂²)."""

    def surface(x: Any, y: Any) -> Any:
        return gt.sum(x * x) - gt.sum(y * y)

    def highest(x: Any, start: Any) -> Any:
        """The y at which the surface is highest for one x."""

        def depth(y: Any) -> Any:
            return -surface(x, y)

        return argmin(depth, GRADIENTS[inner](depth), start)

    def run(start: Any) -> Any:
        def height(x: Any) -> Any:
            return surface(x, highest(x, start))

        x = argmin(height, GRADIENTS[outer](height), start)
        return gt.concat([x, highest(x, start)])

    captured = gt.function(run)
    return lambda start: captured(gt.asarray(start))
