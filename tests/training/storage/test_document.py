"""docs/saving.md: all its examples run, one after the other."""

import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "saving.md"


def test_examples_run(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```python\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) > 6
    names: dict[str, object] = {"__name__": "saving"}
    for block in blocks:
        exec(compile(block, DOCUMENT.name, "exec"), names)
    names["checkpoints"].close()
