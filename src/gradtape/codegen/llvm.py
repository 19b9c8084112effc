"""LLVM: IR text in, addresses of native functions out. The only importer of llvmlite.

IR text is parsed into a module, which two cheap passes simplify. The target machine of its level
turns it into machine code, an engine of its own loads that, and a function is called by its
address. Types of llvmlite are Any here: it ships none.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import platform
import struct
import threading
import time
import weakref
from functools import lru_cache
from typing import Any

from gradtape.messages import Log
from gradtape.process.interrupts import uninterrupted
from gradtape.process.records import dataclass

_log = Log("codegen")

# Held around every call into LLVM, and around a fork: a child must not inherit LLVM, nor
# llvmlite's import and its own lock, in the middle of another thread's compilation.
_lock = threading.RLock()


@atexit.register
def _wait_for_helper() -> None:
    """At the exit: wait for the thread that an interrupt left behind in LLVM, which ends then."""
    with _lock:
        pass


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
    # Whether it has vectors of 512 bits, which BLAS then uses whatever the limit is.
    has_512: bool
    # Whether it computes those in two halves, so that they multiply no faster than two of 256 bits.
    in_halves: bool


class Compiled:
    """The functions of a compiled module, by name. Its code may be freed when this object dies."""

    __slots__ = ("__weakref__", "_addresses", "loaded", "nbytes")

    def __init__(self, addresses: dict[str, int], loaded: bool = False, nbytes: int = 0) -> None:
        self._addresses = addresses
        # The size of its object file.
        self.nbytes = nbytes
        # Whether the machine code was on disk.
        self.loaded = loaded

    def address(self, name: str) -> int:
        """The address of a function of the module."""
        found = self._addresses.get(name)
        if not found:
            raise AssertionError(f"codegen: the module has no function {name}")
        return found


def importing() -> contextlib.AbstractContextManager[object]:
    """A context in which modules of the compiler are imported.

    A fork waits for its end: a child would wait for ever for an import that another thread began.
    """
    return _lock


@lru_cache(maxsize=1)
def _binding() -> Any:
    """llvmlite, which is initialised too."""
    with _lock:
        # Imported at the first compilation: it takes 0.4 s.
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm


# Processors, by LLVM's names, whose units for vectors of 512 bits are 256 bits wide.
_IN_HALVES = frozenset({"znver4"})


@lru_cache(maxsize=1)
@uninterrupted
def host() -> Host:
    """The machine that this process runs on."""
    machine = platform.machine()
    with _lock:
        llvm = _binding()
        features = llvm.get_host_cpu_features()
        processor = llvm.get_host_cpu_name()
        libmvec = machine == "x86_64" and _load_libmvec(llvm)
    has_512 = all(features.get(name) for name in ("avx512f", "avx512dq", "avx512bw"))
    bits = 512 if has_512 else 256 if features.get("avx2") else 128
    # Every processor with AVX2 that is sold has FMA; AArch64 always has it.
    fused = bits >= 256 or machine in ("aarch64", "arm64")
    limited = min(bits, _vector_limit())
    return Host(machine, limited, libmvec, fused, has_512, processor in _IN_HALVES)


def aligned_stack(nbytes: int) -> str:
    """The attribute of a function whose vectors of so many bytes may have to wait on the stack.

    LLVM leaves the stack as it is, a multiple of 16 bytes, if the function has no other use for a
    frame pointer. Vectors then lie across two cache lines in some processes and not in others, by
    where the kernel has put the stack: a loop around `exp` took 1.0, 1.7 or 3.4 times as long.
    """
    # A power of two that holds the vector, or a cache line.
    aligned = min(1 << (nbytes - 1).bit_length(), 64)
    return f"alignstack({aligned})" if aligned > 16 else ""


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


@uninterrupted
def has_symbol(name: str) -> bool:
    """Whether a C symbol can be called by name from compiled code."""
    with _lock:
        return bool(_binding().address_of_symbol(name))


@uninterrupted
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


@lru_cache(maxsize=3)
def _machine(level: int) -> Any:
    """The target machine that compiles all modules of a level."""
    return _new_machine(level)


# The engines of modules that may be freed, and references to those that can be freed now.
_engines: dict[weakref.ref[Compiled], Any] = {}
_dead: list[weakref.ref[Compiled]] = []


# Object files that no call has got yet, by their IR and level.
_unclaimed: dict[tuple[str, int], tuple[list[str], bytes]] = {}
_MOST_UNCLAIMED = 8


class Counts:
    """How many modules were compiled, or loaded from disk."""

    modules = 0


def compile_ir(
    text: str, level: int = 2, for_good: bool = True, has_addresses: bool = False
) -> Compiled:
    """Compile a module of IR text for this machine.

    A text with addresses of this process is not kept on disk: another process has no use for it.

    Level 0 is for code that waits more than it computes: it compiles four times as fast. Code that
    is not compiled for good is freed some time after the `Compiled` has died: whoever may run it
    must hold that.
    """
    Counts.modules += 1
    begin = time.perf_counter()
    found = _compile_ir(text, level, for_good, has_addresses)
    # An interrupt leaves the thread behind that compiles: what it makes is kept for the next call.
    _unclaimed.pop((text, level), None)
    _log.debug(
        "%s %s: %d bytes in %.1f ms",
        "loaded" if found.loaded else "compiled",
        "native code" if for_good else "a kernel",
        found.nbytes,
        (time.perf_counter() - begin) * 1e3,
    )
    return found


@uninterrupted
def _compile_ir(text: str, level: int, for_good: bool, has_addresses: bool) -> Compiled:
    with _lock:
        _free_dead()
        # In a function of its own, so that llvmlite's objects die while the lock is held.
        return _compiled(_binding(), text, level, for_good, has_addresses)


def _compiled(llvm: Any, text: str, level: int, for_good: bool, has_addresses: bool) -> Compiled:
    names, content, loaded = _object(llvm, text, level, has_addresses)
    file = llvm.ObjectFileRef.from_data(content)
    if not file and loaded:
        names, content, loaded = _object(llvm, text, level, has_addresses, from_disk=False)
        file = llvm.ObjectFileRef.from_data(content)
    # llvmlite wraps a null pointer where LLVM finds no object file; an engine crashes on that.
    if not file:
        raise RuntimeError(f"codegen: LLVM cannot read the {len(content)} bytes that it emitted")
    # An engine that compiles would take most of a megabyte; one that only loads takes 30 kB.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _new_machine(0))
    engine.add_object_file(file)
    engine.finalize_object()
    addresses = {name: engine.get_function_address(name) for name in names}
    compiled = Compiled(addresses, loaded, len(content))
    # Python does not free it at its end: threads may be in its code even then.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    if not for_good:
        _engines[weakref.ref(compiled, _dead.append)] = engine
    return compiled


def _object(
    llvm: Any, text: str, level: int, has_addresses: bool, from_disk: bool = True
) -> tuple[list[str], bytes, bool]:
    """The functions of a module, its object file, and whether that was on disk."""
    # Loaded with the compiler.
    from gradtape.codegen import object_cache

    entry = None if has_addresses else object_cache.key(text, str(level), _target())
    found = object_cache.load(entry) if entry is not None and from_disk else None
    if found is not None:
        return *found, True
    if (text, level) in _unclaimed:
        return *_unclaimed[text, level], False
    # LLVM keeps types and constants for as long as the context lives.
    context = llvm.create_context()
    module = llvm.parse_assembly(text, context)
    machine = _machine(level)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    names = [
        function.name
        for function in module.functions
        if not function.is_declaration and function.linkage.name == "external"
    ]
    if level:
        _optimize(module, level)
    content = machine.emit_object(module)
    module.close()
    context.close()
    if entry is not None:
        object_cache.save(entry, names, content)
    while len(_unclaimed) >= _MOST_UNCLAIMED:
        _unclaimed.pop(next(iter(_unclaimed)))
    _unclaimed[text, level] = names, content
    return names, content, False


@lru_cache(maxsize=1)
def _target() -> str:
    """What machine code depends on beside its IR: the processor and the compiler."""
    # Loaded with the compiler.
    import llvmlite

    llvm = _binding()
    features = llvm.get_host_cpu_features().flatten()
    version = ".".join(map(str, llvm.llvm_version_info))
    parts = llvm.get_default_triple(), llvm.get_host_cpu_name(), features, llvmlite.__version__
    return "\n".join((*parts, version))


@uninterrupted
def free_code() -> None:
    """Free the machine code that nobody can run any more."""
    if _dead:
        with _lock:
            _free_dead()


def _free_dead() -> None:
    # C code has listed these references. A finaliser would be Python code that runs anywhere, and
    # what a signal handler raises there is lost.
    while _dead:
        engine = _engines.pop(_dead.pop())
        engine.close()
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(engine))


def loaded_modules() -> int:
    """How many modules of machine code are loaded that may be freed."""
    return len(_engines)


@lru_cache(maxsize=3)
def _passes(level: int) -> tuple[Any, Any]:
    """The two passes that pay, and the builder that they are run with: llvmlite frees neither.

    The IR is vector code without variables in memory already. LLVM's pipeline of level 1 takes two
    to ten times as long and improves next to nothing more.
    """
    llvm = _binding()
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    passes = llvm.create_new_function_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    return passes, llvm.create_pass_builder(_machine(level), options)


def _optimize(module: Any, level: int) -> None:
    passes, builder = _passes(level)
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


@uninterrupted
def assembly(text: str) -> str:
    """The machine code of a module as text, to read."""
    with _lock:
        llvm = _binding()
        module = llvm.parse_assembly(text)
        _optimize(module, 2)
        return str(_machine(2).emit_assembly(module))


def callable_at(address: int, *kinds: Any, keep_gil: bool = False, returns: Any = None) -> Any:
    """A Python callable for a native function, which returns nothing unless `returns` says it."""
    make = ctypes.PYFUNCTYPE if keep_gil else ctypes.CFUNCTYPE
    return make(returns, *kinds)(address)


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
