"""NumPy's ufuncs on tensors (NEP 13): `np.sin(tensor)` records `gt.sin`, with a ufunc's options."""

from __future__ import annotations

import functools
import math
import sys

import numpy as np

from gradtape.control.associative_scan import associative_scan
from gradtape.dtypes import SUPPORTED
from gradtape.interop.numpy_protocols.binding import (
    AnyFunction,
    checked_dtype,
    functions,
    refusal,
    same_names,
    unrecorded,
)
from gradtape.interop.numpy_protocols.reductions import ACCUMULATE, REDUCE
from gradtape.ops.arrays import joining, movement
from gradtape.ops.elementwise import arithmetic, bessel, complexes, special, unary
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axes, reduced_shape
from gradtape.ops.matrices import contraction, products
from gradtape.tensor.operators import Operators
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.tensor.tensor_view import TensorView
from gradtape.tensor.variable import Variable

__all__ = ["SPECIAL", "UFUNCS"]


_NUMBERS = (bool, int, float, complex)


def _float(x):
    x = asarray(x)
    return x if x.dtype.kind in "fc" else x / 1.0


def _real(name, x):
    x = _float(x)
    if x.dtype.kind == "c":
        raise TypeError(f"np.{name}: {x.dtype} is complex. Use np.abs, np.real or np.imag first.")
    return x


def _is_boolean(x):
    return type(x) is bool or getattr(getattr(x, "dtype", None), "kind", "") == "b"


def _booleans_as_integers(ours):
    """The function as NumPy has it: of booleans alone it computes in int8."""

    def call(*operands):
        if all(map(_is_boolean, operands)):
            return ours(*[cast(asarray(each), "int8") for each in operands])
        return ours(*operands)

    return call


def _absolute(x):
    return arithmetic.identity(x) if _is_boolean(x) else complexes.abs(x)


def _fabs(x):
    return complexes.abs(_real("fabs", x))


def _rint(x):
    return unary.round(_float(x))


def _reciprocal(x):
    x = asarray(x)
    if x.dtype.kind not in "iu":
        return unary.reciprocal(x)
    return arithmetic.where(arithmetic.equal(x * x, 1), x, 0)


def _float_power(x, y):
    parts = [asarray(each) for each in (x, y)]
    dtype = "complex128" if any(each.dtype.kind == "c" for each in parts) else "float64"
    return arithmetic.pow(*[cast(each, dtype) for each in parts])


def _conjugate(x):
    x = asarray(x)
    return cast(x, "int8") if x.dtype.kind == "b" else complexes.conj(x)


def _fmod(x, y):
    for each in (x, y):
        if not isinstance(each, (bool, int, float)):
            _real("fmod", each)
    sizes = [each if _is_boolean(each) else abs(each) for each in (x, y)]
    rest = arithmetic.remainder(*sizes)
    return rest if rest.dtype.kind == "u" else arithmetic.where(x < 0, -rest, rest)


def _modf(x):
    x = _float(x)
    whole = unary.trunc(x)
    part = arithmetic.where(unary.isinf(x), 0.0, x - whole)
    return arithmetic.copysign(part, x), whole


def _fmax(ours):
    def call(x, y):
        found = ours(x, y)
        if found.dtype.kind != "f":
            return found
        x, y = (cast(asarray(each), found.dtype) for each in (x, y))
        found = arithmetic.where(unary.isnan(x), y, found)
        return arithmetic.where(unary.isnan(y), x, found)

    return call


def _heaviside(x, y):
    x, y = _real("heaviside", x), y if isinstance(y, (bool, int, float)) else _real("heaviside", y)
    step = arithmetic.where(x < 0.0, 0.0, arithmetic.where(x > 0.0, 1.0, x))
    return arithmetic.where(arithmetic.equal(x, 0.0), y, step)


def _matvec(x, y):
    return contraction.matmul(x, movement.expand_dims(y, -1))[..., 0]


def _vecmat(x, y):
    x = asarray(x)
    x = complexes.conj(x) if x.dtype.kind == "c" else x
    return contraction.matmul(movement.expand_dims(x, -2), y)[..., 0, :]


