"""Derivatives that are handed out are applications of their time, with all that they consist of."""

import threading

import numpy as np
import pytest
from tests.programs.equal_expressions import custom, pushed

import gradtape as gt

X = 0.5


SQUARES = {
    "plain": lambda a: a * a,
    "custom_gradient": custom,
    "custom_jvp": pushed,
    "checkpoint": gt.checkpoint(lambda a: a * a),
    "function": gt.function(lambda a: a * a),
}


def asked_inside(f, look, times):
    """A tape asked inside another one that began later, in the same recording."""
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as first:
        first.watch(x)
        y = f(x)
        before = [first.gradient(y, x) for _ in range(times)]
        with gt.GradientTape(persistent=True) as second:
            second.watch(x)
            slopes = [first.gradient(y, x) for _ in range(times)]
            if look:
                slopes[0].numpy()
    return second, x, before, slopes


def asked_in_another_recording(f, look, times):
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as first:
        first.watch(x)
        y = f(x)
    before = [first.gradient(y, x) for _ in range(times)]
    if look:
        y.numpy()
    with gt.GradientTape(persistent=True) as second:
        second.watch(x)
        slopes = [first.gradient(y, x) for _ in range(times)]
    return second, x, before, slopes


@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("ask", [asked_inside, asked_in_another_recording])
@pytest.mark.parametrize("name", SQUARES)
def test_a_derivative_handed_out_again_is_new_to_a_tape_that_began_meanwhile(
    name, ask, times, look
):
    second, x, before, slopes = ask(SQUARES[name], look, times)
    for slope in slopes:
        assert float(slope) == pytest.approx(2 * X)
        assert float(second.gradient(slope, x)) == pytest.approx(2.0)
    assert all(second.gradient(slope, x, unconnected_gradients="none") is None for slope in before)
    if times > 1:
        assert second.gradient(slopes[1], slopes[0], unconnected_gradients="none") is None


COSINES = {
    "grad": gt.grad(gt.sin),
    "vjp": lambda a: gt.vjp(gt.sin, a)[1](1.0)[0],
    "jvp": lambda a: gt.jvp(gt.sin, (a,), (1.0,))[1],
    "function": gt.function(gt.grad(gt.sin)),
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("ask", [asked_inside, asked_in_another_recording])
@pytest.mark.parametrize("name", COSINES)
def test_an_argument_of_a_differentiated_function_is_the_argument_to_later_tapes(name, ask, times):
    second, x, _, slopes = ask(COSINES[name], False, times)
    for slope in slopes:
        assert float(slope) == pytest.approx(-np.sin(X))
        assert float(second.gradient(slope, x)) == pytest.approx(-np.cos(X))


@pytest.mark.parametrize("same", [True, False])
def test_intermediate_results_of_an_earlier_derivative_are_constants(same):
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as first:
        first.watch(x)
        slope = first.gradient(gt.sin(x), x, output_gradients=x)  # x * cos(x)
        if same:
            with gt.GradientTape() as second:
                second.watch(x)
                again = first.gradient(slope, x)
    if not same:
        with gt.GradientTape() as second:
            second.watch(x)
            again = first.gradient(slope, x)
    assert float(again) == pytest.approx(np.cos(X) - X * np.sin(X))
    # cos(x) was computed before the second tape began, x and sin(x) are new to it.
    assert float(second.gradient(again, x)) == pytest.approx(-np.sin(X) - X * np.cos(X))


def test_two_tapes_differentiate_the_same_derivative():
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as first:
        first.watch(x)
        y = x**3
    with gt.GradientTape() as outer:
        outer.watch(x)
        early = first.gradient(y, x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            late = first.gradient(y, x)
        both = early * late
    assert float(inner.gradient(late, x)) == pytest.approx(6 * X)
    assert float(outer.gradient(both, x)) == pytest.approx(2 * 3 * X**2 * 6 * X)


def test_results_of_one_question_are_tensors_of_their_own():
    a, b = gt.asarray(2.0), gt.asarray(3.0)
    with gt.GradientTape(persistent=True) as outer:
        outer.watch([a, b])
        with gt.GradientTape() as inner:
            inner.watch([a, b])
            y = gt.exp(a + b)
        by_a, by_b, again = inner.gradient(y, [a, b, a])
        z = by_a * by_b * again
    assert float(outer.gradient(z, by_a)) == pytest.approx(np.exp(10.0))
    assert float(outer.gradient(z, a)) == pytest.approx(3 * np.exp(15.0))


def second_derivatives():
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with gt.GradientTape(persistent=True) as inner:
            inner.watch(x)
            y = gt.sin(x)
        slopes = [inner.gradient(y, x) for _ in range(2)]
    return [outer.gradient(slope, x) for slope in slopes]


def in_a_thread(f):
    found = []
    thread = threading.Thread(target=lambda: found.append(f()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("run", [lambda f: f(), in_a_thread, lambda f: gt.function(f)()])
def test_a_derivative_asked_for_twice_in_functions_and_threads(run):
    for _ in range(3):
        assert [float(found) for found in run(second_derivatives)] == pytest.approx(
            [-np.sin(X)] * 2
        )


def test_a_repeated_program_finds_its_derivatives():
    second_derivatives()
    before = gt.counters()
    second_derivatives()
    assert gt.counters().derivatives_built == before.derivatives_built
