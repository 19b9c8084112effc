"""Every block of Python in README and docs runs exactly as it is printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from website.code_blocks import blocks_of, run_page

import gradtape as gt

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in DOCUMENTS if any(b.runs for b in blocks_of(page.read_text("utf-8")))]

# Kinds of blocks that are no Python.
OTHER_KINDS = {"", "console", "output", "text", "toml"}


def declares_ops(text: str) -> bool:
    return any(word in text for word in ("declare(", "gt.extend.op(", "gt.extend.elementwise("))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(autouse=True)
def settings():
    """A page may change the default dtype or begin a graph of TensorFlow 1."""
    dtype = gt.default_dtype()
    yield
    gt.set_default_dtype(dtype)
    gt.tf.compat.v1.enable_eager_execution()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_runs_as_printed(page, tmp_path, monkeypatch):
    # Pages that write files write them there.
    monkeypatch.chdir(tmp_path)
    if declares_ops(page.read_text("utf-8")):
        # The registry of ops is one for the whole process, and other tests look at all of it.
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "website.show", page, tmp_path / "shown.json"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    else:
        run_page(page)


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_blocks_are_python_or_say_why_not(page):
    for block in blocks_of(page.read_text("utf-8")):
        where = f"{name_of(page)}:{block.line}"
        assert block.kind in OTHER_KINDS | {"python"}, (
            f"{where}: what is a block of {block.kind!r}?"
        )
        if block.kind != "python":
            assert "import " not in block.code, (
                f"{where}: is this Python? Then say so, and it runs."
            )


def test_readme_has_code():
    assert ROOT / "README.md" in PAGES


def page(folder, text):
    path = folder / "page.md"
    path.write_text(text, "utf-8")
    return path


def test_blocks_share_names_and_outputs_are_compared(tmp_path):
    text = "```python\nx = 2\n```\n\n```python\nprint(x + 1)\n```\n\n```output\n3\n```\n"
    assert run_page(page(tmp_path, text))[1].text == "3\n"
    with pytest.raises(AssertionError, match=r"page\.md:6 prints"):
        run_page(page(tmp_path, text.replace("```output\n3", "```output\n4")))


def test_errors_name_the_line_of_the_page(tmp_path):
    path = page(tmp_path, "# Title\n\n```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as failure:
        run_page(path)
    last = failure.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 5)


def test_a_block_is_left_out_only_with_a_reason(tmp_path):
    with_reason = "<!-- not run: it needs a terminal -->\n```python\nraise SystemError\n```\n"
    assert run_page(page(tmp_path, with_reason)) == {}
    for comment in ("<!-- not run -->", "<!-- not run: -->", "Text."):
        with pytest.raises(SystemError):
            run_page(page(tmp_path, f"{comment}\n```python\nraise SystemError\n```\n"))


def test_indented_blocks_run(tmp_path):
    found = run_page(page(tmp_path, '=== "tab"\n\n    ```python\n    print(7)\n    ```\n'))
    assert found[0].text == "7\n"
