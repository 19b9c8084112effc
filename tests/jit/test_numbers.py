"""gt.function: floats are inputs; ints are static at first, then inputs; what needs them guards."""

import math
import numbers
import warnings

import numpy as np
import pytest
from tests.jit.agreement import agrees, counted, stateless

import gradtape as gt

A = gt.asarray


def runs_of(f, values, x=2.0):
    """How often Python runs f(x, value), whose results are checked."""
    return agrees(stateless(f), [(A(x), value) for value in values]).runs


FLOATS = [0.5, 1.0, 2.25, 3.0, 0.125, 7.5]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, r: x - r * gt.sin(x),
        lambda x, r: x * (2.0 * r**2 + 1.0 / (r + 1.0)) - (-r) + abs(r) + +r,
        lambda x, r: x * (r % 2) + r // 2 + 7 % r + 7 // r + 2.0**r,
        lambda x, r: x * round(r, 1),
        lambda x, r: x * divmod(r, 2)[1],
        lambda x, r: x**r,
        lambda x, r: gt.where(x > r, r, -r),
        lambda x, r: gt.clip(x, -r, r),
        lambda x, r: gt.asarray(r) * x,
        lambda x, r: gt.full((2,), r) * x,
        lambda x, r: gt.full_like(x, r),
        lambda x, r: gt.stack([x, r * x]),
        lambda x, r: gt.sin(r) * x,
        lambda x, r: gt.maximum(x, r),
        lambda x, r: x * (r + 1j),
        lambda x, r: gt.random.normal((2,), loc=r, scale=r, seed=1) * x,
        lambda x, r: gt.scan(lambda c, _: (c * r, None), x, length=3)[0],
        lambda x, r: gt.fori_loop(0, 3, lambda i, c: c * r + i, x),
        lambda x, r: gt.while_loop(lambda c: c < 100.0, lambda c: c * (1.5 + r), x),
        lambda x, r: gt.cond(x > r, lambda: x * r, lambda: x / r),
        lambda x, r: gt.vmap(lambda a: a * r)(gt.stack([x, x])),
        lambda x, r: gt.scan(lambda c, _: (r, c), 1.0, length=2)[1] * x,
        lambda x, r: x * r if isinstance(r, float) else x,
        lambda x, r: x * r if isinstance(r, numbers.Real) and not isinstance(r, int) else x,
        lambda x, r: (r, [r * 2], x),
    ],
)
def test_floats_are_inputs(f):
    assert runs_of(f, FLOATS) == 2


def test_floats_in_nests():
    def f(x, settings):
        return x * settings["rate"] + settings["pair"][1]

    calls = [(A(1.0), {"rate": r, "pair": (1, r)}) for r in FLOATS]
    assert agrees(stateless(f), calls).runs == 2


def test_floats_keep_the_dtype_of_tensors():
    f = gt.function(lambda x, rate: x * rate + 2 * rate)
    for rate in (0.5, 0.25):
        assert f(gt.asarray([1.0], dtype=gt.float32), rate).dtype == np.float32


def test_infinities_and_nan_are_numbers():
    values = [math.inf, -math.inf, math.nan, 1.0, 0.0, -0.0]
    assert runs_of(lambda x, r: x * r, values) == 2
    assert runs_of(lambda x, r: x / r, values[2:]) == 2


