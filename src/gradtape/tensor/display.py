"""Display: tensors, modules and functions in notebooks, in rich and in treescope.

Each of these tools calls a method of its own: `_repr_html_`, `__rich_repr__`,
`__treescope_repr__`. A class that derives from `Displayed` says once what there is to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


_STYLE = (
    "border-collapse:collapse;font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;margin:4px 0"
)
_CELL = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;white-space:pre-wrap"


def as_html(title: str, fields: Fields) -> str:
    """A small table without a style sheet, which is readable on light and dark pages."""
    # Its table of all entities takes a millisecond to load, and only notebooks need it.
    import html

    rows = []
    for name, value in fields:
        shown = value._repr_html_() if hasattr(value, "_repr_html_") else html.escape(_text(value))
        label = html.escape(name or "")
        rows.append(
            f'<tr><th style="{_CELL};opacity:.7;font-weight:400">{label}</th>'
            f'<td style="{_CELL}">{shown}</td></tr>'
        )
    return (
        f'<div><strong style="font:600 13px system-ui">{html.escape(title)}</strong>'
        f'<table style="{_STYLE}">{"".join(rows)}</table></div>'
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)
