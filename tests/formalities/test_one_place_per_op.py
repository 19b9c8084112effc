"""One place per op: outside `ops/` nothing is decided by the name or the family of an op.

What a stage has to know of an op is a rule, a field or a property of Op. A stage that means one op
imports its Op. So a registered name as a string outside `ops/` is either something else that is
spelled alike, and listed here, or a mistake.
"""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradtape import ops
from gradtape.ir.op import REGISTRY

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gradtape"
SOURCES = [
    path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "ops"
]

# Modules that `import gradtape` leaves for later declare ops too.
for _module in pkgutil.walk_packages(ops.__path__, prefix="gradtape.ops."):
    importlib.import_module(_module.name)
NAMES = frozenset(REGISTRY)

# Folders and files whose strings are names of another library, or words that users pass.
OTHER_NAMES = (
    "tf/",  # TensorFlow's functions, keyword arguments and activations
    "nn/",  # activations, reductions and merge modes that users name
    "optimizers/",  # the same
    "interop/numpy_protocols/",  # NumPy's functions and parameters
    "suggestions.py",  # names of other libraries, and ours for them
)

# Instructions of LLVM, functions of C and fields of plans that generated code names.
EMITTED = {"add", "cbrt", "ceil", "cos", "exp", "exp2", "expm1", "floor", "log2", "maximum", "scan",
           "sin", "split", "sqrt", "trunc"}  # fmt: skip

# Words that are spelled like an op and mean something else, by file; all but EMITTED.
WORDS = {
    "tools/tracebacks.py": {"full"},  # a choice
    "tape/user_code.py": {"abs", "max", "min", "pow", "round", "sum"},  # builtins of Python
    "compiler/cpython/native_recorder.py": {  # slots of Python's number protocol
        "add", "divide", "equal", "greater", "greater_equal", "less", "less_equal", "matmul",
        "multiply", "negative", "not_equal", "pow", "subtract",
        "log",  # a slot of recordings
    },
    "compiler/cpython/lookup.py": {"log"},  # a slot of recordings
    "trace/recording.py": {"log"},  # a slot
    "compiler/cpython/recorder.py": {"add", "divide", "matmul", "multiply", "subtract"},
    "control/callbacks.py": {"numpy_function", "py_function"},  # functions, in their errors
    "control/scan.py": {"scan"},  # the function, in its errors
    "extend.py": {"any", "real"},  # dtypes that an op accepts and gives
    "ir/node.py": {"leaf", "pick", "placeholder"},  # declared there: graphs are made of them
    # Functions of the modules operator and math.
    "trace/followed_number.py": {"abs", "add", "ceil", "floor", "pow", "trunc"},
    "compiler/machine_limits.py": {"max"},  # a word in a file of Linux
    "compiler/lower/native_loops.py": {"maximum", "scan"},  # a field and a generated function
    "autodiff/sparse/pattern.py": {"all"},  # a word of a text
    "tools/command_line/main.py": {"add"},  # an attribute of argparse
    "training/early_stopping.py": {"max", "min"},  # modes, as in Keras
}  # fmt: skip


# Lists of public names: those of the module, and those that are imported when first named.
EXPORTS = {"__all__", "_LATER", "_PACKAGES"}


def ignored(tree: ast.AST) -> set[ast.AST]:
    """Everything inside lists of public names, and the pieces of f-strings."""
    found: set[ast.AST] = set()
    for item in ast.walk(tree):
        if isinstance(item, ast.JoinedStr):
            found.update(item.values)
        if isinstance(item, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            if any(isinstance(target, ast.Name) and target.id in EXPORTS for target in targets):
                found.update(ast.walk(item))
    return found


def is_name_of_op(item: ast.AST) -> bool:
    """Whether an expression is `op.name`, or `something.op.name`."""
    if not isinstance(item, ast.Attribute) or item.attr != "name":
        return False
    base = item.value
    return getattr(base, "attr", None) == "op" or getattr(base, "id", None) == "op"


def decided_by_name(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comparisons and look-ups by the name of an op, and every use of a family."""
    for item in ast.walk(tree):
        operands: list[ast.AST] = []
        if isinstance(item, ast.Compare):
            operands = [item.left, *item.comparators]
        elif isinstance(item, ast.Subscript):
            operands = [item.slice]
        elif isinstance(item, ast.Call) and getattr(item.func, "attr", None) == "get":
            operands = list(item.args)
        if any(is_name_of_op(operand) for operand in operands):
            yield item.lineno, ast.unparse(item)
        if isinstance(item, ast.Attribute) and item.attr == "family":
            yield item.lineno, ast.unparse(item)


def faults(text: str, file: str, names: frozenset[str] = NAMES) -> list[str]:
    tree = ast.parse(text)
    if file.startswith(OTHER_NAMES):
        return []
    emitted = EMITTED if file.startswith("compiler/emit/") else set()
    skipped, words = ignored(tree), WORDS.get(file, emitted)
    found = [
        f"{file}:{item.lineno}: {item.value!r} is the name of an op"
        for item in ast.walk(tree)
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
        if item.value in names and item.value not in words and item not in skipped
    ]
    # Op itself, and the functions that enter an op in the registry, do compare names.
    if file not in ("ir/op.py", "extend.py"):
        found += [f"{file}:{line}: {what}" for line, what in decided_by_name(tree)]
    return found


def test_no_stage_knows_ops_by_name():
    found = [
        fault
        for path in SOURCES
        for fault in faults(path.read_text("utf-8"), path.relative_to(SOURCE).as_posix())
    ]
    remedy = "Make it a field of Op, or import the Op that is meant; see docs/adding_an_op.md."
    assert not found, "\n".join([*found, remedy])


@pytest.mark.parametrize(
    "text",
    [
        'FAST = {"add", "multiply"}',
        'op = REGISTRY["sum"]',
        "node.op.name == other",
        "node.op.name in FAST",
        "RULES[node.op.name](node)",
        "RULES.get(op.name)",
        "node.op.family in KINDS",
        "kind = op.family",
    ],
)
def test_names_are_found(text):
    assert faults(text, "compiler/passes/fuse.py")


@pytest.mark.parametrize(
    "text",
    [
        '__all__ = ["add", "sum"]',
        'raise ValueError(f"{node.op.name} failed")',
        "node.op is SUM",
        "node.op.view is View.RESHAPE",
        'name = "sums"',
    ],
)
def test_other_uses_pass(text):
    assert not faults(text, "compiler/passes/fuse.py")


def test_exemptions_are_needed():
    """A word that a file no longer has must leave the list."""
    idle = []
    for file, words in WORDS.items():
        path = SOURCE / file
        if path.exists():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            used = {item.value for item in ast.walk(tree) if isinstance(item, ast.Constant)}
            idle += [f"{file}: {word}" for word in sorted(words - used)]
        else:
            idle.append(file)
    emitters = "".join(path.read_text("utf-8") for path in (SOURCE / "compiler/emit").rglob("*.py"))
    idle += [word for word in EMITTED if f'"{word}"' not in emitters]
    assert not idle
