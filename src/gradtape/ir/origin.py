"""Origins: the user's line of an op, for errors, profiles and debugging.

- `user_line`, `user_place` and `warn` find the innermost line that is not the library's own.
- `mark` attaches to an error the node that raised it.
- `line_of` gives the line of a node with a very large result; the latest of these are always kept.
- A profile notes the line of every new node (`LINES`), and of the node that it is a derivative of.
  A node that is found in the table of a thread costs nothing. Passes make new nodes from old ones;
  while `following` is on, as when a report is written, these get the lines of those they replace.
- A debugger notes into a `Provenance` of its own, in one thread.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape.config import (
    LARGE_RESULT_BYTES,
    MOST_NOTED_NODES,
    REMEMBERED_CODES,
    REMEMBERED_LARGE_RESULTS,
)
from gradtape.display import shown_file
from gradtape.records import dataclass

if TYPE_CHECKING:
    from gradtape.ir.node import Node


def current_line(frame: FrameType) -> int:
    """The number of the line that a frame executes.

    Python gives none for instructions that its compiler has added, such as at the end of a `with`
    statement: then it is the line of the instructions before them.
    """
    # typeshed has an int here, and CPython documents that it may be None.
    line: int | None = frame.f_lineno
    if line is not None:
        return line
    code = frame.f_code
    before = [line for begin, _, line in code.co_lines() if begin <= frame.f_lasti and line]
    return before[-1] if before else code.co_firstlineno


def _outside(frame: FrameType | None, ours: Callable[[FrameType], bool]) -> FrameType | None:
    """The innermost frame that is not `ours`, from a frame outwards."""
    while frame is not None and ours(frame):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """The innermost line that is not the library's own, as `file:line`."""
    frame = _outside(sys._getframe(1), is_between)
    return "unknown" if frame is None else shown_line(frame.f_code, current_line(frame))


def shown_line(code: CodeType, line: int | None = None) -> str:
    """A line of some code as `file:line`, or as `cell 4:line`; by default its first line."""
    return f"{shown_file(code.co_filename)}:{code.co_firstlineno if line is None else line}"


# Modules that only call the user's function or ours: context managers, partial functions, copies.
_BETWEEN = frozenset({"contextlib", "copy", "functools", "gradtape"})


def is_between(frame: FrameType) -> bool:
    """Whether a frame is the library's own, or lies between two of the library's frames."""
    module: str = frame.f_globals.get("__name__", "")
    return module.startswith(("gradtape.", "scipy.")) or module in _BETWEEN


def warn(message: str) -> None:
    """Issue a warning that points to the innermost line that is not the library's own.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     gt.libraries.warn("no gradient for w")
    >>> len(found)
    1
    """
    frame = _outside(sys._getframe(1), is_between)
    if frame is None:
        warnings.warn(message, stacklevel=2)
        return
    file, names = frame.f_code.co_filename, frame.f_globals
    shown = shown_file(file)
    if shown != file and file in linecache.cache:
        # The warning quotes the line of a cell that is found under the name of the cell.
        linecache.cache[shown] = linecache.cache[file]
    registry = names.setdefault("__warningregistry__", {})
    where = (shown, current_line(frame), names.get("__name__") or "<unknown>", registry)
    warnings.warn_explicit(message, UserWarning, *where)


def mark(error: BaseException, node: Node | None) -> None:
    """Attach to an error the node of a plan that raised it; inside a body, the innermost."""
    # Instances of some exception classes take no attributes.
    with contextlib.suppress(AttributeError, TypeError):
        if node is None or marked(error) is None:
            error.__gradtape_node__ = node  # type: ignore[attr-defined]


def marked(error: BaseException) -> Node | None:
    """The node that raised an error, if it is known."""
    return getattr(error, "__gradtape_node__", None)


class SourcePlace(NamedTuple):
    """A line of the user's code, and the function that it is in."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{shown_file(self.file)}:{self.line}"


@dataclass(frozen=True)
class Recorded:
    """The origin of a node."""

    place: SourcePlace | None
    # Whether it belongs to a derivative; the line is then that of the op it is a derivative of.
    backward: bool = False
    # The name of the innermost `named_scope` in which it, or what it is a derivative of, was made.
    scope: str | None = None


class _Lines:
    """The notes. A slot each, because `noting` is read for every new node."""

    __slots__ = ("following", "found", "noting")

    def __init__(self) -> None:
        self.noting = False
        self.following = False
        self.found: dict[Node, Recorded] = {}


LINES = _Lines()
_UNKNOWN = Recorded(None)


# Places and verdicts by the id of the code, which is kept: code objects are slow to hash.
_places: dict[tuple[int, int], tuple[CodeType, SourcePlace]] = {}
_library: dict[int, tuple[CodeType, bool]] = {}


def user_place(depth: int = 1) -> SourcePlace | None:
    """The innermost line that is not the library's own."""
    frame = _outside(sys._getframe(depth + 1), is_library)
    return None if frame is None else place_of(frame.f_code, current_line(frame))


