"""Scripts with cells (`# %%`, `# %% [markdown]`) as pages with what they print and draw."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from website.code_blocks import Shown, run_cells

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "gallery"
MARK = re.compile(r"^# %%(.*)$", re.M)


@dataclass(frozen=True)
class Cell:
    """A piece of text or of code, and the number of its first line."""

    kind: str
    text: str
    line: int


def scripts() -> list[Path]:
    """The scripts of the gallery, in the order of their names."""
    return sorted(FOLDER.glob("*.py"))


def cells_of(text: str) -> list[Cell]:
    """The cells of a script. Text has lost the `# ` in front of its lines."""
    marks = list(MARK.finditer(text))
    found = []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        body = text[mark.end() + 1 : following.start() if following else len(text)]
        line = text.count("\n", 0, mark.end()) + 2
        if "[markdown]" in mark[1]:
            plain = [re.sub(r"^# ?", "", line) for line in body.strip().splitlines()]
            found.append(Cell("markdown", "\n".join(plain), line))
        elif body.strip():
            found.append(Cell("code", body.rstrip() + "\n", line))
    return found


def title_of(text: str) -> str:
    """The heading of the first cell."""
    return re.search(r"^# # (.*)$", text, re.M)[1]


def summary_of(text: str) -> str:
    """The first sentence after the heading."""
    first = cells_of(text)[0].text.partition("\n\n")[2].partition("\n\n")[0]
    return re.split(r"(?<=\.)\s", " ".join(first.split()))[0]


def run_script(path: Path) -> list[Shown]:
    """Run a script cell by cell."""
    code = [
        (cell.text, cell.line) for cell in cells_of(path.read_text("utf-8")) if cell.kind == "code"
    ]
    return run_cells(path, code)


def page_of(path: Path, shown: list[Shown]) -> str:
    """The page of a script, with what each of its cells has shown."""
    parts = []
    remaining = iter(shown)
    for cell in cells_of(path.read_text("utf-8")):
        if cell.kind == "markdown":
            parts.append(cell.text)
        else:
            parts.append(f"```python\n{cell.text.strip()}\n```")
            parts.append(markdown_of(next(remaining)))
    parts.append(f"The script: `{path.relative_to(ROOT).as_posix()}`.")
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_of(shown: Shown) -> str:
    """What a block has shown, as Markdown that stands below it."""
    parts = []
    if shown.text.strip():
        parts.append(f"```{{ .text .printed }}\n{shown.text.rstrip()}\n```")
    parts += [
        f'<figure class="picture" markdown="0">\n{figure}\n</figure>' for figure in shown.figures
    ]
    return "\n\n".join(parts)


def index_page(names: list[Path]) -> str:
    """The list of all examples."""
    rows = "\n".join(
        f"| [{title_of(text)}]({path.stem}.md) | {summary_of(text)} |"
        for path in names
        for text in [path.read_text("utf-8")]
    )
    return f"""# Gallery

Each page is a script of `examples/gallery/` with what it printed and drew when this site was built.
The tests run all of them.

| example | shows |
|---|---|
{rows}
"""
