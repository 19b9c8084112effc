"""Documents name files that exist, and rooms that are there."""

import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    missing = [link for link in links if not (document.parent / link).exists()]
    assert not missing, f"{document.name} links to {missing}"


def test_architecture_describes_every_room():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = [path.parent.name for path in SOURCE.glob("*/__init__.py")]
    headings = re.findall(r"^## (\w+):", text, re.MULTILINE)
    missing = [room for room in rooms if room not in headings and f"`{room}/`" not in text]
    assert not missing, f"docs/architecture.md does not say what these rooms are for: {missing}"


@pytest.mark.parametrize("document", ["README.md", "docs/index.md", "docs/questions/index.md"])
def test_every_question_is_found_from_the_front(document):
    path = ROOT / document
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    found = {(path.parent / link).resolve() for link in links}
    pages = set((ROOT / "docs" / "questions").glob("*.md")) - {ROOT / "docs/questions/index.md"}
    assert len(pages) == 5
    assert not pages - found


def test_missing_file_is_found(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("See `graph/no_such_file.py` and `ir/node.py`.", "utf-8")
    assert [name for name in named_files(document) if not exists(name, document)] == [
        "graph/no_such_file.py"
    ]
