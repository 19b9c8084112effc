"""The environment variables that the library reads, found in its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

NAME = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
SOURCE = Path(__file__).resolve().parents[1] / "src" / "gradtape"


def variables_read() -> set[str]:
    """Names given to `os.environ` and `os.getenv`, also by way of a loop over their names."""
    found: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if "environ" in text or "getenv" in text:
            found |= _names(ast.parse(text))
    return found


def _names(tree: ast.Module) -> set[str]:
    # The name may reach the look-up through a variable, so all words of the function count, or of
    # the statement at the top of a module.
    found: set[str] = set()
    for scope in _scopes(tree):
        inside = list(ast.walk(scope))
        if any(
            isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
            for node in inside
        ):
            words = (node.value for node in inside if isinstance(node, ast.Constant))
            found |= {word for word in words if isinstance(word, str) and NAME.fullmatch(word)}
    return found


def _scopes(tree: ast.AST) -> Iterator[ast.stmt]:
    """Functions, methods, and statements outside them."""
    for statement in getattr(tree, "body", ()):
        if isinstance(statement, ast.ClassDef):
            yield from _scopes(statement)
        else:
            yield statement