def _logaddexp2(x, y):
    kinds = [x if type(x) in _NUMBERS else asarray(x).dtype for x in (x, y)]
    dtype = np.result_type(*kinds, *([] if any(map(_is_float, kinds)) else [float]))
    natural = [cast(asarray(each), dtype) * math.log(2.0) for each in (x, y)]
    return arithmetic.logaddexp(*natural) / math.log(2.0)


def _is_float(kind):
    return isinstance(kind, np.dtype) and kind.kind == "f"


UFUNCS: dict[AnyFunction, AnyFunction] = {
    **same_names(
        np,
        vars(arithmetic),
        "add subtract multiply divide floor_divide remainder hypot logaddexp copysign nextafter "
        "maximum minimum equal not_equal less less_equal greater greater_equal logical_and "
        "logical_or logical_xor bitwise_and bitwise_or bitwise_xor",
    ),
    **same_names(
        np,
        vars(unary),
        "negative positive exp exp2 expm1 log log1p log2 log10 sqrt cbrt square sin cos "
        "tan sinh cosh tanh floor ceil trunc isnan isinf isfinite signbit logical_not",
    ),
    np.absolute: _absolute,
    np.conjugate: _conjugate,
    np.sign: complexes.sign,
    **{
        getattr(np, f"arc{name}"): getattr(unary, f"a{name}")
        for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")
    },
    np.arctan2: arithmetic.atan2,
    np.invert: unary.bitwise_invert,
    np.left_shift: arithmetic.bitwise_left_shift,
    np.right_shift: arithmetic.bitwise_right_shift,
    np.power: arithmetic.pow,
    np.matmul: contraction.matmul,
    np.vecdot: products.vecdot,
    np.fabs: _fabs,
    np.rint: _rint,
    np.reciprocal: _reciprocal,
    np.float_power: _float_power,
    np.fmod: _fmod,
    np.modf: _modf,
    np.fmax: _fmax(arithmetic.maximum),
    np.fmin: _fmax(arithmetic.minimum),
    np.heaviside: _heaviside,
    np.logaddexp2: _logaddexp2,
    np.deg2rad: lambda x: _real("deg2rad", x) * (math.pi / 180.0),
    np.radians: lambda x: _real("radians", x) * (math.pi / 180.0),
    np.rad2deg: lambda x: _real("rad2deg", x) * (180.0 / math.pi),
    np.degrees: lambda x: _real("degrees", x) * (180.0 / math.pi),
    np.divmod: lambda x, y: (arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)),
}
for _ufunc in functions(
    "floor_divide remainder divmod fmod power square reciprocal left_shift right_shift"
):
    UFUNCS[_ufunc] = _booleans_as_integers(UFUNCS[_ufunc])

if hasattr(np, "matvec"):  # NumPy 2.2
    UFUNCS |= {np.matvec: _matvec, np.vecmat: _vecmat}


def _gamma_sign(x):
    x = _float(x)
    negative = arithmetic.logical_and(x < 0.0, arithmetic.not_equal(unary.floor(x) % 2.0, 0.0))
    return cast(arithmetic.where(negative, -1.0, 1.0), x.dtype)


def _gamma(x):
    return _gamma_sign(x) * unary.exp(special.lgamma(_float(x)))


def _named(module, names):
    return {name: getattr(module, name) for name in names.split()}


# The ufuncs of scipy.special that we have, by name: SciPy need not be loaded to compare.
SPECIAL: dict[str, AnyFunction] = {
    **_named(special, "erf erfc erfinv erfcinv digamma ndtr ndtri xlogy"),
    **_named(unary, "exp2 expm1 log1p cbrt"),
    **_named(bessel, "iv ive jv kv kve yv"),
    "gammaln": special.lgamma,
    "psi": special.digamma,
    "expit": unary.sigmoid,
    "log_expit": special.log_sigmoid,
    "logit": lambda x: unary.log(x) - unary.log1p(-_float(x)),
    "xlog1py": lambda x, y: special.xlogy(x, 1.0 + _float(y)),
    "entr": lambda x: -special.xlogy(x, x),
    "rel_entr": lambda x, y: special.xlogy(x, _float(x) / y),
    "gamma": _gamma,
    "gammasgn": _gamma_sign,
    "rgamma": lambda x: 1.0 / _gamma(x),
    "beta": lambda a, b: _gamma(a) * _gamma(b) / _gamma(_float(a) + b),
    "betaln": lambda a, b: special.lgamma(a) + special.lgamma(b) - special.lgamma(_float(a) + b),
    "jn": bessel.jv,
    "kn": bessel.kv,
    "yn": bessel.yv,
    **{
        name.replace("v", str(n)): functools.partial(getattr(bessel, name), n)
        for name in ("iv", "jv", "kv", "yv", "ive", "kve")
        for n in (0, 1)
    },
}

