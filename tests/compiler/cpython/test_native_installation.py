"""When the native recorder is put in place, and that it can be taken out again."""

import os
import subprocess
import sys

import pytest

import gradtape as gt
from gradtape.compiler.cpython import native_recorder as native, objects, switch
from gradtape.jit.native import native_call

pytestmark = pytest.mark.skipif(not objects.supported(), reason="not for this interpreter")


def test_python_is_back_after_uninstalling():
    before = native.installed()
    assert native.install() is None
    assert "native" in gt.show_config()
    native.uninstall()
    try:
        assert "__add__" not in vars(gt.Tensor)
        assert (1.0 - gt.asarray([3.0])).tolist() == [-2.0]
    finally:
        if before:
            native.install()


def test_layout_that_is_not_as_expected_is_refused(monkeypatch):
    assert native_call.offsets(gt.Function) is not None
    monkeypatch.setattr(objects, "slot_offset", lambda kind, name: 16)
    assert native.offsets() is None
    assert native_call.offsets(gt.Function) is None


def test_a_compiler_that_fails_is_a_warning(monkeypatch):
    def fail():
        raise RuntimeError("no such target")

    monkeypatch.setattr(native, "install", fail)
    monkeypatch.setattr(switch, "MODE", "native")
    monkeypatch.setattr(switch.recorded, "due", switch.recorded.due)
    with pytest.warns(UserWarning, match="goes on in Python"):
        switch.consider_compiling()


SCRIPT = """
import gradtape as gt
from gradtape.jit.native import native_call
from gradtape.compiler.cpython import objects, switch
from gradtape.compiler.cpython import native_recorder as native
x = gt.asarray([1.0, 2.0])
switch.APPLICATIONS_THAT_PAY_FOR_RECORDER = 500
for _ in range(40):
    y = x
    for _ in range(OPS):
        y = y * 0.5
    y.numpy()
print(native.installed())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recorder", "jit", "ops", "expected"),
    [
        ("auto", "wait", 20, "True"),
        ("auto", "wait", 2, "False"),
        ("auto", "off", 20, "False"),
        ("native", "off", 20, "False"),
        ("native", "auto", 2, "True"),
        ("python", "auto", 20, "False"),
    ],
)
def test_when_it_is_installed(recorder, jit, ops, expected):
    environment = {**os.environ, "GRADTAPE_RECORDER": recorder, "GRADTAPE_JIT": jit}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("OPS", str(ops))],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == expected


def test_unknown_mode_is_refused():
    environment = {**os.environ, "GRADTAPE_RECORDER": "fast"}
    result = subprocess.run(
        [sys.executable, "-c", "import gradtape"], capture_output=True, text=True, env=environment
    )
    assert "Use auto, python or native" in result.stderr
