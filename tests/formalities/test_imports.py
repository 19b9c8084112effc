"""Imports point one way: from the public API down to what a program is."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import gradtape as gt

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gradtape"

# Rooms in the order in which they may import: each one those above it.
ROOMS = (
    "version",
    "config",
    "display",
    "caches",
    "errors",
    "dtypes",
    "records",
    "concurrency",
    "progress",
    "annotated_kinds",
    "suggestions",
    "argument_checks",
    "pytree",
    "ir",
    "trace",
    "ops",
    "compiler",
    "runtime",
    "autodiff",
    "tensor",
    "tape",
    "control",
    "jit",
    "linalg",
    "fft",
    "random",
    "interop",
    "testing",
    "tools",
    "extend",
    "typing",
    "libraries",
    "export",
    "training",
    "nn",
    "optimizers",
    "distributed",
    "tf",
)
# Rooms that are built on public names, and how many internal names each still imports. The number
# for TensorFlow's names may only become smaller.
SATELLITES = {"nn": 0, "optimizers": 0, "training": 0, "distributed": 0, "tf": 130}
# Rooms that may import anything.
EXEMPT: set[str] = {"tf/keras"}

ALLOWED = {room: set(ROOMS[:place]) for place, room in enumerate(ROOMS)}
# These may import what users import.
for _room in ROOMS[ROOMS.index("tools") :]:
    ALLOWED[_room].add("gradtape")

LLVMLITE_IMPORTERS = {"compiler/objects/llvm_library.py"}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

# An import inside a function says in a comment, on its line or above, why it is late. It loads the
# compiler, the tables of NumPy's functions, what derives matrices, or a package outside gradtape
# that `import gradtape` must not load.
MAY_BE_LATE = (
    "gradtape.compiler", "gradtape.runtime.compiled_plan", "gradtape.interop.numpy_protocols",
    "gradtape.tape.derived_matrices",
)  # fmt: skip


def place(path: Path) -> str:
    """The folder, or the top-level module, that a source file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def for_type_checkers(item: ast.AST) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`, which only type checkers enter.

    Its imports name static types, such as Tensor in the signature of an op. They cannot make data
    flow backwards, so they may point upwards.
    """
    return isinstance(item, ast.If) and "TYPE_CHECKING" in (
        getattr(item.test, "id", None),
        getattr(item.test, "attr", None),
    )


def statements(tree: ast.AST, enter_functions: bool = True) -> Iterator[ast.AST]:
    """All nodes that run, outer ones first; `enter_functions=False` leaves out what runs later."""
    for item in ast.iter_child_nodes(tree):
        if not enter_functions and isinstance(item, FUNCTIONS):
            continue
        yield item
        if for_type_checkers(item):
            for other in item.orelse:
                yield other
                yield from statements(other, enter_functions)
        else:
            yield from statements(item, enter_functions)


@cache
def imported_modules(text: str, path: Path, enter_functions: bool = True) -> list[tuple[int, str]]:
    """Line and dotted name of each import that runs, relative ones made absolute."""
    package = ("gradtape", *path.relative_to(SOURCE).parent.parts)
    found = []
    for item in statements(ast.parse(text), enter_functions):
        if isinstance(item, ast.Import):
            found += [(item.lineno, alias.name) for alias in item.names]
        elif isinstance(item, ast.ImportFrom):
            base = package[: len(package) - item.level + 1] if item.level else ()
            module = ".".join((*base, item.module) if item.module else base)
            # `from gradtape import ir` names a folder, `from gradtape import Tensor` the face.
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
        wrong = allowed - lower - {"gradtape"}
        assert not wrong, f"{name} imports {wrong}, which are not below it"
        lower.add(name)


def test_every_folder_has_a_place():
    folders = {place(path) for path in SOURCES if path.parent != SOURCE}
    assert folders <= ALLOWED.keys()


def test_import_direction():
    wrong = [each for path in SOURCES for each in violations(path.read_text("utf-8"), path, PLACES)]
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
        "if TYPE_CHECKING:\n    pass\nelse:\n    from gradtape.ops import elementwise",
    ],
)
def test_wrong_direction_is_found(statement):
    assert violations(statement, SOURCE / "ir" / "node.py", set(ALLOWED))


@pytest.mark.parametrize(
    "statement",
    [
        "import numpy",
        "from .spec import Spec",
        "from ..errors import ShapeError",
        "from gradtape.ir.spec import Spec",
        "if TYPE_CHECKING:\n    from gradtape.tensor.tensor import Tensor",
        "if typing.TYPE_CHECKING:\n    from gradtape.tensor.tensor import Tensor",
    ],
)
def test_right_direction_is_accepted(statement):
    assert not violations(statement, SOURCE / "ir" / "node.py", set(ALLOWED))


def public_names() -> dict[str, set[str]]:
    """The exports of gradtape and of all modules that can be reached through them."""
    found: dict[str, set[str]] = {"gradtape.config": {"*"}}

    def visit(module: ModuleType) -> None:
        found[module.__name__] = set(module.__all__)
        for name in module.__all__:
            inner = getattr(module, name)
            is_public = isinstance(inner, ModuleType) and hasattr(inner, "__all__")
            if is_public and inner.__name__ not in found:
                visit(inner)

    visit(gt)
    return found


def internal_imports(text: str, path: Path, public: dict[str, set[str]]) -> list[str]:
    """Imports of names of other rooms that these do not export to users."""
    own, wrong = f"gradtape.{place(path)}", []
    for line, name in imported_modules(text, path):
        module, _, last = name.rpartition(".")
        is_other = name.split(".")[0] == "gradtape" and not f"{name}.".startswith(f"{own}.")
        is_public = name in public or bool({last, "*"} & public.get(module, set()))
        if is_other and not is_public:
            wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    return wrong


def test_satellites_import_public_names_only():
    public = public_names()
    found: dict[str, list[str]] = {room: [] for room in SATELLITES}
    for path in SOURCES:
        if place(path) in found:
            found[place(path)] += internal_imports(path.read_text("utf-8"), path, public)
    for room, most in SATELLITES.items():
        assert len(found[room]) <= most, "\n".join(found[room])


def test_internal_import_is_found():
    path = SOURCE / "nn" / "layers.py"
    public = public_names()
    for text in (
        "from gradtape.ir.node import Node",
        "import gradtape.ir",
        "from ..ir import node",
    ):
        assert internal_imports(text, path, public), text
    for text in (
        "import gradtape as gt",
        "from gradtape.errors import ShapeError",
        "from gradtape import storage",
        "from gradtape.nn import activations",
    ):
        assert not internal_imports(text, path, public), text


def test_nothing_imports_the_distributed_room():
    importers = {
        place(path)
        for path in SOURCES
        for _, name in imported_modules(path.read_text(encoding="utf-8"), path)
        if name.startswith("gradtape.distributed")
    }
    assert importers <= {"distributed"}


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


def module_name(path: Path) -> str:
    parts = ("gradtape", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in SOURCES}


def module_graph() -> dict[str, set[str]]:
    """Each module and those that it imports when it is imported itself."""
    graph: dict[str, set[str]] = {}
    for path in SOURCES:
        own = module_name(path)
        names = imported_modules(path.read_text("utf-8"), path, enter_functions=False)
        # `from a.b import c`: the module a.b.c if there is one, else something in a.b.
        targets = (name if name in MODULES else name.rpartition(".")[0] for _, name in names)
        graph[own] = {target for target in targets if target in MODULES and target != own}
    return graph


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, or none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph[name]):
            if found := visit(target, [*path, name]):
                return found
        done.add(name)
        return []

    return next(filter(None, (visit(name, []) for name in sorted(graph))), [])


def test_no_modules_import_each_other():
    assert not find_cycle(module_graph())


def test_cycle_is_found():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def late_imports(text: str, path: Path) -> list[str]:
    """Imports inside functions that are not explained, or that load what need not be late."""
    lines = text.splitlines()
    early = imported_modules(text, path, enter_functions=False)
    late = Counter(imported_modules(text, path)) - Counter(early)
    numbers = sorted({number for number, _ in late})
    wrong = []
    for number in numbers:
        # One comment may explain a block of imports.
        first = number
        while first - 1 in numbers:
            first -= 1
        explained = "#" in lines[number - 1] or lines[first - 2].lstrip().startswith("#")
        targets = [name for at, name in late if at == number]
        ours = [name for name in targets if name.split(".")[0] == "gradtape"]
        if not explained or not all(name.startswith(MAY_BE_LATE) for name in ours):
            wrong.append(f"{path.relative_to(SOURCE)}:{number} {lines[number - 1].strip()}")
    return wrong


def test_late_imports_have_a_reason():
    wrong = [each for path in SOURCES for each in late_imports(path.read_text("utf-8"), path)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("    import scipy.linalg", 1),
        ("    import scipy.linalg  # slow to import", 0),
        (
            "    # Loads the compiler.\n    from gradtape.compiler import llvm",
            0,
        ),
        ("    # Both.\n    import scipy\n    from gradtape.compiler import llvm", 0),
        ("    # In a circle.\n    from gradtape.ir import spec", 1),
    ],
)
def test_late_import_is_found(body, count):
    text = f"import numpy\n\ndef f():\n{body}\n"
    assert len(late_imports(text, SOURCE / "runtime" / "tiers.py")) == count


def test_ops_that_importing_gradtape_loads_name_only_ops_that_it_declares():
    """`gt.median` failed in compiled programs until `gt.random` was used, which declared an op."""
    code = """
import re, sys
from pathlib import Path
import gradtape
from gradtape.ir import REGISTRY
loaded = [m.__file__ for m in list(sys.modules.values()) if m.__name__.startswith("gradtape.ops")]
texts = [Path(file).read_text() for file in loaded]
named = {name for text in texts for name in re.findall(r'REGISTRY\\["(\\w+)"\\]', text)}
assert len(named) > 20
print(sorted(named - REGISTRY.keys()))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr
