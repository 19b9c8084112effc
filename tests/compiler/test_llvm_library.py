"""The declarations of LLVM's functions are llvmlite's own."""

import ctypes
import os
import re
import subprocess
import sys

import llvmlite
import llvmlite.binding
import pytest

from gradtape.compiler.objects import llvm_library
from gradtape.compiler.objects.llvm_library import SIGNATURES, LLVMError, library, made


def kind(declared):
    """What a declared argument or result is: an object, a text, a place for a text, or a number."""
    if declared is None or declared in (ctypes.c_char_p, ctypes.c_void_p):
        return declared
    if declared is ctypes.POINTER(ctypes.c_char_p):
        return "text"
    if issubclass(declared, ctypes._Pointer):
        return ctypes.c_void_p
    return ctypes.sizeof(declared)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_those_of_llvmlite(name):
    theirs = getattr(llvmlite.binding.ffi.lib, f"LLVMPY_{name}")
    result, *arguments = SIGNATURES[name]
    # llvmlite leaves out what ctypes does right by itself: int results, and arguments it wraps.
    if theirs.argtypes:
        assert [kind(each) for each in theirs.argtypes] == [kind(each) for each in arguments]
    if result is not None:
        assert kind(theirs._cfn.restype) == kind(result)


def test_an_error_has_the_text_of_llvm():
    context = library().ContextCreate()
    with pytest.raises(LLVMError, match=r"ParseAssembly failed: .*expected"):
        made(library().ParseAssembly, context, b"define nothing")
    library().ContextDispose(context)


def test_other_versions_are_refused(monkeypatch):
    monkeypatch.setattr(llvmlite, "__version__", "0.99.1")
    with pytest.raises(ImportError, match=re.escape('pip install "llvmlite>=0.45,<0.51"')):
        llvm_library.library.__wrapped__()


def test_requirement_is_the_range_that_is_known():
    with open("pyproject.toml", encoding="utf-8") as file:
        text = file.read()
    assert f"llvmlite>=0.{llvm_library.OLDEST},<0.{llvm_library.NEWEST + 1}" in text


def test_compiling_loads_no_python_code_of_llvmlite():
    script = (
        "import gradtape as gt, sys\n"
        "gt.sin(gt.asarray([1.0])).numpy()\n"
        "print(*(name for name in sys.modules if name.startswith('llvmlite.binding')))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "GRADTAPE_JIT": "always"},
    )  # fmt: skip
    assert found.stdout.strip() == ""
