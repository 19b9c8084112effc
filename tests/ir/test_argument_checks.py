"""Arguments that nobody can have meant are refused, by functions of every kind."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.argument_checks import as_count, as_flag, check_function

X = np.ones((2, 3))
REDUCTIONS = ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "logsumexp",
              "argmax", "argmin", "count_nonzero", "median", "norm"]  # fmt: skip
OF_FUNCTIONS = ["grad", "value_and_grad", "jacobian", "hessian", "vmap", "objective", "residuals"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_flags_and_axes_of_reductions(name):
    reduce = getattr(gt, name, None) or getattr(gt.linalg, name)
    with pytest.raises(TypeError, match=r"keepdims='no' is not a flag\. Pass True or False"):
        reduce(X, axis=0, keepdims="no")
    with pytest.raises(TypeError, match="axis True is not an integer"):
        reduce(X, axis=True)
    assert reduce(X, axis=np.int64(1), keepdims=np.True_).shape == (2, 1)


@pytest.mark.parametrize("name", OF_FUNCTIONS)
@pytest.mark.parametrize("wrong", [None, 3, X], ids=["None", "number", "array"])
def test_functions(name, wrong):
    with pytest.raises(TypeError, match="is not callable"):
        getattr(gt, name)(wrong)


@pytest.mark.parametrize("wrong", [2.5, True, "3", 0, -1, None], ids=repr)
@pytest.mark.parametrize(
    "make", [gt.nn.Dense, gt.nn.GRU, gt.nn.LSTM, lambda n: gt.nn.Embedding(n, 2)],
    ids=["Dense", "GRU", "LSTM", "Embedding"],
)  # fmt: skip
def test_counts_of_layers(make, wrong):
    with pytest.raises(
        (TypeError, ValueError), match=r"is not a whole number( of at least 1)?\. Pass one"
    ):
        make(wrong)


@pytest.mark.parametrize("wrong", [float("nan"), -1.0, float("inf")])
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_learning_rates(name, wrong):
    with pytest.raises(ValueError, match="not a finite number of at least 0"):
        getattr(gt.optimizers, name)(wrong)


def test_masked_arrays():
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    for f in (gt.asarray, gt.sum, gt.sin):
        with pytest.raises(TypeError, match=r"1 entries of an array are masked.*filled"):
            f(masked)
    assert gt.asarray(np.ma.array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_text_and_points():
    for f in (gt.stack, gt.concat):
        with pytest.raises(TypeError, match="is text"):
            f(b"xy")
    for f in (gt.fft.fft, gt.fft.ifft, gt.fft.rfft, gt.fft.irfft):
        with pytest.raises(ValueError, match="points cannot be transformed"):
            f(np.ones(3), n=-1)
    with pytest.raises(TypeError, match=r"num_classes=2\.9"):
        gt.one_hot(np.array([0]), 2.9)


def test_the_checks_themselves():
    assert (as_count("n", np.int8(3)), as_flag("f", 1), check_function("f", len)) == (3, True, len)
