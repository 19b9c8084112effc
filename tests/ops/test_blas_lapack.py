"""The library of BLAS and LAPACK: each kind of it, by its symbols, integers and threads."""

import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradtape
from gradtape.ops import blas_lapack

HAS_MKL = blas_lapack.mkl() is not None


def numpys_openblas():
    """The OpenBLAS in NumPy's wheel, which has 64-bit integers. Nothing but this test opens it."""
    package = Path(importlib.util.find_spec("numpy").origin).parent
    path = next((package.parent / "numpy.libs").glob("lib*openblas64*"), None)
    if path is None:
        pytest.skip("NumPy has no OpenBLAS with 64-bit integers here")
    return blas_lapack._as_openblas(ctypes.CDLL(str(path)))


def openblas():
    found = blas_lapack.openblas()
    if found is None:
        pytest.skip("SciPy has no OpenBLAS of its own here")
    return found


def mkl():
    if not HAS_MKL:
        pytest.skip("MKL is not installed")
    return blas_lapack.mkl()


KINDS = {
    "mkl": mkl,
    "openblas": openblas,
    "openblas-64": numpys_openblas,
    "capsules": blas_lapack.capsules,
}


@pytest.fixture(params=KINDS)
def library(request, monkeypatch):
    found = KINDS[request.param]()
    monkeypatch.setattr(blas_lapack, "library", lambda: found)
    blas_lapack._routine.cache_clear()
    yield found
    blas_lapack._routine.cache_clear()


def test_kinds_state_symbols_integers_and_threads():
    found = openblas()
    assert (found.name, found.integers) == ("openblas", np.int32)
    assert found.pattern.format("dgemm") in ("scipy_dgemm_", "dgemm_")
    assert found.can_be_held == bool(found.set_threads)
    wide = numpys_openblas()
    assert (wide.pattern, wide.integers) == ("scipy_{}_64_", np.int64)
    exported = blas_lapack.capsules()
    assert (exported.name, exported.pattern, exported.can_be_held) == ("scipy", "{}", False)


def test_routines_by_name(library):
    names = ("sgemm", "dgemv", "ddot", "zgerc", "dgetrf", "ssyevd", "ztrtrs")
    assert len({library.address(name) for name in names}) == len(names)
    with pytest.raises(LookupError, match="no routine frobnicate"):
        library.address("frobnicate")


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_routines_of_both_parts(library, dtype):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 5)).astype(dtype) + 5 * np.eye(5, dtype=dtype)
    if a.dtype.kind == "c":
        a = (a + 1j * rng.standard_normal((5, 5))).astype(dtype)
    factors, pivots = np.array(a, order="F"), blas_lapack.integers(5)
    assert blas_lapack.lapack("getrf", a.dtype, 5, 5, factors, 5, pivots) == 0
    b = np.array(a @ np.ones((5, 2), dtype), order="F")
    assert blas_lapack.lapack("getrs", a.dtype, "N", 5, 2, factors, 5, pivots, b, 5) == 0
    np.testing.assert_allclose(b, np.ones((5, 2)), rtol=1e-4)
    # The first number on the diagonal of U that is zero is the answer of LAPACK.
    nothing = np.zeros((5, 5), dtype, order="F")
    assert blas_lapack.lapack("getrf", a.dtype, 5, 5, nothing, 5, pivots) == 1
    one, zero, product = (np.full(1, value, dtype) for value in (1, 0, 9))
    x = np.ones(5, dtype)
    arguments = ("N", 1, 5, one, x, 1, x, 1, zero, product, 1)
    blas_lapack.call("gemv", a.dtype, *arguments)
    assert product[0] == 5


def test_arrays_with_gaps_are_refused(library):
    with pytest.raises(AssertionError, match="not contiguous"):
        blas_lapack.call("getrf", np.dtype("float64"), 2, 2, np.ones((4, 4))[::2, ::2], 2)


def script(body, **environment):
    source = str(Path(gradtape.__file__).resolve().parents[1])
    return subprocess.run(
        [sys.executable, "-c", body],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": source, **environment},
    )


NAME = "from gradtape.ops.blas_lapack import library; print(library().name)"


@pytest.mark.parametrize("choice", ["", "OpenBLAS"])
def test_choice_of_library(choice):
    done = script(NAME, GRADTAPE_BLAS=choice)
    assert done.returncode == 0
    expected = {"mkl"} if HAS_MKL and not choice else {"openblas", "scipy"}
    assert done.stdout.strip() in expected


def test_unknown_library():
    done = script(NAME, GRADTAPE_BLAS="atlas")
    assert "GRADTAPE_BLAS='atlas' is unknown. Use auto, openblas or mkl." in done.stderr


@pytest.mark.skipif(HAS_MKL, reason="MKL is installed")
def test_mkl_that_is_not_installed():
    assert "pip install mkl" in script(NAME, GRADTAPE_BLAS="mkl").stderr


def test_a_compiled_product_and_a_solution_import_no_part_of_scipy():
    if blas_lapack.library().name == "scipy":
        pytest.skip("the routines of this SciPy are reached by importing it only")
    body = """
import sys
import numpy as np
import gradtape as gt
@gt.function
def f(a):
    return gt.sum(gt.linalg.solve(a, a @ a) + gt.linalg.triangular_solve(a, a))
a = gt.asarray(np.eye(80) * 2)
assert float(f(a)) == 240.0 and float(f(a)) == 240.0
assert gt.counters().kernels_compiled > 0
print([name for name in sys.modules if name == "scipy" or name.startswith("scipy.")])
"""
    done = script(body, GRADTAPE_JIT="always")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
