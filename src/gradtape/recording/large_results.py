"""The user's lines of ops with very large results: only the latest are remembered."""

from __future__ import annotations

import weakref
from collections import OrderedDict

from gradtape.graph.lines import user_line
from gradtape.graph.node import Node

# Results of this many bytes.
LARGE = 1 << 32
MOST = 64

# By id of the node.
_lines: OrderedDict[int, tuple[weakref.ref[Node], str]] = OrderedDict()


def note_line(node: Node) -> None:
    """Remember which line recorded a node, if its result is very large."""
    if type(node.spec) is not tuple and node.spec.nbytes >= LARGE:
        _lines[id(node)] = weakref.ref(node), user_line()
        if len(_lines) > MOST:
            _lines.popitem(last=False)


def line_of(node: Node) -> str | None:
    """The line that recorded a node, if that is remembered."""
    reference, line = _lines.get(id(node), (None, None))
    return line if reference is not None and reference() is node else None
