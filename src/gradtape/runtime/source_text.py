"""Functions whose loops are written out as Python source, which Python itself compiles.

A call of a few microseconds spends half of them in loops over two or three inputs and outputs. Such
a call is written out as Python source once. Objects take part by name: they are the globals of the
function, so two functions with equal text share one code object.

>>> written_out("scaled", ["def scaled(x):", "    return factor * x"], factor=2)(21)
42
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from gradtape.caches import remembered
from gradtape.config import LONGEST_SHARED_TEXT


def written_out(function_name: str, lines: Iterable[str], **names: object) -> Callable[..., Any]:
    """The function of this name that lines of Python define, with the objects that they name.

    Names must not depend on the objects: then equal calls give equal text.
    """
    source = "\n".join(lines)
    # Long texts hardly come twice, and would be kept for nothing.
    code = _code if len(source) < LONGEST_SHARED_TEXT else _compile
    # The module that a warning or a traceback names is the library's.
    found: dict[str, Any] = {"__name__": __name__, **names}
    exec(code(source, function_name), found)
    function: Callable[..., Any] = found[function_name]
    return function


def _compile(text: str, function_name: str) -> CodeType:
    """The code object of a text; the function is the file name in tracebacks."""
    return compile(text, f"<{function_name}>", "exec")


_code = remembered(1024)(_compile)
