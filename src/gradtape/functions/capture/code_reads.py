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
    (
        "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SPECIAL", "STORE_ATTR", "DELETE_ATTR",
        "IMPORT_FROM",
    )
)  # fmt: skip
# Special attributes that show all others: whoever reads one may read any attribute.
_WHOLE = frozenset(("__dict__", "__getattribute__", "__getattr__", "__slots__", "__annotations__"))


@dataclass(frozen=True)
class CodeReads:
    """Names that one code object reads, whatever path it takes."""

    globals: frozenset[str]
    attributes: frozenset[str]
    # Attributes read straight from a global, as `np.random.normal`; a global that is used in
    # another way stands alone.
    chains: frozenset[tuple[str, ...]]
    modules: frozenset[str]
    # Whether it may read attributes whose names it does not write down.
    any_attribute: bool
    # Whether it compares identities: then it matters which arguments are one object.
    compares_identity: bool
    # Whether it has a handler: then it may have noticed that a name is missing.
    handles_errors: bool


@functools.lru_cache(maxsize=4096)
def reads_of(code: CodeType) -> CodeReads:
    """The names that a code object reads, not counting functions defined inside it."""
    found: dict[str, set[str]] = {"globals": set(), "attributes": set(), "modules": set()}
    chains: set[tuple[str, ...]] = set()
    chain: tuple[str, ...] = ()
    identity = handles = False
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        name, operation = instruction.argval, instruction.opname
        if operation in ("CACHE", "NOP", "EXTENDED_ARG"):
            continue
        if operation in _GLOBAL:
            found["globals"].add(name)
            chains.add(chain)
            chain = (name,)
        elif operation in _ATTRIBUTE:
            found["attributes"].add(name)
            if chain:
                chain = (*chain, name)
                continue
        elif operation == "IMPORT_NAME":
            found["modules"].add(name)
        elif operation == "IS_OP":
            # `x is None` asks for a value, not which of two things is which.
            identity = identity or before is None or before.argval not in (None, True, False)
        elif operation in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
            handles = True
        elif operation == "POP_TOP" and before is not None and before.opname == "PUSH_EXC_INFO":
            handles = True  # `except:` without a class
        if operation not in _GLOBAL:
            chains.add(chain)
            chain = ()
        before = instruction
    return CodeReads(
        frozenset(found["globals"]),
        frozenset(found["attributes"]),
        frozenset(chains - {()}),
        frozenset(found["modules"]),
        not _WHOLE.isdisjoint(found["attributes"]),
        identity,
        handles,
    )


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
