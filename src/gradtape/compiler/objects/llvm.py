"""LLVM: IR text in, addresses of native functions out.

The object file of a module is on disk, or `emission` makes it. An engine of its own loads it, and a
function is called by its address.
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
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gradtape.compiler.objects.emission import (
    Source,
    emitted,
    emitted_together,
    new_machine,
    target,
)
from gradtape.compiler.objects.llvm_library import LLVMError, library, made, text_of
from gradtape.concurrency import uninterrupted
from gradtape.config import UNCLAIMED_OBJECTS, variable
from gradtape.ir.logs import Log
from gradtape.records import dataclass

_log = Log("compiler")

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
        known = target()
        libmvec = machine == "x86_64" and _opens("libmvec.so.1")
    features = set(known.features.split(","))
    has_512 = features.issuperset(("+avx512f", "+avx512dq", "+avx512bw"))
    bits = 512 if has_512 else 256 if "+avx2" in features else 128
    # Every processor with AVX2 that is sold has FMA; AArch64 always has it.
    fused = bits >= 256 or machine in ("aarch64", "arm64")
    limited = min(bits, _vector_limit())
    return Host(machine, limited, libmvec, fused, has_512, known.processor in _IN_HALVES)


def aligned_stack(nbytes: int) -> str:
    """The attribute of a function that may spill vectors of `nbytes` to the stack.

    LLVM leaves the stack as it is, a multiple of 16 bytes, if the function has no other use for a
    frame pointer. Vectors then lie across two cache lines in some processes and not in others, by
    where the kernel has put the stack: a loop around `exp` took 1.0, 1.7 or 3.4 times as long.
    """
    # A power of two that holds the vector, or a cache line.
    aligned = min(1 << (nbytes - 1).bit_length(), 64)
    return f"alignstack({aligned})" if aligned > 16 else ""


def _vector_limit() -> int:
    return int(variable("VECTOR_BITS", "512", ("128", "256", "512")))


def _opens(name: str) -> bool:
    """Whether a shared library can be opened for compiled code."""
    error = text_of(library().LoadLibraryPermanently, name.encode())
    return not error


def has_symbol(name: str) -> bool:
    """Whether a C symbol can be called by name from compiled code."""
    with _lock:
        return bool(library().SearchAddressOfSymbol(name.encode()))


def add_symbol(name: str, address: int) -> None:
    """Make an address callable by name from modules compiled later."""
    with _lock:
        library().AddSymbol(name.encode(), address)


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


class Counts:
    """The number of modules that were compiled, or loaded from disk."""

    modules = 0


def compile_ir(
    text: str, level: int = 2, for_good: bool = True, has_addresses: bool = False
) -> Compiled:
    """Compile a module of IR text for this machine; see `compile_modules`."""
    return compile_modules([Source(text, level, for_good, has_addresses)])[0]


class NativeModule:
    """Native code that is compiled with the first plan that needs it, or for its address."""

    __slots__ = ("__weakref__", "_code", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self._code: Compiled | None = None

    @property
    def is_compiled(self) -> bool:
        """Whether its addresses are known."""
        return self._code is not None

    def take(self, code: Compiled) -> None:
        """Note the code that was compiled together with that of others."""
        self._code = self._code or code

    def address(self, name: str) -> int:
        """The address of a function."""
        if self._code is None:
            self.take(compile_modules([self.source])[0])
        assert self._code is not None
        return self._code.address(name)


class NativeFunction(NamedTuple):
    """A function of a module that may not be compiled yet."""

    module: NativeModule
    name: str


def compile_modules(sources: Sequence[Source]) -> list[Compiled]:
    """Compile modules for this machine, on as many processors as there are.

    A text with addresses of this process is not kept on disk: another process has no use for it.

    Level 0 is for code that waits more than it computes: it compiles four times as fast. Level 3 is
    for routines with variables in memory, which are moved to registers. Code that
    is not compiled for good is freed some time after the `Compiled` has died: a plan that may
    run it must hold that.
    """
    Counts.modules += len(sources)
    begin = time.perf_counter()
    found = [_loaded(source, each) for source, each in zip(sources, _objects(sources), strict=True)]
    _log.debug(
        "%d modules, of which %d were on disk: %d bytes in %.1f ms",
        len(found),
        sum(each.loaded for each in found),
        sum(each.nbytes for each in found),
        (time.perf_counter() - begin) * 1e3,
    )
    return found


# The functions of a module, its object file, and whether that was on disk.
Object = tuple[list[str], bytes, bool]


def _loaded(source: Source, found_object: Object) -> Compiled:
    """The code of an object file, loaded."""
    names, content, from_disk = found_object
    try:
        engine = _engine(content)
    except LLVMError:
        if not from_disk:
            raise
        ((names, content, from_disk),) = _objects([source], from_disk=False)
        engine = _engine(content)
    # An interrupt leaves the thread behind that compiles: what it makes is kept for the next call.
    _unclaimed.pop((source.text, source.level), None)
    with _lock:
        address = library().GetFunctionAddress
        addresses = {name: address(engine, name.encode()) for name in names}
    found = Compiled(addresses, from_disk, len(content))
    if not source.for_good:
        _engines[weakref.ref(found, _dead.append)] = engine
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
        engine = made(llvm.CreateMCJITCompiler, module, new_machine(0, "", ""), own_memory)
        llvm.MCJITAddObjectFile(engine, file)
        llvm.DisposeObjectFile(file)
        llvm.FinalizeObject(engine)
        return engine


def _objects(sources: Sequence[Source], from_disk: bool = True) -> list[Object]:
    """The object files of modules: from disk where they are known, else compiled together."""
    # Loaded with the compiler.
    from gradtape.compiler.objects import object_cache

    with _lock:
        machine = target()
    found: list[Object | None] = []
    entries: list[str | None] = []
    for text, level, _, has_addresses in sources:
        entry = None if has_addresses else object_cache.key(text, str(level), *map(str, machine))
        known = object_cache.load(entry) if entry is not None and from_disk else None
        kept = None if known else _unclaimed.get((text, level))
        found.append((*known, True) if known else (*kept, False) if kept else None)
        entries.append(entry)
    missing = [number for number, each in enumerate(found) if each is None]
    if missing:
        made_now = _new_objects([(sources[number], entries[number]) for number in missing])
        for number, content in zip(missing, made_now, strict=True):
            found[number] = (*content, False)
    return [each for each in found if each is not None]


@uninterrupted
def _new_objects(wanted: Sequence[tuple[Source, str | None]]) -> list[tuple[list[str], bytes]]:
    """Compile modules, and write them to disk as entries."""
    # Loaded with the compiler.
    from gradtape.compiler.objects import object_cache

    with _lock:
        results = emitted_together([source for source, _ in wanted])
        for (source, entry), (names, content) in zip(wanted, results, strict=True):
            if entry is not None:
                object_cache.save(entry, names, content)
            while len(_unclaimed) >= max(UNCLAIMED_OBJECTS, len(wanted)):
                _unclaimed.pop(next(iter(_unclaimed)))
            _unclaimed[source.text, source.level] = names, content
    return results


def free_code() -> None:
    """Free the machine code that no plan can run any more."""
    if _dead:
        with _lock:
            _free_dead()


def _free_dead() -> None:
    # C code has listed these references. A finaliser would be Python code that runs anywhere, and
    # what a signal handler raises there is lost.
    while _dead:
        library().DisposeExecutionEngine(_engines.pop(_dead.pop()))


def loaded_modules() -> int:
    """The number of loaded modules of machine code that may be freed."""
    return len(_engines)


def assembly(text: str) -> str:
    """The machine code of a module as text, to read."""
    with _lock:
        return emitted(text, 2, as_object=False)[1].decode()


def callable_at(address: int, *kinds: Any, keep_gil: bool = False, returns: Any = None) -> Any:
    """A Python callable for a native function, which returns nothing unless `returns` says it."""
    make = ctypes.PYFUNCTYPE if keep_gil else ctypes.CFUNCTYPE
    return make(returns, *kinds)(address)


# Definitions and declarations that a module must contain, each text once.
Snippets = tuple[str, ...]
# The symbol of a function, and the snippets that it needs.
FoundFunction = tuple[str, Snippets]


def vector(element: str, lanes: int) -> str:
    """The IR type of a vector; one lane is a plain scalar."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def real_text(value: float, ty: str) -> str:
    """A number as text of the IR: the bits of the double nearest to the number in its type."""
    if ty == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
