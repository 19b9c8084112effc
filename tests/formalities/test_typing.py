"""What type checkers make of a user's program: tensors come back, and wrong calls are refused."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("typed_user.py")
LINES = PROGRAM.read_text("utf-8").splitlines()
EXPECTED = {
    number: found.group(1)
    for number, line in enumerate(LINES, start=1)
    if (found := re.search(r"  # expect: (.*)$", line))
}
ERRORS = {number for number, line in enumerate(LINES, start=1) if line.endswith("  # error")}

# Findings of a type checker: the line to the type that it reveals, and the lines that it refuses.
Findings = tuple[dict[int, str], dict[int, str]]


def simple(text: str) -> str:
    """A type without the modules of its parts: `gradtape.tensor.tensor.Tensor` is `Tensor`."""
    text = re.sub(r"builtins\.", "", text)
    return re.sub(r"\bgradtape\.[\w.]*\.(\w+)", r"\1", text)


def run_mypy() -> Findings:
    # The project's settings and cache: after `make types` only the program itself is checked.
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--output=json", str(PROGRAM)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode in (0, 1), result.stderr
    revealed: dict[int, str] = {}
    refused: dict[int, str] = {}
    for finding in map(json.loads, result.stdout.splitlines()):
        if Path(finding["file"]).name != PROGRAM.name:
            continue
        if found := re.search(r'Revealed type is "(.*)"', finding["message"]):
            revealed[finding["line"]] = simple(found.group(1))
        elif finding["severity"] == "error":
            refused[finding["line"]] = finding["message"]
    return revealed, refused


def run_pyright(folder: Path) -> Findings:
    # The rules of pyright itself: its strict mode also refuses unused expressions and the like.
    settings = {
        "typeCheckingMode": "standard",
        "include": [str(PROGRAM)],
        "extraPaths": [str(ROOT / "src")],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    result = subprocess.run(
        [sys.executable, *command, "--project", folder], capture_output=True, text=True
    )
    revealed: dict[int, str] = {}
    refused: dict[int, str] = {}
    for finding in json.loads(result.stdout)["generalDiagnostics"]:
        line = finding["range"]["start"]["line"] + 1
        if found := re.search(r'^Type of ".*" is "(.*)"$', finding["message"], re.DOTALL):
            revealed[line] = simple(found.group(1))
        elif finding["severity"] == "error":
            refused[line] = finding["message"]
    return revealed, refused


@pytest.fixture(scope="module", params=["mypy", "basedpyright"])
def findings(request, tmp_path_factory) -> Findings:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: `make test-full` installs it")
    if request.param == "mypy":
        return run_mypy()
    return run_pyright(tmp_path_factory.mktemp("pyright"))


def test_types_are_revealed(findings):
    wrong = [
        f"{number}: {LINES[number - 1]}  got {findings[0].get(number)}"
        for number, expected in EXPECTED.items()
        if findings[0].get(number) != expected
    ]
    assert not wrong, "\n".join(wrong)


def test_wrong_calls_are_refused(findings):
    accepted = [f"{number}: {LINES[number - 1]}" for number in sorted(ERRORS - set(findings[1]))]
    assert not accepted, "\n".join(accepted)


def test_right_calls_are_accepted(findings):
    refused = [
        f"{number}: {LINES[number - 1]}  {message}"
        for number, message in findings[1].items()
        if number not in ERRORS
    ]
    assert not refused, "\n".join(refused)
