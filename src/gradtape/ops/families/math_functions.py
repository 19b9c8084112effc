"""The mathematical functions of C, LLVM and SciPy that kernels call to compute ops."""

from __future__ import annotations

from gradtape.ir.math_function import Intrinsic, Libm, MathFunction, ScipyFunction

SIN = Libm("sin", has_complex=True)
COS = Libm("cos", has_complex=True)
TAN = Libm("tan", has_complex=True)
ASIN = Libm("asin", has_complex=True)
ACOS = Libm("acos", has_complex=True)
ATAN = Libm("atan", has_complex=True)
SINH = Libm("sinh", has_complex=True)
COSH = Libm("cosh", has_complex=True)
TANH = Libm("tanh", has_complex=True)
ASINH = Libm("asinh", has_complex=True)
ACOSH = Libm("acosh", has_complex=True)
ATANH = Libm("atanh", has_complex=True)
EXP = Libm("exp", has_complex=True)
EXP2 = Libm("exp2")
EXPM1 = Libm("expm1")
LOG = Libm("log", has_complex=True)
LOG1P = Libm("log1p")
LOG2 = Libm("log2")
LOG10 = Libm("log10")
CBRT = Libm("cbrt")
ERF = Libm("erf")
ERFC = Libm("erfc")
POW = Libm("pow", 2, has_complex=True)
ATAN2 = Libm("atan2", 2)
HYPOT = Libm("hypot", 2)
FMOD = Libm("fmod", 2)

FABS = Intrinsic("fabs")
SQRT = Intrinsic("sqrt", has_complex=True)
FLOOR = Intrinsic("floor")
CEIL = Intrinsic("ceil")
TRUNC = Intrinsic("trunc")
# Ties go to the even integer, as in NumPy.
RINT = Intrinsic("rint")
COPYSIGN = Intrinsic("copysign", 2)

# Where SciPy exports one version per type, the digit 0 or 1 selects the version for doubles.
LGAMMA = ScipyFunction("lgamma", "gammaln")
DIGAMMA = ScipyFunction("digamma", "__pyx_fuse_1psi")
ERFINV = ScipyFunction("erfinv", "__pyx_fuse_0erfinv", "erfinv")
NDTR = ScipyFunction("ndtr", "__pyx_fuse_1ndtr")
ERFCINV = ScipyFunction("erfcinv", "erfcinv")
ERFCX = ScipyFunction("erfcx", "__pyx_fuse_1erfcx")
# SciPy's own, where all tiers must give the same bits.
SCIPY_ERF = ScipyFunction("scipy_erf", "__pyx_fuse_1erf")
# Of an order and an argument.
BESSEL = {
    kind: ScipyFunction(kind, f"__pyx_fuse_1{kind}", arity=2)
    for kind in ("iv", "ive", "jv", "kv", "kve", "yv")
}
BESSEL_OF_ORDER = {
    (kind, order): ScipyFunction(f"{kind[0]}{order}", f"{kind[0]}{order}")
    for kind in ("iv", "jv", "kv", "yv")
    for order in (0, 1)
}

# Functions that kernels call for the op of the same name.
NAMED = {each.name: each for each in tuple(vars().values()) if isinstance(each, MathFunction)}
