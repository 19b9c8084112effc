"""The contract of native code: the same calls in Python and natively leave the same state."""

import gc
import signal
import sys
import threading
import weakref

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.cpython import objects, switch
from gradtape.jit.guards import guards as comparisons
from gradtape.runtime import tiers
from gradtape.runtime.buffer_pool import Buffer
from gradtape.trace.recording import state

pytestmark = pytest.mark.skipif(
    not objects.supported() or tiers.MODE == "off", reason="not for this interpreter"
)
A = gt.asarray
# Calls after which a function has a native call, whatever the mode.
WARM = 70


@pytest.fixture(autouse=True)
def recorder():
    before = switch.MODE
    yield
    gt.set_recorder(before)


def value_state(value):
    """All slots of a value, but for the address."""
    content = value.content
    memory = (content.capacity, content.nbytes) if type(content) is Buffer else type(content)
    known = value._address in (0, getattr(content, "address", 0))
    return value.array.tobytes(), value.spec, memory, value.entry, known


def tensor_state(tensor):
    return type(tensor), tensor.node, tensor.recording, value_state(tensor.computed)


def variable_state(variable):
    return (
        tensor_state(variable._handle),
        variable._assigned,
        variable._steady,
        variable._epoch == state.epoch,
        variable in state.recording.unassigned,
        variable.lock.acquire(blocking=False) and variable.lock.release() is None,
    )


def counts(before, after):
    """Runs, ops and bytes taken; and what else became of idle memory."""
    names = ("plans_run", "ops_run", "bytes_recycled", "bytes_allocated", "bytes_held")
    runs, ops, recycled, allocated, held = [getattr(after, n) - getattr(before, n) for n in names]
    return runs, ops, recycled + allocated, held + recycled


class Scenario:
    """A function with its state, called on both sides."""

    def __init__(self, f, *variables, calls):
        self.function, self.variables, self.calls = gt.function(f), variables, calls

    def observed(self):
        function = self.function
        function(*self.calls[-1])  # numbers are inputs once they had two values
        for _ in range(WARM):
            function(*self.calls[0])
        seen = []
        for arguments in self.calls:
            gc.collect()
            before = gt.counters()
            found = function(*arguments)
            leaves, structure = gt.pytree.flatten(found)
            seen.append((structure, counts(before, gt.counters())))
            for leaf in leaves:
                index = next((at for at, each in enumerate(arguments) if each is leaf), None)
                is_new = isinstance(leaf, gt.Tensor) and index is None
                seen.append(tensor_state(leaf) if is_new else (index, leaf if index is None else 0))
            seen += [variable_state(variable) for variable in self.variables]
            del found, leaves
        return seen, [each.calls for each in function.captured]


def plain():
    return Scenario(lambda x: gt.sin(x) * 2.0 + 1.0, calls=[(A([1.0, 2.0]),), (A([3.0, 4.0]),)])


def numbers():
    return Scenario(
        lambda x, rate: (x * (1.0 - rate), x * rate),
        calls=[(A([1.0, 2.0]), 0.5), (A(np.ones(2)), 0.25), (A([3.0, 4.0]), 1e300)],
    )


def structures():
    kept = A([5.0])
    return Scenario(
        lambda x, y: {"x": x, "sum": [x + y, (x + y, 3, "name")], "outside": kept * y},
        calls=[(A([1.0]), A([2.0])), (A([3.0]), A([4.0]))],
    )


def same_leaf_twice():
    def f(x):
        y = x * 3.0
        return [y, y, x]

    return Scenario(f, calls=[(A([1.0]),), (A([2.0]),)])


def updates():
    total, count = gt.Variable(np.zeros(3)), gt.Variable(0)

    def f(x, rate):
        count.assign_add(1)
        return total.assign_add(x * rate).value, total.value * 2.0

    return Scenario(f, total, count, calls=[(A([1.0, 2.0, 3.0]), 0.5), (A(np.ones(3)), 1.0)])


def read_variable():
    v, other = gt.Variable([1.0]), gt.Variable([2.0])
    return Scenario(lambda x: v * x + other, v, other, calls=[(A([1.0]),), (A([2.0]),)])


def float32():
    v = gt.Variable(np.ones(2, "float32"))
    return Scenario(
        lambda x, r: v.assign_sub(r * x).value, v, calls=[(A([1.0, 2.0], dtype="float32"), 0.1)]
    )


def large_result():
    return Scenario(lambda x: x + 1.0, calls=[(A(np.zeros(20_000)),), (A(np.ones(20_000)),)])


