"""Background work leaves the GIL to calls that go first, but not for ever."""

import os
import sys
import threading
import time

import pytest

from gradtape.process import give_way as ways
from gradtape.process.give_way import StoppedError, give_way, going_first, work_in_background


class Worker(threading.Thread):
    """Counts its turns, and gives way after each."""

    def __init__(self):
        super().__init__(daemon=True)
        self.turns = 0
        self.ends = False
        self.stopped = False

    def run(self):
        work_in_background(lambda: self.stopped)
        try:
            while not self.ends:
                self.turns += 1
                give_way()
        except StoppedError:
            self.ends = True


@pytest.fixture
def worker():
    found = Worker()
    found.start()
    until(lambda: found.turns > 10)
    yield found
    found.ends = True
    found.join(30)
    assert not found.is_alive()


def until(holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(1e-4)


def rests(worker):
    """Whether the worker has no turn while this thread lets go of the GIL many times."""
    before = worker.turns
    for _ in range(50):
        time.sleep(1e-4)
    return worker.turns == before


def test_calls_that_go_first_are_not_disturbed(worker, monkeypatch):
    monkeypatch.setattr(ways, "LONGEST_PAUSE", 60.0)
    with going_first():
        until(lambda: rests(worker))
        with going_first():  # a call inside a call
            pass
        with going_first():
            until(lambda: rests(worker))
    before = worker.turns
    until(lambda: worker.turns > before + 10)


def test_the_background_has_a_slice_in_spite_of_a_call_that_lasts(worker, monkeypatch):
    monkeypatch.setattr(ways, "LONGEST_PAUSE", 1e-3)
    with going_first():
        before = worker.turns
        until(lambda: worker.turns > before + 1000)


def test_work_that_waits_for_a_call_can_be_stopped(worker, monkeypatch):
    monkeypatch.setattr(ways, "LONGEST_PAUSE", 1e-3)
    with going_first():
        worker.stopped = True
        worker.join(30)
    assert worker.ends


def test_calls_go_first_between_modules(tmp_path, monkeypatch):
    for name in ("first_of_two", "second_of_two"):
        (tmp_path / f"{name}.py").write_text("import second_of_two" if name[0] == "f" else "")
    monkeypatch.syspath_prepend(tmp_path)
    asked = []

    def stops():
        asked.append(1)
        return False

    def work():
        work_in_background(stops)
        monkeypatch.setattr(ways, "SLICE", 0.0)
        __import__("first_of_two")

    thread = threading.Thread(target=work)
    monkeypatch.setattr(ways, "LONGEST_PAUSE", 1e-3)
    with going_first():
        thread.start()
        thread.join(30)
    assert "second_of_two" in sys.modules
    assert len(asked) >= 2
    assert sum(hook is ways._BetweenModules for hook in sys.meta_path) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_has_no_calls_of_its_parent():
    with going_first():
        child = os.fork()
        if not child:
            os._exit(len(ways._first.threads))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(ways._first.threads) == 1
