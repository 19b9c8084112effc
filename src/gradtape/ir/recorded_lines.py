"""Recorded lines: which line of the user's made a node, and for which derivative.

Of ops with very large results the latest lines are always remembered, as text for errors. All lines
are noted for profiles: only while somebody listens, and only where a node is new. A node that is
found in the table of a thread costs nothing. Passes make new nodes from old ones; while `following`
is on, as when a report is written, new nodes get the lines of those that they replace.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape.ir.frames import current_line
from gradtape.ir.lines import is_between, user_line
from gradtape.records import dataclass

if TYPE_CHECKING:
    from gradtape.ir.node import Node

# Nodes beyond this many are not noted: a program that makes so many repeats nothing.
MOST = 1 << 17
# Results of this many bytes are very large; the lines of so many are remembered.
LARGE = 1 << 32
MOST_LARGE = 1024


class Place(NamedTuple):
    """A line of the user's code, and the function that it is in."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Recorded:
    """Where a node comes from."""

    place: Place | None
    # Whether it belongs to a derivative; the line is then that of the op it is a derivative of.
    backward: bool = False


class _Lines:
    """The notes. A slot each, because `noting` is read for every new node."""

    __slots__ = ("following", "found", "noting")

    def __init__(self) -> None:
        self.noting = False
        self.following = False
        self.found: dict[Node, Recorded] = {}


LINES = _Lines()


# Places and verdicts by the id of the code, which is kept: code objects are slow to hash.
_places: dict[tuple[int, int], tuple[CodeType, Place]] = {}
_library: dict[int, tuple[CodeType, bool]] = {}
_MOST_CODES = 10_000


def user_place(depth: int = 1) -> Place | None:
    """The innermost line that is not the library's own."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None:
        if not is_library(frame):
            return place_of(frame.f_code, current_line(frame))
        frame = frame.f_back
    return None


def place_of(code: CodeType, line: int) -> Place:
    """A line of a function's code."""
    found = _places.get((id(code), line))
    if found is None:
        if len(_places) > _MOST_CODES:
            _places.clear()
        place = Place(code.co_filename, line, code.co_qualname)
        found = _places[id(code), line] = code, place
    return found[1]


@functools.cache
def _installed() -> tuple[str, ...]:
    """Files of Python and of installed packages: none of them is the user's program."""
    # Its tables take longer to load than this module.
    import sysconfig

    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return *folders, "<frozen "


def is_library(frame: FrameType) -> bool:
    """Whether a frame is the library's, Python's own, or that of an installed package."""
    code = frame.f_code
    found = _library.get(id(code))
    if found is None:
        if len(_library) > _MOST_CODES:
            _library.clear()
        installed = code.co_filename.startswith(_installed())
        # Generated code, such as the methods of a dataclass; `python -c` runs as __main__.
        generated = code.co_filename == "<string>" and frame.f_globals.get("__name__") != "__main__"
        installed = installed or generated
        found = _library[id(code)] = code, installed or is_between(frame)
    return found[1]


def note_lines(on: bool) -> None:
    """Note the lines of new nodes from now on, or stop and forget them."""
    LINES.noting, LINES.found = on, {}


@contextlib.contextmanager
def following_passes() -> Iterator[None]:
    """Let nodes that passes make have the lines of those that they replace, for a while."""
    known = dict(LINES.found)
    LINES.following = True
    try:
        yield
    finally:
        LINES.following = False
        LINES.found = known


def note(node: Node, deriving: Node | None) -> None:
    """Note the user's current line as that of a new node, which may belong to a derivative."""
    if LINES.following or len(LINES.found) >= MOST:
        return
    if deriving is None:
        LINES.found[node] = Recorded(user_place(2))
    else:
        origin = LINES.found.get(deriving)
        LINES.found[node] = Recorded(None if origin is None else origin.place, backward=True)


def follow(old: Node, new: Node) -> None:
    """Give a node that replaces another the same line."""
    found = LINES.found.get(old)
    if found is not None:
        LINES.found.setdefault(new, found)


# By id of the node.
_large: OrderedDict[int, tuple[weakref.ref[Node], str]] = OrderedDict()


def is_large(of: Any) -> bool:
    """Whether a result of this spec is very large; one of several results never counts as that."""
    return type(of) is not tuple and of.nbytes >= LARGE


def note_line(node: Node, deriving: Node | None = None) -> Node:
    """Remember which line made a node, if its result is very large; returns the node.

    A profile remembers the lines of all, and the node whose derivative the new one is part of.
    """
    if LINES.noting:
        note(node, deriving)
    if is_large(node.spec):
        _large[id(node)] = weakref.ref(node), user_line()
        if len(_large) > MOST_LARGE:
            _large.popitem(last=False)
    return node


def line_of(node: Node) -> str | None:
    """The line that made a node with a very large result, if that is remembered."""
    reference, line = _large.get(id(node), (None, None))
    return line if reference is not None and reference() is node else None
