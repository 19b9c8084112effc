"""Routines of LAPACK that SciPy exports to Cython only, called on arrays in Fortran's order."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from gradtape.dtypes import Array

LETTERS = {"float32": "s", "float64": "d"}
# Columns of the blocks that LAPACK's blocked routines work on, at most.
BLOCK = 64


def load() -> Any:
    """SciPy's module with the routines, loaded if it is not: that takes 60 ms.

    Who writes ops that need it into a program calls this, so that the compiler thread loads it and
    not the first compiled run.
    """
    # Importing it takes longer than importing gradtape.
    import scipy.linalg.cython_lapack

    return scipy.linalg.cython_lapack


@cache
def address(name: str) -> int:
    """The address of a routine, by its whole name."""
    capsule = vars(load())["__pyx_capi__"][name]
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
        ("PyCapsule_GetName", ctypes.pythonapi)
    )
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return int(pointer_of(capsule, name_of(capsule)))


@cache
def _routine(name: str, count: int) -> Any:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(address(name))


def call(name: str, dtype: np.dtype[Any], *arguments: str | int | Array) -> int:
    """Call a routine by its name without the letter of the type; the answer is its `info`.

    Arguments are letters, numbers, and arrays, which the routine may change. An array must lie in
    memory as the routine expects it, without gaps: only its address is handed on.
    """
    info = ctypes.c_int32(0)
    kept: list[Any] = []
    addresses: list[int] = []
    for each in arguments:
        if isinstance(each, np.ndarray):
            if not each.flags.forc:
                raise AssertionError(f"{name}: strides {each.strides} are not contiguous")
            addresses.append(each.ctypes.data)
            continue
        held = ctypes.c_char(each.encode()) if isinstance(each, str) else ctypes.c_int32(each)
        kept.append(held)
        addresses.append(ctypes.addressof(held))
    routine = _routine(LETTERS[dtype.name] + name, len(arguments) + 1)
    routine(*addresses, ctypes.addressof(info))
    return info.value
