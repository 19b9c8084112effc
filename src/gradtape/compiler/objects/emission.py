"""Emission: IR text to object files, by LLVM's code generator, on all processors.

A module is parsed into a context of its own, which cheap passes simplify. The target machine of its
level turns it into machine code. Callers hold the lock of `llvm`.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from gradtape.compiler.machine_limits import processors
from gradtape.compiler.objects.llvm_library import LLVMError, library, made, text_of
from gradtape.config import TEXT_WORTH_A_THREAD


class Source(NamedTuple):
    """A module of IR text, and the level at which LLVM compiles it."""

    text: str
    level: int = 2
    for_good: bool = True
    # Whether the text has addresses of this process.
    has_addresses: bool = False


class Target(NamedTuple):
    """The dependencies of machine code beside its IR: the processor and the compiler."""

    triple: str
    processor: str
    features: str
    llvmlite: str
    llvm: int


@lru_cache(maxsize=1)
def target() -> Target:
    llvm = library()
    features = sorted(text_of(llvm.GetHostCPUFeatures).split(","), key=lambda each: each[1:])
    return Target(
        text_of(llvm.GetDefaultTargetTriple),
        text_of(llvm.GetHostCPUName),
        ",".join(features),
        llvm.version,
        llvm.GetVersionInfo(),
    )


def new_machine(level: int, processor: str, features: str) -> int:
    """A target machine of LLVM's, for a processor with some features."""
    llvm = library()
    kind = made(llvm.GetTargetFromTriple, target().triple.encode())
    # LLVM's engine reads ELF files on Windows, too.
    triple = target().triple + ("-elf" if os.name == "nt" else "")
    words = (triple.encode(), processor.encode(), features.encode(), level)
    machine: int = llvm.CreateTargetMachine(kind, *words, b"default", b"jitdefault", 0, 1, b"")
    if not machine:
        raise LLVMError(f"codegen: LLVM has no target machine for {triple}, {processor}")
    return machine


class _Tools(NamedTuple):
    """Objects by which one thread compiles modules of a level: LLVM frees none of them.

    There are two passes that pay. The IR is vector code without variables in memory already. LLVM's
    pipeline of level 1 takes two to ten times as long and improves next to nothing more. Code of
    level 3 has variables, which a third pass moves to registers.
    """

    machine: int
    # Its layout of data.
    layout: bytes
    # The passes, and the builder that they are run with; none at level 0.
    passes: int = 0
    builder: int = 0


# Tools by level that no thread has in use.
_idle_tools: dict[int, list[_Tools]] = {}


@contextlib.contextmanager
def _tools(level: int) -> Iterator[_Tools]:
    """Tools for one module: threads that compile at the same time have different ones."""
    idle = _idle_tools.setdefault(level, [])
    try:
        found = idle.pop()
    except IndexError:
        found = _new_tools(level)
    yield found
    idle.append(found)


def _new_tools(level: int) -> _Tools:
    llvm = library()
    machine = new_machine(level, target().processor, target().features)
    data = llvm.CreateTargetMachineData(machine)
    layout = text_of(llvm.CopyStringRepOfTargetData, data).encode()
    llvm.DisposeTargetData(data)
    if not level:
        return _Tools(machine, layout)
    passes = llvm.CreateNewFunctionPassManager()
    if level > 2:
        llvm.function_AddSROAPass(passes)
    llvm.function_AddSimplifyCFGPass(passes)
    llvm.function_AddInstCombinePass(passes)
    builder = llvm.CreatePassBuilder(machine, llvm.CreatePipelineTuningOptions())
    return _Tools(machine, layout, passes, builder)


def emitted_together(sources: Sequence[Source]) -> list[tuple[list[str], bytes]]:
    """The functions and object files of modules, each compiled by one of a few threads.

    Modules have contexts of their own, which LLVM compiles independently.
    """
    found: dict[int, tuple[list[str], bytes]] = {}
    # The longest first: the last ones even out the ends of the threads.
    left = sorted(range(len(sources)), key=lambda number: len(sources[number].text))
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                number = left.pop()
                found[number] = emitted(*sources[number][:2], as_object=True)
        except IndexError:
            pass
        except BaseException as error:
            errors.append(error)

    ends: list[threading.Lock] = []

    def work_beside(end: threading.Lock) -> None:
        work()
        end.release()

    optimised = sum(len(source.text) for source in sources if source.level)
    for _ in range(min(len(sources), processors(), 1 + optimised // TEXT_WORTH_A_THREAD) - 1):
        end = threading.Lock()
        end.acquire()
        # There can be no more threads, or the interpreter is ending: this one does all.
        with contextlib.suppress(RuntimeError):
            _thread.start_new_thread(work_beside, (end,))
            ends.append(end)
    work()
    for end in ends:
        end.acquire()
    if errors:
        raise errors[0]
    return [found[number] for number in range(len(sources))]


def emitted(text: str, level: int, as_object: bool) -> tuple[list[str], bytes]:
    """The functions of a module, and its machine code as an object file or as text."""
    llvm = library()
    # LLVM keeps types and constants for as long as the context lives.
    context = llvm.ContextCreate()
    try:
        module = made(llvm.ParseAssembly, context, text.encode())
        try:
            with _tools(level) as tools:
                llvm.SetTarget(module, target().triple.encode())
                llvm.SetDataLayout(module, tools.layout)
                functions = _functions(module)
                if level:
                    for function in functions:
                        llvm.RunNewFunctionPassManager(tools.passes, function, tools.builder)
                names = [llvm.GetValueName(each).decode() for each in functions if _is_public(each)]
                code = made(llvm.TargetMachineEmitToMemory, tools.machine, module, int(as_object))
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
