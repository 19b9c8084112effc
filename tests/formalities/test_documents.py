"""Documents name files that exist, and rooms that are there."""

import ast
import re
from pathlib import Path

import pytest
from benchmarks.figures import with_claims

import gradtape as gt

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "gradtape"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

# `ops/families/shapes.py`, `docs/glossary.md`; not `name.py` alone, nor `workloads/name.py`.
PATH = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|md))(?:::\w+)?`")
# Names that a document makes up as an example.
EXAMPLES = {"benchmarks/workloads/name.py"}


def named_files(document: Path) -> list[str]:
    text = document.read_text("utf-8")
    # A decision that another has replaced tells of files that are gone.
    if re.search(r"^Replaced by \[", text, re.MULTILINE):
        return []
    return [name for name in PATH.findall(text) if name not in EXAMPLES]


def exists(name: str, document: Path) -> bool:
    return any((base / name).exists() for base in (ROOT, SOURCE, document.parent))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_named_files_exist(document):
    missing = [name for name in named_files(document) if not exists(name, document)]
    assert not missing, f"{document.name} names files that are not there: {missing}"


# Files of this repository by their address, as in README, which is shown outside of a checkout too.
ADDRESS = re.compile(r"https:" + r"//github\.com/gradtape/gradtape/(?:blob|raw)/main/([^)#\"\s]+)")


def linked_files(document: Path) -> set[Path]:
    """The files that a document links to, by relative paths or by their addresses."""
    text = document.read_text("utf-8")
    relative = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    return {(document.parent / link).resolve() for link in relative} | {
        ROOT / link for link in ADDRESS.findall(text)
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    missing = [str(path) for path in linked_files(document) if not path.exists()]
    assert not missing, f"{document.name} links to {missing}"


def test_readme_has_no_relative_links():
    text = (ROOT / "README.md").read_text("utf-8")
    assert not re.findall(r"\]\((?!https:|#)[^)]*\)", text)


def test_readme_has_the_figures_of_the_committed_results():
    text = (ROOT / "README.md").read_text("utf-8")
    assert with_claims(text) == text, "run `make figures`"


def test_architecture_describes_every_room():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    headings = re.findall(r"^## (\w+):", text, re.MULTILINE)
    missing = [room for room in rooms if room not in headings and f"`{room}/`" not in text]
    assert not missing, f"docs/architecture.md does not say what these rooms are for: {missing}"


@pytest.mark.parametrize("document", ["README.md", "docs/index.md", "docs/questions/index.md"])
def test_every_question_is_found_from_the_front(document):
    path = ROOT / document
    found = linked_files(path)
    pages = set((ROOT / "docs" / "questions").glob("*.md")) - {ROOT / "docs/questions/index.md"}
    assert len(pages) == 5
    assert not pages - found


def test_missing_file_is_found(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("See `graph/no_such_file.py` and `ir/node.py`.", "utf-8")
    assert [name for name in named_files(document) if not exists(name, document)] == [
        "graph/no_such_file.py"
    ]


# `gradtape.ir.node`, `compiler.lower.arena`: modules as documents and docstrings name them.
ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
# Rooms whose names are also words of user code: `tape.gradient`, `training.step`.
WORDS = {"distributed", "nn", "optimizers", "tape", "tensor", "tf", "training"}
MODULE = re.compile(
    rf"\bgradtape((?:\.\w+)+)|`((?:{'|'.join(set(ROOMS) - WORDS)})(?:\.\w+)+)(?:\(\))?`"
)
PY_FILE = re.compile(r"(?<![\w*/])((?:[\w.-]+/)+\w+\.py)\b")


def docstrings(path: Path) -> str:
    """The docstrings and comments of a module, one after the other."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(item) or "" for item in ast.walk(tree) if isinstance(item, nodes)]
    return "\n".join([*found, *re.findall(r"^\s*#.*$", text, re.MULTILINE)])


def is_module(dotted: str) -> bool:
    """Whether a dotted name is a module, something in it, or something public."""
    place, parts = SOURCE, dotted.split(".")
    if parts[0] not in ROOMS:
        return parts[0] in gt.__all__ or (SOURCE / f"{parts[0]}.py").exists()
    while parts and (place / parts[0]).is_dir():
        place, parts = place / parts[0], parts[1:]
    if not parts:
        return True
    for module in (place / f"{parts[0]}.py", place / "__init__.py"):
        if module.exists():
            rest = parts[1:] if module.stem != "__init__" else parts
            text = module.read_text("utf-8")
            if not rest or re.search(rf"\b{rest[0]}\b", text):
                return True
    return False


def wrong_modules(text: str) -> list[str]:
    named = [(first or second).strip(".") for first, second in MODULE.findall(text)]
    return sorted({name for name in named if not is_module(name)})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_named_modules_exist(document):
    text = document.read_text("utf-8")
    if re.search(r"^Replaced by \[", text, re.MULTILINE) or document.name == "CHANGELOG.md":
        return
    assert not wrong_modules(text)


def test_docstrings_name_modules_that_exist():
    wrong = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = docstrings(path)
        bases = (ROOT, SOURCE, SOURCE / "ops", *path.parents)
        found = wrong_modules(text) + [
            name
            for name in PY_FILE.findall(text)
            if not any((base / name).exists() for base in bases)
        ]
        if found:
            wrong[path.relative_to(SOURCE).as_posix()] = found
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_wrong_module_is_found():
    text = "See gradtape.graph.node, gradtape.ir.node and `compiler.emit.nothing`."
    assert wrong_modules(text) == ["compiler.emit.nothing", "graph.node"]
