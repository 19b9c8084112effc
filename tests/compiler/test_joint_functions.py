"""Functions that kernels compute together with another one: accuracy, and one call for both."""

import numpy as np
import pytest
from tests.compiler.compiled_functions import DTYPES
from tests.compiler.test_vectormath import assert_within, points, special_values, ulps

import gradtape as gt
from gradtape.compiler.emit.math.vectors import KEEPING
from gradtape.ir.math_function import Composition
from gradtape.ir.op import REGISTRY
from gradtape.ops.elementwise.unary import sigmoid_slope, tanh_slope
from gradtape.runtime import tiers

# A quotient and its square round once more than each function by itself.
LIMIT = 5.0
EXACT = {
    gt.sigmoid: lambda x: 1 / (1 + np.exp(-x)),
    sigmoid_slope: lambda x: np.exp(-np.abs(x)) / np.square(1 + np.exp(-np.abs(x))),
    gt.tanh: np.tanh,
    tanh_slope: lambda x: 4 * np.exp(-2 * np.abs(x)) / np.square(1 + np.exp(-2 * np.abs(x))),
}
PAIRS = [(gt.sigmoid, sigmoid_slope), (gt.tanh, tanh_slope)]


@pytest.fixture(autouse=True)
def compiled_tier(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")


@pytest.mark.parametrize("ty", DTYPES)
@pytest.mark.parametrize("pair", PAIRS)
def test_both_are_exact(ty, pair):
    near_zero = np.linspace(-0.7, 0.7, 4001)
    x = np.concatenate([special_values(DTYPES[ty]), points(DTYPES[ty], 20_000), near_zero])
    x = x.astype(DTYPES[ty])
    found = gt.evaluate([function(gt.asarray(x)) for function in pair])
    for function, values in zip(pair, found, strict=True):
        with np.errstate(all="ignore"):
            wanted = EXACT[function](x.astype(np.longdouble))
        values = values.numpy()
        # Subnormal results have few bits, and any of them may be off by one.
        tiny = np.finfo(x.dtype).tiny
        assert_within(LIMIT, ulps(values, wanted, scale=tiny), values, x)
    zero = pair[0](gt.asarray(np.array([-0.0, 0.0], x.dtype))).numpy()
    assert list(np.signbit(zero)) == [pair[0] is gt.tanh, False]


@pytest.mark.parametrize("pair", PAIRS)
def test_both_are_one_call(pair):
    x = gt.asarray(np.linspace(-1.0, 1.0, 100))
    value, slope = (function.__name__ for function in pair)
    together = gt.kernels_of(pair[0](x) * pair[1](x))
    assert f"_{value}_and_{slope}_double" in together
    assert f"_{slope}_double" not in together.replace(f"_{value}_and_{slope}_double", "")
    apart = gt.kernels_of(pair[0](x) * pair[1](x + 1.0))
    assert "_and_" not in apart


def test_pairs_are_those_that_ops_declare():
    declared = {
        op.function.beside.name: op.function.name
        for op in REGISTRY.values()
        if isinstance(op.function, Composition) and op.function.beside is not None
    }
    assert declared == {"sigmoid": "sigmoid_slope", "tanh": "tanh_slope"}


def test_functions_that_keep_registers_call_no_others():
    """A function that keeps registers for its caller would have to save them around such a call."""
    x = gt.asarray(np.linspace(0.1, 1.0, 100))
    text = gt.kernels_of(gt.sigmoid(x) + gt.lgamma(x) * gt.sinc(x) + gt.tanh(x) * tanh_slope(x))
    inside = False
    for line in text.splitlines():
        if line.startswith("define"):
            inside = KEEPING in line
            assert inside == ("intel_ocl_bicc" in line)
        elif inside and " call " in line:
            assert KEEPING in line or "@llvm." in line
