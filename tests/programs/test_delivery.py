"""Interrupts, and handlers that compute, at the points where CPython may call a handler."""

import gc
import signal
import threading

import numpy as np
import pytest
from tests.native_parts import RECORDERS, whole_with
from tests.programs.delivery import instructions, interrupted_at, interrupts, words
from tests.programs.interrupts import Training, adapt, decorated, descend, observed, undecorated

import gradtape as gt
from gradtape.trace.recording import settle, state

# Cases for each program: all points of a step would take a minute.
CASES = 50

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="handles signals"
)


def looped(each):
    def step():
        found = gt.fori_loop(0, 20, lambda i, x: x * 0.5 + 1.0, gt.asarray(1.0))
        return float(found), descend(each), adapt(each)

    return step


pytestmark = whole_with


@pytest.fixture(params=RECORDERS)
def recorder(request):
    gt.set_recorder(request.param)
    yield request.param
    gt.set_recorder("auto")


@pytest.fixture
def handler():
    """Sets the handler of SIGINT for a test.

    Python ignores what is raised in callbacks of the garbage collector, and Hypothesis has one.
    """
    before, callbacks = signal.getsignal(signal.SIGINT), gc.callbacks[:]
    gc.callbacks.clear()
    yield lambda function: signal.signal(signal.SIGINT, function)
    gc.callbacks[:] = callbacks
    signal.signal(signal.SIGINT, before)


def two_steps(training):
    """Begin as in the middle of training: what the last step has left pending is still there."""
    training.step()
    training.step()


PROGRAMS = [undecorated, observed, decorated, looped]


@pytest.mark.slow
@pytest.mark.parametrize("make", PROGRAMS)
def test_an_interrupt_leaves_steps_whole_or_undone(make, recorder, handler):
    handler(signal.default_int_handler)
    training = Training(make)
    two_steps(training)
    stride = max(1, instructions(training.step) // CASES)
    # Another part of the points in each program.
    first = 1 + PROGRAMS.index(make)
    for number in interrupts(training.step, lambda: two_steps(training), stride, first):
        assert training.is_whole(), f"half a step after an interrupt at instruction {number}"
        settle()
        assert (state.tapes, state.recording.active) == ([], 0)
    assert number > 100


def test_interrupts_again_and_again(recorder, handler):
    """No whole step in between: what an interrupt leaves behind is interrupted in turn."""
    handler(signal.default_int_handler)
    training = Training(looped)
    stride = max(1, instructions(training.step) // CASES)
    for number in interrupts(training.step, lambda: None, stride):
        assert training.is_whole(), f"half a step after an interrupt at instruction {number}"
        settle()
        assert len(state.recording.handles) < 20 * CASES


def test_an_interrupted_flush_lists_handles_once(handler):
    handler(signal.default_int_handler)
    variable, one = gt.Variable(np.zeros(3)), gt.asarray(np.ones(3))

    def begin():
        variable.assign_add(one)

    begin()
    longest = 0
    for _ in interrupts(lambda: variable.numpy(), begin):
        longest = max(longest, len(state.recording.handles))
        handles = state.recording.handles
        assert len(handles) == len(set(map(id, handles)))
    assert longest


# Without a function that is traced: what a handler computes during a trace belongs to the trace.
@pytest.mark.slow
@pytest.mark.parametrize("make", [undecorated, observed, decorated])
def test_a_handler_that_computes_changes_nothing(make, recorder, handler):
    training, x, total = Training(make), gt.asarray([1.0, 2.0]), gt.Variable([0.0, 0.0])
    kept, called = [], 0

    def compute(*_):
        nonlocal called
        called += 1
        y = x * 2.0 + 1.0
        assert float(gt.sum(y)) == 8.0
        total.assign_add(x)
        kept[:] = [y * 3.0]

    handler(compute)
    two_steps(training)
    count = instructions(training.step)
    for number in range(1 + PROGRAMS.index(make), count, max(1, count // CASES)):
        training.step()
        before, times = int(training.descent.iterations.numpy()), called
        training.step()
        assert not interrupted_at(number, training.step)
        assert training.is_whole(), f"half a step after a handler at instruction {number}"
        assert int(training.descent.iterations.numpy()) == before + 2
        assert called == times + (words[0] >= number)
        assert kept[0].numpy().tolist() == [9.0, 15.0]
        assert total.numpy().tolist() == [called, 2.0 * called]
