"""The library of BLAS and LAPACK: one for both, with one look-up of its symbols.

It is MKL if that is installed (`pip install gradtape[mkl]`), else the OpenBLAS in SciPy's wheel,
else the routines that SciPy exports to Cython; `GRADTAPE_BLAS=openblas` or `mkl` decides otherwise.
OpenBLAS is opened by its path, which takes 1 ms: importing `scipy.linalg` takes a hundred. Nothing
is loaded before the first use. NumPy's wheel has an OpenBLAS of its own, which gradtape never
changes.
"""

from __future__ import annotations

import ctypes
import os
import site
import sys
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import variable
from gradtape.dtypes import Array
from gradtape.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path

CHOICES = ("auto", "openblas", "mkl")
# The first letter of a routine's name.
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_LIBRARIES = "Library/bin" if sys.platform == "win32" else "lib"
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


@dataclass(frozen=True)
class BlasLibrary:
    """A library of BLAS and LAPACK. Addresses are zero where it lacks the function."""

    name: str
    # The pattern of symbols, by a routine's name, such as "scipy_{}_".
    pattern: str
    # The type of its integers, in arrays such as pivots too.
    integers: np.dtype[Any]
    # The address of a symbol.
    find: Callable[[str], int]
    get_threads: int = 0
    set_threads: int = 0
    set_threads_local: int = 0
    sequential: bool = False

    @property
    def can_be_held(self) -> bool:
        """Whether the library can be kept to one thread."""
        return self.sequential or bool(self.set_threads_local or self.set_threads)

    def address(self, routine: str) -> int:
        """The address of a routine by its name in BLAS or LAPACK, such as `sgemm`."""
        found = self.find(self.pattern.format(routine))
        if not found:
            raise LookupError(f"{self.name} has no routine {routine}.")
        return found


@lru_cache(maxsize=1)
def library() -> BlasLibrary:
    """The library that products and factorisations call."""
    choice = variable("BLAS", "auto", CHOICES)
    if choice != "openblas":
        found = mkl()
        if found is not None:
            return found
        if choice == "mkl":
            raise ImportError("GRADTAPE_BLAS=mkl, but MKL is not installed: pip install mkl.")
    return openblas() or capsules()


def mkl() -> BlasLibrary | None:
    """MKL, or None if it is not installed.

    It is loaded with its sequential layer, unless the process has it already: no OpenMP runtime,
    whose threads would spin beside gradtape's own, comes with it.
    """
    path = next(_mkl_paths(), None)
    if path is None:
        return None
    present = _opened(path, loaded=True) is not None
    opened = _opened(path)
    if opened is None:
        return None
    find = _finder(opened)
    layer = find("MKL_Set_Threading_Layer")
    if not present and layer:
        opened.MKL_Set_Threading_Layer(1)
    # These symbols have 64-bit integers whatever interface another package has chosen.
    wide = bool(find("dgetrf_64_"))
    return BlasLibrary(
        "mkl",
        "{}_64_" if wide else "{}_",
        INT64 if wide else INT32,
        find,
        set_threads_local=find("MKL_Set_Num_Threads_Local"),
        sequential=not present and bool(layer),
    )


def openblas() -> BlasLibrary | None:
    """The OpenBLAS that SciPy links to, or None if there is none beside it."""
    for path in _openblas_paths():
        opened = _opened(path)
        found = None if opened is None else _as_openblas(opened)
        if found is not None:
            return found
    return None


def _as_openblas(opened: ctypes.CDLL) -> BlasLibrary | None:
    find = _finder(opened)
    for prefix in ("scipy_", ""):
        for suffix, integers in (("", INT32), ("64_", INT64)):
            pattern = f"{prefix}{{}}_{suffix}"
            if not (find(pattern.format("dgemm")) and find(pattern.format("dgetrf"))):
                continue
            getter, setter = (
                find(f"{prefix}openblas_{verb}_num_threads{suffix}") for verb in ("get", "set")
            )
            kind = getattr(opened, f"{prefix}openblas_get_parallel{suffix}", None)
            # A build on OpenMP, kind 2, counts threads for each calling thread: it is not held.
            if kind is None or kind() == 2 or not (getter and setter):
                getter = setter = 0
            return BlasLibrary("openblas", pattern, integers, find, getter, setter)
    return None


