"""LLVM: IR text in, addresses of native functions out. The only importer of llvmlite."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_lock = threading.RLock()
_engines: list[Any] = []


@dataclass(frozen=True)
class Host:
    """What the machine offers: the width of its vectors in bits, and glibc's vector math."""

    machine: str
    bits: int
    libmvec: bool


class Compiled:
    """A compiled module; it must live as long as its functions may be called."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def address(self, name: str) -> int:
        """The address of a function of the module."""
        found = self._engine.get_function_address(name)
        if not found:
            raise AssertionError(f"codegen: the module has no function {name}")
        return found


@lru_cache(maxsize=1)
def _binding() -> Any:
    """llvmlite, imported and initialised at the first compilation: it costs 0.4 s."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@lru_cache(maxsize=1)
def host() -> Host:
    """The machine this process runs on."""
    machine = platform.machine()
    llvm = _binding()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512dq") and features.get("avx512bw"):
        bits = 512
    elif features.get("avx2"):
        bits = 256
    else:
        bits = 128
    return Host(machine, bits, machine == "x86_64" and _load_libmvec(llvm))


def _load_libmvec(llvm: Any) -> bool:
    try:
        llvm.load_library_permanently("libmvec.so.1")
    except RuntimeError:
        return False
    return True


def has_symbol(name: str) -> bool:
    """Whether a C symbol can be called by name from compiled code."""
    return bool(_binding().address_of_symbol(name))


def add_symbol(name: str, address: int) -> None:
    """Make an address callable by name from modules compiled later."""
    _binding().add_symbol(name, address)


@lru_cache(maxsize=1)
def _target() -> Any:
    llvm = _binding()
    return llvm.Target.from_default_triple()


def _machine(level: int) -> Any:
    llvm = _binding()
    return _target().create_target_machine(
        opt=level,
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        jit=True,
    )


def compile_ir(text: str, level: int = 2) -> Compiled:
    """Compile a module of IR text for this machine.

    Level 0 is for code that waits more than it computes: it compiles four times as fast.
    """
    llvm = _binding()
    with _lock:
        module = llvm.parse_assembly(text)
        machine = _machine(level)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        if level:
            _optimize(llvm, module, machine)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        compiled = Compiled(engine)
        # Code is never unloaded: an address handed out stays callable.
        _engines.append(engine)
        return compiled


def _optimize(llvm: Any, module: Any, machine: Any) -> None:
    """The passes that pay: the IR is vector code without variables in memory already.

    LLVM's pipeline of level 1 takes two to ten times as long and finds next to nothing more.
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
    llvm = _binding()
    module = llvm.parse_assembly(text)
    machine = _machine(2)
    _optimize(llvm, module, machine)
    return machine.emit_assembly(module)


def callable_at(address: int, *kinds: Any, keep_gil: bool = False) -> Any:
    """A Python callable for a native function that returns nothing."""
    make = ctypes.PYFUNCTYPE if keep_gil else ctypes.CFUNCTYPE
    return make(None, *kinds)(address)
