"""What mkdocs calls while it builds the site."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# mkdocs loads this file by its path.
for _folder in (ROOT / "src", ROOT):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from benchmarks import figures  # noqa: E402
from website import code_blocks, gallery, links, name_pages, reference, show  # noqa: E402

DOCS = ROOT / "docs"
RESULTS = re.compile(r"<!-- results of (?P<group>\w+) -->")
CLAIM = re.compile(r"<!-- figure: (?P<claim>\w+) -->")


def on_config(config: Any) -> Any:
    """Leave out of the navigation what is not written yet, and add pages that it does not name."""
    config.nav = _existing(config.nav)
    named = set(_pages(config.nav))
    guide = next(entry["Guide"] for entry in config.nav if "Guide" in entry)
    guide += sorted(path.name for path in DOCS.glob("*.md") if path.name not in named)
    return config


def _pages(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for inner in entry.values() if isinstance(entry, dict) else [entry]:
            yield from _pages(inner) if isinstance(inner, list) else [inner]


def _existing(entries: list[Any]) -> list[Any]:
    kept = []
    for entry in entries:
        ((title, inner),) = entry.items() if isinstance(entry, dict) else ((None, entry),)
        if inner == "gallery":
            pages = [f"gallery/{path.stem}.md" for path in gallery.scripts()]
            kept.append({title: ["gallery/index.md", *pages]})
        elif isinstance(inner, list):
            kept.append({title: _existing(inner)})
        elif (DOCS / inner).exists() or inner in links.DOCUMENTS.values():
            kept.append(entry)
    return kept


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made of scripts and of documents at the root."""
    scripts = gallery.scripts()
    shown = {path: [one for _, one in sorted(show.shown_by(path).items())] for path in scripts}
    pages = {"gallery/index.md": gallery.index_page(shown)}
    for path, results in shown.items():
        pages[f"gallery/{path.stem}.md"] = gallery.page_of(path, results)
        pages[f"gallery/{path.stem}.ipynb"] = gallery.notebook_of(path)
    pages.update(name_pages.pages())
    for name, page in links.DOCUMENTS.items():
        text = (ROOT / name).read_text("utf-8")
        pages[page] = links.rebased(text, name, page)
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill in entries of the reference, figures, pictures and links."""
    name = page.file.src_uri
    path = DOCS / name
    for begin, boost in name_pages.BOOST_OF_OTHERS.items():
        if name.startswith(begin):
            page.meta["search"] = {"boost": boost}
    if path.parent.name == "reference":
        markdown = reference.fill(markdown, path.name)
    markdown = _with_results(markdown)
    if path.exists() and "plt." in markdown:
        markdown = _with_figures(markdown, path)
    if path.exists():
        markdown = links.rebased(markdown, f"docs/{name}", name)
    markdown = links.with_pictures(markdown, path.parent)
    if not name.startswith("reference/") and name not in ("changelog.md",):
        markdown = links.linked_names(markdown, name)
    markdown = re.sub(r"^( *)```output$", r"\1```{ .text .printed }", markdown, flags=re.M)
    return re.sub(r"^<!-- not run: .*? -->\n", "", markdown, flags=re.M)


def _with_results(markdown: str) -> str:
    """Tables and figures of the committed benchmarks in place of their names."""
    markdown = RESULTS.sub(lambda match: figures.table(match["group"]), markdown)
    return CLAIM.sub(lambda match: figures.claims()[match["claim"]], markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Take our own script where the theme would load one from the network."""
    return _without_network(output, "../" * page.file.dest_uri.count("/"))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for the page that says that there is no such page."""
    return _without_network(output_content, "")


def _without_network(text: str, up: str) -> str:
    own = f'<script src="{up}worker_from_disk.js"></script>'
    return re.sub(r'<script src="https?:[^"]*/iframe-worker/shim"></script>', own, text)


def _with_figures(markdown: str, path: Path) -> str:
    """Below each block what it printed and drew just now, where the page does not print it."""
    blocks, shown = code_blocks.blocks_of(markdown), show.shown_by(path)
    for index in reversed(range(len(blocks))):
        if index not in shown:
            continue
        one = shown[index]
        if code_blocks.expected_output(blocks, index) is not None:
            one = code_blocks.Shown("", one.figures)
        end = blocks[index].end
        below = gallery.markdown_of(one)
        if below:
            markdown = f"{markdown[:end]}\n\n{below}\n{markdown[end:]}"
    return markdown
