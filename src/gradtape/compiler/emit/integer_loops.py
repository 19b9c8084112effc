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
from dataclasses import field

import numpy as np
import numpy.typing as npt

from gradtape.compiler.objects import llvm
from gradtape.records import dataclass

_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add i64",
    ast.Sub: "sub i64",
    ast.Mult: "mul i64",
    ast.FloorDiv: "sdiv i64",
    ast.Mod: "srem i64",
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
    texts, signatures = _translated(functions)
    compiled = llvm.compile_ir("\n".join(texts), level=1)
    return {
        name: _callable(compiled.address(name), signature) for name, signature in signatures.items()
    }


def integer_text(functions: Sequence[Callable[..., int]]) -> str:
    """The IR of functions, for people to read."""
    return "\n".join(_translated(functions)[0])


def _translated(functions: Sequence[Callable[..., int]]) -> tuple[list[str], dict[str, Signature]]:
    signatures: dict[str, Signature] = {}
    texts = []
    for function in functions:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef)
        translator = Translator(definition, signatures)
        texts.append(translator.text())
        signatures[definition.name] = translator.signature
    return texts, signatures


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


@dataclass
class Translator:
    """Translates one function: variables are on the stack, and LLVM moves them to registers."""

    definition: ast.FunctionDef
    known: dict[str, Signature]
    lines: list[str] = field(default_factory=list)
    slots: dict[str, None] = field(default_factory=dict)
    loops: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.signature = _signature(self.definition, self.known)

    def text(self) -> str:
        self._block(self.definition.body)
        kinds = [
            f"ptr noalias %{name}" if name in self.signature.arrays else f"i64 %{name}"
            for name in self.signature.names
        ]
        entry = [f"  %{name}.slot = alloca i64" for name in self.slots]
        entry += [
            f"  store i64 %{name}, ptr %{name}.slot"
            for name in self.signature.names
            if name in self.slots
        ]
        head = f"define i64 @{self.definition.name}({', '.join(kinds)}) {{"
        return "\n".join([head, "entry:", *entry, *self.lines, "  ret i64 0", "}"])

    def _let(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def _labels(self, *names: str) -> list[str]:
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def _jump(self, name: str) -> None:
        self.lines.append(f"  br label %{name}")

    def _unreachable(self) -> None:
        """Begin a block that nothing reaches: IR wants one after each jump."""
        self._label(self._labels("after")[0])

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, item: ast.stmt) -> None:
        if isinstance(item, ast.Assign) and len(item.targets) == 1:
            self._store(item.targets[0], self._value(item.value))
        elif isinstance(item, ast.AugAssign):
            source = ast.BinOp(_loaded(item.target), item.op, item.value)
            self._store(item.target, self._value(source))
        elif isinstance(item, ast.If):
            self._if(item)
        elif isinstance(item, ast.While):
            self._loop(item.test, item.body, [])
        elif isinstance(item, ast.For):
            self._for(item)
        elif isinstance(item, ast.Break):
            self._jump(self.loops[-1][1])
            self._unreachable()
        elif isinstance(item, ast.Continue):
            self._jump(self.loops[-1][0])
            self._unreachable()
        elif isinstance(item, ast.Return) and item.value is not None:
            self.lines.append(f"  ret i64 {self._value(item.value)}")
            self._unreachable()
        elif isinstance(item, ast.Expr):
            if not isinstance(item.value, ast.Constant):
                self._value(item.value)
        else:
            self._refuse(item)

    def _store(self, target: ast.expr, value: str) -> None:
        if isinstance(target, ast.Name):
            self.slots[target.id] = None
            self.lines.append(f"  store i64 {value}, ptr %{target.id}.slot")
        elif isinstance(target, ast.Subscript):
            self.lines.append(f"  store i64 {value}, ptr {self._address(target)}")
        else:
            self._refuse(target)

    def _address(self, item: ast.Subscript) -> str:
        assert isinstance(item.value, ast.Name)
        return self._let(f"getelementptr i64, ptr %{item.value.id}, i64 {self._value(item.slice)}")

    def _if(self, item: ast.If) -> None:
        then, otherwise, end = self._labels("then", "else", "end")
        self._branch(item.test, then, otherwise)
        self._label(then)
        self._block(item.body)
        self._jump(end)
        self._label(otherwise)
        self._block(item.orelse)
        self._jump(end)
        self._label(end)

    def _loop(self, test: ast.expr, body: Sequence[ast.stmt], step: list[ast.stmt]) -> None:
        head, inside, again, end = self._labels("head", "body", "step", "done")
        self._jump(head)
        self._label(head)
        self._branch(test, inside, end)
        self._label(inside)
        self.loops.append((again, end))
        self._block(body)
        self.loops.pop()
        self._jump(again)
        self._label(again)
        self._block(step)
        self._jump(head)
        self._label(end)

    def _for(self, item: ast.For) -> None:
        called = item.iter
        is_range = isinstance(called, ast.Call) and getattr(called.func, "id", "") == "range"
        if not is_range or not isinstance(item.target, ast.Name) or item.orelse:
            self._refuse(item)
        assert isinstance(called, ast.Call)
        assert isinstance(item.target, ast.Name)
        first, last, step = _range(called.args)
        (stop,) = self._labels("stop")
        self._store(item.target, self._value(first))
        self._store(ast.Name(stop), self._value(last))
        variable = ast.Name(item.target.id)
        test = ast.Compare(variable, [ast.Lt()], [ast.Name(stop)])
        self._loop(test, item.body, [ast.AugAssign(ast.Name(item.target.id), ast.Add(), step)])

    def _branch(self, test: ast.expr, yes: str, no: str) -> None:
        """Jump by a condition; the parts of `and` and `or` are tested in order, as in Python."""
        if isinstance(test, ast.BoolOp):
            for part in test.values[:-1]:
                (following,) = self._labels("also")
                if isinstance(test.op, ast.And):
                    self._branch(part, following, no)
                else:
                    self._branch(part, yes, following)
                self._label(following)
            self._branch(test.values[-1], yes, no)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._branch(test.operand, no, yes)
        else:
            if isinstance(test, ast.Compare):
                bit = self._compared(test)
            else:
                bit = self._let(f"icmp ne i64 {self._value(test)}, 0")
            self.lines.append(f"  br i1 {bit}, label %{yes}, label %{no}")

    def _compared(self, item: ast.Compare) -> str:
        if len(item.ops) != 1 or type(item.ops[0]) not in _COMPARISONS:
            self._refuse(item)
        left, right = self._value(item.left), self._value(item.comparators[0])
        return self._let(f"icmp {_COMPARISONS[type(item.ops[0])]} i64 {left}, {right}")

    def _value(self, item: ast.expr) -> str:
        if isinstance(item, ast.Constant) and isinstance(item.value, int):
            return str(int(item.value))
        if isinstance(item, ast.Name):
            if item.id in self.signature.arrays:
                return f"%{item.id}"
            self.slots[item.id] = None
            return self._let(f"load i64, ptr %{item.id}.slot")
        if isinstance(item, ast.Subscript):
            return self._let(f"load i64, ptr {self._address(item)}")
        if isinstance(item, ast.BinOp) and type(item.op) in _ARITHMETIC:
            left, right = self._value(item.left), self._value(item.right)
            return self._let(f"{_ARITHMETIC[type(item.op)]} {left}, {right}")
        if isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub):
            return self._let(f"sub i64 0, {self._value(item.operand)}")
        if isinstance(item, ast.Compare):
            return self._let(f"zext i1 {self._compared(item)} to i64")
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name):
            called = self.known.get(item.func.id)
            if called is not None:
                listed = ", ".join(
                    f"{'ptr' if name in called.arrays else 'i64'} {self._value(argument)}"
                    for name, argument in zip(called.names, item.args, strict=True)
                )
                return self._let(f"call i64 @{item.func.id}({listed})")
        self._refuse(item)
        raise AssertionError

    def _refuse(self, item: ast.AST) -> None:
        raise NotImplementedError(
            f"integers: `{ast.unparse(item)}` in {self.definition.name} cannot be translated. "
            "Use only the statements that gradtape.compiler.emit.integer_loops lists."
        )


def _loaded(target: ast.expr) -> ast.expr:
    """The target of an assignment, as an expression to read."""
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice)
    return target


def _range(arguments: list[ast.expr]) -> tuple[ast.expr, ast.expr, ast.expr]:
    first: ast.expr = ast.Constant(0)
    step: ast.expr = ast.Constant(1)
    if len(arguments) == 1:
        return first, arguments[0], step
    return arguments[0], arguments[1], arguments[2] if len(arguments) == 3 else step
