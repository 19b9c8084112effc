"""Bound plans: run on the values of a recording and on what a caller gives."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.node import placeholder
from gradtape.runtime.bound_plans import bind
from gradtape.trace.recording import state
from gradtape.trace.value import Value


def test_leaves_only():
    x, y = gt.asarray([1.0, 2.0]), gt.asarray([3.0, 4.0])
    z = x * y + 1.0
    bound = bind(state.recording, [z.node])
    (found,) = bound.arrays(state.recording)
    assert found.tolist() == [4.0, 9.0]
    assert z.computed is None  # nothing was flushed


def test_values_that_the_caller_gives():
    x = gt.asarray([1.0, 2.0])
    y = x * 3.0
    seed = placeholder(y.node.spec)
    bound = bind(state.recording, [y.node * seed])
    for factor in (2.0, 5.0):
        value = Value(np.full(2, factor), seed.spec)
        (found,) = bound.arrays(state.recording, {seed: value})
        assert found.tolist() == [3.0 * factor, 6.0 * factor]


def test_kept_values_are_read_and_not_computed_again():
    with gt.GradientTape(persistent=True) as tape:
        x = gt.asarray(np.eye(3))
        tape.watch(x)
        y = x @ x
        y.numpy()
        z = gt.sum(y) * 2.0
    recording = y.recording
    bound = bind(recording, [z.node])
    assert y.node in bound.bindings
    (found,) = bound.arrays(recording)
    assert found == 6.0


def test_a_failure_names_the_line_that_recorded_the_op():
    with gt.GradientTape() as tape:
        x = gt.asarray(np.eye(2))
        tape.watch(x)
        y = gt.linalg.cholesky(x)
    recording = y.recording
    recording.values.drop({y.node})
    bound = bind(recording, [y.node])
    (ordinal,) = bound.bindings
    recording.leaves[ordinal] = Value(-np.eye(2), x.computed.spec)
    with pytest.raises(np.linalg.LinAlgError) as error:
        bound.run(recording)
    assert any("test_bound_plans.py" in note for note in error.value.__notes__)