# Inputs beside a tensor that need no check: every other type may bring its own `__array_ufunc__`.
_KNOWN = frozenset(
    (Tensor, TensorView, Variable, bool, int, float, complex, list, tuple, np.ndarray, np.float64)
)


def array_ufunc(self, ufunc, method, *inputs, **options):
    """NEP 13: `np.sin(tensor)` records `gt.sin`."""
    for x in inputs:
        if type(x) not in _KNOWN and _belongs_to_others(x):
            return NotImplemented
    ours = UFUNCS.get(ufunc) or _of_scipy(ufunc)
    if not options and method == "__call__" and ours is not None:
        return ours(*inputs)
    name = _name(ufunc)
    if options.pop("out", None) is not None:
        raise refusal(name, "out", ...)
    if method == "__call__":
        if ours is None:
            raise unrecorded(name)
        return _with_options(name, ufunc, ours, inputs, options)
    if method not in _METHODS:
        raise unrecorded(f"{name}.{method}")
    return _METHODS[method](f"{name}.{method}", ufunc, inputs, options)


def _belongs_to_others(x):
    own = isinstance(x, (Operators, np.ndarray, np.generic)) or hasattr(x, "enter")
    return not own and getattr(type(x), "__array_ufunc__", None) is not None


def _name(ufunc):
    return f"np.{ufunc.__name__}" if hasattr(np, ufunc.__name__) else ufunc.__name__


def _of_scipy(ufunc: np.ufunc) -> AnyFunction | None:
    """Our function for a ufunc of scipy.special, known by its name there from then on."""
    module = sys.modules.get("scipy.special")
    for name in (ufunc.__name__,) if module is not None else ():
        if getattr(module, name, None) is ufunc and name in SPECIAL:
            UFUNCS[ufunc] = SPECIAL[name]
            return SPECIAL[name]
    return None


def _with_options(name, ufunc, ours, inputs, options):
    where = options.pop("where", True)
    if where is not True:
        raise refusal(name, "where", where)
    for ignored in ("order", "subok"):
        options.pop(ignored, None)
    dtype, casting = options.pop("dtype", None), options.pop("casting", "same_kind")
    axis = {"axis": options.pop("axis")} if ufunc is np.vecdot and "axis" in options else {}
    for parameter, value in options.items():
        if value is not None:
            raise refusal(name, parameter, value)
    if dtype is None and casting == "same_kind":
        return ours(*inputs, **axis)
    inputs = [x if type(x) in _NUMBERS[1:] else asarray(x) for x in inputs]
    loop = _dtypes_of_loop(ufunc, inputs, dtype, casting)
    if dtype is None:  # NumPy allows the casts; the dtype of the result is ours
        return ours(*inputs, **axis)
    for each in loop:
        if each not in SUPPORTED:
            raise refusal(name, "dtype", each)
    found = ours(*[cast(asarray(x), to) for x, to in zip(inputs, loop, strict=False)], **axis)
    if ufunc.nout == 1:
        return cast(found, loop[-1])
    return tuple(cast(part, to) for part, to in zip(found, loop[ufunc.nin :], strict=True))


def _dtypes_of_loop(ufunc, inputs, dtype, casting):
    """The dtypes of operands and results that NumPy chooses; its error if it allows none."""
    kinds = [type(x) if type(x) in _NUMBERS[1:] else np.dtype(x.dtype) for x in inputs]
    wanted = {}
    if dtype is not None:
        wanted["signature"] = (*[None] * ufunc.nin, *[np.dtype(dtype)] * ufunc.nout)
    return ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout), casting=casting, **wanted)


