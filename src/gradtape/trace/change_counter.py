"""TellsChanges: objects that announce every change of their attributes.

A replay of a gt.function compares what the function read outside. A model of twenty layers has
hundreds of attributes; with the announcements of all of them in one number, the replay compares
the number.
"""

from __future__ import annotations

import array

# The number of announced changes: a word that native code reads.
changes = array.array("q", [0])


def tell_change() -> None:
    """Announce a change.

    >>> gt.libraries.tell_change()
    """
    changes[0] += 1


class TellsChanges:
    """A base of classes whose instances are checked by one number.

    >>> from gradtape.trace.change_counter import TellsChanges, changes
    >>> class Layer(TellsChanges):
    ...     pass
    >>> before, layer = changes[0], Layer()
    >>> layer.units = 3
    >>> changes[0] - before
    1
    """

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        tell_change()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        tell_change()
