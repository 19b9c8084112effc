"""LLVM: IR text in, addresses of native functions out. The only importer of llvmlite.

IR text is parsed into a module, which two cheap passes simplify. One engine per level turns modules
into machine code, and a function is called by its address. Types of llvmlite are Any here: it
ships none.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import os
import platform
import struct
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gradtape.graph.interrupts import keeping_interrupts

# Held around every call into LLVM, and around a fork: a child must not inherit LLVM, nor
# llvmlite's import and its own lock, in the middle of another thread's compilation.
_lock = threading.RLock()
_serial = itertools.count()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


@dataclass(frozen=True)
class Host:
    """The machine: its kind, the width of vectors in bits, and whether it has libmvec.

    The environment variable GRADTAPE_VECTOR_BITS (128, 256 or 512) limits the width, to measure
    what a smaller machine would do, or where wide vectors slow the clock down.
    """

    machine: str
    bits: int
    libmvec: bool
    # Whether it multiplies and adds in one instruction.
    fused: bool


class Compiled:
    """The functions of a compiled module, by name. Code is never unloaded."""

    def __init__(self, addresses: dict[str, int]) -> None:
        self._addresses = addresses

    def address(self, name: str) -> int:
        """The address of a function of the module."""
        found = self._addresses.get(name)
        if not found:
            raise AssertionError(f"codegen: the module has no function {name}")
        return found


@lru_cache(maxsize=1)
def _binding() -> Any:
    """llvmlite, which is initialised too."""
    with _lock:
        # Imported at the first compilation: it takes 0.4 s.
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm


@lru_cache(maxsize=1)
def host() -> Host:
    """The machine that this process runs on."""
    machine = platform.machine()
    with _lock, keeping_interrupts():
        llvm = _binding()
        features = llvm.get_host_cpu_features()
        libmvec = machine == "x86_64" and _load_libmvec(llvm)
    if features.get("avx512f") and features.get("avx512dq") and features.get("avx512bw"):
        bits = 512
    elif features.get("avx2"):
        bits = 256
    else:
        bits = 128
    # Every processor with AVX2 that is sold has FMA; AArch64 always has it.
    fused = bits >= 256 or machine in ("aarch64", "arm64")
    return Host(machine, min(bits, _vector_limit()), libmvec, fused)


def _vector_limit() -> int:
    text = os.environ.get("GRADTAPE_VECTOR_BITS") or "512"
    if text not in ("128", "256", "512"):
        raise ValueError(f"GRADTAPE_VECTOR_BITS={text!r} is unknown. Use 128, 256 or 512.")
    return int(text)


def _load_libmvec(llvm: Any) -> bool:
    try:
        llvm.load_library_permanently("libmvec.so.1")
    except RuntimeError:
        return False
    return True


def has_symbol(name: str) -> bool:
    """Whether a C symbol can be called by name from compiled code."""
    with _lock:
        return bool(_binding().address_of_symbol(name))


def add_symbol(name: str, address: int) -> None:
    """Make an address callable by name from modules compiled later."""
    with _lock:
        _binding().add_symbol(name, address)


def _new_machine(level: int) -> Any:
    llvm = _binding()
    return llvm.Target.from_default_triple().create_target_machine(
        opt=level,
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        jit=True,
    )


@lru_cache(maxsize=2)
def _machine(level: int) -> Any:
    """The target machine of passes; an engine owns another."""
    return _new_machine(level)


@lru_cache(maxsize=2)
def _engine(level: int) -> Any:
    """The engine of all modules of a level; an engine for each module would take a megabyte."""
    llvm = _binding()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _new_machine(level))
    # Never freed: threads may be in its code even when the interpreter ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    return engine


def compile_ir(text: str, level: int = 2) -> Compiled:
    """Compile a module of IR text for this machine.

    Level 0 is for code that waits more than it computes: it compiles four times as fast.
    """
    with _lock, keeping_interrupts():
        llvm = _binding()
        module = llvm.parse_assembly(text)
        machine = _machine(level)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        unique = _named_apart(module)
        if level:
            _optimize(llvm, module, machine)
        engine = _engine(level)
        engine.add_module(module)
        engine.finalize_object()
        addresses = {name: engine.get_function_address(new) for name, new in unique.items()}
        # The machine code stays with the engine; the IR is not needed any more.
        engine.remove_module(module)
        module.close()
        return Compiled(addresses)


def _named_apart(module: Any) -> dict[str, str]:
    """Rename the functions of a module: the engine has one name space for all modules."""
    number = next(_serial)
    found = {}
    for function in module.functions:
        if not function.is_declaration and function.linkage.name == "external":
            name = function.name
            found[name] = function.name = f"{name}.{number}"
    return found


def _optimize(llvm: Any, module: Any, machine: Any) -> None:
    """Run the two passes that pay: the IR is vector code without variables in memory already.

    LLVM's pipeline of level 1 takes two to ten times as long and improves next to nothing more.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_function_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def assembly(text: str) -> str:
    """The machine code of a module as text, to read."""
    with _lock:
        llvm = _binding()
        module = llvm.parse_assembly(text)
        machine = _machine(2)
        _optimize(llvm, module, machine)
        return str(machine.emit_assembly(module))


def callable_at(address: int, *kinds: Any, keep_gil: bool = False) -> Any:
    """A Python callable for a native function that returns nothing."""
    make = ctypes.PYFUNCTYPE if keep_gil else ctypes.CFUNCTYPE
    return make(None, *kinds)(address)


# Definitions and declarations that a module must contain, each text once.
Snippets = tuple[str, ...]
# The symbol of a function, and the snippets that it needs.
Found = tuple[str, Snippets]


def vector(element: str, lanes: int) -> str:
    """The IR type of so many elements; one lane is a plain scalar."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def real_text(value: float, ty: str) -> str:
    """A number as IR wants it: the bits of the double nearest to the number in its type."""
    if ty == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
