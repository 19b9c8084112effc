"""Signals stop native loops, and only what was interrupted has to be computed again."""

import gc
import os
import signal
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.runtime import tiers
from gradtape.runtime.flush import live
from gradtape.trace.recording import state

needs_signals = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
pytestmark = needs_signals


class Stop(Exception):  # noqa: N818 - not a fault
    """What a handler of the user raises."""


@pytest.fixture
def alarm():
    """Makes a call that a signal stops after some seconds with Stop, an ordinary Exception."""

    def handler(*_):
        raise Stop

    def stopped(call, seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()

    def check(call, seconds=0.2):
        # On a busy machine the signal may come before the call begins. A handler that raises
        # inside a callback of the collector raises nowhere, so the collector rests.
        gc.disable()
        try:
            with pytest.raises(Stop):
                stopped(call, seconds)
        finally:
            gc.enable()

    before = signal.signal(signal.SIGALRM, handler)
    yield check
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()


@pytest.fixture(params=["always", "never"])
def tier(request, monkeypatch, compiled_at_once):
    monkeypatch.setattr(tiers, "MODE", request.param)


def endless(x):
    return gt.while_loop(lambda a: gt.all(a > 0.0), lambda a: a * 0.5 + 1.0, x)


def counted(x):
    return gt.fori_loop(0, 2**40, lambda i, a: a * 0.5 + 1.0, x)


def nested(x):
    return gt.while_loop(lambda a: gt.all(a > 0.0), lambda a: gt.fori_loop(0, 9, _halve, a), x)


def _halve(_, a):
    return a * 0.5 + 1.0


def products(x):
    start = gt.ones((40, 40)) * x[0]
    step = gt.fori_loop(0, 2**40, lambda i, a: (a @ a) * 1e-3, start)
    return step[0]


def chosen(x):
    def body(a):
        return gt.cond(a[0] > 1.0, lambda: counted(a), lambda: a + 1.0)

    return gt.while_loop(lambda a: a[0] > 0.0, body, x)


@pytest.mark.slow
@pytest.mark.parametrize("loop", [endless, counted, nested, products, chosen])
def test_a_loop_stops_and_other_values_do_not_run_it(alarm, tier, loop):
    x = gt.asarray(np.ones(3))
    y, other = loop(x), x * 3.0
    alarm(y.numpy)
    begin = gt.counters().ops_run
    assert other.tolist() == [3.0] * 3
    assert (x + 1.0).tolist() == [2.0] * 3
    assert gt.counters().ops_run - begin < 10
    # The value itself is computed again when it is asked for.
    alarm(y.numpy)


def test_an_interrupted_value_is_computed_when_it_is_asked_for(alarm):
    x = gt.asarray(1.0)
    long = gt.fori_loop(0, 30_000_000, lambda i, a: a * 0.5 + 1.0, x)
    shifted, apart = long + 1.0, x + 5.0
    alarm(shifted.numpy, 0.02)
    assert float(apart) == 6.0
    assert long.computed is None
    assert float(shifted) == pytest.approx(3.0)
    # Both need the same loop, so it ran once for both.
    assert long.computed is not None
    assert float(long) == pytest.approx(2.0)


def test_later_work_goes_to_another_recording(alarm):
    y = counted(gt.asarray(1.0))
    alarm(y.numpy)
    kept = y.recording
    for _ in range(5):
        (gt.asarray(1.0) * 2.0).numpy()
    assert state.recording is not kept
    assert live(kept, kept.handles)
    assert len(kept.log) < 5


def test_a_scan_stops(alarm):
    xs = gt.zeros(40_000_000, dtype="float32")
    total, _ = gt.scan(lambda c, x: (c * 0.5 + x, c), gt.zeros((), dtype="float32"), xs)
    alarm(total.numpy, 0.02)


def test_a_compiled_function_stops_and_leaves_variables(alarm):
    v = gt.Variable(1.0)

    @gt.function
    def step(n):
        v.assign_add(gt.while_loop(lambda a: a < n, lambda a: a + 1.0, gt.zeros(())))
        return v.value

    for _ in range(40):
        step(gt.asarray(2.0))
    before = float(v)
    for _ in range(2):
        alarm(lambda: step(gt.asarray(np.inf)))
        assert float(v) == before
    step(gt.asarray(2.0))
    assert float(v) == before + 2.0


def test_handlers_that_do_not_raise_are_called_and_the_loop_goes_on():
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(True))
    try:
        # Compiling the loop alone takes longer than that.
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        y = gt.fori_loop(0, 20_000_000, lambda i, a: a * 0.5 + 1.0, gt.asarray(1.0))
        assert float(y) == pytest.approx(2.0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 1


def test_a_loop_in_another_thread_goes_on(alarm):
    found = []
    x = gt.asarray(1.0)

    def work():
        found.append(float(gt.fori_loop(0, 10_000_000, lambda i, a: a * 0.5 + 1.0, x)))

    worker = threading.Thread(target=work)
    worker.start()
    alarm(lambda: counted(gt.asarray(1.0)).numpy(), 0.02)
    worker.join()
    assert found == [pytest.approx(2.0)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_stops(alarm):
    float(gt.fori_loop(0, 10, lambda i, a: a + 1.0, gt.asarray(1.0)))
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            counted(gt.asarray(1.0)).numpy()
        except Stop:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
