"""CONTRACT: the namespace of the array API standard, version 2024.12."""

import inspect

import mpmath
import numpy as np
import pytest

import gradtape as gt

NAMES = {
    "constants": "e inf nan newaxis pi",
    "creation": """
        arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones
        ones_like tril triu zeros zeros_like
    """,
    "dtypes": """
        bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
        astype can_cast finfo iinfo isdtype result_type
    """,
    "elementwise": """
        abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
        bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh
        divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf
        isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or
        logical_xor maximum minimum multiply negative nextafter not_equal positive pow real
        reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc
    """,
    "indexing": "take take_along_axis",
    "inspection": "__array_namespace_info__ __array_api_version__",
    "linear algebra": "matmul matrix_transpose tensordot vecdot",
    "manipulation": """
        broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape
        roll squeeze stack tile unstack
    """,
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "set": "unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "statistical": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "utility": "all any diff",
}
LINALG = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
    matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""
FFT = """
    fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift
"""
ATTRIBUTES = "dtype device mT ndim shape size T"
METHODS = """
    __abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__
    __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__
    __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__
    __setitem__ __sub__ __truediv__ __xor__ to_device
    __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __ipow__ __imod__ __imatmul__ __iand__
    __ior__ __ixor__ __ilshift__ __irshift__
    __radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rpow__ __rmod__ __rmatmul__ __rand__
    __ror__ __rxor__ __rlshift__ __rrshift__
"""


@pytest.mark.parametrize("group", NAMES)
def test_names(group):
    assert [name for name in NAMES[group].split() if not hasattr(gt, name)] == []
    assert [name for name in NAMES[group].split() if name not in gt.__all__] == []


def test_names_of_extensions():
    assert [name for name in LINALG.split() if name not in gt.linalg.__all__] == []
    assert [name for name in FFT.split() if name not in gt.fft.__all__] == []


def test_names_of_tensors():
    x = gt.asarray([[1.0]])
    wanted = f"{ATTRIBUTES} {METHODS}".split()
    assert [name for name in wanted if not hasattr(x, name)] == []


def test_namespace_and_versions():
    x = gt.asarray(1.0)
    assert x.__array_namespace__() is gt
    for version in (None, "2021.12", "2022.12", "2023.12", gt.__array_api_version__):
        assert x.__array_namespace__(api_version=version) is gt
    for unknown in ("2020.01", "2099.12", ""):
        with pytest.raises(ValueError, match=r"not supported.*2024\.12"):
            x.__array_namespace__(api_version=unknown)
    assert gt.__array_api_version__ == "2024.12"


# Arguments in the order of the standard: `/` ends the positional ones, `*` starts the keywords.
SIGNATURES = {
    "add": "x, y, /",
    "asarray": "obj, /, *, dtype, device, copy",
    "astype": "x, dtype, /, *, copy, device",
    "clip": "x, /, min, max",
    "concat": "arrays, /, *, axis",
    "cumulative_sum": "x, /, *, axis, dtype, include_initial",
    "expand_dims": "x, /, axis",
    "fft.fft": "x, /, *, n, axis, norm",
    "fft.fftfreq": "n, /, *, d, dtype, device",
    "fft.irfftn": "x, /, *, s, axes, norm",
    "from_dlpack": "x, /, *, device, copy",
    "linalg.pinv": "x, /, *, rtol",
    "linalg.svd": "x, /, *, full_matrices",
    "linspace": "start, stop, /, num, *, dtype, device, endpoint",
    "max": "x, /, *, axis, keepdims",
    "reshape": "x, /, shape, *, copy",
    "searchsorted": "x1, x2, /, *, side, sorter",
    "sum": "x, /, *, axis, dtype, keepdims",
    "take": "x, indices, /, *, axis",
    "tensordot": "x1, x2, /, *, axes",
    "var": "x, /, *, axis, correction, keepdims",
    "where": "condition, x1, x2, /",
    "Tensor.__dlpack__": "self, /, *, stream, max_version, dl_device, copy",
}


def written(function):
    """The arguments as in a definition, without annotations and defaults."""
    parts, kinds = [], inspect.Parameter
    previous = None
    for parameter in inspect.signature(function).parameters.values():
        if previous == kinds.POSITIONAL_ONLY and parameter.kind != previous:
            parts.append("/")
        if parameter.kind == kinds.KEYWORD_ONLY and previous != kinds.KEYWORD_ONLY:
            parts.append("*")
        parts.append(parameter.name)
        previous = parameter.kind
    if previous == kinds.POSITIONAL_ONLY:
        parts.append("/")
    return parts


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    function = gt
    for part in name.split("."):
        function = getattr(function, part)
    found, expected = written(function), SIGNATURES[name].split(", ")
    # The names of positional arguments are not part of the standard, their number is.
    end = expected.index("/") if "/" in expected else 0
    assert found[end:] == expected[end:]


