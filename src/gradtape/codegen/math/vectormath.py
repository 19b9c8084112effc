"""Mathematical functions for kernels: by name, type and number of lanes, as functions in IR.

What is exact is one of LLVM's intrinsics; the rest is glibc's vector math, where there is none or
it is slower our own polynomials, and else libm lane by lane.
"""

from __future__ import annotations

from functools import lru_cache

from gradtape.codegen.math import mathlibrary
from gradtape.codegen.math.composites import COMPOSITES
from gradtape.codegen.math.polynomials import POLYNOMIALS, fused
from gradtape.codegen.math.vectors import Body, Found

_TYPES = ("float", "double")
# Where our polynomials are clearly faster than libmvec. Elsewhere the two are level, and a call
# compiles in a fraction of the time of a polynomial.
_OWN_FIRST = frozenset((("tanh", "double"), ("expm1", "double")))
# Compiled once, like a library function: inlined fifty times, one takes LLVM half a second.
_CALLED = "noinline nounwind"


def supported(name: str, ty: str) -> bool:
    """Whether `function` has this function for this type on this machine."""
    if ty not in _TYPES:
        return False
    composite = COMPOSITES.get(name)
    if composite:
        return all(mathlibrary.available(part) for part in composite.applies)
    return name != "fmod" and mathlibrary.available(name)


def arity(name: str) -> int:
    """How many operands a function takes."""
    composite = COMPOSITES.get(name)
    return composite.arity if composite else mathlibrary.arity(name)


def function(name: str, ty: str, lanes: int) -> Found:
    """The symbol of a function on vectors, and the snippets that the module must contain.

    Operands and result are `<lanes x ty>`, or plain `ty` for one lane. A snippet repeated for
    another function has the same text, so each distinct text is to be included once.
    """
    return _function(name, ty, lanes, mathlibrary.preference(), (name, ty) in _OWN_FIRST)


def accurate_function(name: str, ty: str, lanes: int) -> Found:
    """The same, by our polynomials where there are any: for parts, whose errors add up."""
    return _function(name, ty, lanes, mathlibrary.preference(), True)


@lru_cache(maxsize=512)
def _function(name: str, ty: str, lanes: int, preference: str, own_first: bool) -> Found:
    composite = COMPOSITES.get(name)
    if not composite:
        wanted = preference in ("auto", "own") or (
            preference == "libmvec" and (name, ty) in mathlibrary.INEXACT
        )
        own = wanted and fused() and (name, ty) in POLYNOMIALS
        found = None
        if not own or not own_first:
            found = mathlibrary.from_libmvec(name, ty, lanes)
        if found or not own:
            return found or mathlibrary.library_function(name, ty, lanes)
    write = composite.write if composite else POLYNOMIALS[name, ty]
    body = Body(ty, lanes, accurate_function)
    names = [f"x{k}" for k in range(arity(name))]
    result = write(body, *(body.operand(operand) for operand in names))
    symbol = f"gradtape_{name}_{ty}{lanes}"
    return symbol, body.function(symbol, names, (result,), _CALLED)