def test_returned_numbers_are_numbers():
    f = gt.function(lambda x, r, n: (r, r * 2, [n, n // 2], x))
    for number in range(6):
        r, double, (n, half), _ = f(A(1.0), float(number), number)
        assert [type(part) for part in (r, double, n, half)] == [float, float, int, int]
        assert (r, double, n, half) == (number, 2.0 * number, number, number // 2)


def test_complex_numbers_are_inputs():
    values = [1j, 2j, 3 + 1j, 4j, 5.5j, 6j]
    assert runs_of(lambda x, z: x * (2 * z - 1) + z.real * z.conjugate() - abs(z), values) == 2
    assert runs_of(lambda x, z: x if z == 2j else z, values) == 5


class TestGuards:
    """A comparison guards its outcome; who needs the number itself, its value."""

    def test_comparisons(self):
        assert (
            runs_of(lambda x, r: x * 2.0 if r > 0.5 else x * 3.0, [n / 10 for n in range(20)]) == 4
        )

    def test_chains_of_them(self):
        values = [n / 10 for n in range(30)]
        assert runs_of(lambda x, r: x * 2.0 if 0.5 < r <= 2.0 and r != 1.0 else x, values) <= 10

    def test_min_and_max(self):
        values = [n / 10 for n in range(20)]
        assert runs_of(lambda x, r: x * min(r, 0.5) * max(1.0, r), values) == 6

    def test_truth(self):
        assert runs_of(lambda x, r: x * 2.0 if r else x, [0.0, 1.0, 2.0, 0.0, 3.0]) <= 5

    def test_int_floor_and_ceil(self):
        values = [n / 10 for n in range(30)]
        assert runs_of(lambda x, r: x * int(r), values) == 6
        assert runs_of(lambda x, r: x * math.floor(r), values) == 6
        assert runs_of(lambda x, r: x * math.trunc(r), values) == 6

    def test_two_of_them(self):
        def f(x, a, b):
            return x * a if a < b else x * b

        calls = [(A(1.0), a, b) for a in (1.0, 2.0, 3.0) for b in (1.5, 2.5)]
        assert agrees(stateless(f), calls).runs <= 7

    @pytest.mark.parametrize(
        "f",
        [
            lambda x, r: x * math.sqrt(r),
            lambda x, r: x * np.sqrt(r),
            lambda x, r: x * (np.ones(3) * r),
            lambda x, r: x * np.array([r, 2.0 * r]),
            lambda x, r: x * gt.asarray([r, 2.0 * r]),
            lambda x, r: x * r.is_integer(),
            lambda x, r: x * float(r),
            lambda x, r: x * {0.5: 1.0}.get(r, 2.0),
            lambda x, r: x * complex(r),
            lambda x, r: gt.linspace(0.0, r, 3) * x,
            lambda x, r: gt.arange(0.0, r, 1.0) + x,
        ],
    )
    def test_the_number_itself(self, f):
        values = FLOATS[:4] * 2
        assert runs_of(f, values) <= 8

    def test_nan_and_signs_of_zero(self):
        def f(x, r):
            return x * 2.0 if r != r else x * math.copysign(1.0, r)

        assert runs_of(f, [math.nan, 0.0, -0.0, math.nan, -0.0, 0.0]) == 6


class TestInts:
    def test_inputs_after_a_few_values(self):
        assert runs_of(lambda x, n: x * n + n // 2, range(20)) == 5

    def test_dynamic_ints_makes_them_inputs_at_once(self):
        found = agrees(
            stateless(lambda x, n: x * n), [(A(2.0), n) for n in range(20)], dynamic_ints=True
        )
        assert found.runs == 2

    def test_static_before_that(self):
        f, runs = counted(lambda x, n: x * n)
        compiled = gt.function(f)
        for n in (1, 2, 1, 2, 1, 2):
            assert float(compiled(A(1.0), n)) == n
        assert len(runs) == 4

    @pytest.mark.parametrize(
        "f",
        [
            lambda x, n: sum([x * i for i in range(n)], x),
            lambda x, n: gt.arange(6.0)[n] * x,
            lambda x, n: gt.arange(6.0)[n:] * x,
            lambda x, n: gt.zeros(n) + x,
            lambda x, n: gt.reshape(gt.arange(12.0), (n + 1, -1))[0] if 12 % (n + 1) == 0 else x,
            lambda x, n: gt.scan(lambda c, _: (c * 2.0, c), x, length=n)[0],
            lambda x, n: gt.fori_loop(0, n, lambda i, c: c + i, x),
            lambda x, n: [x, x * 2.0, x * 3.0][n % 3],
            lambda x, n: {"w0": x, "w1": x * 2.0}[f"w{n % 2}"],
            lambda x, n: {"w0": x, "w1": x * 2.0}["w" + str(n % 2)],
            lambda x, n: x * 2.0 if n & 1 else x,
            lambda x, n: x * (n << 1) + (n ^ 3) + (n | 4) + ~n,
            lambda x, n: x * len([0] * n),
            lambda x, n: x * n.bit_length(),
            lambda x, n: x * math.factorial(n),
            lambda x, n: gt.sum(gt.ones((2, 3)), axis=n % 2) + x,
            lambda x, n: x**n,
            lambda x, n: x if n in (1, 3) else -x,
        ],
    )
    def test_where_the_number_itself_is_needed(self, f):
        values = [0, 1, 2, 3, 4, 5]
        assert runs_of(f, values * 3) <= 20

    def test_isinstance(self):
        values = list(range(8))
        assert runs_of(lambda x, n: x * n if isinstance(n, int) else x, values) == 5

    def test_parity_guards_parity_only(self):
        assert runs_of(lambda x, n: x * 2.0 if n % 2 == 0 else x, range(30)) <= 12


def test_numbers_that_outlive_the_call_are_numbers():
    kept = []

    @gt.function
    def f(x, r):
        kept.append(r)
        return x * r

    f(A(1.0), 0.5)
    assert kept[0] + 1 == 1.5
    assert float(gt.asarray(2.0) * kept[0]) == 1.0
    assert f"{kept[0]:.1f}" == "0.5"


def test_numbers_that_do_not_fit():
    x = gt.asarray([1, 2], dtype=gt.int8)
    found = agrees(stateless(lambda n: x * n), [(n,) for n in (1, 2, 3, 4, 300, 5, -200, 6)])
    assert [each.tolist() for each in found.results][-1] == [6, 12]
    generator = gt.random.Generator(0)
    f = gt.function(lambda n: (x * n, generator.normal(())))
    for n in (1, 2, 3, 4, 5):
        f(n)
    place = generator.state
    with pytest.raises(OverflowError):
        f(300)
    assert generator.state == place


def test_repeated_looks_at_a_float_are_told():
    f = gt.function(lambda x, rate: x * math.sqrt(rate))
    with pytest.warns(UserWarning, match="has run in Python") as caught:
        _ = [f(A(1.0), n / 4) for n in range(8)]
    (message,) = [str(each.message) for each in caught]
    assert "6 values of rate" in message
    assert "from 0.0 to 1.25" in message
    assert "gt functions" in message


def test_ints_that_count_are_not():
    f = gt.function(lambda x, n: sum([x] * n, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(20):
            assert float(f(A(1.0), n)) == n + 1


def test_a_power_with_a_modulus():
    f = gt.function(lambda x, n: x * pow(n, 2, 5))
    for n in (1, 2, 3, 4, 7, 13, 4):
        assert float(f(gt.asarray(1.0), n)) == pow(n, 2, 5)


def test_a_tensor_of_a_number_is_returned_and_looked_at():
    def f(rate):
        tensor = gt.asarray(rate)
        if tensor > 1.0:
            return tensor, gt.asarray(rate, dtype=gt.float32)
        return tensor * 2.0, gt.asarray(rate * 2.0, dtype=gt.float32)

    compiled = gt.function(f)
    for rate in (0.25, 1.5, 0.25, 1.75, 0.5):
        for found, expected in zip(compiled(rate), f(rate), strict=True):
            assert found.dtype == expected.dtype
            assert float(found) == float(expected)
    alone = gt.function(lambda rate: gt.asarray(rate))
    assert [float(alone(rate)) for rate in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, r: gt.stack([r, x]),
        lambda x, r: gt.stack((x, -r, r**2)),
        lambda x, r: gt.stack([gt.stack([r, x]), gt.stack([x, r])]) @ gt.stack([r, x]),
        lambda x, r: gt.stack([r, r]),
        lambda x, r: np.stack([r, x]),
        lambda x, r: gt.concat([gt.reshape(x, (1,)), [r]]),
        lambda x, r: gt.asarray([r, x]),
        lambda x, r: gt.where(x > 0, r, x),
        lambda x, r: gt.where(x > 0, r, r),
        lambda x, r: gt.hypot(r, x),
        lambda x, r: gt.sum([r, x]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
@pytest.mark.parametrize("number", [0.5, 3, 1 + 2j])
def test_a_number_has_the_dtype_it_has_without_the_decorator(f, dtype, number):
    x = A(2, dtype=dtype)
    try:
        expected = f(x, number)
    except TypeError:  # such as a comparison of complex numbers
        return
    compiled = gt.function(f)
    for _ in range(3):
        found = compiled(x, number)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.filterwarnings("ignore:gt.function. .* has run in Python for 6 values of n")
@pytest.mark.parametrize("numbers", [range(2, 9), np.linspace(0.5, 2.0, 7).tolist(), [1j, 2j, 3j]])
def test_result_type_of_a_number_among_the_arguments(numbers):
    f = gt.function(lambda x, n: gt.zeros(2, dtype=gt.result_type(x, n)))
    for x in (gt.ones(2, dtype="float32"), gt.ones(2, dtype="int8")):
        for n in numbers:
            assert f(x, n).dtype == gt.result_type(x, n)
