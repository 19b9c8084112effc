"""Random numbers: exact replay, NumPy's bits, distributions, and one program for every step."""

import copy
import math
import pickle
import threading

import numpy as np
import pytest
from scipy import stats

import gradtape as gt
from gradtape import random
from gradtape.errors import DtypeError, ShapeError
from gradtape.ops.elementwise.random import RANDOM_BITS
from gradtape.testing import check_gradients

MANY = 20_001

DISTRIBUTIONS = {
    "uniform": (lambda g, **k: g.uniform(MANY, low=-1.0, high=3.0, **k), stats.uniform(-1, 4)),
    "normal": (lambda g, **k: g.normal(MANY, loc=1.0, scale=2.0, **k), stats.norm(1, 2)),
    "truncated_normal": (
        lambda g, **k: g.truncated_normal(MANY, lower=-1.0, upper=2.0, **k),
        stats.truncnorm(-1, 2),
    ),
    "exponential": (lambda g, **k: g.exponential(MANY, scale=0.5, **k), stats.expon(scale=0.5)),
}
DRAWS = {
    **{name: draw for name, (draw, _) in DISTRIBUTIONS.items()},
    "integers": lambda g: g.integers(MANY, -5, 100),
    "bernoulli": lambda g: g.bernoulli(MANY, p=0.3),
    "permutation": lambda g: g.permutation(100),
    "bits": lambda g: g.bits(MANY),
}


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 1000])
@pytest.mark.parametrize("seed", [0, 7, 2**70])
def test_bits_are_those_of_philox(seed, count):
    generator = random.Generator(seed)
    expected = np.random.Philox(seed).random_raw(count)
    np.testing.assert_array_equal(generator.bits((count,)).numpy(), expected)
    assert generator.state[2] == -(-count // 4)


def test_position_is_key_and_counter():
    key, counter = np.array([11, 22], np.uint64), np.array([33, 44, 0, 0], np.uint64)
    expected = np.random.Philox(key=key, counter=counter).random_raw(6)
    position = np.concatenate([key, counter[:2]])
    np.testing.assert_array_equal(RANDOM_BITS.numpy(position, shape=(2, 3)).ravel(), expected)


def test_counter_carries_into_its_second_word():
    generator = random.Generator.from_state((1, 2, 2**64 - 1))
    counter = np.array([2**64 - 1, 0, 0, 0], np.uint64)
    expected = np.random.Philox(key=np.array([1, 2], np.uint64), counter=counter).random_raw(8)
    first, second = generator.bits((4,)), generator.bits((4,))
    np.testing.assert_array_equal(np.concatenate([first.numpy(), second.numpy()]), expected)


@pytest.mark.parametrize("name", DRAWS)
def test_replay_is_exact(name):
    first, second = (DRAWS[name](random.Generator(3)).numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = DRAWS[name](random.Generator(4)).numpy()
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "truncated_normal", "bits"])
def test_draws_in_parts_equal_one_draw(name):
    whole, parts = random.Generator(5), random.Generator(5)
    expected = getattr(whole, name)((48,)).numpy()
    found = [getattr(parts, name)((count,)).numpy() for count in (4, 12, 32)]
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert whole.state == parts.state


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "truncated_normal"])
def test_dtypes_take_the_same_bits(name):
    single, double = random.Generator(6), random.Generator(6)
    narrow = getattr(single, name)((7,), dtype="float32")
    wide = getattr(double, name)((7,), dtype="float64")
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow.numpy(), wide.numpy(), rtol=1e-5, atol=1e-5)
    assert single.state == double.state


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name, dtype):
    draw, expected = DISTRIBUTIONS[name]
    numbers = draw(random.Generator(1), dtype=dtype).numpy()
    assert numbers.dtype == dtype
    assert stats.kstest(numbers, expected.cdf).pvalue > 0.01
    deviation = expected.std() / math.sqrt(MANY)
    assert abs(numbers.mean(dtype=np.float64) - expected.mean()) < 4 * deviation
    assert abs(numbers.std(dtype=np.float64) - expected.std()) < 0.03 * expected.std()


def test_successive_draws_and_neighbours_are_uncorrelated():
    generator = random.Generator(2)
    first, second = generator.normal(MANY).numpy(), generator.normal(MANY).numpy()
    bound = 4 / math.sqrt(MANY)
    assert abs(np.corrcoef(first, second)[0, 1]) < bound
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < bound
    # Both numbers of a pair share a radius, which must not show in their sizes.
    assert abs(np.corrcoef(np.abs(first[0:-1:2]), np.abs(first[1::2]))[0, 1]) < 2 * bound


def test_uniform_bounds():
    for dtype in ("float64", "float32"):
        numbers = random.uniform((MANY,), dtype=dtype, seed=0).numpy()
        assert numbers.min() >= 0.0
        assert numbers.max() < 1.0


def test_integers():
    numbers = random.integers((MANY,), -3, 5, seed=2).numpy()
    values, counts = np.unique(numbers, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(-3, 5))
    assert stats.chisquare(counts).pvalue > 0.01
    assert random.integers((3,), 10, seed=0).dtype == np.int64
    assert random.integers((3,), 10, seed=0, dtype="uint8").dtype == np.uint8
    whole = random.integers((1000,), -(2**63), 2**63, seed=0).numpy()
    assert (whole < 0).any()
    assert (whole > 2**62).any()
    assert random.integers((9,), 3, 4, seed=0).tolist() == [3] * 9
    assert random.integers((9,), 0, 2**64, seed=0, dtype="uint64").dtype == np.uint64


