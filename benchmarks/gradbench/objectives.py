"""The objectives of GradBench's evaluations, written once over a dialect (`benchmarks.dialects`).

They follow the definitions in the evaluations' documentation. The rows of `make bench` and the
tool in this folder share them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special


def gmm(
    xp: Any, alpha: Any, mu: Any, q: Any, lower: Any, x: Any, m: int = 0, gamma: float = 1.0
) -> Any:
    """The log posterior of a Gaussian mixture with a Wishart prior on the precision matrices."""
    (n, d), k = x.shape, alpha.shape[0]
    centred = x[:, None, :] - mu
    turned = xp.exp(q) * centred
    if d > 1:
        # One row of zeros stands for all entries on and above the diagonal.
        entries = xp.concat([xp.transpose(lower, (1, 0)), xp.zeros((1, k), dtype="float64")])
        filled = xp.reshape(xp.take(entries, _below_diagonal(d)), (d, d, k))
        turned = turned + xp.einsum("ijk,nkj->nki", filled, centred)
    sums = xp.sum(q, axis=1)
    beta = alpha + sums - 0.5 * xp.sum(turned * turned, axis=2)
    likelihood = (
        xp.sum(xp.logsumexp(beta, axis=1))
        - n * xp.logsumexp(alpha, axis=0)
        - n * d * 0.5 * math.log(2 * math.pi)
    )
    freedom = d + m + 1
    constant = freedom * d * math.log(gamma / math.sqrt(2))
    constant -= float(scipy.special.multigammaln(0.5 * freedom, d))
    scale = 0.5 * gamma * gamma
    prior = k * constant - scale * xp.sum(xp.exp(2.0 * q)) + m * xp.sum(sums)
    return likelihood + (prior - scale * xp.sum(lower * lower) if d > 1 else prior)


def _below_diagonal(d: int) -> np.ndarray:
    """The place in `lower` of each entry of the matrix, which is filled column by column."""
    place = np.full((d, d), d * (d - 1) // 2)
    columns, rows = np.triu_indices(d, 1)
    place[rows, columns] = np.arange(len(rows))
    return place.ravel()


def lse(xp: Any, x: Any) -> Any:
    """The logarithm of a sum of exponentials, from its primitive parts."""
    largest = xp.max(x)
    return xp.log(xp.sum(xp.exp(x - largest))) + largest


def kmeans(xp: Any, centroids: Any, points: Any) -> Any:
    """The sum over all points of the squared distance to the nearest centroid."""
    products = points @ xp.transpose(centroids, (1, 0))
    squares = xp.sum(points * points, axis=1)[:, None] + xp.sum(centroids * centroids, axis=1)
    return xp.sum(xp.min(squares - 2.0 * products, axis=1))


def ode_step(xp: Any, x: Any, y: Any, h: float) -> Any:
    """One step of Runge and Kutta for y_0' = x_0, y_i' = x_i y_(i-1)."""
    one = xp.zeros((1,), dtype="float64") + 1.0

    def slope(y: Any) -> Any:
        return x * xp.concat([one, y[:-1]])

    k1 = slope(y)
    k2 = slope(y + (h / 2) * k1)
    k3 = slope(y + (h / 2) * k2)
    k4 = slope(y + h * k3)
    return y + (h / 6) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def ode(xp: Any, x: Any, steps: int) -> Any:
    """The state at time 2, by a Python loop."""
    y = xp.zeros(x.shape, dtype="float64")
    for _ in range(steps):
        y = ode_step(xp, x, y, 2.0 / steps)
    return y


def llsq(xp: Any, x: Any, t: Any) -> Any:
    """Half the sum of squares of sign(t) minus the polynomial x at t."""
    value = x[-1] + 0.0 * t
    for place in range(x.shape[0] - 2, -1, -1):
        value = value * t + x[place]
    miss = xp.sign(t) - value
    return 0.5 * xp.sum(miss * miss)


def lstm(xp: Any, main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """The mean loss of an LSTM with diagonal weights that predicts the next character."""
    width, layers = state.shape[1], state.shape[0] // 2

    def layer(at: int, hidden: Any, cell: Any, x: Any) -> Any:
        weight, bias = main[2 * at], main[2 * at + 1]
        f, i, o, c = (slice(part * width, (part + 1) * width) for part in range(4))
        forget = xp.sigmoid(x * weight[f] + bias[f])
        take_in = xp.sigmoid(hidden * weight[i] + bias[i])
        give_out = xp.sigmoid(x * weight[o] + bias[o])
        cell = cell * forget + take_in * xp.tanh(hidden * weight[c] + bias[c])
        return give_out * xp.tanh(cell), cell

    def step(carry: Any, given: Any) -> Any:
        x, following = given
        x = x * extra[0]
        after = []
        for at in range(layers):
            hidden, cell = layer(at, carry[2 * at], carry[2 * at + 1], x)
            after += [hidden, cell]
            x = hidden
        predicted = x * extra[1] + extra[2]
        # The definition adds 2 to the sum of exponentials.
        scores = predicted - xp.log(xp.sum(xp.exp(predicted)) + 2.0)
        return tuple(after), xp.sum(following * scores)

    start = tuple(state[place] for place in range(2 * layers))
    _, totals = xp.scan(step, start, (sequence[:-1], sequence[1:]))
    return -xp.sum(totals) / (width * (sequence.shape[0] - 1))


def ba(xp: Any, row: Any, feature: Any) -> Any:
    """The reprojection error of one observation, or of many along leading axes.

    A row holds rotation (3), centre (3), focal length, principal point (2), distortion (2), the
    point (3) and the weight.
    """
    p = [row[..., place] for place in range(15)]
    square = p[0] * p[0] + p[1] * p[1] + p[2] * p[2]
    still = square == 0.0
    # Where there is no rotation, sin(angle) / angle is 1 and the square of the angle has no part.
    angle = xp.sqrt(xp.where(still, xp.zeros((), dtype="float64") + 1.0, square))
    one = xp.zeros((), dtype="float64") + 1.0
    cosine = xp.where(still, one, xp.cos(angle))
    sine = xp.where(still, one, xp.sin(angle) / angle)
    v = [p[11 + place] - p[3 + place] for place in range(3)]
    along = (p[0] * v[0] + p[1] * v[1] + p[2] * v[2]) * (1.0 - cosine) / (angle * angle)
    crossed = (p[1] * v[2] - p[2] * v[1], p[2] * v[0] - p[0] * v[2], p[0] * v[1] - p[1] * v[0])
    turned = [v[i] * cosine + crossed[i] * sine + p[i] * along for i in range(3)]
    a, b = turned[0] / turned[2], turned[1] / turned[2]
    radius = a * a + b * b
    bend = 1.0 + p[9] * radius + p[10] * radius * radius
    errors = [
        p[14] * (part * bend * p[6] + p[7 + place] - feature[..., place])
        for place, part in enumerate((a, b))
    ]
    return xp.stack(errors, -1)


def minors(xp: Any, a: Any) -> Any:
    """The determinant of a square matrix by recursive expansion, one scalar at a time."""

    def expand(row: int, columns: tuple[int, ...]) -> Any:
        if len(columns) == 1:
            return a[row, columns[0]]
        total: Any = None
        for place, column in enumerate(columns):
            rest = columns[:place] + columns[place + 1 :]
            term = a[row, column] * expand(row + 1, rest)
            total = term if total is None else total - term if place % 2 else total + term
        return total

    return expand(0, tuple(range(a.shape[0])))


def all_minors(xp: Any, a: Any, order: int) -> Any:
    """The same expansion, all terms of a row at once: n! products for a matrix of order n."""
    found: Any = None
    for row in range(order - 1, -1, -1):
        columns = _columns(order, row)
        signs = np.where(np.arange(columns.shape[1]) % 2, -1.0, 1.0)
        terms = xp.reshape(xp.take(a[row], columns.ravel()), columns.shape) * signs
        if found is not None:
            terms = terms * xp.reshape(found, columns.shape)
        found = xp.sum(terms, axis=1)
    return found[0]


def _columns(order: int, row: int) -> np.ndarray:
    """The columns that are left at a row, for each sequence of columns taken above it."""
    left = np.arange(order)[None]
    for _ in range(row):
        count = left.shape[1]
        # Every sequence has one child for each column that it can take next.
        keep = np.array([[k for k in range(count) if k != taken] for taken in range(count)])
        left = left[:, keep].reshape(-1, count - 1)
    return left
