"""Imports point one way: from the user's face down to what a program is."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gradtape"

# Rooms in the order the data flows. A row may import the rows above it, less those it names here.
ROOMS: dict[str, set[str]] = {
    "version": set(),
    "errors": set(),
    "dtypes": set(),
    "pytree": set(),
    "graph": {"pytree"},
    "recording": {"pytree"},
    "ops": {"pytree"},
    "transforms": {"pytree", "recording"},
    "sparsity": {"pytree", "recording"},
    "optimize": {"pytree", "recording", "transforms", "sparsity"},
    "codegen": {"pytree", "transforms", "sparsity"},
    "runtime": {"pytree", "transforms", "sparsity"},
    "evaluate": {"pytree", "transforms", "sparsity", "codegen"},
    "derive": {"pytree"},
    "tensor": set(),
    "tape": set(),
    "control": set(),
    "functions": set(),
    "solve": set(),
    "testing": set(),
    "inspect": set(),
}
ALLOWED: dict[str, set[str]] = {}
for _room, _less in ROOMS.items():
    ALLOWED[_room] = set(ALLOWED) - _less

# The user's face: these folders, and every single-file module not in the table above.
# It may import everything. A new folder must be given a place, here or in the table.
FACE = {"nn", "optimizers", "tf", "report", "distributed"}

LLVMLITE_IMPORTERS = {"codegen/llvm.py"}


def place(path: Path) -> str:
    """The folder, or the top-level module, that a source file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_modules(text: str, path: Path) -> list[tuple[int, str]]:
    """Line and dotted name of each import, anywhere in the file, relative ones made absolute."""
    package = ("gradtape", *path.relative_to(SOURCE).parent.parts)
    found = []
    for item in ast.walk(ast.parse(text)):
        if isinstance(item, ast.Import):
            found += [(item.lineno, alias.name) for alias in item.names]
        elif isinstance(item, ast.ImportFrom):
            base = package[: len(package) - item.level + 1] if item.level else ()
            module = ".".join((*base, item.module) if item.module else base)
            # `from gradtape import graph` names a folder, `from gradtape import Tensor` the face.
            found += [(item.lineno, f"{module}.{alias.name}") for alias in item.names]
        elif isinstance(item, ast.Call) and item.args and isinstance(item.args[0], ast.Constant):
            called = getattr(item.func, "attr", None) or getattr(item.func, "id", None)
            if called in {"import_module", "__import__"}:
                found.append((item.lineno, str(item.args[0].value)))
    return found


def violations(text: str, path: Path, places: set[str]) -> list[str]:
    own = place(path)
    if own not in ALLOWED:
        return []
    wrong = []
    for line, name in imported_modules(text, path):
        parts = name.split(".")
        if parts[0] != "gradtape":
            continue
        target = parts[1] if len(parts) > 1 and parts[1] in places else "gradtape"
        if target != own and target not in ALLOWED[own]:
            allowed = ", ".join(sorted(ALLOWED[own])) or "nothing"
            wrong.append(
                f"{path.relative_to(SOURCE)}:{line} imports {name}; {own} may import {allowed}"
            )
    return wrong


SOURCES = sorted(SOURCE.rglob("*.py"))
PLACES = {place(path) for path in SOURCES}


def test_there_are_sources():
    assert len(SOURCES) > 1


def test_table_points_one_way():
    lower: set[str] = set()
    for name, allowed in ALLOWED.items():
        assert allowed <= lower, f"{name} imports {allowed - lower}, which are not below it"
        lower.add(name)


def test_every_folder_has_a_place():
    folders = {place(path) for path in SOURCES if path.parent != SOURCE}
    assert folders <= ALLOWED.keys() | FACE


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_import_direction(path):
    wrong = violations(path.read_text(encoding="utf-8"), path, PLACES)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "statement",
    [
        "import gradtape",
        "from gradtape import Tensor",
        "from gradtape.ops import elementwise",
        "from ..ops.elementwise import sin",
        "from .. import ops",
        "def f():\n    from ..ops import elementwise",
        "importlib.import_module('gradtape.ops')",
    ],
)
def test_wrong_direction_is_found(statement):
    assert violations(statement, SOURCE / "graph" / "node.py", set(ALLOWED))


@pytest.mark.parametrize(
    "statement",
    [
        "import numpy",
        "from .spec import Spec",
        "from ..errors import ShapeError",
        "from gradtape.graph.spec import Spec",
    ],
)
def test_right_direction_is_accepted(statement):
    assert not violations(statement, SOURCE / "graph" / "node.py", set(ALLOWED))


def test_one_module_imports_llvmlite():
    importers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCES
        for _, name in imported_modules(path.read_text(encoding="utf-8"), path)
        if name.split(".")[0] == "llvmlite"
    }
    assert importers <= LLVMLITE_IMPORTERS


def test_import_loads_no_compiler_and_no_lapack():
    code = (
        "import sys, gradtape\n"
        "print(*(name for name in ('llvmlite', 'scipy.linalg') if name in sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [], "these are slow to import: import them at first use"
