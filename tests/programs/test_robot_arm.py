"""Long programs on tiny arrays: an arm's inverse dynamics, a cart-pole and an ODE, unrolled.

Each becomes one routine of register code: one native instruction, and no call of NumPy.
"""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.lower.native_stretches import PlacedKernel
from gradtape.compiler.passes import optimize
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.trace.recording import state
from gradtape.trace.value import Value

JOINTS = 6
RNG = np.random.default_rng(0)
TWISTS = RNG.uniform(-1.5, 1.5, JOINTS)
OFFSETS = RNG.normal(size=(JOINTS, 3)) * 0.3
CENTRES = RNG.normal(size=(JOINTS, 3)) * 0.1
MASSES = RNG.uniform(0.5, 2.0, JOINTS)
INERTIAS = [a @ a.T + 0.01 * np.eye(3) for a in RNG.normal(size=(JOINTS, 3, 3)) * 0.1]
AXIS, GRAVITY = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 9.81])


def rotation(xp, angle, twist):
    c, s, zero, one = xp.cos(angle), xp.sin(angle), 0.0 * angle, 0.0 * angle + 1.0
    rows = [xp.stack([c, -s, zero]), xp.stack([s, c, zero]), xp.stack([zero, zero, one])]
    ct, st = np.cos(twist), np.sin(twist)
    return np.array([[1.0, 0.0, 0.0], [0.0, ct, -st], [0.0, st, ct]]) @ xp.stack(rows)


def torques(xp, x):
    """The torques of an arm's joints by the recursive Newton-Euler algorithm.

    `x` has the angles of the joints, their velocities and their accelerations.
    """
    cross = xp.linalg.cross
    q, velocity, acceleration = x[:JOINTS], x[JOINTS : 2 * JOINTS], x[2 * JOINTS :]
    turning, spinning, moving = xp.zeros(3), xp.zeros(3), xp.asarray(GRAVITY)
    frames, forces, moments = [], [], []
    for k in range(JOINTS):
        frame = rotation(xp, q[k], TWISTS[k])
        back = xp.matrix_transpose(frame)
        carried = back @ turning
        spin = velocity[k] * AXIS
        spinning = back @ spinning + cross(carried, spin) + acceleration[k] * AXIS
        turning = carried + spin
        arm = back @ OFFSETS[k]
        moving = back @ moving + cross(spinning, arm) + cross(turning, cross(turning, arm))
        middle = moving + cross(spinning, CENTRES[k])
        middle = middle + cross(turning, cross(turning, CENTRES[k]))
        frames.append(frame)
        forces.append(MASSES[k] * middle)
        moments.append(INERTIAS[k] @ spinning + cross(turning, INERTIAS[k] @ turning))
    force, moment, found = xp.zeros(3), xp.zeros(3), []
    for k in reversed(range(JOINTS)):
        moment = moments[k] + cross(CENTRES[k] + 0.0 * force, forces[k]) + moment
        if k + 1 < JOINTS:
            passed = frames[k + 1] @ force
            moment = moment + cross(OFFSETS[k + 1] + 0.0 * force, passed)
            force = passed
        force = forces[k] + force
        found.append(moment[2])
        if k:
            moment = frames[k] @ moment
    return xp.stack(found[::-1])


def cost_of_swing(xp, u):
    """The cost of where a pole on a cart is after a rollout with some forces."""
    x, v, angle, spin = (0.0 * u[0] + start for start in (0.1, 0.0, 0.2, 0.0))
    for k in range(u.shape[0]):
        s, c = xp.sin(angle), xp.cos(angle)
        pushed = (u[k] + 0.05 * spin * spin * s) / 1.1
        turn = (9.8 * s - c * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * c * c / 1.1))
        move = pushed - 0.05 * turn * c / 1.1
        x, v, angle, spin = x + 0.02 * v, v + 0.02 * move, angle + 0.02 * spin, spin + 0.02 * turn
    return x * x + 10.0 * angle * angle + 0.1 * (v * v + spin * spin)


def lorenz(xp, z):
    """The state of Lorenz's system after some steps of Runge and Kutta's method."""

    def slope(z):
        return xp.stack([
            10.0 * (z[1] - z[0]), z[0] * (28.0 - z[2]) - z[1], z[0] * z[1] - 8.0 / 3.0 * z[2],
        ])  # fmt: skip

    for _ in range(20):
        first = slope(z)
        second = slope(z + 0.005 * first)
        third = slope(z + 0.005 * second)
        fourth = slope(z + 0.01 * third)
        z = z + 0.01 / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
    return z


def numeric_jacobian(function, x, step=1e-6):
    columns = []
    for k in range(x.size):
        moved = np.zeros_like(x)
        moved[k] = step
        columns.append((function(np, x + moved) - function(np, x - moved)) / (2 * step))
    return np.stack(columns, axis=-1)


PROGRAMS = {
    "arm": (torques, gt.jacobian, RNG.normal(size=3 * JOINTS)),
    "cart-pole": (cost_of_swing, gt.grad, RNG.normal(size=40)),
    "lorenz": (lorenz, gt.jacobian, np.array([1.0, 1.0, 1.0])),
}


def compiled(*outputs):
    found = optimize(gt.program_of(*outputs))
    values = [state.recording.leaves[node.params[0]] for node in found.inputs]
    plan = CompiledPlan(found)
    contents = plan.run(values)
    nodes = found.outputs
    return plan, [Value(c, n.spec).array for c, n in zip(contents, nodes, strict=True)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_instruction_computes_it(name):
    function, derivative, x = PROGRAMS[name]
    for each in (lambda x: function(gt, x), derivative(lambda x: function(gt, x))):
        plan, _ = compiled(each(gt.asarray(x)))
        assert [type(item) for item in plan.lowered.items] == [PlacedKernel], (
            plan.program.nodes,
            plan.lowered.items,
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives(name):
    function, derivative, x = PROGRAMS[name]
    slope = derivative(lambda x: function(gt, x))(gt.asarray(x))
    _, (value, found) = compiled(function(gt, gt.asarray(x)), slope)
    np.testing.assert_allclose(value, function(np, x), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found, numeric_jacobian(function, x), rtol=1e-5, atol=1e-6)


def test_a_vector_crossed_with_itself_is_zero():
    for dtype in ("float32", "float64", "complex64", "complex128", "int32"):
        x = gt.asarray((RNG.normal(size=(50, 3)) * 100).astype(dtype))
        y = x[0] * 3
        _, found = compiled(gt.linalg.cross(x, x), gt.linalg.cross(y, y))
        assert not any(each.any() for each in found)


def test_the_same_arm_again_compiles_nothing():
    x = gt.asarray(PROGRAMS["arm"][2])
    held = compiled(gt.jacobian(lambda x: torques(gt, x))(x))
    before = gt.counters()
    compiled(gt.jacobian(lambda x: torques(gt, x))(x))
    after = gt.counters()
    del held
    assert after.kernels_compiled == before.kernels_compiled
    assert after.kernels_reused == before.kernels_reused + 1
