"""The user's lines of ops with very large results: only the latest are remembered."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from gradtape.graph.lines import user_line
from gradtape.graph.recorded_lines import LINES, note

if TYPE_CHECKING:
    from gradtape.graph.node import Node

# Results of this many bytes.
LARGE = 1 << 32
MOST = 64

# By id of the node.
_lines: OrderedDict[int, tuple[weakref.ref[Node], str]] = OrderedDict()


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
        _lines[id(node)] = weakref.ref(node), user_line()
        if len(_lines) > MOST:
            _lines.popitem(last=False)
    return node


def line_of(node: Node) -> str | None:
    """The line that made a node, if that is remembered."""
    reference, line = _lines.get(id(node), (None, None))
    return line if reference is not None and reference() is node else None
