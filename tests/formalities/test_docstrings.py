"""Every public name is documented, and every example in the documentation runs."""

import collections
import doctest
import functools
import inspect
import os
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from tests.formalities.public_names import (
    CLASSES_WITH_DOCUMENTED_METHODS,
    public_methods,
    public_modules,
    public_names,
)

import gradtape as gt
from gradtape.compiler.cpython import switch

ROOT = Path(__file__).resolve().parents[2]

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# What a class has by itself, and not its instances: methods, properties, slots, and fields of named
# tuples.
Pair = collections.namedtuple("Pair", "first second")
DOCUMENTED = (
    types.FunctionType,
    types.MemberDescriptorType,
    classmethod,
    functools.cached_property,
    property,
    staticmethod,
    type(Pair.first),
)
# What Python writes itself.
FIELDS = {f"Alias for field number {number}" for number in range(9)}

NAMES = public_names()
METHODS = public_methods()


def first_line(thing) -> str:
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "").partition("\n")[0]


@pytest.mark.parametrize("name", CLASSES_WITH_DOCUMENTED_METHODS)
def test_class_is_exported(name):
    owner, _, own = name.rpartition(".")
    assert own in (getattr(gt, owner) if owner else gt).__all__


def test_exports_exist():
    for module in public_modules():
        names = list(getattr(module, "__all__", ()))
        assert len(names) == len(set(names)), f"{module.__name__}.__all__ repeats a name"
        missing = [name for name in names if not hasattr(module, name)]
        assert not missing, f"{module.__name__}.__all__ names {missing}, which do not exist"


def test_public_names_and_methods_are_documented():
    lines = {name: first_line(thing) for name, thing in {**NAMES, **METHODS}.items()}
    wrong = {name: line for name, line in lines.items() if not line.endswith(".")}
    assert not wrong, f"the first line of these docstrings is missing or no sentence: {wrong}"


def test_attributes_of_public_classes_are_documented():
    without = set()
    for cls in filter(inspect.isclass, NAMES.values()):
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            if name.startswith("_") or not isinstance(member, DOCUMENTED):
                continue
            owner = next(each for each in cls.__mro__ if name in vars(each))
            # A method that overrides another has its docstring.
            text = inspect.getdoc(getattr(cls, name) if callable(member) else member)
            if owner.__module__.startswith("gradtape") and (not text or text in FIELDS):
                without.add(f"{owner.__module__}.{owner.__qualname__}.{name}")
    assert not without, f"these attributes have no docstring: {sorted(without)}"


def test_public_names_have_an_example():
    without = [name for name, thing in NAMES.items() if ">>>" not in (thing.__doc__ or "")]
    assert not without, f"these docstrings have no example: {without}"


@pytest.fixture(scope="module", autouse=True)
def folder_for_what_examples_write(tmp_path_factory):
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("examples"))
    yield
    os.chdir(before)


@pytest.mark.parametrize("name", [*NAMES, *METHODS])
def test_example_runs(name):
    thing = NAMES.get(name, METHODS.get(name))
    # Element-wise functions have generated docstrings, so the text is parsed, not the module.
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    known = {"gt": gt, "np": np, "tf": gt.tf, "sys": sys}
    example = doctest.DocTestParser().get_doctest(text, known, name, None, 0)
    report: list[str] = []
    recorder = switch.MODE
    doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=report.append)
    if recorder != switch.MODE:
        gt.set_recorder(recorder)
    assert not report, "".join(report)


def test_readme_example_runs():
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert blocks, "README.md shows no example"
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
