"""The functions of LLVM that gradtape calls, in the library that llvmlite brings along.

llvmlite's Python modules declare all of LLVM and load packages for building IR: importing them
takes 55 ms where opening the library takes 10, and most programs compile once. So the library is
called directly, by the declarations below. They are the same in llvmlite 0.45 to 0.50; a test
compares them with llvmlite's own. Other versions are refused: a wrong declaration would crash.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any

# The versions of llvmlite whose library is declared here, by their second number.
OLDEST, NEWEST = 45, 50

_text = ctypes.POINTER(c_char_p)

# The result and the arguments of each function; c_void_p is an object of LLVM's.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "AddSymbol": (None, c_char_p, c_void_p),
    "ContextCreate": (c_void_p,),
    "ContextDispose": (None, c_void_p),
    "CopyStringRepOfTargetData": (None, c_void_p, _text),
    "CreateMCJITCompiler": (c_void_p, c_void_p, c_void_p, c_bool, _text),
    "CreateNewFunctionPassManager": (c_void_p,),
    "CreateObjectFile": (c_void_p, c_char_p, c_size_t),
    "CreatePassBuilder": (c_void_p, c_void_p, c_void_p),
    "CreatePipelineTuningOptions": (c_void_p,),
    "CreateTargetMachine": (
        *(c_void_p, c_void_p, c_char_p, c_char_p, c_char_p, c_int),
        *(c_char_p, c_char_p, c_int, c_int, c_char_p),
    ),
    "CreateTargetMachineData": (c_void_p, c_void_p),
    "DisposeExecutionEngine": (None, c_void_p),
    "DisposeFunctionsIter": (None, c_void_p),
    "DisposeMemoryBuffer": (None, c_void_p),
    "DisposeModule": (None, c_void_p),
    "DisposeObjectFile": (None, c_void_p),
    "DisposeString": (None, c_void_p),
    "DisposeTargetData": (None, c_void_p),
    "FinalizeObject": (None, c_void_p),
    "FunctionsIterNext": (c_void_p, c_void_p),
    "GetBufferSize": (c_size_t, c_void_p),
    "GetBufferStart": (c_void_p, c_void_p),
    "GetDefaultTargetTriple": (None, _text),
    "GetFunctionAddress": (c_uint64, c_void_p, c_char_p),
    "GetHostCPUFeatures": (c_int, _text),
    "GetHostCPUName": (None, _text),
    "GetLinkage": (c_int, c_void_p),
    "GetTargetFromTriple": (c_void_p, c_char_p, _text),
    "GetValueName": (c_char_p, c_void_p),
    "GetVersionInfo": (c_uint,),
    "InitializeNativeAsmPrinter": (None,),
    "InitializeNativeTarget": (None,),
    "IsDeclaration": (c_int, c_void_p),
    "LoadLibraryPermanently": (c_bool, c_char_p, _text),
    "MCJITAddObjectFile": (None, c_void_p, c_void_p),
    "ModuleFunctionsIter": (c_void_p, c_void_p),
    "ParseAssembly": (c_void_p, c_void_p, c_char_p, _text),
    "RunNewFunctionPassManager": (None, c_void_p, c_void_p, c_void_p),
    "SearchAddressOfSymbol": (c_void_p, c_char_p),
    "SetDataLayout": (None, c_void_p, c_char_p),
    "SetTarget": (None, c_void_p, c_char_p),
    "TargetMachineEmitToMemory": (c_void_p, c_void_p, c_void_p, c_int, _text),
    "function_AddInstCombinePass": (None, c_void_p),
    "function_AddSROAPass": (None, c_void_p),
    "function_AddSimplifyCFGPass": (None, c_void_p),
}


class LLVMLibrary:
    """LLVM's functions by name, declared when they are first called."""

    def __init__(self, path: Path, version: str) -> None:
        self._library = ctypes.CDLL(str(path))
        self.version = version

    def __getattr__(self, name: str) -> Any:
        function = self._library[f"LLVMPY_{name}"]
        function.restype, *function.argtypes = SIGNATURES[name]
        setattr(self, name, function)
        return function


@lru_cache(maxsize=1)
def library() -> LLVMLibrary:
    """The library, opened and initialised."""
    # Imported at the first compilation.
    import llvmlite

    version: str = llvmlite.__version__
    major, minor = (int(part) for part in version.split(".")[:2])
    if major or not OLDEST <= minor <= NEWEST:
        raise ImportError(
            f"llvmlite {version} is installed; gradtape calls its library directly and knows that "
            f"of 0.{OLDEST} to 0.{NEWEST}. Install one of these: "
            f'pip install "llvmlite>=0.{OLDEST},<0.{NEWEST + 1}"'
        )
    name = {"darwin": "libllvmlite.dylib", "win32": "llvmlite.dll"}.get(
        sys.platform, "libllvmlite.so"
    )
    found = LLVMLibrary(Path(llvmlite.__file__).parent / "binding" / name, version)
    found.InitializeNativeTarget()
    found.InitializeNativeAsmPrinter()
    return found


def is_open() -> bool:
    """Whether the library is open: something was compiled."""
    return library.cache_info().currsize > 0


class LLVMError(RuntimeError):
    """LLVM has refused something; the message is its own."""


def text_of(function: Any, *args: Any) -> str:
    """The text that a function of LLVM's writes to its last argument."""
    return _called(function, *args)[1]


def made(function: Any, *args: Any) -> int:
    """The object that a function of LLVM's makes; its last argument is for the error's text."""
    found, error = _called(function, *args)
    if not found:
        why = error or "it does not say why"
        raise LLVMError(f"codegen: LLVM's {function.__name__} failed: {why}")
    return found


def _called(function: Any, *args: Any) -> tuple[Any, str]:
    text = c_char_p()
    result = function(*args, ctypes.byref(text))
    if not text.value:
        return result, ""
    said = text.value.decode(errors="replace")
    library().DisposeString(text)
    return result, said