def test_bernoulli():
    found = random.bernoulli((MANY,), p=0.3, seed=0)
    assert found.dtype == np.bool_
    assert abs(found.numpy().mean() - 0.3) < 0.02
    assert random.bernoulli((2,), p=gt.asarray([0.0, 1.0]), seed=0).tolist() == [False, True]


def test_permutation():
    assert sorted(random.permutation(50, seed=0).tolist()) == list(range(50))
    rows = np.arange(20.0).reshape(10, 2)
    shuffled = random.permutation(rows, seed=1).numpy()
    np.testing.assert_array_equal(shuffled[np.argsort(shuffled[:, 0])], rows)
    assert random.permutation(0, seed=0).shape == (0,)
    firsts = [int(random.permutation(4, seed=seed).numpy()[0]) for seed in range(400)]
    assert stats.chisquare(np.bincount(firsts)).pvalue > 0.01


def test_explicit_seed_gives_the_same_numbers_and_leaves_the_shared_stream_alone():
    random.seed(1)
    expected = random.normal((3,)).tolist()
    random.seed(1)
    first, second = random.normal((5,), seed=9).tolist(), random.normal((5,), seed=9).tolist()
    assert first == second
    assert random.normal((3,)).tolist() == expected
    assert random.normal((3,)).tolist() != expected


def test_differentiable_in_parameters():
    check_gradients(
        lambda loc, scale: random.normal((3,), loc=loc, scale=scale, seed=0) ** 2,
        np.array([0.5, 1.0, 2.0]),
        np.array(1.5),
    )
    check_gradients(
        lambda low, high: random.uniform((3,), low=low, high=high, seed=0) ** 2,
        np.array(0.5),
        np.array(1.5),
    )
    check_gradients(lambda scale: random.exponential((3,), scale=scale, seed=0) ** 2, np.array(0.5))


def test_every_step_is_the_same_program():
    generator, v = random.Generator(0), gt.Variable(2.0)

    def step():
        with gt.GradientTape() as tape:
            noise = generator.normal((5,), loc=v, scale=2.0) * generator.uniform((5,), low=-1.0)
            chosen = gt.where(generator.bernoulli((5,), p=0.5), noise, 0.0)
            y = gt.sum(chosen * gt.cast(generator.integers((5,), 10), gt.float64))
        gradient = tape.gradient(y, v)
        v.assign_sub(0.01 * gradient)
        return float(gradient)

    gradients = [step() for _ in range(3)]
    before = gt.counters()
    gradients += [step() for _ in range(5)]
    after = gt.counters()
    assert after.plans_built == before.plans_built
    assert after.derivatives_built == before.derivatives_built
    assert len(set(gradients)) == len(gradients)


def test_state_restores_pickles_and_copies():
    generator = random.Generator(8)
    generator.normal((5,))
    twins = [
        random.Generator.from_state(generator.state),
        pickle.loads(pickle.dumps(generator)),
        copy.deepcopy(generator),
    ]
    expected = generator.normal((5,)).tolist()
    assert all(twin.normal((5,)).tolist() == expected for twin in twins)


def test_threads_share_a_generator_without_repeating():
    generator, found = random.Generator(0), []

    def draw():
        for _ in range(20):
            found.append(tuple(generator.bits((4,)).tolist()))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 80


def test_shapes():
    for shape in ((), (0,), (2, 3), (1, 1), 3):
        for name in ("uniform", "normal", "exponential", "truncated_normal", "bernoulli"):
            expected = (shape,) if isinstance(shape, int) else shape
            assert getattr(random, name)(shape, seed=0).shape == expected


def test_results_may_be_written_to():
    for name in ("uniform", "normal", "exponential"):
        x = getattr(random, name)((3,), seed=0)
        x[0] = 7.0
        assert x.tolist()[0] == 7.0


def test_deterministic_mode_asks_for_seeds():
    with gt.deterministic():
        for call in (random.uniform, lambda: random.permutation(3), random.Generator):
            with pytest.raises(RuntimeError, match="seed"):
                call()
        assert random.uniform(seed=1).tolist() == random.Generator(1).uniform().tolist()


def test_errors():
    with pytest.raises(DtypeError, match="int32 is not float32 or float64"):
        random.normal((3,), dtype="int32")
    with pytest.raises(DtypeError, match="not an integer dtype"):
        random.integers((3,), 5, dtype="float32")
    with pytest.raises(ValueError, match="5 to 5 is empty"):
        random.integers((3,), 5, 5)
    with pytest.raises(ValueError, match="does not fit int8"):
        random.integers((3,), 0, 1000, dtype="int8")
    with pytest.raises(ShapeError, match="do not fit the shape"):
        random.normal((2,), loc=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="not a non-negative integer"):
        random.Generator(-1)
    with pytest.raises(ShapeError, match="has no rows"):
        random.permutation(gt.asarray(1.0))