def place_of(code: CodeType, line: int) -> SourcePlace:
    """A line of a function's code."""
    found = _places.get((id(code), line))
    if found is None:
        if len(_places) > REMEMBERED_CODES:
            _places.clear()
        place = SourcePlace(code.co_filename, line, code.co_qualname)
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
        if len(_library) > REMEMBERED_CODES:
            _library.clear()
        file = code.co_filename
        installed = file.startswith(_installed()) or f"{os.sep}site-packages{os.sep}" in file
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
    if LINES.following or len(LINES.found) >= MOST_NOTED_NODES:
        return
    if deriving is None:
        LINES.found[node] = Recorded(user_place(2), scope=_local.scope)
    else:
        origin = LINES.found.get(deriving, _UNKNOWN)
        LINES.found[node] = Recorded(origin.place, True, origin.scope)


def notes_scopes() -> bool:
    """Whether a profile runs, which notes the scope of each new op; see `named_scope`.

    >>> gt.libraries.notes_scopes()
    False
    """
    return LINES.noting


@contextlib.contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Give the ops that are recorded inside a name, by which a profile adds up their time.

    >>> with gt.profile() as p, gt.libraries.named_scope("encoder"):
    ...     y = gt.sin(gt.asarray([1.0])).numpy()
    >>> [row["name"] for row in p.data["layers"]]
    ['encoder']

    The innermost scope counts. Derivatives belong to the scope of the op that they are taken of.
    """
    before, _local.scope = _local.scope, name
    try:
        yield
    finally:
        _local.scope = before


def is_noting() -> bool:
    """Whether origins are noted, by a profile or by a debugger of this thread."""
    return LINES.noting or _local.current is not None


def follow(old: Node, new: Node, instead: bool = False) -> None:
    """Give a node that replaces another its origin; `instead` of the line that it has, if any."""
    found, noted = LINES.found.get(old), _local.current
    if instead:
        LINES.found.pop(new, None)
    if found is not None:
        LINES.found.setdefault(new, found)
    if noted is not None:
        noted.copy(old, new)


# By id of the node.
_large: OrderedDict[int, tuple[weakref.ref[Node], str]] = OrderedDict()


def is_large(of: Any) -> bool:
    """Whether a result of this spec is very large; one of several results never counts as that."""
    return type(of) is not tuple and of.nbytes >= LARGE_RESULT_BYTES


def note_line(node: Node, deriving: Node | None = None) -> Node:
    """Remember which line made a node, if its result is very large; returns the node.

    A profile remembers the lines of all, and the node whose derivative the new one is part of.
    """
    if LINES.noting:
        note(node, deriving)
    of = node.spec
    if type(of) is not tuple and of.nbytes >= LARGE_RESULT_BYTES:  # `is_large`
        _large[id(node)] = weakref.ref(node), user_line()
        if len(_large) > REMEMBERED_LARGE_RESULTS:
            _large.popitem(last=False)
    return node


def line_of(node: Node) -> str | None:
    """The line that made a node with a very large result, if that is remembered."""
    reference, line = _large.get(id(node), (None, None))
    return line if reference is not None and reference() is node else None


class Provenance:
    """The origins of the nodes that one thread makes while it notes into this object."""

    def __init__(self) -> None:
        self.lines: dict[Node, str] = {}
        # The node whose derivative each node is part of; None for nodes of no derivative.
        self.origins: dict[Node, Node | None] = {}
        # Nodes that a transform has just recorded: they have the lines of the nodes they copy.
        self.carried: set[Node] = set()

    def copy(self, old: Node, new: Node) -> None:
        """Give `new`, which replaces `old`, the same line and origin."""
        line, origin = self.lines.get(old), self.origins.get(old)
        if line is not None:
            self.lines[new] = line
        if line is not None or origin is not None:
            self.origins[new] = origin

    def inherit(self, old: Node, new: Iterable[Node]) -> None:
        """Give nodes that were made from `old`, and have no line yet, its line and origin."""
        for node in new:
            if node not in self.lines and self.origins.get(node) is None:
                self.copy(old, node)

    def origin(self, node: Node) -> Node | None:
        """The recorded node whose derivative, of any order, `node` is part of; or None."""
        found = self.origins.get(node)
        while found is not None and self.origins.get(found) is not None:
            found = self.origins[found]
        return found


class _Local(threading.local):
    current: Provenance | None = None
    scope: str | None = None


_local = _Local()


def provenance() -> Provenance | None:
    """The object that this thread notes into, or None."""
    return _local.current


def note_into(found: Provenance | None) -> Provenance | None:
    """Make this thread note into `found`, or stop; return what it noted into before."""
    before, _local.current = _local.current, found
    return before
