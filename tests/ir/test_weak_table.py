"""Interned objects go when nobody holds them, and without Python code."""

import sys
import threading

from gradtape.concurrency import WeakTable


class Thing:
    pass


def test_a_value_lives_as_long_as_its_holder():
    table = WeakTable()
    held, dropped = Thing(), Thing()
    assert table.setdefault(1, held) is held
    assert table.setdefault(1, Thing()) is held
    table.setdefault(2, dropped)
    del dropped
    assert table.get(1) is held
    assert table.get(2) is None
    assert table.values() == [held]
    other = Thing()
    assert table.setdefault(2, other) is other
    del other, held
    table.setdefault(3, table)
    assert len(table._references) == 1


def test_no_python_runs_when_a_value_dies():
    table, things, seen = WeakTable(), [Thing(), Thing()], []
    for number, thing in enumerate(things):
        table.setdefault(number, thing)
    del thing
    sys.setprofile(lambda frame, event, _: event == "call" and seen.append(frame.f_code.co_name))
    try:
        things.clear()
    finally:
        sys.setprofile(None)
    assert seen == []
    assert len(table) == 0


def test_threads_agree_on_one_object():
    table, found = WeakTable(), []
    ready = threading.Barrier(8)

    def ask():
        ready.wait()
        for key in range(200):
            found.append((key, table.setdefault(key, Thing())))

    workers = [threading.Thread(target=ask) for _ in range(8)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert len({(key, id(thing)) for key, thing in found}) == 200
