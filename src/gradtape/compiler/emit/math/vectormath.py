"""Mathematical functions for kernels: by type and number of lanes, as functions in IR.

A Composition is written with others. A function of libm is glibc's vector version; where that is
missing or slower, our polynomial; and else libm's own, called lane by lane.
"""

from __future__ import annotations

from gradtape.caches import remembered
from gradtape.compiler.emit.math import mathlibrary
from gradtape.compiler.emit.math.polynomials import POLYNOMIALS
from gradtape.compiler.emit.math.vectors import Body
from gradtape.compiler.objects import llvm
from gradtape.compiler.objects.llvm import FoundFunction
from gradtape.ir.math_function import Composition, MathFunction, NotLowered
from gradtape.ops.families.math_functions import EXPM1, TANH

_TYPES = ("float", "double")
# Functions for which our polynomials are clearly faster than libmvec. Elsewhere the two are level,
# and a call compiles in a fraction of the time of a polynomial.
_OWN_FIRST = frozenset(((TANH, "float"), (TANH, "double"), (EXPM1, "double")))


def function(wanted: MathFunction, ty: str, lanes: int) -> FoundFunction:
    """The symbol of a function on vectors, and the snippets that the module must contain.

    Operands and result are `<lanes x ty>`, or plain `ty` for one lane. Equal snippets of several
    functions are to be included once. A function that this machine lacks raises NotLowered.
    """
    own_first = (wanted, ty) in _OWN_FIRST
    return _function(wanted, ty, lanes, mathlibrary.preference(), own_first)


def accurate_function(wanted: MathFunction, ty: str, lanes: int) -> FoundFunction:
    """The same, by our polynomials where there are any: the errors of a function's parts add up."""
    return _function(wanted, ty, lanes, mathlibrary.preference(), True)


@remembered(64)
def joint_function(wanted: Composition, ty: str, lanes: int) -> FoundFunction:
    """The function that gives the values of the one beside a composition, and of itself."""
    if ty not in _TYPES:
        raise NotLowered(f"{wanted.name} on {ty}")
    assert wanted.beside is not None
    assert wanted.write_both is not None
    name = f"{wanted.beside.name}_and_{wanted.name}"
    return Body(ty, lanes, accurate_function).function(name, wanted.arity, wanted.write_both)


@remembered(512)
def _function(
    wanted: MathFunction, ty: str, lanes: int, preference: str, own_first: bool
) -> FoundFunction:
    if ty not in _TYPES:
        raise NotLowered(f"{wanted.name} on {ty}")
    if isinstance(wanted, Composition):
        write = wanted.write
    else:
        allowed = preference in ("auto", "own") or (
            preference == "libmvec" and (wanted, ty) in mathlibrary.INEXACT
        )
        own = POLYNOMIALS.get((wanted, ty)) if allowed and llvm.host().fused else None
        if own is None:
            return mathlibrary.library_function(wanted, ty, lanes)
        found = None if own_first else mathlibrary.from_libmvec(wanted, ty, lanes)
        if found is not None:
            return found
        write = own
    return Body(ty, lanes, accurate_function).function(wanted.name, wanted.arity, write)