def capsules() -> BlasLibrary:
    """The routines of whatever library SciPy was built with, as it exports them to Cython."""

    def find(routine: str) -> int:
        for module in ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"):
            found = capsule_address(module, routine)
            if found:
                return found
        return 0

    return BlasLibrary("scipy", "{}", INT32, find)


def capsule_address(module: str, name: str, signatures: tuple[bytes, ...] = ()) -> int:
    """The address of a function that a Cython module exports, or 0; of these C signatures, if any.

    The module is imported.
    """
    capsule = vars(import_module(module))["__pyx_capi__"].get(name)
    if capsule is None:
        return 0
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    # The name of such a capsule is its C signature.
    signature = name_of(capsule)
    if signatures and signature not in signatures:
        return 0
    return pointer_of(capsule, signature) or 0


def _openblas_paths() -> Iterator[Path]:
    # Both are slow to import, and needed at the first product. The package is found, not imported.
    from importlib.util import find_spec
    from pathlib import Path

    found = find_spec("scipy")
    if found is None or found.origin is None:
        return
    package = Path(found.origin).parent
    for folder in (
        package.parent / "scipy.libs",
        package / ".dylibs",
        Path(sys.prefix) / _LIBRARIES,
    ):
        yield from sorted(folder.glob("lib*openblas*"))


def _mkl_paths() -> Iterator[Path]:
    # Slow to import, and needed at the first product.
    from pathlib import Path

    pattern = {"win32": "mkl_rt*.dll", "darwin": "libmkl_rt*.dylib"}.get(
        sys.platform, "libmkl_rt.so*"
    )
    # pip installs it into the environment, or with --user beside it.
    for base in (sys.prefix, site.getuserbase()):
        yield from sorted((Path(base) / _LIBRARIES).glob(pattern))


def _opened(path: Path, *, loaded: bool = False) -> ctypes.CDLL | None:
    """A shared library; with `loaded`, only if the process has it already."""
    mode = ctypes.DEFAULT_MODE | (getattr(os, "RTLD_NOLOAD", 0) if loaded else 0)
    try:
        return ctypes.CDLL(str(path), mode=mode)
    except OSError:
        return None


def _finder(opened: ctypes.CDLL) -> Callable[[str], int]:
    def find(symbol: str) -> int:
        function = getattr(opened, symbol, None)
        return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0

    return find


@cache
def _routine(name: str, count: int) -> Any:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(library().address(name))


def integers(count: int) -> Array:
    """An array of the library's integers, for pivots and work space."""
    return np.empty(count, library().integers)


def call(name: str, dtype: np.dtype[Any], *arguments: str | int | Array) -> None:
    """Call a routine by its name without the letter of the type.

    Arguments are letters, numbers and arrays, which the routine may change. An array must lie in
    memory as the routine expects it, without gaps: the routine gets its address only.
    """
    kept: list[Any] = []
    addresses: list[int] = []
    for each in arguments:
        if isinstance(each, np.ndarray):
            if not each.flags.forc:
                raise AssertionError(f"{name}: strides {each.strides} are not contiguous")
            addresses.append(each.ctypes.data)
            continue
        # A library with 32-bit integers reads the low half of a number.
        held = ctypes.c_char(each.encode()) if isinstance(each, str) else ctypes.c_int64(each)
        kept.append(held)
        addresses.append(ctypes.addressof(held))
    # Fortran passes the lengths of letters behind all arguments.
    addresses += [1] * sum(isinstance(each, str) for each in arguments)
    _routine(LETTERS[dtype.name] + name, len(addresses))(*addresses)


def lapack(name: str, dtype: np.dtype[Any], *arguments: str | int | Array) -> int:
    """Call a routine of LAPACK, whose last argument is its `info`, and return that."""
    info = np.zeros(1, library().integers)
    call(name, dtype, *arguments, info)
    return int(info[0])
