"""What a code object reads by name: globals, attributes and modules, found once in its bytecode."""

from __future__ import annotations

import dis
import functools
from dataclasses import dataclass
from types import CodeType

# Instructions that read or write a global of the module, or a built-in.
_GLOBAL = frozenset(
    ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
)
# Instructions that read or write an attribute of whatever object is on the stack.
_ATTRIBUTE = frozenset(
    ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM")
)
# Names with which code reads attributes that it does not name: special attributes that show all
# others, built-ins, and templates such as "{0.rate}".
_WHOLE = frozenset(
    ("__dict__", "__getattribute__", "__getattr__", "__slots__", "__annotations__", "getattr",
     "hasattr", "setattr", "delattr", "vars", "dir", "format", "format_map")
)  # fmt: skip
# Attributes by which code leaves what it can name: scopes of other functions, and frames.
_ESCAPES = frozenset(
    ("__globals__", "__builtins__", "__closure__", "cell_contents", "f_globals", "f_locals",
     "f_builtins", "f_back", "gi_frame", "cr_frame", "ag_frame", "tb_frame", "__subclasses__")
)  # fmt: skip
_SKIPPED = frozenset(("CACHE", "NOP", "EXTENDED_ARG", "RESUME", "PUSH_NULL", "PRECALL"))

Chain = tuple[str, ...]


@dataclass(frozen=True)
class CodeReads:
    """Names that one code object reads, whatever path it takes."""

    globals: frozenset[str]
    attributes: frozenset[str]
    # Attributes read straight from a global, as `np.random.normal`; a global that is used in
    # another way stands alone.
    chains: frozenset[Chain]
    # Chains that are not called on the spot, but passed on: `map(print, rows)`.
    passed: frozenset[Chain]
    modules: frozenset[str]
    # Whether it may read attributes whose names it does not write down, and names that it writes
    # down as text, as in `getattr(cell, "call")`.
    any_attribute: bool
    texts: frozenset[str]
    # Whether it has a handler: then it may have noticed that a name is missing.
    handles_errors: bool
    # Names by which it reads scopes and frames of other code.
    escapes: frozenset[str]


@functools.lru_cache(maxsize=4096)
def reads_of(code: CodeType) -> CodeReads:
    """The names that a code object reads, not counting functions defined inside it."""
    found: dict[str, set[str]] = {"globals": set(), "attributes": set(), "modules": set()}
    chains: set[Chain] = set()
    passed: set[Chain] = set()
    chain: Chain = ()
    called = handles = matches = False
    before = ""

    def end_chain() -> None:
        chains.add(chain)
        if not called:
            passed.add(chain)

    for instruction in dis.get_instructions(code):
        name, operation = instruction.argval, instruction.opname
        if operation in _SKIPPED:
            continue
        if operation in _GLOBAL:
            found["globals"].add(name)
            end_chain()
            chain, called = (name,), _is_callee(instruction)
        elif operation in _ATTRIBUTE:
            found["attributes"].add(name)
            if chain:
                chain, called = (*chain, name), _is_callee(instruction)
        else:
            end_chain()
            chain, called = (), False
            if operation == "IMPORT_NAME":
                found["modules"].add(name)
            handles = handles or operation in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH")
            # `case Rate(number=1.0)` reads attributes whose names are constants or in the class.
            matches = matches or operation == "MATCH_CLASS"
            # `except:` without a class.
            handles = handles or (operation == "POP_TOP" and before == "PUSH_EXC_INFO")
        before = operation
    texts = {each for each in code.co_consts if isinstance(each, str)}
    read = found["globals"] | found["attributes"]
    return CodeReads(
        frozenset(found["globals"]),
        frozenset(found["attributes"]),
        frozenset(chains - {()}),
        frozenset(passed - {()}),
        frozenset(found["modules"]),
        matches or not _WHOLE.isdisjoint(read),
        frozenset(filter(str.isidentifier, texts)),
        handles,
        _ESCAPES & (read | texts),
    )


def _is_callee(instruction: dis.Instruction) -> bool:
    """Whether what is loaded is called on the spot: CPython says so in a bit of the argument."""
    if instruction.opname == "LOAD_METHOD":
        return True
    if instruction.opname == "LOAD_GLOBAL" or (
        instruction.opname == "LOAD_ATTR" and "LOAD_METHOD" not in dis.opmap
    ):
        return bool((instruction.arg or 0) & 1)
    return False


def line_of(code: CodeType, name: str) -> int | None:
    """The first line in which a code object mentions a name."""
    for instruction in dis.get_instructions(code):
        if instruction.argval == name and instruction.positions is not None:
            return instruction.positions.lineno
    return None


def nested_code(code: CodeType) -> set[CodeType]:
    """The code objects of functions that a code object defines, directly or not."""
    found: set[CodeType] = set()
    pending = [code]
    while pending:
        for constant in pending.pop().co_consts:
            if isinstance(constant, CodeType) and constant not in found:
                found.add(constant)
                pending.append(constant)
    return found
