"""Accumulators: a tangent belongs to the tapes that recorded its target."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.walk import visits


@pytest.mark.parametrize("inside", [False, True])
def test_nested_accumulators_give_second_derivatives_whenever_they_are_asked(inside):
    x = gt.asarray(2.0)
    with gt.ForwardAccumulator(x, 1.0) as outer:
        with gt.ForwardAccumulator(x, 1.0) as inner:
            y = x * x * x
        if inside:
            tangent = inner.jvp(y)
    if not inside:
        tangent = inner.jvp(y)
    assert float(tangent) == 12.0
    assert float(outer.jvp(tangent)) == 12.0


def test_three_accumulators_asked_after_all_have_closed():
    x = gt.asarray([2.0, 3.0])
    ones = gt.ones(2)
    with (
        gt.ForwardAccumulator(x, ones) as first,
        gt.ForwardAccumulator(x, ones) as second,
        gt.ForwardAccumulator(x, ones) as third,
    ):
        y = x**4
    assert first.jvp(second.jvp(third.jvp(y))).tolist() == [48.0, 72.0]


def test_a_tape_around_differentiates_a_tangent_asked_for_later():
    x = gt.asarray(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        with gt.ForwardAccumulator(x, 1.0) as accumulator:
            y = x * x * x
    assert float(tape.gradient(accumulator.jvp(y), x)) == 12.0


@pytest.mark.parametrize("look", [False, True])
def test_a_rule_written_in_python_counts_as_called_with_the_target(look):
    @gt.custom_jvp
    def cube(a):
        return a * a * a

    @cube.defjvp
    def _(primals, tangents):
        (a,), (da,) = primals, tangents
        return a * a * a, 3.0 * a * a * da

    x = gt.asarray(2.0)
    with gt.ForwardAccumulator(x, 1.0) as outer, gt.ForwardAccumulator(x, 1.0) as inner:
        y = cube(x)
    tangent = inner.jvp(y)
    if look:
        tangent.numpy()
    assert float(outer.jvp(tangent)) == 12.0


def test_a_tape_that_began_on_the_way_takes_earlier_tangents_for_constants():
    x = gt.asarray(2.0)
    with gt.ForwardAccumulator(x, 1.0) as accumulator:
        early = x * x
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = early * x
        late = y * x
    tangent = accumulator.jvp(y)  # 2 x dx * x + early dx, with 2 x dx and early from before
    assert float(tangent) == 12.0
    assert float(tape.gradient(tangent, x)) == 4.0
    assert tape.gradient(accumulator.jvp(late), x, unconnected_gradients="none") is None
    assert tape.gradient(accumulator.jvp(early), x, unconnected_gradients="none") is None


def test_a_tensor_with_several_elements_or_a_zero_is_returned_as_it_is():
    x = gt.asarray([1.0, 2.0])
    with gt.ForwardAccumulator(x, [0.0, 0.0]) as accumulator:
        y = x * x
    assert accumulator.jvp(y).tolist() == [0.0, 0.0]
    with gt.ForwardAccumulator(x, [1.0, 1.0]) as accumulator:
        z = gt.sum(x - x)
    assert float(accumulator.jvp(z)) == 0.0


def test_the_cost_of_a_tangent_does_not_grow_with_what_was_recorded_before():
    def work(before):
        x = gt.asarray(np.ones(3))
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(before):
                y = gt.sin(y)
            with gt.ForwardAccumulator(x, gt.asarray(np.ones(3))) as acc:
                z = gt.cos(x) * 2.0
            seen = visits()
            tangent = acc.jvp(z)
            seen = visits() - seen
        np.testing.assert_allclose(tangent.numpy(), -2.0 * np.sin(1.0))
        return seen

    assert work(2000) < 100
