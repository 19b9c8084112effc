"""Figures of the house: `python -m tests.formalities.figures` prints how much of it there is.

Lines of code by folder, without comments, docstrings and blanks; switches of the formatter; imports
inside functions; names of classes that are defined twice; long and branching functions.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gradtape"
LONG, BRANCHING = 60, 20
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (
    ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.Assert,
    ast.BoolOp, ast.match_case,
)  # fmt: skip
# Words of code that knows the memory of CPython's objects.
OF_CPYTHON = re.compile(r"\bid\(|ctypes\.pythonapi|sys\.getrefcount|_getframe|gc\.get_ref|\bdis\b")


def code_lines(path: Path, tree: ast.Module) -> int:
    """Lines with code: no comments, docstrings or blanks."""
    found: set[int] = set()
    skipped = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    }  # fmt: skip
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in skipped:
                found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and node.body:
            first: ast.stmt = node.body[0]
            if ast.get_docstring(node) is not None and first.end_lineno is not None:
                found.difference_update(range(first.lineno, first.end_lineno + 1))
    return len(found)


def late_imports(tree: ast.Module) -> int:
    """Imports of gradtape inside functions."""
    return sum(
        isinstance(inner, ast.ImportFrom) and (inner.module or "").startswith("gradtape")
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS)
        for inner in ast.walk(node)
    )


def heavy_functions(path: Path, tree: ast.Module) -> Iterator[str]:
    """Functions that are too long, or branch too often."""
    for node in ast.walk(tree):
        if not isinstance(node, FUNCTIONS) or node.end_lineno is None:
            continue
        length = node.end_lineno - node.lineno + 1
        documented = ast.get_docstring(node, clean=False)
        if documented:
            length -= documented.count("\n") + 1
        branches = 1 + sum(isinstance(each, BRANCHES) for each in ast.walk(node))
        if length > LONG or branches > BRANCHING:
            where = path.relative_to(SOURCE)
            yield f"{where}:{node.lineno} {node.name}: {length} lines, complexity {branches}"


def main() -> None:
    lines: Counter[str] = Counter()
    switches = late = anys = 0
    classes: defaultdict[str, set[str]] = defaultdict(set)
    heavy, cpython = [], []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        parts = path.relative_to(SOURCE).parts
        room = parts[0] if len(parts) > 1 else "top level"
        lines[room] += code_lines(path, tree)
        switches += len(re.findall(r"# fmt: (?:skip|off)", text))
        late += late_imports(tree)
        anys += len(re.findall(r"\bAny\b", text))
        if room != "tf":
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    classes[node.name].add("/".join(parts))
            heavy += heavy_functions(path, tree)
            if OF_CPYTHON.search(text) and parts[:2] != ("codegen", "cpython"):
                cpython.append("/".join(parts))
    for room, count in lines.most_common():
        print(f"{count:7} {room}")
    total = sum(lines.values())
    print(f"{total:7} lines of code, {total - lines['tf']} outside tf, {len(lines) - 1} folders")
    twice = {name: places for name, places in classes.items() if len(places) > 1}
    print(f"{switches:7} switches of the formatter")
    print(f"{late:7} imports of gradtape inside functions")
    print(f"{anys:7} times Any")
    print(f"{len(cpython):7} files outside compiler/cpython with words of CPython's internals")
    print(f"{len(twice):7} public classes with one name in several files: {', '.join(twice)}")
    print(f"{len(heavy):7} functions above {LONG} lines or of complexity above {BRANCHING}")
    for each in heavy:
        print(f"        {each}")


if __name__ == "__main__":
    main()
