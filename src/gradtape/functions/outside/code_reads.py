"""What a code object reads by name: globals, attributes and modules, found once in its bytecode."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import CodeType

from gradtape.process.records import dataclass

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
_SKIPPED = frozenset(("CACHE", "NOP", "RESUME", "PUSH_NULL", "PRECALL"))
# Bits of an argument below the number of the name.
_FLAG_BITS = {"LOAD_GLOBAL": 1, "LOAD_ATTR": int("LOAD_METHOD" not in dis.opmap),
              "LOAD_SUPER_ATTR": 2}  # fmt: skip
_NAMED = {
    number: _FLAG_BITS.get(name, 0) for name, number in dis.opmap.items() if number in dis.hasname
}

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

    for operation, argument, name in instructions(code):
        if operation in _GLOBAL:
            found["globals"].add(name)
            end_chain()
            chain, called = (name,), _is_callee(operation, argument)
        elif operation in _ATTRIBUTE:
            found["attributes"].add(name)
            if chain:
                chain, called = (*chain, name), _is_callee(operation, argument)
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


def instructions(code: CodeType) -> Iterator[tuple[str, int, str]]:
    """The instructions of a code object: operation, argument, and the name that it stands for.

    `dis` also computes lines, jumps and texts of arguments, which takes ten times as long.
    """
    units, names, extended = code.co_code, code.co_names, 0
    for operation, low in zip(units[::2], units[1::2], strict=True):
        argument, extended = extended | low, 0
        if operation == dis.EXTENDED_ARG:
            extended = argument << 8
        elif (bits := _NAMED.get(operation)) is not None:
            yield dis.opname[operation], argument, names[argument >> bits]
        elif dis.opname[operation] not in _SKIPPED:
            yield dis.opname[operation], argument, ""


def _is_callee(operation: str, argument: int) -> bool:
    """Whether what is loaded is called on the spot: CPython says so in a bit of the argument."""
    return operation == "LOAD_METHOD" or (_FLAG_BITS.get(operation) == 1 and bool(argument & 1))


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
