"""The user's source text, for the causes of lost derivatives: where a value goes, what a name is.

Nothing here runs before a derivative is found to be missing, or a number to have left a tensor.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple

from gradtape.caches import remembered
from gradtape.ir.origin import current_line, is_library

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)
# Calls whose result is not what is computed from the number.
_ENDS = frozenset(
    ("print", "range", "str", "repr", "format", "len", "isinstance", "bool", "id", "hash", "type")
)
# Calls that compute a number from numbers; others may record.
_ON_NUMBERS = frozenset(("float", "int", "complex", "abs", "round", "min", "max", "sum", "pow"))
_CONTAINERS = frozenset(("list", "tuple", "dict", "set", "sorted", "divmod"))
_NUMBER_MODULES = frozenset(("math", "cmath", "np", "numpy", "operator", "statistics"))
_FACTS = frozenset(("shape", "size", "ndim", "dtype"))


def user_frame() -> FrameType | None:
    """The innermost frame of the user's program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame):
        frame = frame.f_back
    return frame


class Site(NamedTuple):
    """An instruction of the user's code that runs now."""

    code: CodeType
    at: int
    line: int

    @classmethod
    def here(cls) -> Site | None:
        """The innermost one."""
        frame = user_frame()
        return None if frame is None else cls(frame.f_code, frame.f_lasti, current_line(frame))

    def __str__(self) -> str:
        return f"{self.code.co_filename}:{self.line}"


class Parsed(NamedTuple):
    """An expression, and for each node of its file the node around it."""

    node: ast.expr
    parents: dict[ast.AST, ast.AST]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, from the inside."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scope(self) -> ast.AST:
        """The `with` statement of a tape around the expression, or else its function."""
        around = self.around(self.node)
        return next(node for node in around if isinstance(node, _SCOPES) or is_tape(node))

    def function(self) -> ast.AST:
        """The function or module that holds the expression."""
        return next(node for node in self.around(self.node) if isinstance(node, _SCOPES))

    def names_of_unknown(self) -> frozenset[str]:
        """The names in the function to which no statement binds a constant."""
        names, plain = set(), set()
        for node in ast.walk(self.function()):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    pairs = [(target, node.value)]
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                        pairs = list(zip(target.elts, node.value.elts, strict=False))
                    plain |= {
                        one.id
                        for one, value in pairs
                        if isinstance(one, ast.Name) and isinstance(value, ast.Constant)
                    }
        return frozenset(names - plain)

    def may_be_recorded(self, node: ast.AST, seen: set[str], tensors: frozenset[str]) -> bool:
        """Whether the value of a node may go on into an op; `seen` are names that were followed."""
        for parent in self.around(node):
            if _ends(parent, node):
                return False
            if isinstance(parent, ast.BinOp):
                other = parent.left if node is parent.right else parent.right
                if _may_hold_tensor(other, tensors):
                    return True
            elif isinstance(parent, ast.Call) and node is not parent.func:
                name = ast.unparse(parent.func)
                if not _is_on_numbers(name) and not isinstance(self.parents[parent], ast.Expr):
                    return True
            elif isinstance(parent, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
                if isinstance(parent, ast.AugAssign) and _may_hold_tensor(parent.target, tensors):
                    return True
                names = _bound(parent) - seen
                seen |= names
                return any(
                    self.may_be_recorded(use, seen, tensors)
                    for use in ast.walk(self.scope())
                    if names.intersection(loaded(use))
                )
            elif isinstance(parent, (ast.stmt, ast.Lambda, *_SCOPES)):
                return True
            node = parent
        return True


@remembered(16)
def parsed(site: Site) -> Parsed | None:
    """The expression of an instruction in its file; None without the source text."""
    place = next(islice(site.code.co_positions(), site.at // 2, None), None)
    try:
        tree = ast.parse("".join(linecache.getlines(site.code.co_filename)))
    except SyntaxError:
        return None
    parents: dict[ast.AST, ast.AST] = {}
    for node in ast.walk(tree):
        parents.update(dict.fromkeys(ast.iter_child_nodes(node), node))
    for node in parents:
        if isinstance(node, ast.expr) and place == (
            node.lineno,
            node.end_lineno,
            node.col_offset,
            node.end_col_offset,
        ):
            return Parsed(node, parents)
    return None


@remembered(1024)
def may_be_recorded(site: Site, tensors: frozenset[str] | None) -> bool:
    """Whether the value of an instruction may go on into an op; True if that is not known.

    `tensors` are the names that hold tensors in the function; None if that is not known.
    """
    found = parsed(site)
    if found is None:
        return True
    return found.may_be_recorded(found.node, set(), tensors or found.names_of_unknown())


def is_tape(node: ast.AST) -> bool:
    """Whether a node is a `with` statement of a tape."""
    return isinstance(node, ast.With) and any(
        "tape" in ast.unparse(item).lower() for item in node.items
    )


def _ends(parent: ast.AST, node: ast.AST) -> bool:
    """Whether nothing is computed from the value of a node in the node around it."""
    match parent:
        case ast.Expr() | ast.Compare() | ast.FormattedValue() | ast.Assert():
            return True
        case ast.If() | ast.While() | ast.Slice() | ast.Match():
            return True
        case ast.IfExp(test=part) | ast.Subscript(slice=part):
            return node is part
        case ast.BinOp(left=ast.Constant(value=str())) | ast.BinOp(right=ast.Constant(value=str())):
            return True
        case ast.Call():
            return node is not parent.func and ast.unparse(parent.func) in _ENDS
    return False


def _is_on_numbers(function: str) -> bool:
    """Whether a function computes a number from numbers."""
    return function in _ON_NUMBERS | _CONTAINERS or function.split(".")[0] in _NUMBER_MODULES


def _bound(node: ast.AST) -> set[str]:
    """The names that are bound in a part of a statement."""
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _may_hold_tensor(node: ast.expr, tensors: frozenset[str]) -> bool:
    """Whether an operand may be a tensor: a name that holds one, or what a call returns."""
    if isinstance(node, ast.Attribute) and node.attr in _FACTS:
        return False
    if isinstance(node, ast.Name):
        return node.id in tensors
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        return name not in _ENDS and not _is_on_numbers(name)
    if isinstance(node, (ast.Attribute, ast.Subscript, ast.Await)):
        return _may_hold_tensor(node.value, tensors)
    parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
    return any(_may_hold_tensor(each, tensors) for each in parts)


def names_of_tensors(code: CodeType) -> frozenset[str] | None:
    """The names that hold tensors in a function that runs now; None if it does not run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            known = {**frame.f_globals, **frame.f_locals}
            # Of other objects it is not known what their attributes and items hold.
            return frozenset(
                name
                for name, value in known.items()
                if not isinstance(value, (int, float, complex, str, type(sys)))
            )
        frame = frame.f_back
    return None


def loaded(node: ast.AST) -> tuple[str, ...]:
    """The name that a node reads, if it is a name."""
    return (node.id,) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ()


def reads(node: ast.AST) -> set[str]:
    """The names that are read in a statement."""
    return {name for each in ast.walk(node) for name in loaded(each)}


def assignments(scope: ast.AST) -> Iterator[tuple[ast.stmt, set[str]]]:
    """The statements of a function that bind names, with the names."""
    for node in ast.walk(scope):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield node, set().union(*map(_bound, targets))
