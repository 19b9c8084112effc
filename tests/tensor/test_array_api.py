"""What the array API standard asks about dtypes, devices and versions."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import DtypeError
from gradtape.tensor import array_api as namespace


def test_versions():
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert gt.asarray(1.0).__array_namespace__(api_version=version) is gt
    with pytest.raises(ValueError, match=r"'2019\.01'.*2021\.12.*2024\.12"):
        gt.asarray(1.0).__array_namespace__(api_version="2019.01")


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_finfo(dtype):
    found, expected = namespace.finfo(np.dtype(dtype)), np.finfo(dtype)
    for name in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(found, name) == getattr(expected, name)
        assert type(getattr(found, name)) in (int, float)
    assert found.dtype == expected.dtype
    assert namespace.finfo(gt.asarray(np.ones(2, dtype))) == found
    with pytest.raises(DtypeError, match="iinfo"):
        namespace.finfo(np.int8)


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_iinfo(dtype):
    found, expected = namespace.iinfo(np.dtype(dtype)), np.iinfo(dtype)
    assert (found.bits, found.max, found.min) == (expected.bits, expected.max, expected.min)
    with pytest.raises(DtypeError, match="finfo"):
        namespace.iinfo(np.float32)


@pytest.mark.parametrize("kind", list(namespace.KINDS))
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32", "complex128"])
def test_isdtype(dtype, kind):
    assert namespace.isdtype(np.dtype(dtype), kind) == np.isdtype(np.dtype(dtype), kind)


def test_isdtype_of_dtypes_and_tuples():
    assert namespace.isdtype(np.dtype("int8"), np.dtype("int8"))
    assert namespace.isdtype(np.dtype("int8"), ("bool", "integral"))
    assert not namespace.isdtype(np.dtype("int8"), ("bool", np.dtype("int16")))
    with pytest.raises(ValueError, match="not a kind"):
        namespace.isdtype(np.dtype("int8"), "floating")


def test_result_type():
    x = gt.asarray([1], dtype="int8")
    assert namespace.result_type(x, np.dtype("float32")) == np.float32
    assert namespace.result_type(x, 1) == np.int8
    assert namespace.result_type(x, 1.0) == np.float64
    assert namespace.result_type(np.dtype("float32"), 1j) == np.complex64
    assert namespace.result_type(np.int16, np.uint16) == np.int32
    with pytest.raises(ValueError, match="nothing was given"):
        namespace.result_type()


def test_can_cast():
    assert namespace.can_cast(np.int8, np.float32)
    assert not namespace.can_cast(np.float64, np.float32)
    assert namespace.can_cast(gt.asarray([1.0]), np.complex128)


def test_astype():
    x = gt.asarray([1.5, 2.5])
    assert namespace.astype(x, np.int32).tolist() == [1, 2]
    assert namespace.astype(x, np.float64) is not x
    assert namespace.astype(x, np.float64, copy=False) is x


def test_info():
    info = namespace.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_dtypes()["real floating"] == np.float64
    assert len(info.dtypes()) == 13
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    with pytest.raises(ValueError, match="not a device"):
        info.dtypes(device="gpu")
