"""The cost of a tape, counted in nodes that walks and passes visit, is linear in its ops."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes import optimize
from gradtape.ir import node as node_module
from gradtape.runtime import plan_cache, tiers


def chain(count):
    """The gradient of `count` sines of one number."""
    x = gt.asarray(0.5)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(count):
            y = gt.sin(y)
    return float(tape.gradient(y, x))


def expected(count):
    y, slope = 0.5, 1.0
    for _ in range(count):
        y, slope = np.sin(y), slope * np.cos(y)
    return slope


def visited(work, *arguments):
    """The nodes that are visited for a program that nobody has seen."""
    gt.clear_plans()
    before = gt.counters().nodes_visited
    work(*arguments)
    return gt.counters().nodes_visited - before


@pytest.fixture
def few_are_long(monkeypatch):
    monkeypatch.setattr(plan_cache, "LONGEST_PLAN_KEY", 1000)
    # Compiling visits nodes, too, at a time of its own.
    monkeypatch.setattr(tiers, "MODE", "off")


@pytest.mark.parametrize("count", [100, 200, 2000])
def test_twice_the_ops_are_twice_the_steps(few_are_long, count):
    visited(chain, 3)  # what is done once
    once, twice = visited(chain, count), visited(chain, 2 * count)
    if 3 * count > 1000 or 6 * count <= 1000:  # both are long, or both are short
        assert once > 3 * count
        assert abs(twice - 2 * once) < 0.02 * twice + 50
    else:
        assert twice < 2 * once


def test_long_programs_run_no_pass_in_numpy(few_are_long):
    long = visited(chain, 400)
    # Deriving visits the sines, and planning the three nodes of each: its sine, cosine, product.
    assert long <= 4 * 400 + 100


def test_long_programs_are_found_again(few_are_long, monkeypatch):
    monkeypatch.setattr(node_module, "LARGEST_NODE_TABLE", 500)
    gt.clear_plans()
    assert chain(600) == pytest.approx(expected(600), rel=1e-12)
    before = gt.counters()
    assert chain(600) == pytest.approx(expected(600), rel=1e-12)
    after = gt.counters()
    assert after.derivatives_built == before.derivatives_built
    assert after.plans_built == before.plans_built
    assert after.nodes_visited == before.nodes_visited


def test_a_table_that_is_too_long_goes_when_it_grows(few_are_long, monkeypatch):
    monkeypatch.setattr(node_module, "LARGEST_NODE_TABLE", 500)
    gt.clear_plans()
    for count in (600, 700, 800, 900):
        chain(count)
        # The latest program and the one before it, at most.
        assert len(node_module.table().nodes) <= 2 * count
    assert chain(900) == pytest.approx(expected(900), rel=1e-12)


def test_long_programs_are_optimised_before_they_are_compiled(few_are_long, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()

    # Each sine is recorded twice, and a kernel needs it once.
    expected = np.linspace(0.0, 1.0, 4)
    found = gt.asarray(expected)
    for _ in range(400):
        found, expected = gt.sin(found) + gt.sin(found), np.sin(expected) + np.sin(expected)
    whole = gt.program_of(found)
    assert len(whole.nodes) == 1200
    assert len(optimize(whole).nodes) == 800
    before = gt.counters().ops_run
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert gt.counters().ops_run - before == 800


def test_deep_chains_before_a_product():
    x, y = np.random.default_rng(0).uniform(size=(2, 3, 2))
    found = z = gt.matrix_transpose(gt.asarray(x) * 1.0)
    for _ in range(1500):
        found, z = gt.sin(found), np.sin(z)
    np.testing.assert_allclose(gt.matmul(found, y), z @ y, rtol=1e-12)


# Gradients inside an outer tape: a particle that moves along the gradient of a potential.


def potential(x):
    apart = x - gt.asarray([[10.0, 0.0], [0.0, 10.0]])
    return gt.sum(1.0 / gt.sqrt(gt.sum(apart * apart, axis=1)))


def force_by_function(x):
    return -gt.grad(potential)(x)


def force_by_tape(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        found = potential(x)
    return -tape.gradient(found, x)


def force_by_vjp(x):
    return -gt.vjp(potential, x)[1](1.0)[0]


def force_by_jvp(x):
    along = [gt.jvp(potential, (x,), (direction,))[1] for direction in np.eye(2)]
    return -gt.stack(along)


def energy(push, steps, force):
    x = gt.asarray([0.0, 8.0]) + 0.0 * push
    speed = gt.asarray([0.75, 0.0]) * push
    for _ in range(steps):
        speed = speed + 0.1 * force(x)
        x = x + 0.1 * speed
    return gt.sum(x * x)


def by_control(steps, force, push=1.0):
    push = gt.asarray(push)
    with gt.GradientTape() as tape:
        tape.watch(push)
        found = energy(push, steps, force)
    return float(tape.gradient(found, push))


FORCES = [force_by_function, force_by_tape, force_by_vjp, force_by_jvp]


@pytest.mark.parametrize("force", FORCES)
def test_inner_gradients_walk_what_their_tape_recorded(monkeypatch, force):
    monkeypatch.setattr(tiers, "MODE", "off")
    visited(by_control, 2, force)
    once, twice = visited(by_control, 30, force), visited(by_control, 60, force)
    assert abs(twice - 2 * once) < 0.05 * twice


@pytest.mark.parametrize("force", FORCES)
def test_gradients_through_inner_gradients(force):
    step = 1e-6
    sides = [float(energy(gt.asarray(1.0 + s), 40, force)) for s in (-step, step)]
    difference = (sides[1] - sides[0]) / (2 * step)
    assert by_control(40, force) == pytest.approx(difference, rel=1e-6)


def test_many_windows():
    x = gt.Variable([1.0, 2.0])
    before = [x * float(k) for k in range(100)]
    with gt.GradientTape() as tape:
        total = before[7] * x
        for k in range(1, 60):
            with tape.stop_recording():
                factor = total * 0.0 + float(k)
            total = total + factor * x
    # The sum of 1, ..., 59 times x, and 7 x as a constant.
    np.testing.assert_allclose(tape.gradient(total, x), 1770.0 + 7.0 * np.array([1.0, 2.0]))


def test_a_question_that_was_answered_is_one_look_up():
    variables = [gt.Variable(1.0), gt.Variable([2.0, 3.0])]

    def step(asked):
        with gt.GradientTape() as tape:
            loss = gt.sum(variables[0] * variables[1] ** 2)
        found = tape.gradient(loss, asked)
        return loss, found

    for _ in range(3):
        loss, found = step(variables)
        assert float(loss) == 13.0
        assert [np.asarray(each).tolist() for each in found] == [13.0, [4.0, 6.0]]
        loss, found = step(variables[1])
        assert found.tolist() == [4.0, 6.0]
        # Another tape around makes the same question another one.
        with gt.GradientTape() as outer:
            loss, found = step(variables[1])
            square = gt.sum(found * found)
        assert outer.gradient(square, variables[1]).tolist() == [16.0, 24.0]


def test_an_answer_does_not_hide_what_is_not_watched():
    x, y = gt.asarray(2.0), gt.asarray(3.0)
    for watched in ([x, y], [x], [x, y]):
        with gt.GradientTape() as tape:
            tape.watch(watched)
            found = x * y
        slopes = tape.gradient(found, [x, y], unconnected_gradients="none")
        assert float(slopes[0]) == 3.0
        assert (slopes[1] is None) == (len(watched) == 1)
        if slopes[1] is not None:
            assert float(slopes[1]) == 2.0


def test_an_answer_with_and_without_zeros():
    x, y = gt.asarray([2.0, 5.0]), gt.asarray(3.0)
    for word in ("none", "zero", "none", "zero", "zero"):
        with gt.GradientTape() as tape:
            tape.watch(x)
            tape.watch(y)
            found = gt.sum(x * x)
        slopes = tape.gradient(found, [x, y], unconnected_gradients=word)
        assert slopes[0].tolist() == [4.0, 10.0]
        assert slopes[1] is None if word == "none" else float(slopes[1]) == 0.0
        one, other = gt.grad(lambda a, b: gt.sum(a * a), (0, 1))(x, y)
        assert (one.tolist(), float(other)) == ([4.0, 10.0], 0.0)


def test_answers_of_tapes_that_began_and_ended_otherwise():
    x = gt.Variable(3.0)
    for before, after in ((False, False), (True, False), (False, True), (True, True)) * 2:
        early = x * 2.0 if before else None
        with gt.GradientTape() as tape:
            y = x * x * (early if before else 1.0)
        late = y * 2.0 if after else None
        slope = tape.gradient(y, x)
        # What was computed before the tape is a constant to it.
        assert float(slope) == (36.0 if before else 6.0)
        assert late is None or float(late) == 2.0 * float(y)


def test_a_second_derivative_is_answered_again():
    x = gt.Variable(2.0)
    for _ in range(4):
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                y = x**3
            slope = inner.gradient(y, x)
        assert float(outer.gradient(slope, x)) == 12.0
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                y = x**3
            slope = inner.gradient(y, x)
            with outer.stop_recording():
                constant = slope * 1.0
            product = slope * constant
        assert float(outer.gradient(product, x)) == 144.0


def test_long_programs_with_loops_are_optimised_at_once(monkeypatch):
    monkeypatch.setattr(plan_cache, "LONGEST_PLAN_KEY", 0)
    x = gt.asarray([1.0, 2.0])
    last, both = gt.scan(lambda c, a: (c + a, c * a), 0.0, x)
    whole = gt.program_of(last)
    plan = plan_cache.plan_for(whole)
    assert tiers.for_numpy(plan.program, False, plan.work()).nodes[0].spec != whole.nodes[0].spec
    plain = gt.program_of(gt.sin(x) + gt.sin(x))
    assert plan_cache.plan_for(plain).program is plain
    assert [float(last), *both.tolist()] == [3.0, 0.0, 2.0]
