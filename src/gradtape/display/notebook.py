"""Notebook: what IPython says of the program that it runs. It is never imported here."""

from __future__ import annotations

import sys
from typing import Any


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
