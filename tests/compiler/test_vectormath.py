"""Vector math against references of higher precision: errors in ulp, and special values exactly."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy.special
from tests.compiler.compiled_functions import COMPLEX, DTYPES, Module, arity, called, op_of, written

import gradtape as gt
from gradtape.compiler.emit.math import complexmath, mathlibrary, vectormath
from gradtape.compiler.objects import llvm
from gradtape.ir.math_function import Libm, NotLowered, ScipyFunction
from gradtape.ir.op import REGISTRY
from gradtape.ops.elementwise import bessel
from gradtape.ops.families import math_functions
from gradtape.trace.record import record

NUMPY_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "atan2": "arctan2", "round": "rint", "pow": "power",
}  # fmt: skip
LIMIT = 4.0


def nearest_sinc(x):
    """sinc in float64 for float32 arguments: the whole periods are taken off exactly."""
    n = np.rint(x)
    sine = np.sin((x - n) * np.pi) * np.where(n % 2 == 0, 1.0, -1.0)
    return np.where(x == 0, 1.0, sine / (np.where(x == 0, 1.0, x) * np.pi))


def sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def quiet(kernel):
    def run(*operands):
        with np.errstate(all="ignore"):
            return kernel(*operands)

    return run


SPECIAL = {
    "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc), "sinc": nearest_sinc,
    "sigmoid": sigmoid, "softplus": lambda x: np.logaddexp(x, x.dtype.type(0)),
    "log_sigmoid": lambda x: -np.logaddexp(-x, x.dtype.type(0)), "rsqrt": lambda x: 1 / np.sqrt(x),
    "xlogy": scipy.special.xlogy, "lgamma": scipy.special.gammaln, "digamma": scipy.special.psi,
    "erfinv": scipy.special.erfinv, "ndtr": scipy.special.ndtr,
    "erfcinv": lambda x: scipy.special.erfcinv(x) + x.dtype.type(0),
    "erfcinv_slope": lambda x: REGISTRY["erfcinv_slope"].numpy(np.asarray(x)),
    # SciPy gives NaN for infinite arguments.
    "i0": lambda x: np.where(np.isinf(x), np.abs(x), scipy.special.i0(x)),
    "i1": lambda x: np.where(np.isinf(x), x, scipy.special.i1(x)),
    "sigmoid_slope": lambda x: sigmoid(x) * sigmoid(-x),
    "tanh_slope": lambda x: 4 * sigmoid(2 * x) * sigmoid(-2 * x),
}  # fmt: skip


def reference(name):
    return quiet(SPECIAL.get(name) or getattr(np, NUMPY_NAMES.get(name, name)))


MPMATH = {
    name: getattr(mpmath, name)
    for name in (
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
        "atanh", "exp", "expm1", "log", "log1p", "log10", "cbrt", "erf", "erfc", "sqrt",
    )
} | {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sinc": mpmath.sincpi,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "log_sigmoid": lambda x: -mpmath.log1p(mpmath.exp(-x)),
    "sigmoid_slope": lambda x: mpmath.exp(-abs(x)) / (1 + mpmath.exp(-abs(x))) ** 2,
    "tanh_slope": lambda x: mpmath.sech(x) ** 2,
}  # fmt: skip
ELEMENTARY = tuple(MPMATH)
# SciPy's ndtr rounds its argument, which costs hundreds of ulp in the tail; ours is exact.
MPMATH["ndtr"] = mpmath.ncdf
SCIPY = ("lgamma", "digamma", "erfinv", "erfcinv", "erfcinv_slope", "ndtr", "i0", "i1")
STEPS = ("floor", "ceil", "trunc", "round", "abs")
BINARY = ("pow", "atan2", "hypot", "xlogy", "logaddexp")
EXACT_BINARY = ("copysign", "nextafter", "maximum", "minimum", "remainder", "floor_divide")
UNARY = ELEMENTARY + SCIPY + STEPS
EVERYTHING = UNARY + BINARY + EXACT_BINARY


@pytest.fixture
def prefer(monkeypatch):
    def choose(choice):
        monkeypatch.setenv("GRADTAPE_VECTOR_MATH", choice)
        mathlibrary.preference.cache_clear()

    yield choose
    monkeypatch.undo()
    mathlibrary.preference.cache_clear()


def points(dtype, count, seed=0):
    """Arguments of all sizes, subnormal to huge, and many where functions do something."""
    rng = np.random.default_rng(seed)
    n = count // 8
    info = np.finfo(dtype)
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    every = rng.integers(0, np.array(info.max).view(bits), n, dtype=bits).view(dtype)
    top = 110.0 if dtype == np.float32 else 760.0
    parts = [every, -every[: n // 2], rng.uniform(-1, 1, n), rng.uniform(-20, 20, 2 * n),
             rng.uniform(-top, top, n), 1 + rng.uniform(-0.1, 0.1, n // 2),
             rng.integers(-40000, 40000, n) * (np.pi / 2), rng.uniform(-1e5, 1e5, n)]  # fmt: skip
    return np.concatenate(parts).astype(dtype)


def special_values(dtype):
    info = np.finfo(dtype)
    values = [0, 0.5, 1, 1.5, 2, 3, 7, 88, 100, 104, 127, 128, 150, 710, 746, 1024, 1075, 1e5, 1e30,
              info.smallest_subnormal, info.tiny, info.max, 1 - info.epsneg, 1 + info.eps,
              math.inf, math.nan]  # fmt: skip
    positive = np.array(values, dtype)
    return np.concatenate([positive, -positive])


def ulps(found, wanted, scale=None):
    """Errors of `found` in units of the last place that its type has at the wanted value."""
    dtype = found.dtype.type
    with np.errstate(all="ignore"):
        rounded = wanted.astype(dtype)
        size = np.abs(rounded) if scale is None else np.maximum(np.abs(rounded), scale)
        unit = np.spacing(np.minimum(size, np.finfo(dtype).max)).astype(wanted.dtype)
        error = np.abs(found.astype(wanted.dtype) - wanted) / unit
    same = (np.isnan(found) & np.isnan(rounded)) | (found == rounded)
    return np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf)).astype(float)


def assert_within(limit, errors, found, *operands):
    worst = int(np.argmax(errors))
    shown = [float(operand[worst]) for operand in operands]
    assert errors[worst] <= limit, f"{errors[worst]} ulp at {shown}: {float(found[worst])!r}"


def assert_same(found, wanted, *operands, limit=LIMIT):
    """Equal up to a few ulp, with NaN, infinity and the sign of zero where they are wanted."""
    signs = (wanted == 0) & (np.signbit(found) != np.signbit(wanted))
    errors = np.where(signs, np.inf, ulps(found, wanted.astype(np.longdouble)))
    assert_within(limit, errors, found, *operands)


def choices(ty):
    lanes = llvm.host().bits // (32 if ty == "float" else 64)
    return [("auto", lanes), ("libmvec", lanes), ("scalar", 4), ("own", lanes)]


def own_functions(choice):
    return choice in ("auto", "own") and llvm.host().fused


CASES = [(ty, k) for ty in DTYPES for k in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize(("ty", "case"), CASES)
def test_every_function_is_supported_and_exact_for_special_values(prefer, ty, case):
    choice, lanes = choices(ty)[case]
    prefer(choice)
    module = Module(UNARY, ty, lanes)
    x = special_values(DTYPES[ty])
    for name in UNARY:
        wanted = reference(name)(x)
        if name == "ndtr" and own_functions(choice):
            wanted = np.array([float(mpmath.ncdf(one)) for one in np.clip(x, -1e3, 1e3).tolist()])
        if name == "sinc":
            # sin(πx) is 0 at integers, of either sign.
            assert_within(LIMIT, ulps(module(name, x), wanted), x, x)
        else:
            assert_same(module(name, x), wanted.astype(DTYPES[ty]), x)


@pytest.mark.slow
@pytest.mark.parametrize("case", range(4))
def test_single_precision_over_the_whole_range(prefer, case):
    choice, lanes = choices("float")[case]
    prefer(choice)
    module = Module(UNARY, "float", lanes)
    x = points(np.float32, 200_000 if case == 0 else 40_000)
    for name in ELEMENTARY + STEPS:
        # Its own roundings come on top of those of libmvec's exp, which has less care at 128 bits.
        limit = LIMIT + 1 if (choice, name) == ("libmvec", "tanh_slope") else LIMIT
        assert_within(limit, ulps(module(name, x), reference(name)(x.astype(float))), x, x)


def mpmath_errors(name, x, found):
    """Errors in ulp where the function is real, at 40 digits."""
    with mpmath.workdps(40):
        errors = np.zeros(x.size)
        for k, (argument, value) in enumerate(zip(x.tolist(), found.tolist(), strict=True)):
            exact = MPMATH[name](mpmath.mpf(argument))
            if isinstance(exact, mpmath.mpc) or not math.isfinite(float(exact)):
                continue
            unit = float(np.spacing(abs(float(exact))))
            errors[k] = abs(exact - value) / unit if math.isfinite(value) else math.inf
    return errors


def real_domain(name, x):
    x = x[np.abs(x) < 1e200]
    if name in ("log", "log2", "log10", "sqrt", "rsqrt"):
        return np.abs(x[x != 0])
    if name in ("asin", "acos", "atanh"):
        return x[np.abs(x) < 1]
    if name in ("exp", "exp2", "expm1", "sinh", "cosh", "sigmoid", "softplus", "log_sigmoid"):
        return x[np.abs(x) < 1100]
    if name in ("erf", "erfc"):
        return x[np.abs(x) < 28]
    return {"acosh": 1 + np.abs(x), "log1p": x[x > -1], "cbrt": np.abs(x)}.get(name, x)


@pytest.mark.slow
@pytest.mark.parametrize("case", range(4))
def test_double_precision_against_mpmath(prefer, case):
    choice, lanes = choices("double")[case]
    prefer(choice)
    module = Module(ELEMENTARY, "double", lanes)
    for name in ELEMENTARY:
        x = real_domain(name, points(np.float64, 2000 if case == 0 else 400))
        found = module(name, x)
        assert_within(LIMIT, mpmath_errors(name, x, found), found, x)


@pytest.mark.skipif(not llvm.host().fused, reason="our polynomials need fused multiply-add")
@pytest.mark.parametrize("ty", DTYPES)
def test_tails_of_the_normal_distribution(prefer, ty):
    """Our polynomials, densely, from where they are 1 to where they are subnormal and 0."""
    prefer("own")
    module = Module(("erfc", "ndtr"), ty, llvm.host().bits // (32 if ty == "float" else 64))
    end = 11.0 if ty == "float" else 28.0
    for name, x in (
        ("erfc", np.linspace(-7.0, end, 1500)),
        ("ndtr", np.linspace(-1.42 * end, 9.0, 1500)),
    ):
        x = x.astype(DTYPES[ty])
        found = module(name, x)
        with mpmath.workdps(40):
            exact = [MPMATH[name](mpmath.mpf(float(one))) for one in x]
            units = np.spacing(np.abs(np.array([float(one) for one in exact]).astype(DTYPES[ty])))
            errors = [
                float(abs(mpmath.mpf(float(one)) - wanted) / mpmath.mpf(float(unit)))
                for one, wanted, unit in zip(found, exact, units, strict=True)
            ]
        assert_within(3.0, np.array(errors), found, x)


@pytest.mark.parametrize("ty", DTYPES)
def test_special_functions_are_scipys(prefer, ty):
    prefer("scalar")
    module = Module(SCIPY, ty, 8)
    x = points(DTYPES[ty], 4000)
    for name in SCIPY:
        with np.errstate(over="ignore"):
            wanted = reference(name)(x.astype(float)).astype(DTYPES[ty])
        np.testing.assert_array_equal(module(name, x), wanted, name)


def pairs(dtype, count, seed=3):
    rng = np.random.default_rng(seed)
    a, b = points(dtype, count, seed), points(dtype, count, seed + 1)
    rng.shuffle(b)
    similar = (a * rng.uniform(0.25, 0.99, a.size)).astype(dtype)
    base = rng.uniform(0, 3, a.size).astype(dtype)
    power = rng.uniform(-20, 20, a.size).astype(dtype)
    return np.concatenate([a, a, base]), np.concatenate([b, similar, power])


@pytest.mark.slow
@pytest.mark.parametrize(("ty", "case"), CASES)
def test_functions_of_two_operands(prefer, ty, case):
    choice, lanes = choices(ty)[case]
    prefer(choice)
    dtype = DTYPES[ty]
    module = Module(BINARY + EXACT_BINARY, ty, lanes)
    x, y = pairs(dtype, 30_000)
    wide = float if ty == "float" else np.longdouble
    for name in BINARY:
        found = module(name, x, y)
        if name == "xlogy":
            wanted = quiet(lambda a, b: np.where(a == 0, 0, a * np.log(b)))(
                x.astype(wide), y.astype(wide)
            )
        else:
            wanted = reference(name)(x.astype(wide), y.astype(wide))
        # Where exp(x) + exp(y) is about 1, only the operands' own precision is left.
        scale = np.abs(np.maximum(x, y)) if name == "logaddexp" else None
        # Two functions of libmvec's that are each 4 ulp off at most.
        limit = 6.0 if name == "logaddexp" and not own_functions(choice) else LIMIT
        assert_within(limit, ulps(found, wanted, scale), found, x, y)
    for name in EXACT_BINARY:
        np.testing.assert_array_equal(module(name, x, y), exact_reference(name)(x, y), name)
    values = special_values(dtype)
    x, y = np.array(list(itertools.product(values, values)), dtype).T
    for name in set(BINARY) - {"logaddexp"}:
        assert_same(module(name, x, y), reference(name)(x, y), x, y)
    # The test above has its finite operands.
    odd = ~np.isfinite(x) | ~np.isfinite(y) | (x == 0) | (y == 0)
    wanted = reference("logaddexp")(x, y)
    assert_same(module("logaddexp", x, y)[odd], wanted[odd], x[odd], y[odd])
    for name in EXACT_BINARY:
        found, wanted = module(name, x, y), exact_reference(name)(x, y)
        if name in ("maximum", "minimum"):
            # Which of two zeros is larger is nobody's promise.
            np.testing.assert_array_equal(found, wanted)
        else:
            assert_same(found, wanted, x, y, limit=0)


def floor_quotient(x, y):
    """As the operation is declared: the array API standard's for infinities, else NumPy's."""
    infinite = np.isinf(x) | np.isinf(y)
    return np.where(infinite, x / y, np.floor_divide(x, y))


def exact_reference(name):
    return quiet(floor_quotient) if name == "floor_divide" else reference(name)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 16, 32])
@pytest.mark.parametrize("ty", DTYPES)
def test_any_number_of_lanes(ty, lanes):
    names = ("exp", "log", "sin", "tanh", "tan", "erf", "sigmoid", "digamma", "pow", "remainder")
    module = Module(names, ty, lanes)
    x = points(DTYPES[ty], 2000)
    y = np.roll(x, 1)
    for name in names:
        operands = (x, y)[: arity(name)]
        wide = [operand.astype(float if ty == "float" else np.longdouble) for operand in operands]
        if name in ("erf", "digamma"):
            wide = [x.astype(float)]
        if name == "remainder":
            wide = [x, y]
        assert_within(LIMIT, ulps(module(name, *operands), reference(name)(*wide)), x, x)


@pytest.mark.skipif(not llvm.host().fused, reason="needs fused multiply-add")
def test_polynomials_do_not_depend_on_the_number_of_lanes():
    x = points(np.float32, 4000)
    x = x[np.abs(x) < 1e5]
    names = ("exp", "log", "sin", "cos", "tanh", "expm1", "log1p", "erf")
    modules = [Module(names, "float", lanes, write=called) for lanes in (1, 4, 16)]
    for name in names:
        first, *others = (module(name, x) for module in modules)
        for other in others:
            np.testing.assert_array_equal(first, other, name)


ACCURATE_COMPLEX = ("exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "abs", "reciprocal")
COMPLEX_NAMES = (
    *ACCURATE_COMPLEX, "tan", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
)  # fmt: skip


def complex_reference(name):
    if name == "reciprocal":
        return quiet(lambda z: 1 / z)
    if name == "tanh":
        return quiet(standard_tanh)
    return reference(name)


def standard_tanh(z):
    found = np.array(np.tanh(z))
    limit = np.isinf(z.real) & np.isfinite(z.imag)
    found.imag = np.where(limit, np.copysign(0, z.imag), found.imag)
    return found


def as_complex(a, b, dtype):
    z = np.empty(a.shape, dtype)
    z.real, z.imag = a, b
    return z


@pytest.mark.slow
@pytest.mark.parametrize(("ty", "case"), CASES)
def test_complex_functions(prefer, ty, case):
    choice, lanes = choices(ty)[case]
    prefer(choice)
    dtype = DTYPES[ty]
    module = Module(COMPLEX_NAMES, ty, lanes, complex_numbers=True)
    rng = np.random.default_rng(5)
    n = 2000
    circle = rng.uniform(0, 7, n)
    a = np.concatenate([rng.uniform(-5, 5, n), rng.normal(size=n) * 1e-3, np.cos(circle),
                        rng.uniform(-60, 60, n)]).astype(dtype)  # fmt: skip
    b = np.concatenate([rng.uniform(-5, 5, n), rng.normal(size=n) * 1e-3, np.sin(circle),
                        rng.uniform(-60, 60, n)]).astype(dtype)  # fmt: skip
    values = special_values(dtype)
    special = np.array(list(itertools.product(values, values)), dtype).T
    # Where a number is large or tiny and finite, libm itself is what is tested.
    special = special[:, (~np.isfinite(special)).any(0) | (special == 0).any(0)]
    if np.lib.NumpyVersion(np.__version__) < "2.3.0":
        # Older ones have functions of NaN of their own, where C's standard has others.
        special = special[:, ~np.isnan(special).any(0)]
    wide = np.complex128 if ty == "float" else np.clongdouble
    for name in COMPLEX_NAMES:
        kernel = complex_reference(name)
        found, wanted = module(name, a, b), kernel(as_complex(a, b, wide))
        # Products and quotients of functions that are each 4 ulp off at most, and libm's own.
        limit = LIMIT if own_functions(choice) and name in ACCURATE_COMPLEX else 8.0
        if name == "abs":
            assert_within(limit, ulps(found, wanted), found, a, b)
            assert_same(module(name, *special), kernel(as_complex(*special, COMPLEX[ty])), *special)
            continue
        for part, exact in zip(found, (wanted.real, wanted.imag), strict=True):
            assert_within(limit, ulps(part, exact), part, a, b)
        wanted = kernel(as_complex(*special, COMPLEX[ty]))
        for part, exact in zip(module(name, *special), (wanted.real, wanted.imag), strict=True):
            assert_same(part, exact, *special, limit=limit)


@pytest.mark.parametrize("ty", DTYPES)
def test_complex_products_and_quotients_are_numpys(ty):
    module = Module(("multiply", "divide"), ty, 8, complex_numbers=True)
    values = np.array([0, -0.0, 1, -2.5, 0.375, math.inf, -math.inf, math.nan], DTYPES[ty])
    a, b, c, d = np.array(list(itertools.product(values, repeat=4)), DTYPES[ty]).T
    x, y = as_complex(a, b, COMPLEX[ty]), as_complex(c, d, COMPLEX[ty])
    for name in ("multiply", "divide"):
        wanted = reference(name)(x, y)
        real, imaginary = module(name, a, b, c, d)
        np.testing.assert_array_equal(real, wanted.real)
        np.testing.assert_array_equal(imaginary, wanted.imag)


def test_vector_symbols_are_called(prefer):
    prefer("auto")
    host = llvm.host()
    if not host.libmvec or host.bits != 512:
        pytest.skip("needs libmvec and AVX-512")
    assert vectormath.function(math_functions.TAN, "float", 16)[0] == "_ZGVeN16v_tanf"
    assert vectormath.function(math_functions.EXP, "float", 16)[0] == "_ZGVeN16v_expf"
    symbol, snippets = vectormath.accurate_function(math_functions.EXP, "float", 16)
    assert not any("_ZGV" in snippet for snippet in snippets)
    assert any(f"@{symbol}" in snippet for snippet in snippets)


@pytest.mark.parametrize("choice", ["scalar", "own"])
def test_these_choices_call_no_function_of_libmvec(prefer, choice):
    prefer(choice)
    for name in EVERYTHING:
        builder, _, _ = written(name, np.dtype(float), 8)
        assert "_ZGV" not in "".join(builder.r.definitions)


def test_choice_must_be_known(prefer):
    prefer("fast")
    with pytest.raises(ValueError, match=r"GRADTAPE_VECTOR_MATH=.fast. is unknown\. Use auto, "):
        mathlibrary.preference()


def test_functions_that_do_not_exist_are_refused():
    cases = [
        (vectormath.function, math_functions.EXP, "half"),
        (vectormath.function, Libm("zeta"), "double"),
        (vectormath.function, ScipyFunction("zeta", "no_such_export"), "double"),
        (complexmath.complex_function, math_functions.HYPOT, "double"),
        (complexmath.complex_function, Libm("zeta", has_complex=True), "double"),
    ]
    for find, function, ty in cases:
        with pytest.raises(NotLowered):
            find(function, ty, 4)


def test_every_function_of_an_op_is_tested_here():
    functions = {op.function for op in REGISTRY.values()} - {None}
    names = (*EVERYTHING, "multiply_no_nan", "angle")
    assert functions <= {op_of(name)[0].function for name in names}


@pytest.mark.parametrize("name", ["sinc", "i0", "i1"])
def test_functions_of_order_are_compiled_and_scipys(name, both_ways, library_calls):
    x = np.concatenate([np.linspace(-20.0, 20.0, 4001), [0.0, 0.5, 1e-8, 30.0]])
    wanted = mpmath_sinc(x) if name == "sinc" else getattr(scipy.special, name)(x)
    y = getattr(gt, name)(gt.asarray(x))
    assert library_calls(y) == []
    ((_, found),) = both_ways(y)
    assert_within(LIMIT, ulps(found, wanted.astype(np.longdouble)), found, x)


@pytest.mark.parametrize("order", [1, 2, 3, 7, 12])
def test_higher_orders_are_compiled(order, both_ways, library_calls):
    x = np.concatenate([np.linspace(-8.0, 8.0, 801), [0.0, 1e-8, 1000.25]])
    y = op_of("sinc")[0]
    found = record(y, (gt.asarray(x),), (order,))
    assert library_calls(found) == []
    ((expected, got),) = both_ways(found)
    np.testing.assert_allclose(got, expected, atol=1e-14 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["iv", "jv", "kv", "yv", "ive", "kve"])
@pytest.mark.parametrize("order", [0, 1, 2, 5, 0.5, 2.3])
def test_bessel_functions_are_compiled(kind, order, both_ways, library_calls):
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 700.0, 1e3, 1e5, 1e6]
    x = np.concatenate([np.linspace(-50.0, 50.0, 301), ends])
    y = getattr(bessel, kind)(order, gt.asarray(x))
    assert library_calls(y) == []
    ((expected, got),) = both_ways(y)
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 50, 170])
def test_polygamma_is_native(n, both_ways):
    ends = [-0.5, -20.3, -1.0, 0.0, -0.0, np.inf, -np.inf, np.nan]
    x = np.concatenate([np.logspace(-300, 300, 61), np.linspace(0.01, 60.0, 400), ends])
    before = gt.counters().python_calls
    ((expected, got),) = both_ways(gt.polygamma(n, gt.asarray(x)))
    assert gt.counters().python_calls == before
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def mpmath_sinc(x):
    with mpmath.workdps(40):
        return np.array([float(mpmath.sincpi(mpmath.mpf(float(value)))) for value in x])
