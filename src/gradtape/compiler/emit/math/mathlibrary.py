"""Mathematical functions of other libraries, made to take vectors of any width.

glibc's libmvec has vector versions of most of libm's functions, within 4 ulp and right for special
values. They are called by their symbols (`_ZGVeN8v_exp` takes eight doubles), because LLVM would
replace calls of `exp` by them only in loops that it vectorises itself, and kernels are vector code
already. Everything else is called lane by lane. SciPy's special functions are called through the
pointers that it exports for Cython.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from gradtape.caches import remembered
from gradtape.compiler.emit.writer import Routine, Typed
from gradtape.compiler.objects import llvm
from gradtape.compiler.objects.llvm import FoundFunction, vector
from gradtape.config import variable
from gradtape.ir.math_function import Libm, MathFunction, NotLowered, ScipyFunction
from gradtape.ops.blas_lapack import capsule_address
from gradtape.ops.families.math_functions import ERF, LOG

# Here libmvec is 3.9 ulp off at the worst of the points tried: too near to 4.
INEXACT = frozenset(((ERF, "float"), (LOG, "float")))
_CHOICES = ("auto", "libmvec", "own", "scalar")


@lru_cache(maxsize=1)
def preference() -> str:
    """Where functions come from: GRADTAPE_VECTOR_MATH is `auto`, `libmvec`, `own` or `scalar`.

    `libmvec` prefers glibc's vector functions to our polynomials, `own` never calls them, as on a
    machine that has none, `scalar` calls libm lane by lane, and `auto` chooses the fastest.
    """
    return variable("VECTOR_MATH", "auto", _CHOICES)


def library_function(function: MathFunction, ty: str, lanes: int) -> FoundFunction:
    """A function of libmvec if there is one, else one called lane by lane."""
    return from_libmvec(function, ty, lanes) or _lane_by_lane(function, ty, lanes)


def cold_function(function: MathFunction, ty: str, lanes: int) -> FoundFunction:
    """The same, kept out of line: for the rare lanes that a faster function cannot serve."""
    inner, snippets = library_function(function, ty, lanes)
    symbol = f"gradtape_cold_{function.name}_{ty}{lanes}"
    r = _routine(symbol, vector(ty, lanes), function.arity, " cold noinline")
    operands = [f"%x{k}" for k in range(function.arity)]
    r.give(r.call(vector(ty, lanes), f"@{inner}", *operands))
    return symbol, (*snippets, r.text())


def _routine(symbol: str, kind: str, arity: int, attributes: str = "") -> Routine:
    """The empty routine of a function of `arity` operands of one type."""
    listed = ", ".join(f"{kind} %x{k}" for k in range(arity))
    return Routine(f"internal {kind} @{symbol}({listed}){attributes}")


def from_libmvec(function: MathFunction, ty: str, lanes: int) -> FoundFunction | None:
    """A function of libmvec on any number of lanes, if it has one that is good enough."""
    host = llvm.host()
    if lanes == 1 or preference() in ("own", "scalar") or (function, ty) in INEXACT:
        return None
    if not host.libmvec or not isinstance(function, Libm):
        return None
    width = 32 if ty == "float" else 64
    wanted = 1 << (lanes * width - 1).bit_length()
    bits = max(128, min(host.bits, wanted))
    native = bits // width
    letter = {128: "b", 256: "d", 512: "e"}[bits]
    count = function.arity
    target = f"_ZGV{letter}N{native}{'v' * count}_{_libm_symbol(function, ty)}"
    if not llvm.has_symbol(target):
        return None
    inner = vector(ty, native)
    declaration = f"declare {inner} @{target}({', '.join([inner] * count)})"
    if native == lanes:
        return target, (declaration,)
    return _split(f"gradtape_split_{function.name}_{ty}{lanes}", target, ty, lanes, native, count)


def _split(symbol: str, target: str, ty: str, lanes: int, native: int, count: int) -> FoundFunction:
    """A function of `lanes` elements as calls of one that takes `native` elements."""
    outer, inner = vector(ty, lanes), vector(ty, native)
    r, found = _routine(symbol, outer, count), Typed("poison", outer)
    for start in range(0, lanes, native):
        used = min(native, lanes - start)
        # Unused lanes repeat the last one: any other value might be slow to compute.
        taken = [start + min(lane, used - 1) for lane in range(native)]
        part = r.call(inner, f"@{target}", *(r.shuffle(f"%x{k}", taken) for k in range(count)))
        places = {start + lane: lane for lane in range(used)}
        spread = r.shuffle(part, [places.get(lane, 0) for lane in range(lanes)])
        merged = [lane + lanes if lane in places else lane for lane in range(lanes)]
        found = r.shuffle(found, merged, spread)
    r.give(found)
    return symbol, (*r.definitions, r.text())


def _lane_by_lane(function: MathFunction, ty: str, lanes: int) -> FoundFunction:
    """A scalar function of libm or SciPy, called once per lane."""
    target, scalar = _scalar(function, ty)
    from_scipy = isinstance(function, ScipyFunction)
    if lanes == 1 and not from_scipy:
        return target, (f"declare {ty} @{target}({', '.join([ty] * function.arity)})",)
    symbol, outer = f"gradtape_lanes_{function.name}_{ty}{lanes}", vector(ty, lanes)
    r = _routine(symbol, outer, function.arity, " noinline")
    found = Typed("poison", outer)
    for lane in range(lanes):
        operands = [r.lane(f"%x{k}", lane) for k in range(function.arity)]
        if scalar != ty:
            operands = [r.cast("fpext", each, scalar) for each in operands]
        # Cython's "skip dispatch" argument, which versions of SciPy without it ignore.
        value = r.call(scalar, f"@{target}", *operands, *(["i32 0"] if from_scipy else []))
        if scalar != ty:
            value = r.cast("fptrunc", value, ty)
        found = r.with_lane(found, lane, value) if lanes > 1 else value
    r.give(found)
    return symbol, (*r.definitions, r.text())


def _scalar(function: MathFunction, ty: str) -> tuple[str, str]:
    """The symbol of a scalar function, and the type it works in."""
    if isinstance(function, ScipyFunction):
        symbol = f"gradtape_scipy_{function.name}"
        if not llvm.has_symbol(symbol):
            address = _scipy_address(function)
            if not address:
                raise NotLowered(f"SciPy exports no {function.name}")
            llvm.add_symbol(symbol, address)
        return symbol, "double"
    symbol = _libm_symbol(function, ty)
    if not c_symbol(symbol):
        raise NotLowered(f"libm has no {symbol}")
    return symbol, ty


def _libm_symbol(function: MathFunction, ty: str) -> str:
    return f"{function.name}f" if ty == "float" else function.name


@remembered(256)
def c_symbol(name: str) -> bool:
    """Whether a function of libm can be called by name, after loading libm if need be."""
    if llvm.has_symbol(name):
        return True
    # Imported here because it loads `subprocess`.
    from ctypes.util import find_library

    path = find_library("m")
    if not path:
        return False
    found = getattr(ctypes.CDLL(path), name, None)
    if found is None:
        return False
    llvm.add_symbol(name, ctypes.cast(found, ctypes.c_void_p).value or 0)
    return True


@remembered(32)
def _scipy_address(function: ScipyFunction) -> int | None:
    """The address of a SciPy function of doubles."""
    # Importing the module takes longer than importing gradtape. Other signatures are other dtypes.
    given = b", ".join([b"double"] * function.arity)
    signatures = (b"double (%b, int __pyx_skip_dispatch)" % given, b"double (%b)" % given)
    for candidate in function.exports:
        found = capsule_address("scipy.special.cython_special", candidate, signatures)
        if found:
            return found
    return None
