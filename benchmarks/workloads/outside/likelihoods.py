"""Likelihoods that SciPy minimises: it reads the value and the gradient at every point."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from benchmarks.outside import Function, Outside, Solve, workload
from benchmarks.workload import Arrays, Wrap

BINS, NUISANCES = 10, 3


def minimised(xp: Any, both: Function, start: Any, data: tuple[Any, ...], **how: Any) -> Any:
    """The minimum of SciPy, and the number of points; `both` gives the value and the gradient."""
    from scipy.optimize import minimize

    def at(x: Any) -> tuple[float, Any]:
        value, slope = both(xp.array(x), *data)
        return float(value), np.asarray(slope)

    found = minimize(at, start, jac=True, **how)
    return xp.array(found.x), found.nfev


def counts() -> Arrays:
    rng = np.random.default_rng(211)
    centres = np.arange(BINS) + 0.5
    signal = 20.0 * np.exp(-0.5 * (centres - 6.0) ** 2)
    background = 100.0 * np.exp(-centres / 5.0)
    seen = rng.poisson(1.2 * signal + 1.05 * background)
    auxiliary = rng.poisson(np.full(BINS, 400.0))
    return {
        "signal": signal,
        "background": background,
        "tilt": background * 0.1 * (centres - 5.0) / 5.0,
        "seen": seen * 1.0,
        "auxiliary": auxiliary * 1.0,
    }


def binned(xp: Any, wrap: Wrap, slopes: Function) -> Solve:
    """Strength of a signal in binned counts, with nuisances, as pyhf fits it."""

    def loss(p: Any, signal: Any, background: Any, tilt: Any, seen: Any, auxiliary: Any) -> Any:
        strength, level, shape, gammas = p[0], p[1], p[2], p[NUISANCES:]
        rates = gammas * (strength * signal + background * xp.exp(0.1 * level) + shape * tilt)
        main = xp.sum(rates - seen * xp.log(rates) + xp.lgamma(seen + 1.0))
        taus = 400.0 * gammas
        beside = xp.sum(taus - auxiliary * xp.log(taus) + xp.lgamma(auxiliary + 1.0))
        return main + beside + 0.5 * (level * level + shape * shape)

    both = wrap(slopes(loss))

    def solve(*data: Any) -> tuple[Any, int]:
        start = np.array([1.0, 0.0, 0.0, *[1.0] * BINS])
        bounds = [(0.0, 10.0), (-5.0, 5.0), (-5.0, 5.0), *[(0.1, 10.0)] * BINS]
        options = {"ftol": 1e-12}
        return minimised(xp, both, start, data, method="SLSQP", bounds=bounds, options=options)

    return solve


def binned_by_hand(
    p: Any, signal: Any, background: Any, tilt: Any, seen: Any, auxiliary: Any
) -> Any:
    strength, level, shape, gammas = p[0], p[1], p[2], p[NUISANCES:]
    raised = background * np.exp(0.1 * level)
    plain = strength * signal + raised + shape * tilt
    rates, taus = gammas * plain, 400.0 * gammas
    value = np.sum(rates - seen * np.log(rates) + scipy.special.gammaln(seen + 1.0))
    value += np.sum(taus - auxiliary * np.log(taus) + scipy.special.gammaln(auxiliary + 1.0))
    value += 0.5 * (level * level + shape * shape)
    slope = 1.0 - seen / rates
    weighted = slope * gammas
    first = [weighted @ signal, 0.1 * (weighted @ raised) + level, weighted @ tilt + shape]
    return value, np.concatenate([first, slope * plain + 400.0 - auxiliary / gammas])


def patients() -> Arrays:
    rng = np.random.default_rng(212)
    x = np.column_stack([np.ones(300), rng.standard_normal((300, 3))])
    times = np.exp(x @ [1.0, 0.4, -0.3, 0.1]) * rng.weibull(1.5, 300)
    ends = rng.exponential(6.0, 300)
    return {"x": x, "logs": np.log(np.minimum(times, ends)), "died": (times <= ends) * 1.0}


def weibull(xp: Any, wrap: Wrap, slopes: Function) -> Solve:
    """Weibull regression of survival times that are partly censored, as lifelines fits it."""

    def loss(p: Any, x: Any, logs: Any, died: Any) -> Any:
        z = (logs - x @ p[:-1]) * xp.exp(p[-1])
        return -xp.mean(died * (z + p[-1]) - xp.exp(z)) + 0.005 * xp.sum(p * p)

    both = wrap(slopes(loss))

    def solve(*data: Any) -> tuple[Any, int]:
        return minimised(xp, both, np.zeros(5), data, method="BFGS", options={"gtol": 1e-7})

    return solve


def weibull_by_hand(p: Any, x: Any, logs: Any, died: Any) -> Any:
    rate = np.exp(p[-1])
    z = (logs - x @ p[:-1]) * rate
    hazard = np.exp(z)
    value = -np.mean(died * (z + p[-1]) - hazard) + 0.005 * np.sum(p * p)
    by_z = (died - hazard) / len(z)
    first, last = rate * (by_z @ x), -(by_z @ z) - np.mean(died)
    return value, np.append(first, last) + 0.01 * p


ROWS = (
    Outside(
        "binned-likelihood",
        "binned likelihood of 13 parameters by SLSQP",
        counts,
        binned,
        rounds=48,
        by_hand=binned_by_hand,
    ),
    Outside(
        "weibull",
        "Weibull regression, 300 × 4, by BFGS",
        patients,
        weibull,
        rounds=15,
        by_hand=weibull_by_hand,
    ),
)
WORKLOADS = tuple(workload(row) for row in ROWS)
