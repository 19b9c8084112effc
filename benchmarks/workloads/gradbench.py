"""GradBench's evaluations: the function, and its derivative, at one size each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.gradbench import objectives
from benchmarks.gradbench.hand import Hand, hand
from benchmarks.rows import KINKED, Row, workload
from benchmarks.workload import Arrays

LOOPS = ("gradtape", "jax", "torch", "autograd")  # tf.function has no scan of this kind
SIGHTS, STEPS, ORDER = 31_843, 20, 6


def mixture() -> Arrays:
    rng = np.random.default_rng(31337)
    n, d, k = 1000, 10, 25
    return {
        "alpha": rng.standard_normal(k),
        "mu": rng.uniform(size=(k, d)),
        "q": rng.standard_normal((k, d)) * 0.3,
        "l": rng.standard_normal((k, d * (d - 1) // 2)) * 0.3,
        "x": rng.standard_normal((n, d)),
    }


def drawn(**shapes: tuple[int, ...]) -> Callable[[], Arrays]:
    def inputs() -> Arrays:
        rng = np.random.default_rng(31337)
        return {name: rng.uniform(size=shape) for name, shape in shapes.items()}

    return inputs


def clusters() -> Arrays:
    points = np.random.default_rng(31337).uniform(size=(10_000, 16))
    return {"centroids": points[-100:] + 1e-3, "points": points}


def polynomial() -> Arrays:
    return {**drawn(x=(128,))(), "t": np.linspace(-1, 1, 4097)}


def sights() -> Arrays:
    """As many observations as the first of the evaluation's problems has."""
    rng = np.random.default_rng(31337)
    camera = np.array([0.1, -0.2, 0.3, 0.1, 0.2, -8.0, 500, 0.1, 0.2, 0.01, 0.001])
    rows = np.concatenate(
        [
            camera + 0.01 * rng.standard_normal((SIGHTS, 11)),
            rng.standard_normal((SIGHTS, 3)),
            rng.uniform(0.5, 1.5, (SIGHTS, 1)),
        ],
        axis=1,
    )
    return {"rows": rows, "features": rng.standard_normal((SIGHTS, 2))}


def a_hand() -> Hand:
    """A hand of 22 bones, 544 vertices and 100 points."""
    rng = np.random.default_rng(31337)
    turns = np.linalg.qr(rng.standard_normal((44, 3, 3)))[0]
    frames = np.tile(np.eye(4), (44, 1, 1))
    frames[:, :3, :3], frames[:, :3, 3] = turns, rng.standard_normal((44, 3)) * 0.1
    weights = rng.uniform(size=(544, 22)) ** 8
    parents = [-1, 0] + [0 if bone % 4 == 2 else bone - 1 for bone in range(2, 22)]
    return Hand(
        tuple(parents),
        frames[:22],
        frames[22:],
        np.concatenate([rng.standard_normal((544, 3)), np.ones((544, 1))], axis=1),
        weights / weights.sum(1, keepdims=True),
        False,
        rng.standard_normal((100, 3)),
        rng.integers(0, 544, (100, 1)),
    )


HAND = a_hand()
CONSTANTS = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights", "points")


def matrix() -> Arrays:
    return drawn(a=(ORDER, ORDER))()


def rows_of(
    name: str,
    title: str,
    inputs: Callable[[], Arrays],
    formula: Any,
    by: tuple[int, ...] = (0,),
    scalar: Any = None,
    **more: Any,
) -> list[Row]:
    """The row of a function and the row of its gradient; `scalar` makes a number of the value."""
    return [
        Row(f"gb-{name}", f"GradBench {name}: {title}", inputs, formula, **more),
        Row(
            f"gb-{name}-gradient",
            f"GradBench {name}: {title}, gradient",
            inputs,
            scalar or formula,
            "gradient",
            by,
            **more,
        ),
    ]


def pose() -> Arrays:
    """The parameters, and the constants as tensors of each library."""
    return {**drawn(theta=(26,))(), **{name: getattr(HAND, name) for name in CONSTANTS}}


def hand_errors(xp: Any, theta: Any, *constants: Any) -> Any:
    model = replace(HAND, **dict(zip(CONSTANTS, constants, strict=True)))
    return xp.reshape(hand(xp, model, theta), (-1,))


ROWS = (
    *rows_of("gmm", "1000 points, 25 parts, 10-D", mixture, objectives.gmm, (0, 1, 2, 3)),
    *rows_of("lse", "1.28M numbers", drawn(x=(1_280_000,)), objectives.lse),
    Row(
        "gb-kmeans",
        "GradBench kmeans: 100 means, 10,000 points in 16-D",
        clusters,
        objectives.kmeans,
    ),
    Row(
        "gb-kmeans-dir",
        "GradBench kmeans: the same, gradient and diagonal of the Hessian",
        clusters,
        objectives.kmeans,
        "curvature",
        libraries=("gradtape", "jax", "torch"),
        tolerance=1e-4,
        step=KINKED,
        curvature=2.0 * 10_000 * 16,  # each point adds 2 to each coordinate of its centroid
    ),
    *rows_of(
        "ode",
        "1000 states, 20 steps in a Python loop",
        drawn(x=(1000,)),
        lambda xp, x: objectives.ode(xp, x, STEPS),
        scalar=lambda xp, x: xp.sum(objectives.ode(xp, x, STEPS)),
        libraries=LOOPS,
    ),
    *rows_of("llsq", "4097 points, degree 127", polynomial, objectives.llsq),
    *rows_of(
        "lstm",
        "2 layers, 1024 characters",
        drawn(main=(4, 28), extra=(3, 7), state=(4, 7), sequence=(1024, 7)),
        objectives.lstm,
        (0, 1),
        libraries=("gradtape", "jax", "torch"),
    ),
    Row("gb-ba", "GradBench ba: 31,843 reprojections", sights, objectives.ba),
    Row(
        "gb-ba-jacobian",
        "GradBench ba: 31,843 blocks of 2 × 15",
        sights,
        objectives.ba,
        "blocks",
        libraries=("gradtape", "jax", "torch"),
    ),
    Row("gb-ht", "GradBench ht: 544 vertices, 100 points", pose, hand_errors),
    Row(
        "gb-ht-jacobian",
        "GradBench ht: 544 vertices, 100 points, Jacobian by 26",
        pose,
        hand_errors,
        "jacobian",
        forward=True,
        libraries=("gradtape", "jax", "torch"),
    ),
    *rows_of(
        "det",
        "determinant of order 6 by minors, one scalar at a time",
        matrix,
        objectives.minors,
        libraries=("gradtape", "jax", "torch", "autograd"),
    ),
)
WORKLOADS = tuple(workload(row) for row in ROWS)
