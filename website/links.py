"""Links, pictures and names in pages: written for the repository, translated for the site."""

from __future__ import annotations

import os
import re
from pathlib import Path

from website import reference

ROOT = Path(__file__).resolve().parents[1]
# Documents at the root of the repository that are pages of the site, too.
DOCUMENTS = {
    f"{name.upper()}.md": f"{name}.md"
    for name in ("changelog", "contributing", "releasing", "security", "code_of_conduct")
}
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
PICTURE = re.compile(r"^!\[(?P<text>[^\]]*)\]\((?P<file>[^)]+\.svg)\)$", re.M)
NAME = re.compile(r"(?<![\[`])`(?P<name>(?:gt|tf)\.[\w.]+)(?P<rest>\([^`\n]*\))?`(?![\]`])")


def with_pictures(markdown: str, folder: Path) -> str:
    """Drawings themselves in place of links to them."""
    return PICTURE.sub(lambda match: _picture(match, folder), markdown)


def rebased(text: str, source: str, page: str) -> str:
    """Links as they must be on the site: they are written for the repository."""

    def target(match: re.Match[str]) -> str:
        there = os.path.normpath((ROOT / source).parent / match["target"])
        name = Path(there).relative_to(ROOT).as_posix() if there.startswith(str(ROOT)) else ""
        if name == "README.md":
            found = "index.md"
        elif name in DOCUMENTS:
            found = DOCUMENTS[name]
        elif name.startswith("docs/"):
            found = name.removeprefix("docs/")
        elif name.startswith("examples/gallery"):
            found = f"gallery/{Path(name).stem}.md" if name.endswith(".py") else "gallery/index.md"
        else:
            return match[0]
        return os.path.relpath(found, Path(page).parent.as_posix()) + (match["anchor"] or "")

    return LINK.sub(target, text)


def _picture(match: re.Match[str], folder: Path) -> str:
    """The picture itself in place of a link, so that it has the colours of the page."""
    svg = (folder / match["file"]).read_text("utf-8")
    svg = svg[svg.index("<svg") :].strip().replace("<svg ", '<svg role="img" ', 1)
    start = f'<figure class="picture drawn" markdown="0" aria-label="{match["text"]}">'
    return f"{start}\n{svg}\n</figure>"


def linked_names(markdown: str, name: str) -> str:
    """`gt.sin` in text leads to its entry in the reference."""
    addresses = reference.addresses()
    up = os.path.relpath("reference", Path(name).parent.as_posix())

    def link(match: re.Match[str]) -> str:
        own = match["name"]
        if own not in addresses:
            return match[0]
        return f"[{match[0]}]({up}/{addresses[own]})"

    # Blocks of code, headings and the texts of links stay as they are.
    apart = r"(^ *```.*?^ *```[ \t]*$|^#[^\n]*$|\[[^\]\n]*\]\([^)\n]*\))"
    parts = re.split(apart, markdown, flags=re.M | re.S)
    return "".join(part if index % 2 else NAME.sub(link, part) for index, part in enumerate(parts))