@pytest.mark.parametrize(
    "scenario",
    [plain, numbers, structures, same_leaf_twice, updates, read_variable,
     float32, large_result],
)  # fmt: skip
def test_same_state(scenario):
    seen = {}
    for recorder in ("python", "native"):
        gt.set_recorder(recorder)
        made = scenario()
        seen[recorder] = made.observed()
        captured = made.function.captured
        natively = sum(each.native_call.calls for each in captured if each.native_call is not None)
        assert (natively >= len(made.calls)) == (recorder == "native")
    assert seen["native"] == seen["python"]


class Stop(BaseException):
    """Raised by a signal handler, as KeyboardInterrupt is."""


def counting_step():
    """A function that adds one to each of six variables."""
    variables = [gt.Variable(np.zeros(3)) for _ in range(6)]

    @gt.function
    def step(one):
        for variable in variables:
            variable.assign_add(one)

    return variables, step


@pytest.mark.parametrize("recorder", ["python", "native"])
class TestAllOrNone:
    # An interrupt inside a finaliser of the pool's buffers is printed by Python, and lost.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_an_interrupt_at_any_time(self, recorder):
        gt.set_recorder(recorder)
        variables, step = counting_step()
        one = A(np.ones(3))
        for _ in range(WARM):
            step(one)

        def stop(*_):
            raise Stop

        before = signal.signal(signal.SIGALRM, stop)
        stopped = 0
        try:
            for number in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 + 7e-7 * number)
                    for _ in range(100):
                        step(one)
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
                except Stop:
                    stopped += 1
                now = {float(variable.value[0]) for variable in variables}
                assert len(now) == 1, step.explain()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
        assert stopped

    def test_an_error_before_any_line(self, recorder):
        """Between the lines of the assignment, where debuggers and tracers may raise."""
        gt.set_recorder(recorder)
        variables, step = counting_step()
        one, done = A(np.ones(3)), set()
        for _ in range(WARM):
            step(one)
        for number in range(1, 20):
            before = float(variables[0].value[0])
            if not raised_at(number, lambda: step(one)):
                break
            now = {float(variable.value[0]) for variable in variables}
            assert len(now) == 1
            done.add(now.pop() - before)
        assert number > 3
        assert done == {0.0, 1.0}

    def test_old_values_that_run_code_when_they_end(self, recorder):
        """The end of an old value sees all variables with their new values."""
        gt.set_recorder(recorder)
        variables, step = counting_step()
        one = A(np.ones(3))
        for _ in range(WARM):
            step(one)
        seen = []
        for variable in variables:
            look = lambda: seen.append({float(each.value[0]) for each in variables})  # noqa: E731
            weakref.finalize(variable._handle, look)
        before = float(variables[0].value[0])
        step(one)
        assert seen == [{before + 1.0}] * len(variables)


def raised_at(number, call):
    """Whether a call reached the line of this number of the assignment, where Stop is raised."""
    lines = 0

    def local(frame, event, arg):
        nonlocal lines
        lines += event == "line"
        if lines == number:
            sys.settrace(None)
            raise Stop
        return local

    sys.settrace(lambda frame, *_: local if frame.f_code.co_name == "assign" else None)
    try:
        call()
    except Stop:
        return True
    finally:
        sys.settrace(None)
    return False


def test_updates_of_one_thread_are_not_noted_in_another():
    """While one thread computes without the GIL, others record: their state is not used."""
    gt.set_recorder("native")
    wrong = []

    def work():
        v = gt.Variable(np.zeros(200_000))
        f = gt.function(lambda x: v.assign_add(gt.sin(x) * 0.0 + 1.0).value)
        x = A(np.ones(200_000))
        for _ in range(60):
            with gt.GradientTape():
                pass
            f(x)
            if v._epoch != state.epoch or v in state.recording.unassigned:
                wrong.append(v._epoch)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_interrupt_is_not_forgotten(monkeypatch):
    is_other = comparisons.is_other

    def interrupted(now, seen):
        signal.raise_signal(signal.SIGINT)
        return is_other(now, seen)

    gt.set_recorder("native")
    factors = [float("2")]
    f = gt.function(lambda x: x * factors[0])
    x = A([1.0])
    for _ in range(WARM):
        f(x)
    assert f.captured[0].native_call.calls > 0
    factors[0] = float("2.0")  # equal, but another object: the two are compared
    monkeypatch.setattr(comparisons, "is_other", interrupted)
    with pytest.raises(KeyboardInterrupt):
        f(x)
    monkeypatch.setattr(comparisons, "is_other", is_other)
    assert f(x).tolist() == [2.0]
