"""Poses and points: a pose graph, reprojection, registration, neighbours, tight binding."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def route(poses: int, loops: int) -> Arrays:
    """A route of poses with some closed loops, and noisy measurements between poses."""
    rng = np.random.default_rng(171)
    steps = np.stack([np.ones(poses), 0.1 * np.ones(poses), 0.2 * np.ones(poses)], 1)
    x = np.cumsum(steps, axis=0) + 0.1 * rng.standard_normal((poses, 3))
    first = np.concatenate([np.arange(poses - 1), rng.integers(0, poses // 2, loops)])
    second = np.concatenate([np.arange(1, poses), rng.integers(poses // 2, poses, loops)])
    c, s = np.cos(x[first, 2]), np.sin(x[first, 2])
    d = x[second] - x[first]
    seen = np.stack([c * d[:, 0] + s * d[:, 1], c * d[:, 1] - s * d[:, 0], d[:, 2]], 1)
    return {
        "poses": x + 0.05 * rng.standard_normal(x.shape),
        "first": first,
        "second": second,
        "seen": seen,
    }


def pose_graph(xp: Any, poses: Any, first: Any, second: Any, seen: Any) -> Any:
    """A step of Gauss and Newton on the poses of a route in the plane."""
    size = poses.shape[0] * 3

    def residuals(x: Any) -> Any:
        poses = xp.reshape(x, (-1, 3))
        a, b = poses[first], poses[second]
        c, s = xp.cos(a[:, 2]), xp.sin(a[:, 2])
        d = b - a
        turn = d[:, 2] - seen[:, 2]
        between = xp.stack(
            [
                c * d[:, 0] + s * d[:, 1] - seen[:, 0],
                c * d[:, 1] - s * d[:, 0] - seen[:, 1],
                xp.atan2(xp.sin(turn), xp.cos(turn)),
            ],
            axis=1,
        )
        return xp.concat([xp.reshape(between, (-1,)), 10.0 * (poses[0] - seen[0])])

    x = xp.reshape(poses, (-1,))
    jacobian, error = xp.jacobian(residuals, 0, False)(x), residuals(x)
    normal = jacobian.T @ jacobian + 1e-6 * xp.eye(size)
    return xp.reshape(x - xp.solve(normal, jacobian.T @ error), (-1, 3))


def views(cameras: int, points: int, sights: int) -> Arrays:
    rng = np.random.default_rng(172)
    camera = np.array([0.1, -0.2, 0.3, 0.1, 0.2, -8.0, 500.0, 1e-2, 1e-3])
    return {
        "cameras": camera + 0.01 * rng.standard_normal((cameras, 9)),
        "points": rng.standard_normal((points, 3)),
        "camera": rng.integers(0, cameras, sights),
        "point": rng.integers(0, points, sights),
        "seen": 50.0 * rng.standard_normal((sights, 2)),
    }


def reprojection(xp: Any, cameras: Any, points: Any, camera: Any, point: Any, seen: Any) -> Any:
    """The robust error of a bundle of sights."""
    view, x = cameras[camera], points[point]
    turn, move, focal, radial = view[:, :3], view[:, 3:6], view[:, 6:7], view[:, 7:9]
    angle = xp.norm(turn, axis=1)[:, None]
    axis = turn / angle
    x = (
        x * xp.cos(angle)
        + xp.cross(axis, x) * xp.sin(angle)
        + axis * xp.sum(axis * x, axis=1, keepdims=True) * (1.0 - xp.cos(angle))
        + move
    )
    flat = -x[:, :2] / x[:, 2:3]
    square = xp.sum(flat * flat, axis=1, keepdims=True)
    image = focal * flat * (1.0 + square * (radial[:, :1] + radial[:, 1:] * square))
    error = xp.sum((image - seen) ** 2, axis=1)
    return xp.sum(100.0 * xp.log1p(error / 100.0))


def clouds(count: int) -> Arrays:
    rng = np.random.default_rng(173)
    target = rng.standard_normal((count, 3))
    turn = np.linalg.qr(np.eye(3) + 0.05 * rng.standard_normal((3, 3)))[0]
    turn = turn * np.sign(np.diag(turn))
    return {"source": target @ turn.T + 0.02 * rng.standard_normal((count, 3)), "target": target}


def closest_points(xp: Any, source: Any, target: Any) -> Any:
    """Five steps of registration: the closest points, then the best rotation by an svd."""
    for _ in range(5):
        square = xp.sum((source[:, None, :] - target) ** 2, axis=2)
        matched = target[xp.argmin(square, axis=1)]
        middle, wanted = xp.mean(source, axis=0), xp.mean(matched, axis=0)
        u, _, vh = xp.svd((source - middle).T @ (matched - wanted))
        source = (source - middle) @ (u @ vh) + wanted
    return source


def examples(count: int, queries: int, features: int) -> Arrays:
    rng = np.random.default_rng(174)
    x = rng.standard_normal((count, features))
    at = rng.standard_normal((queries, features))
    return {
        "log_scale": np.zeros(features),
        "x": x,
        "y": np.sin(x[:, 0]) + x[:, 1],
        "at": at,
        "wanted": np.sin(at[:, 0]) + at[:, 1],
    }


def neighbours(xp: Any, log_scale: Any, x: Any, y: Any, at: Any, wanted: Any) -> Any:
    """The error of regression by the five nearest neighbours, in a metric that is learned."""
    scale = xp.exp(log_scale)
    apart = (at[:, None, :] - x) * scale
    near, place = xp.top_k(-xp.sum(apart * apart, axis=2), 5)
    weight = xp.softmax(near, axis=1)
    return xp.mean((xp.sum(weight * y[place], axis=1) - wanted) ** 2)


def ranked(count: int) -> Arrays:
    rng = np.random.default_rng(175)
    return {"scores": rng.standard_normal(count), "gain": rng.uniform(size=count)}


def soft_sort(xp: Any, scores: Any, gain: Any) -> Any:
    """A loss of ranking by a relaxed permutation matrix."""
    ordered = -xp.sort(-scores)
    permutation = xp.softmax(-xp.abs(ordered[:, None] - scores) / 0.3, axis=1)
    discount = 1.0 / xp.log(2.0 + xp.arange(scores.shape[0], dtype="float64"))
    return -xp.sum(discount * (permutation @ gain))


def molecule(atoms: int) -> Arrays:
    rng = np.random.default_rng(176)
    turn = np.arange(atoms) * 0.5
    helix = np.stack([np.cos(turn), np.sin(turn), 0.3 * turn], 1)
    return {"place": 2.0 * helix + 0.05 * rng.standard_normal((atoms, 3))}


def tight_binding(xp: Any, place: Any) -> Any:
    """The energy and the polarity of the lower half of the orbitals."""
    atoms = place.shape[0]
    apart = place[:, None, :] - place
    distance = xp.sqrt(xp.sum(apart * apart, axis=2) + xp.eye(atoms))
    hopping = -xp.exp(1.0 - distance) * (1.0 - xp.eye(atoms))
    energy, orbital = xp.eigh(hopping + 0.3 * xp.diag(place[:, 0]))
    filled = orbital[:, : atoms // 2]
    density = filled @ filled.T
    return 2.0 * xp.sum(energy[: atoms // 2]) + xp.sum(xp.diag(density) * place[:, 1])


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "pose-graph",
            "pose graph of 60 poses, one step of Gauss and Newton",
            partial(route, 60, 30),
            pose_graph,
            libraries=LIBRARIES,
            tolerance=1e-6,
            tiny=partial(route, 5, 2),
        ),
        Row(
            "reprojection",
            "bundle of 2,000 sights of 500 points by 10 cameras, gradient",
            partial(views, 10, 500, 2000),
            reprojection,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(views, 2, 4, 6),
        ),
        Row(
            "registration",
            "registration of 300 points, 5 steps of closest points with svd",
            partial(clouds, 300),
            closest_points,
            libraries=LIBRARIES,
            tiny=partial(clouds, 10),
        ),
        Row(
            "neighbours",
            "regression by 5 of 500 nearest neighbours, gradient by the metric",
            partial(examples, 500, 100, 5),
            neighbours,
            "gradient",
            libraries=LIBRARIES,
            step=1e-5,
            tiny=partial(examples, 12, 3, 2),
        ),
        Row(
            "soft-sort",
            "soft sort of 64 scores, gradient",
            partial(ranked, 64),
            soft_sort,
            "gradient",
            libraries=LIBRARIES,
            step=1e-6,
            tolerance=1e-5,
            tiny=partial(ranked, 5),
        ),
        Row(
            "tight-binding",
            "tight binding of 40 atoms, eigh, gradient by the positions",
            partial(molecule, 40),
            tight_binding,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(molecule, 6),
        ),
    )
)
