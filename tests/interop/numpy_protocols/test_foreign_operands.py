"""Objects of other libraries beside tensors: operators, ufuncs, and plain arrays of tensors."""

import operator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import gradtape as gt

BINARY = {
    "add": "__radd__", "sub": "__rsub__", "mul": "__rmul__", "truediv": "__rtruediv__",
    "floordiv": "__rfloordiv__", "mod": "__rmod__", "pow": "__rpow__", "matmul": "__rmatmul__",
    "and_": "__rand__", "or_": "__ror__", "xor": "__rxor__", "lshift": "__rlshift__",
    "rshift": "__rrshift__", "lt": "__gt__", "le": "__ge__", "gt": "__lt__", "ge": "__le__",
    "eq": "__eq__", "ne": "__ne__",
}  # fmt: skip
OPERANDS = {"tensor": gt.asarray([1, 2]), "variable": gt.Variable([1, 2], trainable=False)}


@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("name", BINARY)
def test_a_foreign_object_has_its_turn(name, kind):
    foreign = type("Foreign", (), {BINARY[name]: lambda self, other: "mine"})()
    assert getattr(operator, name)(OPERANDS[kind], foreign) == "mine"


@pytest.mark.parametrize("name", [name for name in BINARY if name not in ("eq", "ne")])
def test_an_object_without_the_method_gets_our_sentence(name):
    with pytest.raises(TypeError, match="holds no numbers"):
        getattr(operator, name)(OPERANDS["tensor"], type("Other", (), {})())


def test_the_functions_do_not_return_not_implemented():
    foreign = type("Foreign", (), {"__radd__": lambda self, other: "mine"})()
    with pytest.raises(TypeError, match="holds no numbers"):
        gt.add(OPERANDS["tensor"], foreign)


@pytest.mark.parametrize("name", ["add", "mul", "truediv", "lt", "eq"])
@pytest.mark.parametrize("recorder", ["python", "native"])
def test_both_recorders(name, recorder):
    foreign = type("Foreign", (), {BINARY[name]: lambda self, other: "mine"})()
    try:
        gt.set_recorder(recorder)
    except RuntimeError as reason:
        pytest.skip(str(reason))
    try:
        assert getattr(operator, name)(gt.asarray([1.0]) * 2.0, foreign) == "mine"
    finally:
        gt.set_recorder("auto")


def test_objects_that_refuse_ufuncs():
    class Refusing:
        __array_ufunc__ = None

        def __array__(self, dtype=None, copy=None):
            return np.ones(2)

        def __rmul__(self, other):
            return "mine"

    assert gt.asarray([1.0, 2.0]) * Refusing() == "mine"


def test_approx():
    assert gt.asarray(3.0) == pytest.approx(3.0)
    assert gt.asarray(3.0) != pytest.approx(3.1)


def test_sparse_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    eye = sparse.eye_array(2, format="csr")
    x = gt.asarray([1.0, 2.0])
    assert (x @ eye).tolist() == (eye @ x).tolist() == [1.0, 2.0]
    with gt.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(gt.errors.LostDerivativeError):
            x @ eye


@pytest.mark.parametrize("number", [np.float32(2.0), np.array(2.0), [2.0, 2.0]])
def test_numbers_and_array_likes_are_recorded(number):
    assert (gt.asarray([1.0, 3.0]) * number).tolist() == [2.0, 6.0]


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal(2)])
def test_other_numbers_get_our_sentence(number):
    with pytest.raises(TypeError, match="holds no numbers"):
        gt.asarray([1.0, 3.0]) * number


def test_ufuncs_and_functions_of_others_have_their_turn():
    class Array:
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return "ufunc"

        def __array_function__(self, function, kinds, args, kwargs):
            return "function"

    x = gt.asarray([1.0])
    assert np.add(x, Array()) == np.add(Array(), x) == "ufunc"
    assert np.concatenate([x, Array()]) == "function"


class TestLibraries:
    def test_matplotlib(self):
        pyplot = pytest.importorskip("matplotlib.pyplot")
        pyplot.switch_backend("agg")
        x = gt.asarray([1.0, 2.0])
        figure, axes = pyplot.subplots()
        assert len(axes.bar(x, x)) == 2
        axes.plot(x, x * x)
        axes.imshow(gt.ones((2, 2)))
        axes.contourf(gt.ones((3, 3)) * gt.asarray([1.0, 2.0, 3.0]))
        axes.barh(x, x)
        pyplot.close(figure)

    def test_objects_beside_tensors_are_broadcast(self):
        x, nothing = np.broadcast_arrays(gt.asarray([1.0, 2.0]), None)
        assert x.tolist() == [1.0, 2.0]
        assert nothing.tolist() == [None, None]

    def test_xarray(self):
        xarray = pytest.importorskip("xarray")
        array = xarray.DataArray(gt.asarray([[1.0, 2.0], [3.0, 4.0]]), dims=("a", "b"))
        assert (array * 2.0).mean("a").values.tolist() == [4.0, 6.0]

    def test_polars(self):
        polars = pytest.importorskip("polars")
        x = gt.asarray([1.0, 2.0])
        assert polars.Series(x.numpy()).sum() == polars.Series(list(x)).sum() == 3.0
        assert (x * polars.Series([1.0, 2.0])).tolist() == [1.0, 4.0]

    def test_sklearn(self):
        linear = pytest.importorskip("sklearn.linear_model")
        x, y = gt.asarray([[1.0], [2.0], [3.0]]), gt.asarray([2.0, 4.0, 6.0])
        assert linear.LinearRegression().fit(x, y).coef_ == pytest.approx([2.0])
