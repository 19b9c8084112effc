"""Display: what objects, plots and cells look like in consoles, notebooks and other viewers.

Viewers call methods of their own: `_repr_html_` (notebooks), `__rich_repr__`,
`__treescope_repr__`. A class that derives from `Displayed` says once what there is to show, and a
text of several lines is a `Text`. IPython and matplotlib are never imported before they are used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

# Names and values that an object shows; a name of None means the value alone.
Fields = Sequence[tuple[str | None, Any]]


class Displayed:
    """Shows itself in notebooks, rich and treescope, by `_fields`.

    >>> class Point(gt.libraries.Displayed):
    ...     def _fields(self):
    ...         return [("x", 1.0)]
    >>> "Point" in Point()._repr_html_()
    True
    """

    __slots__ = ()

    def _fields(self) -> Fields:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """As a table, for notebooks."""
        return as_html(type(self).__name__, self._fields())

    def __rich_repr__(self) -> Iterator[Any]:
        for name, value in self._fields():
            yield (name, value) if name is not None else value

    def __treescope_repr__(self, path: str | None, subtree_renderer: Any) -> Any:
        # treescope is an optional package, and calls this only where it is installed.
        repr_lib = import_module("treescope.repr_lib")
        fields = {name or "value": value for name, value in self._fields()}
        return repr_lib.render_object_constructor(type(self), fields, path, subtree_renderer)


class Text(str):
    """Lines of text that show as they print, in consoles and in notebooks.

    >>> from gradtape.display import Text
    >>> Text("two\\nlines")
    two
    lines
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The text as it is, for notebooks."""
        return f'<pre style="{_LINES}">{escaped(self)}</pre>'


_FONT = "font:13px/1.45 ui-monospace,Menlo,Consolas,monospace"
# Notebooks that are converted to pages wrap lines, and show them in the font of the text.
_LINES = f"{_FONT};white-space:pre;overflow-x:auto"
_STYLE = f"border-collapse:collapse;{_FONT};margin:4px 0"
_CELL = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;white-space:pre-wrap"
_HEAD = f"{_CELL};opacity:.7;font-weight:400"


def escaped(text: object) -> str:
    """Text as HTML."""
    # Its table of all entities takes a millisecond to load, and only notebooks need it.
    import html

    return html.escape(str(text))


def as_html(title: str, fields: Fields) -> str:
    """Names and values as a small table; values that have HTML of their own show it."""
    rows = []
    for name, value in fields:
        shown = value._repr_html_() if hasattr(value, "_repr_html_") else escaped(value)
        rows.append((escaped(name or ""), shown))
    lines = "".join(
        f'<tr><th style="{_HEAD}">{name}</th><td style="{_CELL}">{shown}</td></tr>'
        for name, shown in rows
    )
    return _titled(title, lines)


def rows_as_html(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a row of names; columns without an entry are left out."""
    rows = list(rows)
    kept = [at for at in range(len(names)) if any(str(row[at]) for row in rows)]
    head = "".join(f'<th style="{_HEAD}">{escaped(names[at])}</th>' for at in kept)
    lines = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escaped(row[at])}</td>' for at in kept) + "</tr>"
        for row in rows
    )
    return _titled(title, f"<thead><tr>{head}</tr></thead>{lines}" if rows else "")


def _titled(title: str, lines: str) -> str:
    # Without a style sheet, and readable on light and dark pages.
    return (
        '<div style="overflow-x:auto">'
        f'<strong style="font:600 13px system-ui">{escaped(title)}</strong>'
        f'<table style="{_STYLE}">{lines}</table></div>'
    )


def shell() -> Any:
    """The shell of IPython that runs the program, or None."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def in_notebook() -> bool:
    """Whether a kernel runs the program: what it displays appears below a cell."""
    return getattr(shell(), "kernel", None) is not None


def shown_file(file: str) -> str:
    """The name of a file of code for readers: `cell 4` for a cell of a notebook."""
    compiler = getattr(shell(), "compile", None)
    known = None if compiler is None else compiler.format_code_name(file)
    # IPython says ("Cell", "In[4]").
    return file if known is None else f"cell {known[1].strip('In[]')}"


def new_figure(name: str, remedy: str = "", *, shown: bool = True) -> Any:
    """A figure of matplotlib; `name` and `remedy` go into the error if that is not installed.

    In IPython, or where the program uses pyplot, pyplot knows the figure unless `shown` is false:
    `plt.show()` shows it, and a notebook shows it below the cell, once.

    >>> axes = gt.libraries.new_figure("History.plot").subplots()  # doctest: +SKIP
    """
    try:
        # An optional package.
        from matplotlib.figure import Figure

        is_used = "matplotlib.pyplot" in sys.modules or shell() is not None
        figure: Any = _pyplot().figure() if shown and is_used else Figure()
    except ImportError:
        raise ImportError(
            f"{name} needs matplotlib, which is not installed. Install it with "
            f"`pip install gradtape[plot]`{remedy}."
        ) from None
    if in_notebook():
        figure._ipython_display_ = partial(_show, figure)
    return figure


def _show(figure: Any) -> None:
    """Display a figure that is the result of a cell, and let pyplot not show it again."""
    del figure._ipython_display_
    # For kernels without matplotlib's inline backend, which has formats of its own.
    figure._repr_png_ = partial(import_module("IPython.core.pylabtools").print_figure, figure)
    import_module("IPython.display").display(figure)
    _pyplot().close(figure)


def _pyplot() -> Any:
    # An optional package, and slow to import.
    return import_module("matplotlib.pyplot")
