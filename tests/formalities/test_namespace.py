"""`dir(gradtape)` is what users may use, and a wrong name is answered with the right one."""

import importlib
import inspect
import operator
import pickle
import pkgutil
import re
import subprocess
import sys
import typing

import pytest

import gradtape as gt
from gradtape.ops.families import signatures
from gradtape.suggestions import ATTRIBUTES, NAMESPACES, tables


def shown_names() -> set[str]:
    return {name for name in dir(gt) if not name.startswith("__")}


def test_dir_lists_what_is_exported():
    dunders = {name for name in gt.__all__ if name.startswith("__")}
    assert shown_names() == set(gt.__all__) - dunders
    assert dunders <= set(dir(gt))


def test_no_internal_module_is_an_attribute():
    names = {module.name for module in pkgutil.iter_modules(gt.__path__)}
    assert names - set(gt.__all__) - {"__main__"}, "there are internal modules"
    assert not [name for name in names if name in vars(gt) and name not in gt.__all__]


def test_internal_modules_stay_hidden_when_everything_is_imported():
    code = """
import importlib, pkgutil, gradtape as gt
for module in pkgutil.walk_packages(gt.__path__, prefix="gradtape."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*(name for name in vars(gt) if name[0] != "_" and name not in gt.__all__))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_editors_show_no_nodes():
    functions = [each for each in map(vars(gt).get, gt.__all__) if inspect.isfunction(each)]
    shown = {
        f"{each.__module__}.{each.__qualname__}: {hint}"
        for function in functions
        for each in typing.get_overloads(inspect.unwrap(function))
        for hint in each.__annotations__.values()
        if "Node" in str(hint)
    }
    # The types of the other functions are protocols.
    protocols = {name: each for name, each in vars(signatures).items() if isinstance(each, type)}
    shown |= {
        name
        for name, each in protocols.items()
        if each.__module__ == signatures.__name__ and "Node" in inspect.getsource(each)
    }
    assert not shown


def test_packages_are_imported_when_they_are_named():
    code = """
import sys, gradtape as gt
names = ("fft", "linalg", "nn", "optimizers", "random", "tf")
late = [name for name in names if f"gradtape.{name}" not in sys.modules]
assert {name.partition(".")[0] for name in late} <= set(dir(gt))
print(*late)
gt.fft, gt.linalg, gt.nn, gt.optimizers, gt.random, gt.tf
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [
        "fft", "linalg", "nn", "optimizers", "random", "tf",
    ]  # fmt: skip


def test_an_op_whose_module_is_not_loaded_is_found_by_pickle():
    code = """
import pickle, sys, gradtape as gt
assert "gradtape.ops.matrices.decompositions" not in sys.modules
print(pickle.loads(sys.stdin.buffer.read()).name)
"""
    from gradtape.ops.matrices.decompositions import CHOLESKY

    sent = pickle.dumps(CHOLESKY)
    result = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [b"cholesky"]


def test_import_statements_still_reach_internal_modules():
    import gradtape.ops.elementwise.unary as unary
    from gradtape import ops
    from gradtape.ops.elementwise.unary import sin

    assert unary.sin is sin is gt.sin
    assert importlib.import_module("gradtape.ops") is ops
    assert pickle.loads(pickle.dumps(gt.GradientTape)) is gt.GradientTape


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("Adam", "gt.optimizers.Adam"),
        ("Tape", "gt.GradientTape"),
        ("array", "gt.asarray"),
        ("backward", "tape.gradient"),
        ("concatenate", "gt.concat"),
        ("jit", "gt.function"),
        ("no_grad", "gt.stop_gradient"),
        ("ops", "internal"),
        ("randn", "gt.random.normal"),
        ("sinn", "gt.sin"),
        ("softmax", "gt.nn.softmax"),
        ("solve", "gt.linalg.solve"),
        ("tensor", "gt.asarray"),
        ("xyzzy", "dir(gradtape)"),
    ],
)
def test_wrong_name_is_answered_with_ours(name, ours):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
        getattr(gt, name)
    assert ours in str(caught.value)
    assert caught.value.name == name


def test_private_name_is_refused_without_a_guess():
    with pytest.raises(AttributeError, match=r"has no attribute '_sin'\.$"):
        gt._sin  # noqa: B018


def remedies(table):
    for value in table.values():
        yield from remedies(value) if isinstance(value, dict) else [str(value)]


@pytest.mark.parametrize("name", tables()["names"])
def test_foreign_name_is_not_ours(name):
    assert name not in gt.__all__


@pytest.mark.parametrize("table", tables())
def test_remedies_exist(table):
    missing = []
    for remedy in remedies(tables()[table]):
        for path in re.findall(r"(?:\bgt|gradtape)((?:\.[A-Za-z_]\w*)+)", remedy):
            try:
                operator.attrgetter(path[1:])(gt)
            except AttributeError:
                missing.append(remedy)
    assert missing == []


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_each_missing_attribute_has_a_remedy(name):
    kind = {"Operators": gt.Variable, "Module": gt.nn.Module, "Optimizer": gt.optimizers.Optimizer}
    cls, listed = kind.get(name) or getattr(gt, name), ATTRIBUTES[name].split()
    assert set(tables()["attributes"][name]) <= set(listed)
    for each in listed:
        with pytest.raises(AttributeError) as caught:
            getattr(cls, each)
        assert str(caught.value).split("'. ")[1], each


def test_namespaces_have_exports():
    for name in NAMESPACES:
        assert getattr(gt, name).__all__
