"""SourceText: the one writer of Python source, for functions whose loops are written out.

A call of a few microseconds spends half of them in loops over two or three inputs and outputs. Such
a call is written out as Python source once, and compiled by Python itself. Objects take part by
name: they are the globals of the function, so two functions with equal text share one code object.

>>> text = SourceText()
>>> double = text.name(2, "factor")
>>> text.line("def scaled(x):")
>>> with text.block():
...     text.line(f"return {double} * x")
>>> text.compiled("scaled")(21)
42
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from gradtape.caches import remembered

LONGEST_SHARED = 10_000


class SourceText:
    """Lines of Python source, and the objects that they mention by name."""

    def __init__(self, **names: object) -> None:
        # Who asks where the code comes from learns that it is the library's.
        self._names: dict[str, Any] = {"__name__": __name__, **names}
        self._lines: list[str] = []
        self._indentation = ""

    def name(self, thing: object, hint: str) -> str:
        """A name for an object: the hint, with a number if another object has that name.

        Names depend on the order of the calls only, never on the object: equal calls give equal
        text. Locals of the function must not be called like a hint.
        """
        name, number = hint, 0
        while name in self._names:
            number += 1
            name = f"{hint}{number}"
        self._names[name] = thing
        return name

    def line(self, text: str) -> None:
        """Add a line at the present indentation."""
        self._lines.append(self._indentation + text)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Indent the lines that are added inside."""
        before, self._indentation = self._indentation, self._indentation + "    "
        yield
        self._indentation = before

    def compiled(self, function_name: str) -> Callable[..., Any]:
        """Run the text, and return the function of this name that it defines."""
        source = str(self)
        # Long texts hardly come twice, and would be kept for nothing.
        code = _code if len(source) < LONGEST_SHARED else _compile
        exec(code(source, function_name), self._names)
        function: Callable[..., Any] = self._names[function_name]
        return function

    def __str__(self) -> str:
        return "\n".join(self._lines)


def _compile(text: str, function_name: str) -> CodeType:
    """The code object of a text; the function is the file name in tracebacks."""
    return compile(text, f"<{function_name}>", "exec")


_code = remembered(1024)(_compile)
