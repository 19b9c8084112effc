"""Integers: loops over integer arrays, written in Python once and compiled from that source.

Greedy algorithms on graphs are loops that NumPy cannot express. They are plain Python functions,
which can be run as they are, and this module translates them statement by statement to IR where
speed matters. It translates functions of integers and int64 arrays that return an integer, with
assignments, `if`, `while`, `for … in range(…)` with a positive step, `break`, `continue`, `return`;
integer arithmetic (`//` and `%` of operands that are not negative), comparisons, `and`, `or`,
`not`, elements of arrays, and calls of functions that were translated before.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gradtape.compiler.emit.writer import Routine, StackVariable, module
from gradtape.compiler.objects import llvm
from gradtape.records import dataclass

_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "sdiv",
    ast.Mod: "srem",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}


@dataclass(frozen=True)
class Signature:
    """The parameters of a translated function, and which of them are arrays."""

    names: tuple[str, ...]
    arrays: frozenset[str]


def compile_integers(functions: Sequence[Callable[..., int]]) -> dict[str, Callable[..., int]]:
    """Native versions by name; a function may call the functions listed before it.

    They take ints and contiguous int64 arrays, which they write to in place.
    """
    text, signatures = _translated(functions)
    compiled = llvm.compile_ir(text, level=3)
    return {
        name: _callable(compiled.address(name), signature) for name, signature in signatures.items()
    }


def integer_text(functions: Sequence[Callable[..., int]]) -> str:
    """The IR of functions, for people to read."""
    return _translated(functions)[0]


def _translated(functions: Sequence[Callable[..., int]]) -> tuple[str, dict[str, Signature]]:
    signatures: dict[str, Signature] = {}
    routines = []
    for function in functions:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef)
        translator = Translator(definition, signatures)
        routines.append(translator.r)
        signatures[definition.name] = translator.signature
    return module(*routines), signatures


def _callable(address: int, signature: Signature) -> Callable[..., int]:
    kinds = [
        ctypes.c_void_p if name in signature.arrays else ctypes.c_int64 for name in signature.names
    ]
    native = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(address)

    def call(*arguments: int | npt.NDArray[np.int64]) -> int:
        words = []
        for name, argument in zip(signature.names, arguments, strict=True):
            if isinstance(argument, np.ndarray) != (name in signature.arrays):
                # An integer in place of an array would be taken for an address.
                wanted = "an int64 array" if name in signature.arrays else "an integer"
                raise TypeError(f"integers: {name} is {argument!r}. Pass {wanted}.")
            words.append(argument.ctypes.data if isinstance(argument, np.ndarray) else argument)
        return int(native(*words))

    return call


def _signature(definition: ast.FunctionDef, known: dict[str, Signature]) -> Signature:
    names = tuple(argument.arg for argument in definition.args.args)
    arrays = set()
    for item in ast.walk(definition):
        if isinstance(item, ast.Subscript) and isinstance(item.value, ast.Name):
            arrays.add(item.value.id)
        elif isinstance(item, ast.Call) and isinstance(item.func, ast.Name):
            called = known.get(item.func.id)
            if called is not None:
                for name, argument in zip(called.names, item.args, strict=True):
                    if name in called.arrays and isinstance(argument, ast.Name):
                        arrays.add(argument.id)
    return Signature(names, frozenset(arrays))


class Translator:
    """Translates one function: variables are on the stack, and LLVM moves them to registers."""

    def __init__(self, definition: ast.FunctionDef, known: dict[str, Signature]) -> None:
        self._known = known
        self._name = definition.name
        self.signature = _signature(definition, known)
        listed = [
            f"ptr noalias %{name}" if name in self.signature.arrays else f"i64 %{name}"
            for name in self.signature.names
        ]
        self.r = Routine(f"i64 @{definition.name}({', '.join(listed)})")
        self._variables: dict[str, StackVariable] = {}
        # Targets of `continue` and `break`, by loop.
        self._loops: list[tuple[str, str]] = []
        for name in self.signature.names:
            if name not in self.signature.arrays:
                self._variable(name).set(f"%{name}")
        self._block(definition.body)
        self.r.end("ret i64 0")

    def _variable(self, name: str) -> StackVariable:
        if name not in self._variables:
            self._variables[name] = StackVariable(self.r, "i64")
        return self._variables[name]

    def _labels(self, *names: str) -> list[str]:
        number = self.r.fresh()
        return [f"{name}{number}" for name in names]

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, item: ast.stmt) -> None:
        if isinstance(item, ast.Assign) and len(item.targets) == 1:
            self._store(item.targets[0], self._value(item.value))
        elif isinstance(item, ast.AugAssign):
            self._store(item.target, self._value(ast.BinOp(item.target, item.op, item.value)))
        elif isinstance(item, ast.If):
            self._if(item)
        elif isinstance(item, ast.While):
            self._loop(item.test, item.body)
        elif isinstance(item, ast.For):
            self._for(item)
        elif isinstance(item, ast.Break | ast.Continue):
            self.r.go(self._loops[-1][isinstance(item, ast.Break)])
        elif isinstance(item, ast.Return) and item.value is not None:
            self.r.give(self._value(item.value))
        elif isinstance(item, ast.Expr):
            if not isinstance(item.value, ast.Constant):
                self._value(item.value)
        else:
            self._refuse(item)

    def _store(self, target: ast.expr, value: str) -> None:
        if isinstance(target, ast.Name):
            self._variable(target.id).set(value)
        elif isinstance(target, ast.Subscript):
            self.r.store(value, self._address(target))
        else:
            self._refuse(target)

    def _address(self, item: ast.Subscript) -> str:
        assert isinstance(item.value, ast.Name)
        return self.r.item("i64", f"%{item.value.id}", self._value(item.slice))

    def _if(self, item: ast.If) -> None:
        then, otherwise, end = self._labels("then", "else", "end")
        self._branch(item.test, then, otherwise)
        self.r.block(then)
        self._block(item.body)
        self.r.go(end)
        self.r.block(otherwise)
        self._block(item.orelse)
        self.r.block(end)

    def _loop(self, test: ast.expr, body: Sequence[ast.stmt], *step: ast.stmt) -> None:
        head, inside, again, end = self._labels("head", "body", "step", "done")
        self.r.block(head)
        self._branch(test, inside, end)
        self.r.block(inside)
        self._loops.append((again, end))
        self._block(body)
        self._loops.pop()
        self.r.block(again)
        self._block(step)
        self.r.go(head)
        self.r.block(end)

    def _for(self, item: ast.For) -> None:
        called, index = item.iter, item.target
        is_range = isinstance(called, ast.Call) and getattr(called.func, "id", "") == "range"
        if not is_range or not isinstance(index, ast.Name) or item.orelse:
            self._refuse(item)
        assert isinstance(called, ast.Call)
        assert isinstance(index, ast.Name)
        first, last, step = _range(called.args)
        (stop,) = (ast.Name(name) for name in self._labels("stop"))
        self._store(index, self._value(first))
        self._store(stop, self._value(last))
        test = ast.Compare(index, [ast.Lt()], [stop])
        self._loop(test, item.body, ast.AugAssign(index, ast.Add(), step))

    def _branch(self, test: ast.expr, yes: str, no: str) -> None:
        """Jump by a condition; the parts of `and` and `or` are tested in order, as in Python."""
        if isinstance(test, ast.BoolOp):
            for part in test.values[:-1]:
                (following,) = self._labels("also")
                if isinstance(test.op, ast.And):
                    self._branch(part, following, no)
                else:
                    self._branch(part, yes, following)
                self.r.block(following)
            self._branch(test.values[-1], yes, no)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._branch(test.operand, no, yes)
        elif isinstance(test, ast.Compare):
            self.r.branch(self._compared(test), yes, no)
        else:
            self.r.branch(self.r.unequal(self._value(test), 0), yes, no)

    def _compared(self, item: ast.Compare) -> str:
        if len(item.ops) != 1 or type(item.ops[0]) not in _COMPARISONS:
            self._refuse(item)
        left, right = self._value(item.left), self._value(item.comparators[0])
        return self.r.compare(_COMPARISONS[type(item.ops[0])], left, right)

    def _value(self, item: ast.expr) -> str:
        r = self.r
        if isinstance(item, ast.Constant) and isinstance(item.value, int):
            return str(int(item.value))
        if isinstance(item, ast.Name):
            is_array = item.id in self.signature.arrays
            return f"%{item.id}" if is_array else self._variable(item.id).get()
        if isinstance(item, ast.Subscript):
            return r.load("i64", self._address(item))
        if isinstance(item, ast.BinOp) and type(item.op) in _ARITHMETIC:
            left, right = self._value(item.left), self._value(item.right)
            return r.op(_ARITHMETIC[type(item.op)], left, right)
        if isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub):
            return r.subtract(0, self._value(item.operand))
        if isinstance(item, ast.Compare):
            return r.cast("zext", self._compared(item), "i64")
        name = getattr(item.func, "id", "") if isinstance(item, ast.Call) else ""
        if isinstance(item, ast.Call) and name in self._known:
            return r.call("i64", f"@{name}", *map(self._value, item.args))
        self._refuse(item)
        raise AssertionError

    def _refuse(self, item: ast.AST) -> None:
        raise NotImplementedError(
            f"integers: `{ast.unparse(item)}` in {self._name} cannot be translated. "
            "Use only the statements that gradtape.compiler.emit.integer_loops lists."
        )


def _range(arguments: list[ast.expr]) -> tuple[ast.expr, ast.expr, ast.expr]:
    first: ast.expr = ast.Constant(0)
    step: ast.expr = ast.Constant(1)
    if len(arguments) == 1:
        return first, arguments[0], step
    return arguments[0], arguments[1], arguments[2] if len(arguments) == 3 else step
