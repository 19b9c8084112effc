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
from gradtape.compiler.objects import llvm
from gradtape.compiler.objects.llvm import FoundFunction, Snippets, vector
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
    kind = vector(ty, lanes)
    listed = ", ".join(f"{kind} %x{k}" for k in range(function.arity))
    text = (
        f"define internal {kind} @{symbol}({listed}) cold noinline {{\n"
        f"  %found = call {kind} @{inner}({listed})\n  ret {kind} %found\n}}"
    )
    return symbol, (*snippets, text)


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
    symbol = f"gradtape_split_{function.name}_{ty}{lanes}"
    return symbol, (declaration, _split(symbol, target, ty, lanes, native, count))


def _split(symbol: str, target: str, ty: str, lanes: int, native: int, count: int) -> str:
    """A function of `lanes` elements as calls of one that takes `native` elements."""
    outer, inner = vector(ty, lanes), vector(ty, native)
    listed = ", ".join(f"{outer} %x{k}" for k in range(count))
    lines = [f"define internal {outer} @{symbol}({listed}) {{"]
    last = "poison"
    for start in range(0, lanes, native):
        used = min(native, lanes - start)
        # Unused lanes repeat the last one: any other value might be slow to compute.
        mask = _mask([start + min(lane, used - 1) for lane in range(native)])
        for k in range(count):
            lines.append(f"  %p{start}_{k} = shufflevector {outer} %x{k}, {outer} poison, {mask}")
        operands = ", ".join(f"{inner} %p{start}_{k}" for k in range(count))
        lines.append(f"  %r{start} = call {inner} @{target}({operands})")
        spread = _mask(
            [lane - start if start <= lane < start + used else 0 for lane in range(lanes)]
        )
        lines.append(f"  %w{start} = shufflevector {inner} %r{start}, {inner} poison, {spread}")
        merge = _mask(
            [lane + lanes if start <= lane < start + used else lane for lane in range(lanes)]
        )
        lines.append(f"  %t{start} = shufflevector {outer} {last}, {outer} %w{start}, {merge}")
        last = f"%t{start}"
    return "\n".join([*lines, f"  ret {outer} {last}", "}"])


def _mask(positions: list[int]) -> str:
    return f"<{len(positions)} x i32> <" + ", ".join(f"i32 {k}" for k in positions) + ">"


def _lane_by_lane(function: MathFunction, ty: str, lanes: int) -> FoundFunction:
    """A scalar function of libm or SciPy, called once per lane."""
    target, scalar, snippets = _scalar(function, ty)
    from_scipy = isinstance(function, ScipyFunction)
    if lanes == 1 and not from_scipy:
        return target, snippets
    symbol, outer = f"gradtape_lanes_{function.name}_{ty}{lanes}", vector(ty, lanes)
    count = function.arity
    listed = ", ".join(f"{outer} %x{k}" for k in range(count))
    lines = [f"define internal {outer} @{symbol}({listed}) noinline {{"]
    last = "poison"
    for lane in range(lanes):
        names = []
        for k in range(count):
            found = f"%x{k}"
            if lanes > 1:
                found = f"%e{lane}_{k}"
                lines.append(f"  {found} = extractelement {outer} %x{k}, i32 {lane}")
            if scalar != ty:
                lines.append(f"  %d{lane}_{k} = fpext {ty} {found} to {scalar}")
                found = f"%d{lane}_{k}"
            names.append(f"{scalar} {found}")
        if from_scipy:
            # Cython's "skip dispatch" argument, which versions of SciPy without it ignore.
            names.append("i32 0")
        lines.append(f"  %r{lane} = call {scalar} @{target}({', '.join(names)})")
        result = f"%r{lane}"
        if scalar != ty:
            lines.append(f"  %n{lane} = fptrunc {scalar} {result} to {ty}")
            result = f"%n{lane}"
        if lanes > 1:
            lines.append(f"  %t{lane} = insertelement {outer} {last}, {ty} {result}, i32 {lane}")
            result = f"%t{lane}"
        last = result
    return symbol, (*snippets, "\n".join([*lines, f"  ret {outer} {last}", "}"]))


def _scalar(function: MathFunction, ty: str) -> tuple[str, str, Snippets]:
    """The symbol of a scalar function, the type it works in, and its declaration."""
    if isinstance(function, ScipyFunction):
        symbol = f"gradtape_scipy_{function.name}"
        if not llvm.has_symbol(symbol):
            address = _scipy_address(function)
            if not address:
                raise NotLowered(f"SciPy exports no {function.name}")
            llvm.add_symbol(symbol, address)
        given = "double, " * function.arity
        return symbol, "double", (f"declare double @{symbol}({given}i32)",)
    symbol = _libm_symbol(function, ty)
    if not c_symbol(symbol):
        raise NotLowered(f"libm has no {symbol}")
    return symbol, ty, (f"declare {ty} @{symbol}({', '.join([ty] * function.arity)})",)


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
