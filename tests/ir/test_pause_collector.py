"""Uncollected work: the collector is as it was before, however the work ends."""

import gc
import os
import signal
import threading

import pytest

import gradtape as gt
from gradtape.trace.pause_collector import uncollected


@pytest.fixture(autouse=True)
def collector():
    """Every test begins with the collector on, and leaves it on."""
    assert gc.isenabled()
    yield
    on = gc.isenabled()
    gc.enable()
    assert on


def collections_during(function):
    found = []

    def note(phase, info):
        found.append(info["generation"])

    gc.callbacks.append(note)
    try:
        function()
    finally:
        gc.callbacks.remove(note)
    return found


def many_objects():
    return [[number] for number in range(10_000)]


def test_no_collection_starts():
    assert collections_during(many_objects)
    assert not collections_during(lambda: uncollected(many_objects) and None)


def test_arguments_and_result_pass():
    assert uncollected(divmod, 7, 2) == (3, 1)
    assert uncollected(sorted, [1, 3, 2], reverse=True) == [3, 2, 1]


def test_on_again_after_an_error():
    with pytest.raises(ZeroDivisionError):
        uncollected(divmod, 1, 0)
    assert gc.isenabled()


def test_nested_work_leaves_it_off():
    def inner():
        uncollected(len, ())
        return gc.isenabled()

    assert uncollected(inner) is False


def test_a_collector_that_the_user_switched_off_stays_off():
    gc.disable()
    try:
        uncollected(len, ())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_on_after_work_of_several_threads():
    def work():
        for _ in range(200):
            uncollected(many_objects)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_on_in_a_child_that_was_forked_during_the_work_of_another_thread():
    inside, end = threading.Event(), threading.Event()
    worker = threading.Thread(target=uncollected, args=(lambda: inside.set() or end.wait(60),))
    worker.start()
    try:
        assert inside.wait(60)
        assert not gc.isenabled()
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not gc.isenabled()
    finally:
        end.set()
        worker.join()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no such timer")
def test_on_after_interrupts_at_any_place():
    class InterruptedWorkError(Exception):
        pass

    def interrupt(number, frame):
        raise InterruptedWorkError

    def work_for_ever():
        signal.setitimer(signal.ITIMER_REAL, 2e-5)
        while True:
            uncollected(len, ())

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(300):
            with pytest.raises(InterruptedWorkError):
                work_for_ever()
            assert gc.isenabled()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_deriving_starts_no_collection():
    x = gt.asarray(0.5)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(3000):
            y = gt.sin(y)
    # One may follow as soon as the work is done, and looks at the young objects only.
    assert len(collections_during(lambda: tape.gradient(y, x))) <= 3
