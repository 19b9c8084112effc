"""Files are named for what they hold, stay short and few in a folder, and name no machine."""

import ast
import re
import subprocess
import tomllib
import warnings
from pathlib import Path

import pytest

import gradtape

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "gradtape"

LONG = 500
TOO_LONG = 700

MODULES_AT_THE_ROOT = 22
MODULES_IN_A_FOLDER = 22

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "misc"}

# The licence names its own address, and so does a library that the report page is shipped with.
MAY_NAME_HOSTS = {"LICENSE", "src/gradtape/tools/page/assets/uPlot.iife.min.js"}
# Citations, pages of this project and the name space of drawings; no other host is named.
CITATIONS = (
    "doi.org/",
    "arxiv.org/",
    "github.com/gradtape/gradtape",
    "gradtape.github.io/",
    "w3.org/",
)
HOST = re.compile(
    r"https?:" + r"//(?!(?:www\.|dx\.)?(?:" + "|".join(map(re.escape, CITATIONS)) + "))"
)
HOME = re.compile(r"(?<![\w.])(?:/(?:home|root|Users)/|[A-Za-z]:\\Users\\)\w")


def tracked_files() -> list[Path]:
    """What is in the repository or about to be; without git, what the folders hold."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        output = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        folders = ("src", "tests", "benchmarks", "docs", "examples")
        found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
        found = [path for path in found if "__pycache__" not in path.parts]
        found += ROOT.iterdir()
    else:
        found = [ROOT / name for name in output.decode().split("\0") if name]
    return sorted(path for path in found if path.is_file())


def text_files() -> list[tuple[str, str]]:
    """Path from the root, and text; files that are not text are left out."""
    found = []
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" not in content:
            name = path.relative_to(ROOT).as_posix()
            found.append((name, content.decode("utf-8", errors="replace")))
    return found


def lines_matching(pattern: re.Pattern[str], skip: set[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in text_files()
        if name not in skip
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_names_say_what_files_hold():
    vague = [
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if VAGUE_NAMES
        & {part.partition(".")[0].strip("_") for part in path.relative_to(ROOT).parts}
    ]
    assert not vague, f"name these for what they hold: {vague}"


# Long files are listed in the summary of the run; only too long ones fail.
@pytest.mark.filterwarnings("always:long files:UserWarning")
def test_files_are_short():
    lengths = {name: len(text.splitlines()) for name, text in text_files() if name.endswith(".py")}
    long = {name: count for name, count in lengths.items() if count > LONG}
    if long:
        listing = ", ".join(f"{name} ({count})" for name, count in long.items())
        warnings.warn(f"long files, over {LONG} lines: {listing}", stacklevel=1)
    too_long = {name: count for name, count in long.items() if count > TOO_LONG}
    assert not too_long, f"split these, over {TOO_LONG} lines: {too_long}"


def modules_by_folder() -> dict[str, list[str]]:
    """The modules directly in each folder; `__init__` counts at the root only."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        folder = path.parent.relative_to(SOURCE).as_posix()
        if folder == "." or path.name != "__init__.py":
            found.setdefault(folder, []).append(path.stem)
    return found


def test_few_modules_lie_at_the_root():
    names = modules_by_folder()["."]
    assert len(names) <= MODULES_AT_THE_ROOT, f"give some of these a folder: {names}"


def test_no_folder_is_crowded():
    crowded = {
        folder: len(names)
        for folder, names in modules_by_folder().items()
        if len(names) > MODULES_IN_A_FOLDER
    }
    assert not crowded, f"divide these into folders by subject: {crowded}"


FOLDERS = sorted(
    path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.glob("*/**/__init__.py")
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder_says_its_job_and_its_door(folder):
    text = (SOURCE / folder / "__init__.py").read_text("utf-8")
    document = ast.get_docstring(ast.parse(text)) or ""
    assert document, f"{folder}/__init__.py has no docstring"
    lines = [line for line in document.splitlines() if line.strip()]
    assert len(lines) > 1, f"{folder}/__init__.py does not say what others import from it"


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = project["version"]
    assert gradtape.__version__ == version
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", headings[1])


def test_no_hosts():
    found = lines_matching(HOST, MAY_NAME_HOSTS)
    assert not found, "\n".join(found)


def test_no_home_folders():
    found = lines_matching(HOME, set())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", ["/home/" + "ann/x", '"/Users/' + 'ann"', "C:\\Users\\" + "ann"])
def test_home_folder_is_found(path):
    assert HOME.search(path)


@pytest.mark.parametrize("path", ["docs/home/index", "./root/x", "x / home / y"])
def test_other_path_is_accepted(path):
    assert not HOME.search(path)


@pytest.mark.parametrize("address", ["http:" + "//localhost", "https:" + "//example.com/doi.org/"])
def test_host_is_found(address):
    assert HOST.search(address)


@pytest.mark.parametrize("address", ["doi.org/10.1137/1", "www.arxiv.org/abs/1", "arxiv.org/abs/1"])
def test_citation_is_accepted(address):
    assert not HOST.search("https:" + "//" + address)


def test_constants_of_the_configuration_are_defined_once():
    """The second of two constants with one name would also change what reads the first."""
    names = re.findall(r"(?m)^([A-Z][A-Z0-9_]*)\b.* = ", (SOURCE / "config.py").read_text())
    assert sorted(set(names)) == sorted(names)
    assert len(names) > 100
