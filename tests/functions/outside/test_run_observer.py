"""The observer of a run: native code and Python see the same, and leave the profile as it was."""

import gc
import math
import sys
import threading
import time

import numpy as np
import pytest

import gradtape as gt
from gradtape.codegen.cpython import native_recorder, switch
from gradtape.functions.capture.capture import Capture
from gradtape.functions.capture.capture_run import captured_run
from gradtape.functions.outside.run_observer import Observation, RunObserver
from gradtape.functions.replay.steps import Step
from gradtape.recording.unobserved import unobserved


@pytest.fixture(params=["python", "native"], autouse=True)
def recorder(request):
    before = switch.MODE
    gt.set_recorder(request.param)
    yield request.param
    gt.set_recorder(before)


class Nothing:
    args, kwargs = (), {}


def observed(function):
    """What the observer notes while a function runs as a capture."""
    observation = Observation()
    capture = Capture(Step(), {}, False)

    def run():
        with RunObserver(observation) as observer:
            capture.observer = None if observer.is_native else observer
            try:
                return function()
            finally:
                capture.observer = None

    try:
        with captured_run(capture, run, Nothing):
            pass
    finally:
        capture.undo()
    return {code.co_name for code in observation.executed}, observation


def helper(x):
    return x * 2.0


class Scale:
    """An operand that is no tensor, with code of its own."""

    def __init__(self, factor):
        self.factor = factor

    def __array__(self, dtype=None, copy=None):
        return np.full(3, self.factor, dtype)


class Doubles:
    """An operand that computes products with tensors itself."""

    def __rmul__(self, other):
        return other + other


class Named(gt.Tensor):
    """A tensor with code of its own."""

    @property
    def result_class(self):
        return named_result()


def named_result():
    return gt.Tensor


def new_tensor():
    """A tensor of a shape that no test has used: all nodes on it are new."""
    new_tensor.size += 1
    return gt.asarray(np.ones(new_tensor.size))


new_tensor.size = 1000


def test_functions_between_new_ops_are_seen():
    def run():
        x = new_tensor()
        y = gt.tanh(x) * 0.5 + x
        y = helper(y) - gt.sin(y)
        return -((2.0 - y) ** 2) < gt.exp(helper(y))

    assert observed(run)[0] == {"run", "helper", "new_tensor"}


def test_the_native_observer_is_used(recorder):
    observer = RunObserver(Observation())
    with observer:
        assert observer.is_native is (recorder == "native")
    assert native_recorder.installed() is (recorder == "native")


def test_operators_of_other_classes_are_seen():
    def run():
        return gt.tanh(new_tensor()) * Doubles()

    assert "__rmul__" in observed(run)[0]


def test_code_of_operands_is_seen():
    def run():
        return gt.multiply(gt.asarray(np.ones(3)), Scale(2.0))

    assert "__array__" in observed(run)[0]


def test_subclasses_of_tensors_are_seen():
    x = new_tensor()
    named = Named(x.node, x.recording, x.computed)

    def run():
        return gt.exp(named) * 2.0

    assert "named_result" in observed(run)[0]


def test_rules_of_ops_that_users_declare_are_seen():
    def spec(x):
        return x

    op = gt.extend.op("observed_spec", spec=spec, numpy=lambda x: x + 1.0, replace=True)

    def run():
        return op(gt.tanh(new_tensor()))

    assert "spec" in observed(run)[0]


def test_calls_of_c_functions_are_seen_after_ops():
    def run():
        y = gt.tanh(new_tensor()) * 3.0
        math.sqrt(2.0)
        return y * time.time()

    what, line = observed(run)[1].impure
    assert what == "time.time"
    assert line == f"{__file__}:{run.__code__.co_firstlineno + 3}"


def test_computed_names_are_seen_after_ops():
    def run():
        return getattr(gt, "ta" + "nh")(new_tensor()) * 2.0

    assert observed(run)[1].any_attribute


def test_functions_are_seen_after_an_op_has_failed():
    def run():
        try:
            gt.asarray(np.ones(3)) + gt.asarray(np.ones(4))
        except ValueError:
            return helper(1.0)

    assert "helper" in observed(run)[0]


def test_functions_are_seen_after_unobserved_work():
    def hidden():
        return gt.tanh(new_tensor())

    def run():
        return helper(unobserved(hidden))

    found = observed(run)[0]
    assert "helper" in found
    assert "hidden" not in found


def test_errors_leave_the_profile_as_it_was():
    def run():
        return gt.asarray(np.ones(3)) @ gt.asarray(np.ones(4))

    with pytest.raises(ValueError, match="matmul"):
        observed(run)
    assert sys.getprofile() is None


def test_a_profiler_of_the_user_goes_on():
    seen = set()

    def profile(frame, event, arg):
        seen.add(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        found = observed(lambda: helper(gt.tanh(new_tensor())))[0]
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert "helper" in found
    assert "helper" in seen


def test_threads_are_observed_apart():
    found, started, go_on = {}, threading.Event(), threading.Event()

    def waits():
        y = gt.tanh(new_tensor())
        started.set()
        go_on.wait(10)
        return y * time.time()

    def other():
        found["other"] = observed(lambda: helper(gt.tanh(new_tensor())))

    thread = threading.Thread(target=lambda: found.update(waits=observed(waits)))
    thread.start()
    assert started.wait(10)
    other()
    go_on.set()
    thread.join()
    assert found["other"][0] == {"<lambda>", "helper", "new_tensor"}
    assert found["waits"][1].impure is not None
    assert "helper" not in found["waits"][0]


def test_callbacks_of_the_garbage_collector_are_not_read():
    def collected(phase, info):
        helper(time.perf_counter())

    gc.callbacks.append(collected)
    try:
        executed, observation = observed(lambda: (gc.collect(0), gt.tanh(new_tensor()))[1])
    finally:
        gc.callbacks.remove(collected)
    assert "helper" not in executed
    assert "perf_counter" not in str(observation.impure)
