"""Replays: trees of any depth and width, in which calls take every path."""

import numpy as np
import pytest
from tests.jit.agreement import Runs

import gradtape as gt
from gradtape.jit.replay.steps import (
    UNKNOWN,
    Constant,
    NumberKey,
    PathResult,
    PathStep,
    ReplayedCall,
)
from gradtape.pytree import flatten
from gradtape.trace.followed_number import NumberFormula
from gradtape.trace.recording import Recording, state

A = gt.asarray
LEAF = flatten(0)[1]


def replay_of(step, note_path=None):
    """The replay of a tree, as a function of the inputs."""
    return lambda inputs: step.replay(ReplayedCall(inputs, list), note_path)


def guarded(branches, position=0):
    """A step that looks at a number among the arguments."""
    guard = NumberKey(NumberFormula.of_input(position))
    return PathStep(guard=guard, branches=branches)


def ended(content):
    return PathStep(result=PathResult(LEAF, (Constant(content),), ()), is_replayed=True)


def test_every_branch_is_taken():
    replay = replay_of(guarded({key: ended(f"path {key}") for key in range(64)}))
    assert [replay([key]) for key in range(64)] == [f"path {key}" for key in range(64)]
    assert replay([64]) is UNKNOWN


def test_a_long_chain_is_flat():
    step = ended("end")
    for _ in range(3000):
        step = guarded({True: step})
    replay = replay_of(step)
    assert replay([True]) == "end"
    assert replay([False]) is UNKNOWN


def test_a_chain_with_a_way_out_at_every_step():
    # As of a loop that ends when a value says so.
    step = ended(63)
    for number in reversed(range(63)):
        step = guarded({True: step, False: ended(number)}, number)
    replay = replay_of(step)
    for length in range(64):
        assert replay([True] * length + [False] * (63 - length)) == length


def test_a_binary_tree():
    def tree(depth, name):
        if depth == 6:
            return ended(name)
        return guarded({bit: tree(depth + 1, f"{name}{bit:d}") for bit in (False, True)}, depth)

    replay = replay_of(tree(0, ""))
    for number in range(64):
        bits = f"{number:06b}"
        assert replay([bit == "1" for bit in bits]) == bits


def test_a_step_that_an_error_left_half_way_is_unknown():
    assert replay_of(guarded({1: PathStep()}))([1]) is UNKNOWN
    assert replay_of(PathStep())([]) is UNKNOWN


def test_paths_are_noted():
    noted = []
    ends = [ended("one"), ended("two")]
    replay = replay_of(guarded(dict(enumerate(ends))), noted.append)
    for key in (0, 1, 1):
        replay([key])
    assert noted == [ends[0].result, ends[1].result, ends[1].result]


@pytest.mark.parametrize("value", [0.0, -0.0, float("nan"), 1.5])
def test_floats_are_told_apart_by_their_bits(value):
    replay = replay_of(
        PathStep(
            guard=NumberKey(NumberFormula.of_input(0)),
            branches={value.hex(): ended("same")},
        )
    )
    assert replay([value]) == "same"
    assert replay([2.5]) is UNKNOWN
    assert replay([-value]) is UNKNOWN or value != value


def test_an_unknown_value_is_captured():
    ran = Runs()
    note = ran.note

    @gt.function
    def f(x):
        note()
        y = gt.sin(x) * 2.0
        if gt.sum(y) > 0:
            return y
        return -y

    one, two = A([1.0, 2.0]), A([-1.0, -2.0])
    f(one), f(one)
    before = gt.counters().plans_run
    np.testing.assert_allclose(f(two).numpy(), -2.0 * np.sin([-1.0, -2.0]))
    # The plan of the first step in the replay, and all of them in the capture that follows.
    assert gt.counters().plans_run == before + 3
    assert len(ran) == 3
    f(one), f(two), f(two)
    assert len(ran) == 4


def test_runs_that_are_compared_share_a_table_although_the_last_one_was_full():
    ran = Runs()
    note = ran.note

    @gt.function
    def f(x):
        note()
        return gt.sin(x) * 3.0 if gt.sum(x) > 0 else gt.cos(x)

    pending = gt.sin(A([1.0, 2.0]))
    gt.clear_plans()  # the table cannot be exchanged before the pending work is done
    assert pending.node is not None
    state.recording = Recording()
    one, two = A([1.0, 2.0]), A([-1.0, -2.0])
    for x in (one, one, two, one, two, two):
        f(x)
    assert len(ran) == 4


def test_draws_before_an_unknown_value_or_an_error_are_given_back():
    generator, twin = gt.random.Generator(5), gt.random.Generator(5)

    def f(generator, a, b):
        noise = generator.normal((2,))
        if gt.sum(b) > 0:
            noise = noise + generator.uniform((2,))
        return gt.linalg.solve(a, noise)

    compiled = gt.function(lambda a, b: f(generator, a, b))
    good, bad = A(np.eye(2)), A(np.zeros((2, 2)))
    for b in (1.0, 1.0, -1.0, 1.0, -1.0):
        b = A([b])
        np.testing.assert_array_equal(compiled(good, b).numpy(), f(twin, good, b).numpy())
        for solve in (lambda: compiled(bad, b), lambda: f(twin, bad, b)):  # noqa: B023
            with pytest.raises(np.linalg.LinAlgError):
                solve().numpy()
        assert generator.state == twin.state
