"""Scripts with cells (`# %%`, `# %% [markdown]`) as pages with what they print and draw."""

from __future__ import annotations

import json
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
    name = path.relative_to(ROOT).as_posix()
    parts.append(
        f"---\n\nRun it: `python {name}` (it needs `pip install 'gradtape[plot]'`), or "
        f"[download it as a notebook]({path.stem}.ipynb)."
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def notebook_of(path: Path) -> str:
    """The script as a Jupyter notebook, without results."""
    cells: list[dict[str, object]] = []
    for cell in cells_of(path.read_text("utf-8")):
        lines = cell.text.strip("\n").splitlines(keepends=True)
        extra = {"execution_count": None, "outputs": []} if cell.kind == "code" else {}
        cells.append(
            {"cell_type": cell.kind, "id": f"c{len(cells)}", "metadata": {}, "source": lines}
            | extra
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def markdown_of(shown: Shown) -> str:
    """What a block has shown, as Markdown that stands below it."""
    parts = []
    if shown.text.strip():
        parts.append(f"```{{ .text .printed }}\n{shown.text.rstrip()}\n```")
    parts += [
        f'<figure class="picture" markdown="0">\n{figure}\n</figure>' for figure in shown.figures
    ]
    return "\n\n".join(parts)


def index_page(shown: dict[Path, list[Shown]]) -> str:
    """All examples as cards with their last figure."""
    cards = []
    for path, results in shown.items():
        text = path.read_text("utf-8")
        figures = [figure for one in results for figure in one.figures]
        picture = (
            f'<div class="thumbnail" aria-hidden="true">\n{figures[-1]}\n</div>' if figures else ""
        )
        cards.append(
            f'<a class="card" href="{path.stem}.html" markdown="0">\n{picture}\n'
            f"<strong>{title_of(text)}</strong>\n<span>{summary_of(text)}</span>\n</a>"
        )
    listed = "\n".join(cards)
    return f"""# Gallery

Each page is a script of `examples/gallery/` with what it printed and drew when this site was built.
The tests run all of them; each can be downloaded as a notebook.

<div class="gallery" markdown="0">
{listed}
</div>
"""
