"""The objective of the evaluation `ht`: a hand of bones, skin and observed points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Hand:
    """The constants of a hand model and of what was observed."""

    parents: tuple[int, ...]
    base_relatives: np.ndarray
    inverse_base_absolutes: np.ndarray
    base_positions: np.ndarray  # one row of four homogeneous coordinates for each vertex
    weights: np.ndarray  # vertices × bones
    mirrored: bool
    points: np.ndarray
    # For each point the vertices it lies between: one column, or three with barycentric weights.
    vertices: np.ndarray

    @classmethod
    def read(cls, data: Any, barycentric: bool) -> Hand:
        """From the JSON of an evaluation's input."""
        model = data["model"]
        seen = np.asarray(data["correspondences"], dtype="int64")
        triangles = np.asarray(model["triangles"], dtype="int64")
        return cls(
            parents=tuple(model["parents"]),
            base_relatives=np.asarray(model["base_relatives"], dtype="float64"),
            inverse_base_absolutes=np.asarray(model["inverse_base_absolutes"], dtype="float64"),
            base_positions=np.asarray(model["base_positions"], dtype="float64"),
            weights=np.asarray(model["weights"], dtype="float64"),
            mirrored=bool(model["is_mirrored"]),
            points=np.asarray(data["points"], dtype="float64"),
            vertices=triangles[seen] if barycentric else seen[:, None],
        )

    def generations(self) -> list[list[int]]:
        """The bones, sorted by their distance from the root."""
        depth: list[int] = []
        for parent in self.parents:
            depth.append(0 if parent == -1 else depth[parent] + 1)
        return [
            [bone for bone, at in enumerate(depth) if at == level]
            for level in range(max(depth) + 1)
        ]


def hand(xp: Any, model: Hand, theta: Any, us: Any = None) -> Any:
    """The differences between points and skin, points × 3; `us` are barycentric weights."""
    positions = _globally(xp, theta, _skin(xp, model, theta))
    corners = [xp.take(positions, model.vertices[:, k]) for k in range(model.vertices.shape[1])]
    if us is None:
        return model.points - corners[0]
    u, v = us[:, 0:1], us[:, 1:2]
    return model.points - (u * corners[0] + v * corners[1] + (1.0 - u - v) * corners[2])


def _skin(xp: Any, model: Hand, theta: Any) -> Any:
    """The positions of all vertices before the global transform."""
    bones = len(model.parents)
    # Rows of angles for each bone: a zero stands after the 26 parameters.
    numbers = xp.concat([theta, xp.zeros((1,), dtype="float64")])
    angles = xp.reshape(xp.take(numbers, _angles(bones).ravel()), (bones, 3))
    relatives = model.base_relatives @ _turned(xp, angles, bones)
    absolutes: dict[int, Any] = {}
    for level in model.generations():
        own = xp.take(relatives, np.array(level))
        if absolutes:
            above = xp.stack([absolutes[model.parents[bone]] for bone in level])
            own = above @ own
        absolutes.update({bone: own[place] for place, bone in enumerate(level)})
    transforms = xp.stack([absolutes[bone] for bone in range(bones)]) @ model.inverse_base_absolutes
    flat = xp.reshape(transforms[:, :3, :], (bones, 12))
    blended = xp.reshape(model.weights @ flat, (-1, 3, 4))
    positions = xp.sum(blended * model.base_positions[:, None, :], axis=2)
    return positions * np.array([-1.0, 1.0, 1.0]) if model.mirrored else positions


def _angles(bones: int) -> np.ndarray:
    """For each bone, the places in theta of its three angles; 26 is the place of the zero."""
    table, theta, bone = np.full((bones, 3), 26), 6, 2
    for _ in range(5):
        for joint in range(3):
            table[bone, 0], theta = theta, theta + 1
            if joint == 0:
                table[bone, 1], theta = theta, theta + 1
            bone += 1
        bone += 1
    return table


def _turned(xp: Any, angles: Any, bones: int) -> Any:
    """The product Rz Ry Rx of each bone's rotations, as matrices of order four."""
    sx, sz, sy = (xp.sin(angles[:, place]) for place in range(3))
    cx, cz, cy = (xp.cos(angles[:, place]) for place in range(3))
    zero = xp.zeros((bones,), dtype="float64")
    rows = (
        *(cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero),
        *(sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero),
        *(-sy, cy * sx, cy * cx, zero),
        *(zero, zero, zero, zero + 1.0),
    )
    return xp.reshape(xp.stack(rows, 1), (bones, 4, 4))


def _globally(xp: Any, theta: Any, positions: Any) -> Any:
    """Rotate by the axis theta[:3] and move by theta[3:6]."""
    axis = theta[0:3]
    square = xp.sum(axis * axis)
    small = square < 1e-8
    # The square root of a constant where there is no rotation, so that its slope is finite.
    angle = xp.sqrt(xp.where(small, xp.zeros((), dtype="float64") + 1.0, square))
    x, y, z = (axis[place] / angle for place in range(3))
    s, c = xp.sin(angle), xp.cos(angle)
    entries = (
        *(x * x + (1.0 - x * x) * c, x * y * (1.0 - c) - z * s, x * z * (1.0 - c) + y * s),
        *(x * y * (1.0 - c) + z * s, y * y + (1.0 - y * y) * c, y * z * (1.0 - c) - x * s),
        *(x * z * (1.0 - c) - y * s, z * y * (1.0 - c) + x * s, z * z + (1.0 - z * z) * c),
    )
    turn = xp.reshape(xp.stack(entries), (3, 3))
    turn = xp.where(small, xp.array(np.eye(3)), turn)
    return positions @ xp.transpose(turn, (1, 0)) + theta[3:6]
