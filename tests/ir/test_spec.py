"""Specs: equal ones are one object, also across threads and pickling."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from gradtape.ir.spec import spec

FLOAT64 = np.dtype("float64")


def test_equal_specs_are_one_object():
    assert spec((2, 3), FLOAT64) is spec((2, 3), np.dtype(float))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((3, 2), "float64"), ((2, 3), "float32"), ((6,), "float64"), ((), "bool")]
)
def test_other_shape_or_dtype_is_another_spec(shape, dtype):
    assert spec(shape, np.dtype(dtype)) is not spec((2, 3), FLOAT64)


def test_facts():
    found = spec((2, 3), np.dtype("complex64"))
    assert (found.ndim, found.size, found.nbytes, found.inexact) == (2, 6, 48, True)
    assert (spec((), FLOAT64).size, spec((2, 0), FLOAT64).size) == (1, 0)
    assert not spec((), np.dtype("int32")).inexact


def test_shown_as_dtype_and_lengths():
    assert str(spec((2, 3), FLOAT64)) == "float64[2,3]"
    assert str(spec((), np.dtype("bool"))) == "bool[]"


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_are_the_same_object(copied):
    original = spec((4,), FLOAT64)
    assert copied(original) is original


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        (float, "float32", "float32"),
        (int, "float32", "float32"),
        (float, "int32", "float64"),
        (complex, "float32", "complex64"),
        (bool, "int8", "int8"),
        (int, "bool", "int64"),
    ],
)
def test_scalar_adapts_to_the_tensor(kind, dtype, expected):
    assert spec((5,), np.dtype(dtype)).scalar(kind) is spec((), np.dtype(expected))


def test_threads_agree_on_the_object():
    barrier = Barrier(16)

    def make(_):
        barrier.wait()
        return [spec((7, n), FLOAT64) for n in range(200)]

    with ThreadPoolExecutor(16) as pool:
        first, *others = list(pool.map(make, range(16)))
    for other in others:
        assert all(a is b for a, b in zip(first, other, strict=True))
