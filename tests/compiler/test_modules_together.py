"""Modules that are compiled together: the same machine code as one by one."""

import ctypes

import pytest

from gradtape.compiler.objects import emission, llvm
from gradtape.compiler.objects.emission import Source
from gradtape.compiler.objects.llvm import LLVMError, NativeModule

TEXT = """
define double @f{n}(double %x) {{
entry:
{lines}
  ret double %v{last}
}}
"""


def source(number, length=200):
    lines = [f"  %v0 = fmul double %x, {number}.0"]
    lines += [f"  %v{at} = fadd double %v{at - 1}, {at}.0" for at in range(1, length)]
    text = TEXT.format(n=number, lines="\n".join(lines), last=length - 1)
    return Source(text, level=number % 3, has_addresses=True)


def test_the_same_code_as_one_by_one(monkeypatch):
    monkeypatch.setattr(emission, "processors", lambda: 4)
    sources = [source(number) for number in range(1, 25)]
    alone = [emission.emitted(each.text, each.level, as_object=True) for each in sources]
    for _ in range(10):
        assert emission.emitted_together(sources) == alone


def test_each_module_has_its_own_functions():
    found = llvm.compile_modules([source(number) for number in range(1, 9)])
    added = sum(range(200))
    for number, code in enumerate(found, 1):
        address = code.address(f"f{number}")
        function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)
        assert function(2.0) == 2.0 * number + added


def test_an_error_in_one_module_is_raised(monkeypatch):
    monkeypatch.setattr(emission, "processors", lambda: 2)
    sources = [source(1), Source("define nonsense", has_addresses=True), source(2)]
    with pytest.raises(LLVMError, match="ParseAssembly"):
        llvm.compile_modules(sources)


def test_a_module_is_compiled_once():
    module = NativeModule(source(3))
    assert not module.is_compiled
    before = llvm.Counts.modules
    first = module.address("f3")
    assert module.is_compiled
    assert module.address("f3") == first
    assert llvm.Counts.modules == before + 1
