"""The code of docs/profiling.md runs as printed, and prints what the page shows."""

import contextlib
import io
import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "profiling.md"


def test_all_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    names: dict[str, object] = {"__name__": "document"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, "profiling.md", "exec"), names)
    assert (tmp_path / "report.html").exists()
    shown = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[-1]
    assert printed.getvalue().endswith(shown)
    advice = names["p"].advice
    assert all(each["sentence"] for each in advice)