# Ufuncs without a reduction of their own, whose elements may be paired in any way.
_ASSOCIATIVE = functions(
    "maximum minimum fmax fmin hypot logaddexp logaddexp2 logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor"
)


def _folded(name, ufunc, a, axis, options):
    """The reduction by an associative ufunc: halves are paired until one row is left."""
    keepdims, dtype = options.pop("keepdims", False), options.pop("dtype", None)
    for parameter, value in options.items():
        if value is not True and value is not None and value is not np._NoValue:
            raise refusal(name, parameter, value)
    a = asarray(a) if dtype is None else cast(asarray(a), checked_dtype(name, dtype))
    axes = normalize_axes(ufunc.__name__, axis, a.ndim)
    if not axes:
        raise refusal(name, "axis", axis)
    others = [one for one in range(a.ndim) if one not in axes]
    rows = movement.permute_dims(a, (*axes, *others))
    rows = movement.reshape(rows, (-1, *[a.shape[one] for one in others]))
    if not rows.shape[0]:
        raise ValueError(f"{name}: there is nothing to reduce along axis={axis}.")
    while rows.shape[0] > 1:
        half = rows.shape[0] // 2
        paired = UFUNCS[ufunc](rows[: 2 * half : 2], rows[1 : 2 * half : 2])
        rest = [cast(rows[2 * half :], paired.dtype)] if rows.shape[0] % 2 else []
        rows = joining.concat([paired, *rest], axis=0) if rest else paired
    return movement.reshape(rows, reduced_shape(a.shape, axes, keepdims))


def _reduce(name, ufunc, inputs, options):
    ours, a, axis = REDUCE.get(ufunc), inputs[0], options.pop("axis", 0)
    if ours is None:
        if ufunc not in _ASSOCIATIVE:
            raise unrecorded(name)
        return _folded(name, ufunc, a, axis, options)
    if options.get("initial", ...) is None:
        del options["initial"]
    options = {k: v for k, v in options.items() if v is not np._NoValue}
    dtype = options.pop("dtype", None)
    if dtype is not None:
        dtype = np.dtype(dtype)
        truth = dtype.kind == "b"
        if dtype not in SUPPORTED or (ufunc in (np.logical_and, np.logical_or) and not truth):
            raise refusal(name, "dtype", dtype)
        if ufunc in (np.add, np.multiply):
            options["dtype"] = dtype
        elif not truth:
            a = cast(asarray(a), dtype)
    if ufunc in (np.logical_and, np.logical_or) and "initial" in options:
        first = bool(options.pop("initial"))
        return UFUNCS[ufunc](ours(a, axis=axis, **options), first)
    if ufunc is np.logaddexp:
        for parameter in ("initial", "where"):
            value = options.pop(parameter, True)
            if value is not True:
                raise refusal(name, parameter, value)
    return ours(a, axis=axis, **options)


def _accumulate(name, ufunc, inputs, options):
    axis, dtype = options.get("axis", 0), options.get("dtype")
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    dtype = None if dtype is None else checked_dtype(name, dtype)
    if ufunc in ACCUMULATE:
        return ACCUMULATE[ufunc](inputs[0], axis=axis, dtype=dtype)
    if ufunc not in _ASSOCIATIVE:
        raise unrecorded(name)
    ours, a = UFUNCS[ufunc], asarray(inputs[0])
    a = a if dtype is None else cast(a, dtype)
    return associative_scan(ours, cast(a, ours(a, a).dtype), axis=axis)


def _outer(name, ufunc, inputs, options):
    ours = UFUNCS.get(ufunc)
    if ours is None or ufunc.signature is not None:
        raise unrecorded(name)
    left, right = asarray(inputs[0]), asarray(inputs[1])
    left = movement.reshape(left, left.shape + (1,) * right.ndim)
    return _with_options(name, ufunc, ours, (left, right), options)


_METHODS = {"reduce": _reduce, "accumulate": _accumulate, "outer": _outer}
