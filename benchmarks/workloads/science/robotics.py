"""Robotics: an arm of seven joints and a pole on a cart."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")
GRAVITY = 9.81


def arm(joints: int) -> Arrays:
    """Joints that turn about z and y in turn, and links with random masses and inertias."""
    rng = np.random.default_rng(101)
    axes = np.zeros((joints, 3))
    axes[::2, 2] = axes[1::2, 1] = 1.0
    roots = rng.standard_normal((joints, 3, 3)) * 0.1
    return {
        "q": rng.uniform(-1, 1, joints),
        "speed": rng.standard_normal(joints),
        "acceleration": rng.standard_normal(joints),
        "axes": axes,
        "offsets": rng.uniform(0.1, 0.4, (joints, 3)),
        "masses": rng.uniform(1, 4, joints),
        "centres": rng.uniform(-0.1, 0.1, (joints, 3)),
        "inertias": roots @ roots.swapaxes(1, 2) + 0.01 * np.eye(3),
    }


def rotation(xp: Any, axis: Any, angle: Any) -> Any:
    """The formula of Rodrigues."""
    x, y, z = axis[0], axis[1], axis[2]
    zero = xp.zeros_like(x)
    k = xp.stack(
        [xp.stack([zero, -z, y]), xp.stack([z, zero, -x]), xp.stack([-y, x, zero])],
    )
    return xp.eye(3) + xp.sin(angle) * k + (1.0 - xp.cos(angle)) * (k @ k)


def inverse_dynamics(
    xp: Any,
    q: Any,
    speed: Any,
    acceleration: Any,
    axes: Any,
    offsets: Any,
    masses: Any,
    centres: Any,
    inertias: Any,
) -> Any:
    """Torques of the joints by the recursion of Newton and Euler."""
    joints = q.shape[0]
    omega, alpha = xp.zeros((3,), dtype="float64"), xp.zeros((3,), dtype="float64")
    linear = GRAVITY * xp.eye(3)[2]
    turns, forces, moments = [], [], []
    for i in range(joints):
        turn = rotation(xp, axes[i], q[i])
        linear = turn.T @ (
            linear + xp.cross(alpha, offsets[i]) + xp.cross(omega, xp.cross(omega, offsets[i]))
        )
        turning = axes[i] * speed[i]
        omega_before = turn.T @ omega
        omega = omega_before + turning
        alpha = turn.T @ alpha + xp.cross(omega_before, turning) + axes[i] * acceleration[i]
        centre = linear + xp.cross(alpha, centres[i]) + xp.cross(omega, xp.cross(omega, centres[i]))
        turns.append(turn)
        forces.append(masses[i] * centre)
        moments.append(inertias[i] @ alpha + xp.cross(omega, inertias[i] @ omega))
    torques = []
    force, moment = xp.zeros((3,), dtype="float64"), xp.zeros((3,), dtype="float64")
    for i in reversed(range(joints)):
        if i + 1 < joints:
            carried = turns[i + 1] @ force
            moment = turns[i + 1] @ moment + xp.cross(offsets[i + 1], carried)
            force = carried
        moment = moment + moments[i] + xp.cross(centres[i], forces[i])
        force = force + forces[i]
        torques.append(moment @ axes[i])
    return xp.stack(torques[::-1])


def reach(joints: int) -> Arrays:
    given = arm(joints)
    return {
        **{name: given[name] for name in ("q", "axes", "offsets")},
        "target": np.array([0.6, 0.4, 1.2]),
    }


def inverse_kinematics(xp: Any, q: Any, axes: Any, offsets: Any, target: Any) -> Any:
    """A damped step of least squares towards a target of the hand."""

    def hand(q: Any) -> Any:
        pose, place = xp.eye(3), xp.zeros((3,), dtype="float64")
        for i in range(q.shape[0]):
            place = place + pose @ offsets[i]
            pose = pose @ rotation(xp, axes[i], q[i])
        return place

    jacobian = xp.jacobian(hand, 0, True)(q)
    error = target - hand(q)
    return q + jacobian.T @ xp.solve(jacobian @ jacobian.T + 0.01 * xp.eye(3), error)


def pushes(steps: int) -> Arrays:
    rng = np.random.default_rng(102)
    return {"force": rng.standard_normal(steps), "start": np.array([0.0, 0.0, 0.3, 0.0])}


def cart_pole(xp: Any, force: Any, start: Any) -> Any:
    """The cost of a trajectory, in a Python loop over time."""
    cart, pole, length, dt = 1.0, 0.1, 0.5, 0.02

    def step(state: Any, force: Any) -> Any:
        x, v, angle, turning = state
        sine, cosine = xp.sin(angle), xp.cos(angle)
        push = (force + pole * length * turning**2 * sine) / (cart + pole)
        bend = (GRAVITY * sine - cosine * push) / (
            length * (4.0 / 3.0 - pole * cosine**2 / (cart + pole))
        )
        slide = push - pole * length * bend * cosine / (cart + pole)
        x, v = x + dt * v, v + dt * slide
        angle, turning = angle + dt * turning, turning + dt * bend
        return (x, v, angle, turning), x**2 + 10.0 * angle**2 + 0.01 * force**2

    _, costs = xp.loop(step, (start[0], start[1], start[2], start[3]), force)
    return xp.sum(costs)


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "arm-dynamics",
            "inverse dynamics of 7 joints, Jacobian by the angles",
            partial(arm, 7),
            inverse_dynamics,
            "jacobian",
            forward=True,
            libraries=LIBRARIES,
            tiny=partial(arm, 3),
        ),
        Row(
            "arm-kinematics",
            "inverse kinematics of 7 joints, one damped step",
            partial(reach, 7),
            inverse_kinematics,
            libraries=LIBRARIES,
            tolerance=1e-8,
            tiny=partial(reach, 3),
        ),
        Row(
            "cart-pole",
            "cart and pole, 50 steps in a Python loop, gradient by the forces",
            partial(pushes, 50),
            cart_pole,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(pushes, 5),
        ),
    )
)
