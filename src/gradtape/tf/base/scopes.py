"""Name scopes: they prefix the names of variables made inside."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from gradtape.libraries import check_exports

__all__ = ["get_current_name_scope", "name_scope"]


class _Names(threading.local):
    def __init__(self) -> None:
        self.prefix = ""


names = _Names()


class name_scope:  # noqa: N801 - TensorFlow's name
    """A context in which variables get a prefix to their names.

    >>> with tf.name_scope("layer") as scope:
    ...     w = tf.Variable(1.0, name="w")
    >>> scope, w.name
    ('layer/', 'layer/w:0')
    """

    def __init__(self, name: str | None = None, *_: object, **__: object) -> None:
        self._name = name
        self._before: list[str] = []

    @property
    def name(self) -> str | None:
        """The name of the scope."""
        return self._name

    def __enter__(self) -> str:
        self._before.append(names.prefix)
        name = str(self._name or "")
        # A name that ends in a slash is a whole prefix, such as `as scope` gives.
        names.prefix = name if name.endswith("/") or not name else f"{names.prefix}{name}/"
        return names.prefix

    def __exit__(self, *_: object) -> None:
        names.prefix = self._before.pop()


def get_current_name_scope() -> str:
    """The names of the scopes around, joined by slashes.

    >>> with tf.name_scope("model"), tf.name_scope("layer"):
    ...     print(tf.get_current_name_scope())
    model/layer
    """
    return names.prefix.rstrip("/")


@contextlib.contextmanager
def without_prefix() -> Iterator[None]:
    """Make variables without a prefix: a restored variable already has its whole name."""
    before, names.prefix = names.prefix, ""
    try:
        yield
    finally:
        names.prefix = before


check_exports(globals(), __all__)
