"""Functions that assign the same variables in several threads: no order of calls is a deadlock."""

import sys
import threading

import gradtape as gt

SECONDS = 30


def test_python_runs_without_locks():
    """A run in Python takes variables in its own order: it must not hold those of the steps."""
    first, second = gt.Variable(0), gt.Variable(0)
    inside, go = threading.Event(), threading.Event()

    @gt.function(frozen=True)  # threads and events are hidden from guards
    def sometimes_both(x):
        second.assign_add(1)
        if x > 0.0:
            inside.set()
            assert go.wait(SECONDS)
            first.assign_add(1)
        return x

    @gt.function
    def both(x):
        first.assign_add(1)
        second.assign_add(1)
        return x

    def one():
        for x in (-1.0, -1.0, 1.0):
            sometimes_both(gt.asarray(x))

    ready = threading.Event()

    def other():
        both(gt.asarray(1.0))
        ready.set()
        assert inside.wait(SECONDS)
        both(gt.asarray(1.0))

    threads = [threading.Thread(target=task, daemon=True) for task in (other, one)]
    threads[0].start()
    assert ready.wait(SECONDS)
    threads[1].start()
    # The other one finishes while this one is in Python.
    threads[0].join(SECONDS)
    held = threads[0].is_alive()
    go.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert not held
    assert (int(first), int(second)) == (3, 5)


def test_calls_of_many_threads_are_whole_steps():
    """Once it is captured, a function reads and assigns in one step, whatever it does between."""
    v = gt.Variable(1)
    begin = threading.Barrier(8)

    @gt.function
    def doubled_and_one():
        v.assign(v % 1_000_003 * 2 + 1)

    def work():
        # Captured where nobody else is: the first call is like that of the undecorated function.
        with lock:
            doubled_and_one()
        begin.wait(SECONDS)
        for _ in range(100):
            doubled_and_one()

    lock = threading.Lock()
    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    expected = 1
    for _ in range(808):
        expected = expected % 1_000_003 * 2 + 1
    assert int(v) == expected


def test_draws_of_others_in_between_are_theirs():
    """A function that shares its generator takes its own numbers only, and nobody's twice."""
    generator = gt.random.Generator(1)
    calls, drawn = [], []

    def f(x):
        a = generator.uniform((4,))
        if len(calls) == 1:
            # Another thread comes between two draws of the run that is captured.
            task = threading.Thread(target=lambda: drawn.append(generator.uniform((4,)).tolist()))
            task.start()
            task.join(SECONDS)
        return a + x, generator.uniform((4,)) + x

    compiled = gt.function(f, frozen=True)
    for _ in range(5):
        calls.append(1)
        drawn += [each.tolist() for each in compiled(gt.asarray(0.0))]
    assert generator.state[2] == len(drawn) == 11
    stream = gt.random.Generator(1).uniform((44,)).tolist()
    assert sorted(number for block in drawn for number in block) == sorted(stream)


def test_first_calls_at_the_same_time_lose_nothing():
    """What a run assigns is what it assigned itself, whoever assigns while it is captured."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(10):
            count_together(gt.Variable(0))
    finally:
        sys.setswitchinterval(before)


def count_together(total, threads=16, calls=5):
    begin = threading.Barrier(threads)
    errors = []

    @gt.function
    def count(n):
        return total.assign_add(n).value

    def work():
        try:
            begin.wait(SECONDS)
            for _ in range(calls):
                count(gt.asarray(3))
        except Exception as error:
            errors.append(error)

    running = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert not errors
    assert int(total) == 3 * threads * calls
