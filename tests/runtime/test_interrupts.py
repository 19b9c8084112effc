"""An interrupt at any line of the library leaves everything readable, and steps whole or undone."""

import subprocess
import sys

import numpy as np
import pytest

import gradtape as gt
from gradtape.trace.recording import settle, state


class Stop(BaseException):
    """Raised as a signal handler would raise."""


def interrupted_at(number, call):
    """Raise Stop before the n-th line that the library runs in this call; whether it came to it."""
    count = 0

    def local(frame, event, _):
        nonlocal count
        if event == "line":
            count += 1
            if count == number:
                sys.settrace(None)
                raise Stop
        return local

    def enter(frame, event, _):
        # Code that replays are written in has no file.
        name = frame.f_code.co_filename
        return local if "/gradtape/" in name or name.startswith("<") else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    except Stop:
        return True
    finally:
        sys.settrace(before)
    return False


def plain(variables, optimizer):
    with gt.GradientTape() as tape:
        loss = gt.sum(gt.stack([gt.sum(v.value * v.value) for v in variables]))
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return loss


def observed(variables, optimizer):
    loss = plain(variables, optimizer)
    return float(loss), [v.numpy() for v in variables]


def looped(variables, optimizer):
    with gt.GradientTape() as tape:
        total = gt.fori_loop(0, 3, lambda i, x: x * 1.5, variables[0].value)
        loss = gt.sum(total) + gt.sum(variables[1].value)
    optimizer.apply_gradients(zip(tape.gradient(loss, variables[:2]), variables[:2], strict=True))
    return loss


def beginning(step, decorated):
    variables = [gt.Variable(np.full(3, 1.0 + k)) for k in range(3)]
    optimizer = gt.optimizers.SGD(0.1, momentum=0.5)
    optimizer.build(variables)
    run = gt.function(step) if decorated else step
    return variables, optimizer, lambda: run(variables, optimizer)


def state_of(variables, optimizer):
    return np.concatenate([np.ravel(v.numpy()) for v in [*variables, *optimizer.variables]])


def states(step, count):
    """The state before each of so many steps that nothing interrupts."""
    variables, optimizer, run = beginning(step, decorated=False)
    found = [state_of(variables, optimizer)]
    for _ in range(count):
        run()
        found.append(state_of(variables, optimizer))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("warm", [0, 3])
@pytest.mark.parametrize(
    ("step", "decorated"),
    [(plain, False), (observed, False), (looped, False), (plain, True), (looped, True)],
)
def test_interrupts_at_every_line(step, decorated, warm):
    expected = states(step, warm + 2)
    number, came = 0, True
    while came:
        # The first run of everything has thousands of lines.
        number += 1 if warm else 1 + number // 40
        variables, optimizer, run = beginning(step, decorated)
        for _ in range(warm):
            run()
        state_of(variables, optimizer)
        came = interrupted_at(number, run)
        settle()
        assert (state.tapes, state.recording.active, state.recording.closed) == ([], 0, False)
        found = state_of(variables, optimizer)
        done = int(np.allclose(found, expected[warm + 1]))
        np.testing.assert_allclose(found, expected[warm + done], err_msg=f"line {number}")
        if not done:
            run()
        np.testing.assert_allclose(state_of(variables, optimizer), expected[warm + 1])
    assert number > 20


IMPORTED = """
import sys
import gradtape as gt

count, number = 0, int(sys.argv[1])


class Stop(BaseException):
    pass


def trace(frame, event, _):
    global count
    if "/gradtape/" in frame.f_code.co_filename and frame.f_code.co_name == "<module>":
        if event == "line":
            count += 1
            if count == number:
                sys.settrace(None)
                raise Stop
        return trace


def double(x):
    return float(gt.fori_loop(0, 1, lambda i, a: a * 2.0, gt.cond(x > 0.0, lambda: x, lambda: -x)))


sys.settrace(trace)
try:
    double(gt.asarray(2.0))
except Stop:
    pass
finally:
    sys.settrace(None)
assert double(gt.asarray(2.0)) == 4.0
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(30, 700, 45))
def test_interrupted_imports_are_made_again(number):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, str(number)], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
