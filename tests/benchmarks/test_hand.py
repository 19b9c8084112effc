"""The evaluation `ht`: the hand against bones and vertices moved one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.gradbench import protocol

BONES, VERTICES, POINTS = 22, 6, 3


def given(barycentric: bool, mirrored: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    frames = np.tile(np.eye(4), (2 * BONES, 1, 1))
    frames[:, :3] += rng.normal(size=(2 * BONES, 3, 4)) * 0.2
    parents = [-1, 0] + [0 if bone % 4 == 2 else bone - 1 for bone in range(2, BONES)]
    model = {
        "bone_count": BONES,
        "bone_names": [str(bone) for bone in range(BONES)],
        "parents": parents,
        "base_relatives": frames[:BONES].tolist(),
        "inverse_base_absolutes": frames[BONES:].tolist(),
        "base_positions": np.c_[rng.normal(size=(VERTICES, 3)), np.ones(VERTICES)].tolist(),
        "weights": rng.uniform(size=(VERTICES, BONES)).tolist(),
        "triangles": [[0, 1, 2], [3, 4, 5], [1, 3, 5]],
        "is_mirrored": mirrored,
    }
    data = {
        "model": model,
        "correspondences": [2, 0, 1] if barycentric else [5, 0, 3],
        "points": rng.normal(size=(POINTS, 3)).tolist(),
    }
    us = rng.uniform(size=(POINTS, 2)).tolist() if barycentric else []
    return {"theta": (rng.normal(size=26) * 0.3).tolist(), "data": data, "us": us, "min_runs": 1}


def output(function: str, given: dict[str, Any]) -> Any:
    answer = protocol.answer(
        {"kind": "evaluate", "module": "ht", "function": function, "input": given}
    )
    assert answer["success"], answer["error"]
    return answer["output"]


def rotation(axis: int, angle: float) -> np.ndarray:
    """A rotation about a coordinate axis."""
    a, b = [k for k in range(3) if k != axis]
    if axis == 1:
        a, b = b, a
    turn = np.eye(3)
    turn[a, a] = turn[b, b] = np.cos(angle)
    turn[b, a] = np.sin(angle)
    turn[a, b] = -np.sin(angle)
    return turn


def expected(given: dict[str, Any]) -> np.ndarray:
    """One bone and one vertex at a time."""
    theta, model = given["theta"], given["data"]["model"]
    angles = np.zeros((BONES, 3))
    place = 6
    for finger in range(5):
        for joint in range(3):
            bone = 2 + 4 * finger + joint
            angles[bone, 0], place = theta[place], place + 1
            if joint == 0:
                angles[bone, 1], place = theta[place], place + 1
    absolutes: list[np.ndarray] = []
    for bone, parent in enumerate(model["parents"]):
        x, z, y = angles[bone]
        frame = np.eye(4)
        frame[:3, :3] = rotation(2, z) @ rotation(1, y) @ rotation(0, x)
        relative = np.asarray(model["base_relatives"][bone]) @ frame
        absolutes.append(relative if parent == -1 else absolutes[parent] @ relative)
    positions = np.zeros((VERTICES, 3))
    for vertex in range(VERTICES):
        for bone in range(BONES):
            moved = absolutes[bone] @ np.asarray(model["inverse_base_absolutes"][bone])
            moved = moved @ np.asarray(model["base_positions"][vertex])
            positions[vertex] += model["weights"][vertex][bone] * moved[:3]
    if model["is_mirrored"]:
        positions[:, 0] *= -1
    axis = np.asarray(theta[:3])
    angle = np.linalg.norm(axis)
    turn = np.eye(3)
    if angle >= 1e-4:
        k = axis / angle
        cross = np.array([[0, -k[2], k[1]], [k[2], 0, -k[0]], [-k[1], k[0], 0]])
        turn = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    positions = positions @ turn.T + theta[3:6]
    found = []
    for point, seen in enumerate(given["data"]["correspondences"]):
        at = positions[seen]
        if given["us"]:
            a, b, c = (positions[vertex] for vertex in model["triangles"][seen])
            u, v = given["us"][point]
            at = u * a + v * b + (1 - u - v) * c
        found.append(np.asarray(given["data"]["points"][point]) - at)
    return np.concatenate(found)


@pytest.mark.parametrize(("barycentric", "mirrored"), [(False, False), (True, False), (True, True)])
def test_objective(barycentric: bool, mirrored: bool) -> None:
    asked = given(barycentric, mirrored)
    np.testing.assert_allclose(output("objective", asked), expected(asked), rtol=1e-10)


def test_a_hand_that_is_not_turned() -> None:
    asked = given(False)
    asked["theta"][:3] = [0.0, 0.0, 0.0]
    np.testing.assert_allclose(output("objective", asked), expected(asked), rtol=1e-10)
    assert np.all(np.isfinite(output("jacobian", asked)))


@pytest.mark.slow
@pytest.mark.parametrize("barycentric", [False, True])
def test_jacobian(barycentric: bool) -> None:
    asked = given(barycentric)
    found = np.asarray(output("jacobian", asked))
    columns = []
    for place in range(26):
        ends = []
        for sign in (1, -1):
            theta = list(asked["theta"])
            theta[place] += sign * 1e-6
            ends.append(expected({**asked, "theta": theta}))
        columns.append((ends[0] - ends[1]) / 2e-6)
    by_theta = np.stack(columns, 1)
    np.testing.assert_allclose(found[:, -26:], by_theta, rtol=1e-6, atol=1e-7)
    assert found.shape[1] == (28 if barycentric else 26)
    for place in range(2 if barycentric else 0):
        moved = np.asarray(asked["us"])
        moved[:, place] += 1e-6
        slope = (expected({**asked, "us": moved.tolist()}) - expected(asked)) / 1e-6
        np.testing.assert_allclose(found[:, place], slope, rtol=1e-6, atol=1e-7)
