"""Upper rooms reach into lower ones through `ir.hooks` and nowhere else."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import gradtape
from gradtape.ir.hooks import FILLED_BY, Hooks, hooks
from gradtape.ir.op import REGISTRY
from gradtape.ir.operators import OPERATORS, OperatorOps

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gradtape"
SOURCES = sorted(SOURCE.rglob("*.py"))

# Objects that exist to be assigned from other rooms, by module: what a thread is doing, its modes,
# and counters. Their attributes are numbers, lists and recordings, not behaviour.
ASSIGNED_ANYWHERE = {
    "gradtape.trace.recording": {"recorded", "state"},
    "gradtape.trace.modes": {"modes"},
    "gradtape.compiler.counts": {"COUNTS"},
}


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(("gradtape", *parts)).removesuffix(".__init__")


def room(module: str) -> str:
    return (module + ".").split(".")[1]


def imported_names(tree: ast.AST) -> dict[str, tuple[str, str]]:
    """Module and name of each object that a file imports from the library, by its local name."""
    found = {}
    for item in ast.walk(tree):
        if isinstance(item, ast.ImportFrom) and (item.module or "").startswith("gradtape"):
            for alias in item.names:
                found[alias.asname or alias.name] = (item.module, alias.name)
        elif isinstance(item, ast.Import):
            for alias in item.names:
                if alias.name.startswith("gradtape."):
                    found[alias.asname or "gradtape"] = (alias.name, "")
    return found


def written(tree: ast.AST):
    """Line and expression of each attribute or item that a file assigns, also by setattr."""
    for item in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(item, ast.Assign):
            targets = list(item.targets)
        elif isinstance(item, (ast.AugAssign, ast.AnnAssign)):
            targets = [item.target]
        elif (
            isinstance(item, ast.Call)
            and isinstance(item.func, ast.Name)
            and item.func.id in ("setattr", "delattr")
        ):
            targets = [ast.Attribute(item.args[0], "?", ast.Store())]
        for target in targets:
            for one in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                if isinstance(one, (ast.Attribute, ast.Subscript)):
                    yield item.lineno, one


def intrusions(text: str, path: Path) -> list[str]:
    tree, own = ast.parse(text), module_of(path)
    names, found = imported_names(tree), []
    for line, target in written(tree):
        base: ast.expr = target
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        if not isinstance(base, ast.Name) or base.id not in names:
            continue
        module, name = names[base.id]
        if room(module) == room(own) or name in ASSIGNED_ANYWHERE.get(module, ()):
            continue
        if name == "hooks" and isinstance(target, ast.Attribute) and target.value is base:
            if FILLED_BY.get(target.attr) == own:
                continue
            found.append(f"{own}:{line} fills hooks.{target.attr}, which FILLED_BY does not say")
        else:
            found.append(f"{own}:{line} assigns {ast.unparse(target)} of {module}")
    return found


def test_no_room_writes_into_another():
    found = [each for path in SOURCES for each in intrusions(path.read_text("utf-8"), path)]
    assert not found, "\n".join([*found, "Pass a parameter, or list a hook in ir/hooks.py."])


@pytest.mark.parametrize(
    "statement",
    [
        "from gradtape.trace.value import Value\nValue.array_over = staticmethod(max)",
        "from gradtape.ir.op import REGISTRY\nREGISTRY['sin'] = None",
        "from gradtape.trace.trace import Trace\nsetattr(Trace, 'carry_out', None)",
        "from gradtape.ir.hooks import hooks\nhooks.transforms = max",
        "def f():\n    from gradtape.ops import arrays\n    arrays.creation.zeros = None",
    ],
)
def test_intrusions_are_found(statement):
    assert intrusions(statement, SOURCE / "runtime" / "flush.py")


@pytest.mark.parametrize(
    "statement",
    [
        "from gradtape.ir.hooks import hooks\nhooks.evaluator = max",
        "from gradtape.runtime.error_lines import Lines\nLines.explain = max",
        "from gradtape.trace.recording import state\nstate.recording = None",
        "class A:\n    pass\nA.b = 1",
    ],
)
def test_what_is_allowed_passes(statement):
    assert not intrusions(statement, SOURCE / "runtime" / "flush.py")


def test_there_are_few_hooks():
    assert len(FILLED_BY) <= 6


@pytest.mark.parametrize("name", FILLED_BY)
def test_every_hook_is_filled_and_explained(name):
    importlib.import_module(FILLED_BY[name])
    assert name in Hooks.__annotations__
    assert inspect.getattr_static(hooks, name) is not None


def test_an_empty_hook_is_filled_at_its_first_use():
    # In a process in which no public name has loaded the module.
    code = (
        "import sys, gradtape; from gradtape.ir.hooks import hooks;"
        "assert 'gradtape.interop.numpy_protocols.dispatch' not in sys.modules;"
        "print(hooks.numpy_protocols.array_function.__module__)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip().startswith("gradtape.interop.numpy_protocols")
    with pytest.raises(AttributeError):
        Hooks().unknown  # noqa: B018


def test_import_fills_what_recording_needs():
    assert gradtape.Tensor is hooks.handle_class


def test_ops_of_operators_are_registered():
    names = OperatorOps.__annotations__
    assert {getattr(OPERATORS, name) for name in names} == {REGISTRY[name] for name in names}
