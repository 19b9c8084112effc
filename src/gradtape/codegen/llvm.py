"""LLVM: IR text in, addresses of native functions out.

IR text is parsed into a module, which two cheap passes simplify. The target machine of its level
turns it into machine code, an engine of its own loads that, and a function is called by its
address.
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
from typing import Any, NamedTuple

from gradtape.codegen.llvm_library import LLVMError, answer, library, made
from gradtape.messages import Log
from gradtape.process.interrupts import uninterrupted
from gradtape.process.records import dataclass

_log = Log("codegen")

# Held around every call into LLVM, and around a fork: a child must not inherit LLVM in the middle
# of another thread's compilation.
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


# Processors, by LLVM's names, whose units for vectors of 512 bits are 256 bits wide.
_IN_HALVES = frozenset({"znver4"})


@lru_cache(maxsize=1)
def host() -> Host:
    """The machine that this process runs on."""
    machine = platform.machine()
    with _lock:
        target = _target()
        libmvec = machine == "x86_64" and _opens("libmvec.so.1")
    features = set(target.features.split(","))
    has_512 = features.issuperset(("+avx512f", "+avx512dq", "+avx512bw"))
    bits = 512 if has_512 else 256 if "+avx2" in features else 128
    # Every processor with AVX2 that is sold has FMA; AArch64 always has it.
    fused = bits >= 256 or machine in ("aarch64", "arm64")
    limited = min(bits, _vector_limit())
    return Host(machine, limited, libmvec, fused, has_512, target.processor in _IN_HALVES)


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


def _opens(name: str) -> bool:
    """Whether a shared library can be opened for compiled code."""
    error = answer(library().LoadLibraryPermanently, name.encode())
    return not error


def has_symbol(name: str) -> bool:
    """Whether a C symbol can be called by name from compiled code."""
    with _lock:
        return bool(library().SearchAddressOfSymbol(name.encode()))


def add_symbol(name: str, address: int) -> None:
    """Make an address callable by name from modules compiled later."""
    with _lock:
        library().AddSymbol(name.encode(), address)


class Target(NamedTuple):
    """What machine code depends on beside its IR: the processor and the compiler."""

    triple: str
    processor: str
    features: str
    llvmlite: str
    llvm: int


@lru_cache(maxsize=1)
def _target() -> Target:
    llvm = library()
    features = sorted(answer(llvm.GetHostCPUFeatures).split(","), key=lambda each: each[1:])
    return Target(
        answer(llvm.GetDefaultTargetTriple),
        answer(llvm.GetHostCPUName),
        ",".join(features),
        llvm.version,
        llvm.GetVersionInfo(),
    )


def _new_machine(level: int, processor: str, features: str) -> int:
    llvm = library()
    target = made(llvm.GetTargetFromTriple, _target().triple.encode())
    # LLVM's engine reads ELF files on Windows, too.
    triple = _target().triple + ("-elf" if os.name == "nt" else "")
    words = (triple.encode(), processor.encode(), features.encode(), level)
    machine: int = llvm.CreateTargetMachine(target, *words, b"default", b"jitdefault", 0, 1, b"")
    if not machine:
        raise LLVMError(f"codegen: LLVM has no target machine for {triple}, {processor}")
    return machine


@lru_cache(maxsize=3)
def _machine(level: int) -> tuple[int, bytes]:
    """The target machine that compiles all modules of a level, and its layout of data."""
    llvm = library()
    machine = _new_machine(level, _target().processor, _target().features)
    data = llvm.CreateTargetMachineData(machine)
    layout = answer(llvm.CopyStringRepOfTargetData, data).encode()
    llvm.DisposeTargetData(data)
    return machine, layout


@lru_cache(maxsize=1)
def _empty_context() -> int:
    """The context of the empty modules that engines are made with."""
    context: int = library().ContextCreate()
    return context


# The engines of modules that may be freed, and references to those that can be freed now.
_engines: dict[weakref.ref[Compiled], int] = {}
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
    names, content, loaded = _object(text, level, has_addresses)
    try:
        engine = _engine(content)
    except LLVMError:
        if not loaded:
            raise
        names, content, loaded = _object(text, level, has_addresses, from_disk=False)
        engine = _engine(content)
    # An interrupt leaves the thread behind that compiles: what it makes is kept for the next call.
    _unclaimed.pop((text, level), None)
    with _lock:
        address = library().GetFunctionAddress
        addresses = {name: address(engine, name.encode()) for name in names}
    found = Compiled(addresses, loaded, len(content))
    if not for_good:
        _engines[weakref.ref(found, _dead.append)] = engine
    _log.debug(
        "%s %s: %d bytes in %.1f ms",
        "loaded" if loaded else "compiled",
        "native code" if for_good else "a kernel",
        len(content),
        (time.perf_counter() - begin) * 1e3,
    )
    return found


def _engine(content: bytes) -> int:
    """An engine that has loaded an object file.

    One that compiles would take most of a megabyte; one that only loads takes 30 kB. Nothing frees
    it when Python ends: threads may be in its code even then.
    """
    with _lock:
        _free_dead()
        llvm = library()
        file = llvm.CreateObjectFile(content, len(content))
        # The engine would crash on a null pointer.
        if not file:
            raise LLVMError(f"codegen: LLVM cannot read the {len(content)} bytes of an object file")
        module = made(llvm.ParseAssembly, _empty_context(), b"")
        own_memory = platform.machine().lower() in ("arm64", "aarch64")
        engine = made(llvm.CreateMCJITCompiler, module, _new_machine(0, "", ""), own_memory)
        llvm.MCJITAddObjectFile(engine, file)
        llvm.DisposeObjectFile(file)
        llvm.FinalizeObject(engine)
        return engine


def _object(
    text: str, level: int, has_addresses: bool, from_disk: bool = True
) -> tuple[list[str], bytes, bool]:
    """The functions of a module, its object file, and whether that was on disk."""
    # Loaded with the compiler.
    from gradtape.codegen import object_cache

    with _lock:
        target = _target()
    entry = None if has_addresses else object_cache.key(text, str(level), *map(str, target))
    found = object_cache.load(entry) if entry is not None and from_disk else None
    if found is not None:
        return *found, True
    return *(_unclaimed.get((text, level)) or _new_object(text, level, entry)), False


@uninterrupted
def _new_object(text: str, level: int, entry: str | None) -> tuple[list[str], bytes]:
    """Compile a module, and write it to disk as an entry."""
    # Loaded with the compiler.
    from gradtape.codegen import object_cache

    with _lock:
        names, content = _emitted(text, level, as_object=True)
        if entry is not None:
            object_cache.save(entry, names, content)
        while len(_unclaimed) >= _MOST_UNCLAIMED:
            _unclaimed.pop(next(iter(_unclaimed)))
        _unclaimed[text, level] = names, content
    return names, content


def _emitted(text: str, level: int, as_object: bool) -> tuple[list[str], bytes]:
    """The functions of a module, and its machine code as an object file or as text."""
    llvm = library()
    machine, layout = _machine(level)
    # LLVM keeps types and constants for as long as the context lives.
    context = llvm.ContextCreate()
    try:
        module = made(llvm.ParseAssembly, context, text.encode())
        try:
            llvm.SetTarget(module, _target().triple.encode())
            llvm.SetDataLayout(module, layout)
            functions = _functions(module)
            if level:
                passes, builder = _passes(level)
                for function in functions:
                    llvm.RunNewFunctionPassManager(passes, function, builder)
            names = [llvm.GetValueName(each).decode() for each in functions if _is_public(each)]
            code = made(llvm.TargetMachineEmitToMemory, machine, module, int(as_object))
            content = ctypes.string_at(llvm.GetBufferStart(code), llvm.GetBufferSize(code))
            llvm.DisposeMemoryBuffer(code)
            return names, content
        finally:
            llvm.DisposeModule(module)
    finally:
        llvm.ContextDispose(context)


def _functions(module: int) -> list[int]:
    """The functions that a module defines."""
    llvm = library()
    found: list[int] = []
    iterator = llvm.ModuleFunctionsIter(module)
    while function := llvm.FunctionsIterNext(iterator):
        if not llvm.IsDeclaration(function):
            found.append(function)
    llvm.DisposeFunctionsIter(iterator)
    return found


def _is_public(function: int) -> bool:
    return bool(library().GetLinkage(function) == 0)


def free_code() -> None:
    """Free the machine code that nobody can run any more."""
    if _dead:
        with _lock:
            _free_dead()


def _free_dead() -> None:
    # C code has listed these references. A finaliser would be Python code that runs anywhere, and
    # what a signal handler raises there is lost.
    while _dead:
        library().DisposeExecutionEngine(_engines.pop(_dead.pop()))


def loaded_modules() -> int:
    """How many modules of machine code are loaded that may be freed."""
    return len(_engines)


@lru_cache(maxsize=3)
def _passes(level: int) -> tuple[int, int]:
    """The two passes that pay, and the builder that they are run with: LLVM frees neither.

    The IR is vector code without variables in memory already. LLVM's pipeline of level 1 takes two
    to ten times as long and improves next to nothing more.
    """
    llvm = library()
    passes = llvm.CreateNewFunctionPassManager()
    llvm.function_AddSimplifyCFGPass(passes)
    llvm.function_AddInstCombinePass(passes)
    return passes, llvm.CreatePassBuilder(_machine(level)[0], llvm.CreatePipelineTuningOptions())


def assembly(text: str) -> str:
    """The machine code of a module as text, to read."""
    with _lock:
        return _emitted(text, 2, as_object=False)[1].decode()


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
