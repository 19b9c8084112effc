"""gt.set_recorder: native code can be switched off and on at run time, and says why it is off."""

import sys
import sysconfig

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.cpython import native_recorder, objects, switch
from gradtape.runtime import tiers

needs_native = pytest.mark.skipif(
    not objects.supported() or tiers.MODE == "off", reason="not for this interpreter"
)


@pytest.fixture(autouse=True)
def recorder():
    before = switch.MODE
    yield
    gt.set_recorder(before)


def recorder_line():
    return next(line for line in gt.show_config().splitlines() if line.startswith("recorder"))


def test_unknown_recorder():
    with pytest.raises(ValueError, match=r"'fast' is unknown\. Use 'auto', 'python' or 'native'"):
        gt.set_recorder("fast")


@needs_native
def test_recording_in_python_and_back():
    gt.set_recorder("native")
    assert native_recorder.installed()
    assert recorder_line().endswith(" native")
    gt.set_recorder("python")
    assert not native_recorder.installed()
    assert "__add__" not in vars(gt.Tensor)
    assert recorder_line().endswith("chosen by GRADTAPE_RECORDER or gt.set_recorder")
    for _ in range(50):
        (gt.asarray([1.0]) + 1.0).numpy()
    assert not native_recorder.installed()


@needs_native
def test_auto_leaves_an_installed_recorder_in_place():
    gt.set_recorder("native")
    gt.set_recorder("auto")
    assert native_recorder.installed()


@needs_native
def test_native_calls_end_at_once():
    gt.set_recorder("native")
    total = gt.Variable(np.zeros(2))
    f = gt.function(lambda x, rate: total.assign_add(rate * x).value)
    x = gt.asarray([1.0, 2.0])
    for _ in range(50):
        f(x, 1.0)
    (captured,) = f.captured
    native_calls = captured.native_call.calls
    assert native_calls > 0
    gt.set_recorder("python")
    assert f(x, 1.0).tolist() == [51.0, 102.0]
    assert captured.native_call.calls == native_calls
    gt.set_recorder("native")
    assert f(x, 1.0).tolist() == [52.0, 104.0]
    assert captured.native_call.calls == native_calls + 1
    assert captured.calls == 52


@needs_native
def test_functions_of_python_become_native_later():
    gt.set_recorder("python")
    f = gt.function(lambda x: gt.sin(x) * 2.0)
    x = gt.asarray([1.0, 2.0])
    for _ in range(100):
        f(x)
    assert f.captured[0].native_call is None
    gt.set_recorder("native")
    for _ in range(100):
        f(x)
    assert f.captured[0].native_call.calls > 0


@needs_native
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.setattr(sys, "version_info", (3, 99, 0, "final", 0)), "and this is 3.99"),
        (lambda m: m.setattr(sys, "maxsize", 2**31 - 1), "64 bits"),
        (lambda m: m.setattr(sysconfig, "get_config_var", "Py_GIL_DISABLED".__eq__), "free-thread"),
        (lambda m: m.setattr(sysconfig, "get_config_var", "Py_TRACE_REFS".__eq__), "references"),
        (lambda m: m.setattr(objects, "slot_offset", lambda kind, name: 16), "layout of CPython"),
        (lambda m: m.setattr(switch._Process, "compiling", False), "GRADTAPE_JIT=off"),
    ],
)
def test_reasons(monkeypatch, change, reason):
    gt.set_recorder("python")
    monkeypatch.setattr(native_recorder, "_compiled", [])
    monkeypatch.setattr(switch._Process, "failure", None)
    monkeypatch.setattr(switch, "MODE", "auto")
    change(monkeypatch)
    assert reason in switch.why_python()
    with pytest.raises(RuntimeError, match=rf"'native' cannot be used: .*{reason}"):
        gt.set_recorder("native")
    assert switch.MODE == "auto"
    monkeypatch.undo()


@needs_native
def test_not_paid_for_yet(monkeypatch):
    gt.set_recorder("python")
    gt.set_recorder("auto")
    monkeypatch.setattr(switch._Process, "failure", None)
    assert "compiled after more ops" in recorder_line()
    monkeypatch.setattr(switch._Process, "failure", "it could not be compiled: no such target")
    assert "no such target" in recorder_line()


@needs_native
@pytest.mark.parametrize("lent", [abs, np.ndarray.__dict__["__add__"]])
def test_memory_is_not_guarded_by_assertions(lent):
    lender = type("Lender", (), {"__rsub__": lent})
    with pytest.raises(RuntimeError, match=r"Lender.__rsub__ was not found"):
        objects.slot_wrapper(gt.Tensor, "__rsub__", lender, 0)
