"""Which form progress takes: what an argument asks for, else the switch of the process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

__all__ = ["set_progress"]

# Is told the title of the work, how much of it is done, and how much there is; None: not known.
Listener = Callable[[str, int, int | None], object]
Choice = str | bool | Listener

CHOICES = ("auto", "rich", "plain", "off")


def chosen(name: str, choice: Any) -> Choice:
    """The choice that a user made, checked; `name` says where."""
    if isinstance(choice, bool) or callable(choice):
        return choice
    if not isinstance(choice, str) or choice not in CHOICES:
        raise ValueError(
            f"{name}{choice!r} is no form of progress. Use one of {', '.join(CHOICES)}, True, "
            "False, or a function of a title, the amount that is done, and the total."
        )
    if choice == "rich" and not has_rich():
        raise ImportError(
            f"{name}{choice!r}: rich is not installed. Install it with "
            "`pip install gradtape[progress]`, or choose 'plain'."
        )
    return choice


def has_rich() -> bool:
    """Whether rich is installed."""
    from importlib.util import find_spec  # not needed where nothing is a terminal

    return find_spec("rich") is not None


class _Switch:
    """The choice of this process. The environment is read when progress is first asked for."""

    choice: Choice | None = None


def set_progress(progress: Choice) -> None:
    """Choose how long work shows how far it is, for all work that is not told otherwise.

    >>> seen = []
    >>> gt.set_progress(lambda title, done, total: seen.append((title, done, total)))
    >>> _ = gt.jacobian(lambda x: x * x, chunk_size=2)(np.ones(4))
    >>> seen
    [('jacobian', 2, 4), ('jacobian', 4, 4)]
    >>> gt.set_progress("auto")

    | progress | what is shown |
    |---|---|
    | `"auto"` or True | a bar of one of the next two kinds if standard error is a terminal |
    | `"rich"` | a bar of rich, which `pip install gradtape[progress]` installs |
    | `"plain"` | a bar of plain text on a terminal; elsewhere a line when the work is done |
    | `"off"` or False | nothing |
    | a function | it is called after every round: with a title, the amount done, and the total |

    Dense Jacobians and Hessians in chunks, the detection of sparsity patterns and their colouring
    show progress after two seconds. `gt.fit` and `gt.distributed.map` have an argument of their own
    beside this. `GRADTAPE_PROGRESS` makes the choice before the first call.
    """
    _Switch.choice = chosen("set_progress: ", progress)


def current() -> Choice:
    """The choice of this process."""
    if _Switch.choice is None:
        text = os.environ.get("GRADTAPE_PROGRESS", "").strip() or "auto"
        _Switch.choice = chosen("GRADTAPE_PROGRESS=", text)
    return _Switch.choice


def style_of(choice: Choice, stream: TextIO | None = None) -> str | Listener:
    """`rich`, `plain`, `off`, or a function to call.

    The choice `auto` is that of the process. True is the same, but shows something everywhere: a
    caller has asked for it.
    """
    asked = choice is True
    if choice is True or choice == "auto":
        choice = current()
    if choice is False:
        return "off"
    if not isinstance(choice, bool) and choice != "auto":
        return choice
    if is_terminal(sys.stderr if stream is None else stream):
        return "rich" if has_rich() else "plain"
    return "plain" if asked else "off"


def is_terminal(stream: Any) -> bool:
    """Whether somebody looks at a stream; without one, or if it is closed, nobody does."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
