"""gt.function(fastmath=True): other last bits, and nothing else."""

import numpy as np
import pytest

import gradtape as gt

A = gt.asarray

FUNCTIONS = {
    "softmax": lambda x: gt.exp(x) / gt.sum(gt.exp(x), axis=-1, keepdims=True),
    "standardise": lambda x: (x - gt.mean(x)) / gt.std(x),
    "rational": lambda x: x / (1 + x * x) / (2 + x * x) / (3 + x * x),
    "sum": lambda x: x + 1.0 - x + 2.0 * x - 0.5,
    "mean of rows": lambda x: gt.sum(x, axis=1) / 3.0,
    "loop": lambda x: gt.scan(lambda c, _: (c / 3.0 + c / (1.0 + c * c), None), x, length=5)[0],
    "while": lambda x: gt.while_loop(lambda c: gt.sum(c * c) > 1.0, lambda c: c / 3.0, x),
    "gradient": lambda x: gt.grad(lambda y: gt.sum(gt.tanh(y) / (1.0 + y * y)))(x),
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_close_to_the_strict_result(f, dtype):
    x = A(np.random.default_rng(0).standard_normal((5, 37)).astype(dtype))
    fast, strict = gt.function(f, fastmath=True), gt.function(f)
    for _ in range(4):  # in NumPy, then compiled
        found, expected = fast(x), strict(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=40 * np.finfo(dtype).eps,
                                   atol=10 * np.finfo(dtype).eps)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_and_infinities_stay(dtype):
    x = A(np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -2.0], dtype))

    def f(x, n):
        return x / n, x - x, x * 0.0, gt.isnan(x + x), gt.where(x == x, x, 5.0), gt.maximum(x, 0.0)

    fast = gt.function(f, fastmath=True)
    for n in (2.0, 0.0, np.inf, np.nan):
        divisor = A(n, dtype=dtype)
        for _ in range(3):
            found, expected = fast(x, divisor), f(x, divisor)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_strict_and_fast_plans_are_kept_apart():
    def f(x, n):
        return x / n

    rng = np.random.default_rng(0)
    x, n = A(rng.random(4096) + 0.5), A(3.7)
    strict, fast = gt.function(f), gt.function(f, fastmath=True)
    for _ in range(4):
        exact, quick = strict(x, n), fast(x, n)
        np.testing.assert_array_equal(exact.numpy(), x.numpy() / 3.7)
    assert (exact.numpy() != quick.numpy()).any()
    np.testing.assert_array_equal(quick.numpy(), x.numpy() * (1 / 3.7))
    np.testing.assert_array_equal((x / n).numpy(), x.numpy() / 3.7)


def test_kernels_carry_the_flags():
    from gradtape.compiler.emit.builder import rounding, rounding_mode

    assert rounding_mode() in ("on", "off")
    with rounding(True):
        assert rounding_mode() == "fast"
    assert rounding_mode() in ("on", "off")


def test_integers_and_complex_numbers_are_exact():
    fast = gt.function(lambda x, z: (x // 3, x % 3, z / 3.0), fastmath=True)
    x, z = A(np.arange(-9, 9)), A(np.arange(3.0) + 1j)
    for _ in range(3):
        quotient, rest, third = fast(x, z)
        np.testing.assert_array_equal(quotient.numpy(), x.numpy() // 3)
        np.testing.assert_array_equal(rest.numpy(), x.numpy() % 3)
        np.testing.assert_array_equal(third.numpy(), z.numpy() / 3.0)