class TestDLPack:
    def test_copies_on_request(self):
        x = gt.asarray([1.0, 2.0])
        shared, copied = np.from_dlpack(x), np.from_dlpack(x, copy=True)
        assert np.shares_memory(shared, x.numpy())
        assert not np.shares_memory(copied, x.numpy())

    def test_old_consumers_get_a_copy_or_an_error(self):
        x = gt.asarray([1.0, 2.0])
        assert x.__dlpack__() is not None
        assert x.__dlpack__(max_version=(0, 8), copy=True) is not None
        with pytest.raises(BufferError, match="read-only"):
            x.__dlpack__(copy=False)
        assert x.__dlpack__(max_version=(1, 0), copy=False) is not None

    def test_import(self):
        x = gt.asarray([1.0, 2.0])
        for copy in (None, True, False):
            assert gt.from_dlpack(x, copy=copy).tolist() == [1.0, 2.0]
        assert gt.from_dlpack(np.arange(2.0), device="cpu", copy=True).tolist() == [0.0, 1.0]
        with pytest.raises(BufferError, match="always copied"):
            gt.from_dlpack(np.arange(2.0), copy=False)
        with pytest.raises(ValueError, match="not a device"):
            gt.from_dlpack(np.arange(2.0), device="gpu")


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (INF, 2.0, INF), (INF, -2.0, -INF), (-INF, 2.0, -INF), (-INF, -2.0, INF),
        (1.0, -INF, -0.0), (-1.0, INF, -0.0), (1.0, INF, 0.0), (-1.0, -INF, 0.0),
        (INF, INF, NAN), (NAN, INF, NAN), (7.0, 2.0, 3.0), (-7.0, 2.0, -4.0), (-0.0, 2.0, -0.0),
    ],
)  # fmt: skip
def test_floor_divide_of_infinities(x, y, expected, dtype):
    found = gt.floor_divide(np.array(x, dtype), np.array(y, dtype)).numpy()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found) == np.signbit(expected) or np.isnan(expected)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize(
    ("name", "z", "expected"),
    [
        ("tanh", (INF, 2.0), (1.0, 0.0)),
        ("tanh", (-INF, 2.0), (-1.0, 0.0)),
        ("tanh", (INF, -2.0), (1.0, -0.0)),
        ("expm1", (0.0, 0.0), (0.0, 0.0)),
        ("expm1", (-0.0, 0.0), (0.0, 0.0)),
        ("expm1", (INF, 0.0), (INF, 0.0)),
        ("expm1", (-INF, 1.0), (-1.0, 0.0)),
        ("expm1", (-INF, INF), (-1.0, 0.0)),
        ("expm1", (-INF, NAN), (-1.0, 0.0)),
        ("expm1", (INF, INF), (INF, NAN)),
        ("expm1", (INF, NAN), (INF, NAN)),
        ("expm1", (NAN, 0.0), (NAN, 0.0)),
        ("expm1", (NAN, 1.0), (NAN, NAN)),
        ("expm1", (1.0, INF), (NAN, NAN)),
    ],
)
def test_complex_special_values(name, z, expected, dtype):
    found = getattr(gt, name)(np.array(complex(*z), dtype)).numpy()
    for part, wanted in zip((found.real, found.imag), expected, strict=True):
        np.testing.assert_array_equal(part, wanted)
        assert np.isnan(wanted) or np.signbit(part) == np.signbit(wanted)


@pytest.mark.parametrize(("dtype", "smallest"), [("complex128", -12), ("complex64", -6)])
@pytest.mark.parametrize("name", ["expm1", "tanh"])
def test_complex_accuracy(name, dtype, smallest):
    rng = np.random.default_rng(3)
    signs = rng.choice([-1.0, 1.0], (2, 500))
    parts = signs * 10.0 ** rng.uniform(smallest, 1.5, (2, 500))
    z = (parts[0] + 1j * parts[1]).astype(dtype)
    found = getattr(gt, name)(z).numpy()
    assert found.dtype == dtype
    with mpmath.workdps(40):
        for one, value in zip(z.tolist(), found.tolist(), strict=True):
            exact = getattr(mpmath, name)(mpmath.mpc(one))
            assert abs(mpmath.mpc(value) - exact) <= 8 * np.finfo(dtype).eps * abs(exact)


def test_masks_may_have_empty_axes():
    x = gt.asarray(np.ones((3, 2)))
    for shape in ((0,), (0, 2), (3, 0), (0, 0)):
        mask = np.zeros(shape, bool)
        assert x[mask].shape == (0, *x.shape[len(shape) :])
        y = x.copy()
        y[mask] = 5.0
        assert y.tolist() == x.tolist()


def test_a_tolerance_for_each_matrix():
    x = np.array([np.diag([1.0, 0.1]), np.diag([1.0, 0.1])])
    limits = np.array([0.01, 0.5])
    np.testing.assert_allclose(
        gt.linalg.pinv(x, rtol=gt.asarray(limits)).numpy(), np.linalg.pinv(x, rtol=limits)
    )
    assert gt.linalg.matrix_rank(x, rtol=limits).tolist() == [2, 1]
    assert gt.linalg.pinv(np.ones((0, 2, 3)), rtol=np.ones(0)).shape == (0, 3, 2)
    with pytest.raises(ValueError, match="more than one for each matrix"):
        gt.linalg.pinv(x, rtol=np.ones((3, 2)))
