"""Every public name is documented, and every example in the documentation runs."""

import doctest
import inspect
import os
import re
import sys
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
