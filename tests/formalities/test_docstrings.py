"""Every public name is documented, and every example in the documentation runs."""

import doctest
import importlib
import inspect
import operator
import pkgutil
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape.codegen.cpython import switch

ROOT = Path(__file__).resolve().parents[2]

# Folders that users do not import from. What they export is public through `gradtape` itself.
INTERNAL = {
    "graph",
    "ops",
    "transforms",
    "sparsity",
    "optimize",
    "codegen",
    "runtime",
    "recording",
    "evaluate",
    "derive",
}

CLASSES_WITH_DOCUMENTED_METHODS = [
    "Tensor", "Variable", "GradientTape", "ForwardAccumulator",
    "nn.Module", "nn.Layer", "nn.Sequential", "optimizers.Optimizer",
    "tf.Tensor", "tf.Variable", "tf.GradientTape", "tf.Module", "tf.TensorShape",
]  # fmt: skip

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public_modules():
    yield gt
    for module in pkgutil.iter_modules(gt.__path__, prefix="gradtape."):
        name = module.name.removeprefix("gradtape.")
        if not name.startswith("_") and name not in INTERNAL:
            found = importlib.import_module(module.name)
            yield found
            # Modules of a package that have exports are public too: `gt.nn.losses`.
            inside = getattr(found, "__path__", ())
            for inner in pkgutil.walk_packages(inside, f"{module.name}."):
                part = importlib.import_module(inner.name)
                if hasattr(part, "__all__"):
                    yield part


def belongs_to_numpy(thing) -> bool:
    return (getattr(thing, "__module__", None) or "").split(".")[0] == "numpy"


def public_names() -> dict[str, object]:
    """Dotted name to object; a thing exported from two modules is listed once."""
    found: dict[str, object] = {}
    seen: set[int] = set()
    for module in public_modules():
        for name in sorted(getattr(module, "__all__", ())):
            thing = getattr(module, name)
            if callable(thing) and not belongs_to_numpy(thing) and id(thing) not in seen:
                seen.add(id(thing))
                found[f"{module.__name__}.{name}"] = thing
    return found


def public_methods() -> dict[str, object]:
    found: dict[str, object] = {}
    for class_name in CLASSES_WITH_DOCUMENTED_METHODS:
        cls = operator.attrgetter(class_name)(gt)
        # `object` has methods too, all of them with underscores.
        for name in sorted(dir(cls)):
            if name.startswith("_"):
                continue
            member = inspect.getattr_static(cls, name)
            if callable(member) or isinstance(member, property | classmethod | staticmethod):
                found[f"gradtape.{class_name}.{name}"] = member
    return found


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


@pytest.mark.parametrize("name", NAMES)
def test_public_name_is_documented(name):
    sentence = first_line(NAMES[name])
    assert sentence, f"{name} has no docstring"
    assert sentence.endswith("."), f"{name}: the first line is not a sentence: {sentence!r}"
    assert ">>>" in NAMES[name].__doc__, f"{name} has no example"


@pytest.mark.parametrize("name", METHODS)
def test_method_is_documented(name):
    sentence = first_line(METHODS[name])
    assert sentence, f"{name} has no docstring"
    assert sentence.endswith("."), f"{name}: the first line is not a sentence: {sentence!r}"


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
