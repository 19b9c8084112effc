"""The code that pages and scripts print: find it, run it as printed, and keep what it shows.

A page of Markdown is run from top to bottom in one namespace. A block of Python is left out only
if the line before it says why: `<!-- not run: an excerpt of a source file -->`. What a block prints
is compared with the block of kind `output` that follows it, if there is one; `...` stands for
anything, as in doctest.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ \t]*$", re.M | re.S
)
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>\S[^\n]*?) -->\s*\Z")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Text and lines of figures have this colour, which becomes the colour of the page's text.
INK = "#010203"


@dataclass(frozen=True)
class Block:
    """One fenced block of a page: its kind, its text, and where its first line is."""

    kind: str
    code: str
    line: int
    end: int
    reason: str | None = None

    @property
    def runs(self) -> bool:
        return self.kind == "python" and self.reason is None


@dataclass
class Shown:
    """What one block printed, and the figures it left open, as SVG."""

    text: str = ""
    figures: list[str] = field(default_factory=list)


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = []
    for match in FENCE.finditer(text):
        reason = NOT_RUN.search(text[: match.start()])
        found.append(
            Block(
                match["kind"].strip(),
                textwrap.dedent(match["body"]),
                text.count("\n", 0, match.start("body")) + 1,
                match.end(),
                reason["reason"] if reason else None,
            )
        )
    return found


def expected_output(blocks: list[Block], index: int) -> str | None:
    """The text of the `output` block right after block number `index`, or None."""
    following = blocks[index + 1 : index + 2]
    return following[0].code if following and following[0].kind == "output" else None


def run_page(path: Path) -> dict[int, Shown]:
    """Run all blocks of a page; what each printed and drew, by its number."""
    blocks = blocks_of(path.read_text("utf-8"))
    names = _namespace(path)
    shown: dict[int, Shown] = {}
    for index, block in enumerate(blocks):
        if not block.runs:
            continue
        shown[index] = run(block.code, block.line, path, names)
        expected = expected_output(blocks, index)
        if expected is not None and not doctest.OutputChecker().check_output(
            expected, shown[index].text, OPTIONS
        ):
            raise AssertionError(
                f"{path.name}:{block.line} prints\n{shown[index].text}\nand not\n{expected}"
            )
    return shown


def run_cells(path: Path, cells: Iterable[tuple[str, int]]) -> list[Shown]:
    """Run pieces of code, each with the number of its first line, in one namespace."""
    names = _namespace(path)
    return [run(code, line, path, names) for code, line in cells]


def run(code: str, line: int, path: Path, names: dict[str, object]) -> Shown:
    """Run one piece of code as if it stood at this line of the file."""
    printed = io.StringIO()
    # Empty lines before it, so that tracebacks and messages name the line of the page.
    source = "\n" * (line - 1) + code
    with contextlib.redirect_stdout(printed), _figures() as figures:
        exec(compile(source, str(path), "exec", dont_inherit=True), names)
        figures.extend(_drawn())
    return Shown(printed.getvalue(), figures)


def _namespace(path: Path) -> dict[str, object]:
    return {"__name__": f"page_{path.stem}", "__file__": str(path)}


@contextlib.contextmanager
def _figures() -> Iterator[list[str]]:
    """Figures go to memory and not to a screen, and leave nothing behind after an error."""
    try:
        import matplotlib  # optional: only pages with figures need it
    except ImportError:
        yield []
        return
    matplotlib.use("agg")
    matplotlib.rcParams.update(STYLE)
    try:
        with warnings.catch_warnings():
            # `plt.show()` at the end of a script: here the figure becomes part of the page.
            warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
            yield []
    finally:
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def _drawn() -> Iterator[str]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        file = io.StringIO()
        pyplot.figure(number).savefig(file, format="svg", bbox_inches="tight", transparent=True)
        text = file.getvalue()
        # Without the XML declaration it can stand in a page; empty lines would end it there.
        text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
        yield re.sub(r"\n\s*\n", "\n", text).replace(INK, "currentColor")


STYLE = {
    "figure.figsize": (6.4, 3.4),
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    # Letters stay letters: smaller, and the page's own font.
    "svg.fonttype": "none",
    "svg.hashsalt": "gradtape",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.prop_cycle": "cycler('color', ['#3d7dd8', '#e07b39', '#2f9e63', '#c2497a', '#8a63c9'])",
}
