"""Figures of the house: `python -m tests.formalities.figures` prints how much of it there is.

Lines of code by folder, without comments, docstrings and blanks; hooks upward; exempt folders;
names of classes and type aliases that are defined twice; switches of the formatter; imports inside
functions; files that touch CPython; caches; long and branching functions.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.formalities.test_imports import EXEMPT

import gradtape as gt
from gradtape.ir.hooks import FILLED_BY

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gradtape"
LONG, BRANCHING = 60, 20
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.Assert,
    ast.BoolOp,
    ast.match_case,
)
# Words of code that knows the memory of CPython's objects.
OF_CPYTHON = re.compile(r"\bid\(|ctypes\.pythonapi|sys\.getrefcount|_getframe|gc\.get_ref|\bdis\b")


def code_lines(path: Path, tree: ast.Module) -> int:
    """Lines with code: no comments, docstrings or blanks."""
    found: set[int] = set()
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
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


def type_alias(item: ast.stmt) -> str | None:
    """The name of a type alias: `Rule = Callable[...]`, or with `TypeAlias`."""
    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
        return item.target.id if "TypeAlias" in ast.unparse(item.annotation) else None
    if not isinstance(item, ast.Assign) or not isinstance(item.targets[0], ast.Name):
        return None
    name = item.targets[0].id
    plain = isinstance(item.value, ast.Name) and item.value.id in ("int", "str", "float", "Any")
    named = name[0].isupper() and not name.isupper()
    return name if named and (plain or isinstance(item.value, (ast.Subscript, ast.BinOp))) else None


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Public classes and type aliases of a module, also those for type checkers."""
    for item in tree.body:
        for inner in item.body if isinstance(item, ast.If) else [item]:
            if isinstance(inner, ast.ClassDef):
                yield inner.name
            elif (name := type_alias(inner)) is not None and len(name) > 1:
                yield name


def defined_twice() -> dict[str, list[str]]:
    """Public names of classes and aliases that several modules of the core define."""
    places: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE)
        if where.parts[0] != "tf":
            for name in defined_names(ast.parse(path.read_text())):
                if not name.startswith("_"):
                    places[name].add(where.as_posix())
    return {name: sorted(found) for name, found in sorted(places.items()) if len(found) > 1}


def all_heavy_functions() -> list[str]:
    """Those outside `tf`."""
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] != "tf":
            found += heavy_functions(path, ast.parse(path.read_text()))
    return found


def caches() -> int:
    """Caches in the register when all modules are loaded."""
    for module in pkgutil.walk_packages(gt.__path__, "gradtape."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return len(gt.caches())


def main() -> None:
    lines: Counter[str] = Counter()
    switches = late = anys = 0
    cpython = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        parts = path.relative_to(SOURCE).parts
        lines[parts[0] if len(parts) > 1 else "top level"] += code_lines(path, tree)
        switches += len(re.findall(r"# fmt: (?:skip|off)", text))
        late += late_imports(tree)
        anys += len(re.findall(r"\bAny\b", text))
        if OF_CPYTHON.search(text) and parts[0] != "tf" and parts[:2] != ("compiler", "cpython"):
            cpython.append("/".join(parts))
    for room, count in lines.most_common():
        print(f"{count:7} {room}")
    total = sum(lines.values())
    print(f"{total:7} lines of code, {total - lines['tf']} outside tf, {len(lines) - 1} folders")
    twice, heavy = defined_twice(), all_heavy_functions()
    print(f"{len(FILLED_BY):7} hooks: {', '.join(FILLED_BY)}")
    print(f"{len(EXEMPT):7} exempt folders: {', '.join(sorted(EXEMPT))}")
    print(f"{len(twice):7} public class and alias names defined twice: {', '.join(twice)}")
    print(f"{switches:7} switches of the formatter")
    print(f"{late:7} imports of gradtape inside functions")
    print(f"{anys:7} times Any")
    print(f"{len(cpython):7} files outside compiler/cpython with words of CPython's internals")
    print(f"{caches():7} caches in the register")
    print(f"{len(heavy):7} functions above {LONG} lines or of complexity above {BRANCHING}")
    for each in heavy:
        print(f"        {each}")


if __name__ == "__main__":
    main()
