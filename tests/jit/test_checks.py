"""Checks: some calls of a replayed function run in Python again, and are compared."""

import random
import warnings

import numpy as np
import pytest
from tests.jit.agreement import counted
from tests.native_parts import RECORDERS, needs_native

import gradtape as gt
from gradtape.jit.captured import NEVER, CheckSchedule, checked_recheck
from gradtape.runtime import tiers

A = gt.asarray


class Hidden:
    """A number that no guard sees: it is reached by a computed name."""

    def __init__(self, number):
        setattr(self, "num" + "ber", number)


HIDDEN = Hidden(2.0)
NAME = "".join(["num", "ber"])


def hidden():
    return object.__getattribute__(HIDDEN, NAME)


def replayed(f):
    """The calls that were checked, and the differences that were found."""
    (captured,) = f.captured
    return captured.history.checks, captured.history.differences


class TestSchedule:
    @staticmethod
    def calls(schedule, count):
        found, call = [], 2
        for _ in range(count):
            call += schedule.next_gap() + 1
            found.append(call)
        return found

    def test_early_checks_of_costly_replays(self):
        """A check that takes a quarter of a replay: in the long run one of 17 calls is one."""
        schedule = CheckSchedule("auto")
        schedule.note_run(check=0.25, replay=1.0)
        assert self.calls(schedule, 5) == [3, 7, 17, 34, 51]

    def test_two_percent_in_the_long_run(self):
        schedule = CheckSchedule("auto")
        schedule.note_run(check=1e-3, replay=1e-5)
        gaps = [schedule.next_gap() for _ in range(5)]
        assert all(1e-3 / (gap * 1e-5) <= 0.021 for gap in gaps)
        assert max(gaps) <= 2 * 1e-3 / 0.02 / 1e-5

    def test_options(self):
        assert CheckSchedule(5).next_gap() == 4
        assert CheckSchedule(1).next_gap() == 0
        assert CheckSchedule(None).next_gap() == NEVER
        assert checked_recheck(False) is None
        for wrong in (0, -1, True, 1.5, "often"):
            with pytest.raises(ValueError, match=r"^function: recheck="):
                gt.function(lambda x: x, recheck=wrong)

    def test_the_environment(self, monkeypatch):
        monkeypatch.setenv("GRADTAPE_RECHECK", "3")
        assert gt.function(lambda x: x).contract.recheck == 3
        monkeypatch.setenv("GRADTAPE_RECHECK", "soon")
        with pytest.raises(ValueError, match=r"^GRADTAPE_RECHECK='soon'"):
            gt.function(lambda x: x)


class TestChecks:
    def test_two_runs_before_a_replay(self):
        f, runs = counted(lambda x: x * 2.0)
        f = gt.function(f, recheck=False)
        for number in range(6):
            assert float(f(A(float(number)))) == 2.0 * number
        assert len(runs) == 2

    @pytest.mark.parametrize("recheck", [1, 2, 5])
    def test_every_nth_call_runs(self, recheck):
        f, runs = counted(lambda x: x * 2.0)
        f = gt.function(f, recheck=recheck)
        for number in range(42):
            assert float(f(A(float(number)))) == 2.0 * number
        assert len(runs) == 2 + 40 // recheck
        assert replayed(f) == (40 // recheck, [])

    @needs_native
    def test_native_calls_count_down(self):
        gt.set_recorder("native")
        try:
            f, runs = counted(lambda x: x * 2.0)
            f = gt.function(f, recheck=100)
            for _ in range(1002):
                f(A(1.0))
            assert len(runs) == 2 + 10
            assert f.captured[0].native_call.calls > 900
        finally:
            gt.set_recorder("auto")

    @needs_native
    def test_native_calls_are_timed_and_checked(self, monkeypatch):
        monkeypatch.setattr(tiers, "MODE", "wait")
        monkeypatch.delenv("GRADTAPE_RECHECK", raising=False)
        gt.set_recorder("native")
        try:
            f = gt.function(lambda x: x * 2.0)
            f(A(1.0)), f(A(1.0))
            gap = f.captured[0].until_check
            assert 0 < gap < 100_000
            for _ in range(gap + 10):
                f(A(1.0))
            assert f.captured[0].native_call.calls > 0
            assert f.captured[0].history.checks >= 1
            assert f.captured[0].until_check > 0
        finally:
            gt.set_recorder("auto")

    def test_what_no_guard_sees_is_found_by_the_next_check(self):
        f = gt.function(lambda x: x * hidden(), recheck=10)
        try:
            assert [float(f(A(1.0))) for _ in range(5)] == [2.0] * 5
            setattr(HIDDEN, NAME, 3.0)
            with pytest.warns(
                UserWarning, match="was replayed.*constant.* is 3.0.*recheck=1"
            ) as told:
                found = [float(f(A(1.0))) for _ in range(20)]
            stale = found.count(2.0)
            assert stale <= 10
            assert found == [2.0] * stale + [3.0] * (20 - stale)
            assert "test_checks.py:" in str(told[0].message)
            assert "a check found" in f.explain()
        finally:
            setattr(HIDDEN, NAME, 2.0)

    def test_each_difference_doubles_the_equal_runs(self):
        f, runs = counted(lambda x: x * hidden())
        f = gt.function(f, recheck=3)
        needed = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for number in range(1, 5):
                    setattr(HIDDEN, NAME, float(number))
                    while float(f(A(1.0))) != number:
                        pass
                    before, calls = len(runs), 0
                    while len(runs) == before + calls and calls < 60:
                        f(A(1.0))
                        calls += 1
                    needed.append(calls)
        finally:
            setattr(HIDDEN, NAME, 2.0)
        assert needed == sorted(needed)
        assert needed[-1] >= 2 * needed[1]

    def test_bits_are_those_of_a_replay(self):
        rng = np.random.default_rng(0)
        x = A(rng.normal(size=(64, 64)))

        def f(x):
            return gt.sum(gt.tanh(x @ x) * 0.3 + gt.exp(-x * x))

        checked, plain = gt.function(f, recheck=1), gt.function(f, recheck=False)
        for _ in range(60):
            assert float(checked(x)).hex() == float(plain(x)).hex()

    def test_checks_of_training_leave_the_state_of_training(self):
        def trained(recheck):
            gt.random.seed(1)
            model = gt.nn.Sequential([gt.nn.Dense(4, activation="tanh"), gt.nn.Dropout(0.5)])
            optimizer = gt.optimizers.Adam(0.01)

            @gt.function(recheck=recheck)
            def step(x):
                with gt.GradientTape() as tape:
                    loss = gt.mean(model(x) ** 2) + gt.random.normal(())
                variables = model.trainable_variables
                optimizer.apply_gradients(
                    zip(tape.gradient(loss, variables), variables, strict=True)
                )
                return loss

            losses = [float(step(gt.ones((3, 2)))) for _ in range(50)]
            return losses, [v.numpy().tolist() for v in model.variables]

        losses, weights = trained(False)
        for recheck in (1, 3):
            found, others = trained(recheck)
            # A plan is compiled when that has paid, which changes last bits.
            assert found == pytest.approx(losses, rel=1e-9)
            for one, other in zip(others, weights, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9)


class TestNumbers:
    @pytest.mark.parametrize(
        "rate",
        [
            lambda step: min(1.0, step / 6.0),
            lambda step: np.clip(step / 6.0, 0.0, 1.0),
            lambda step: np.minimum(1.0, step / 6.0),
            lambda step: 0.1 if step < 10 else 0.01,
            lambda step: [0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.3][int(step) % 8],
            lambda step: 0.5 ** (step // 3),
            lambda step: float(f"{step / 7:.2f}"),
            lambda step: round(step / 7, 1),
            lambda step: {0: 1.0}.get(step, 2.0),
            lambda step: max(step, 3.0) * (1.0 if step else 2.0),
        ],
    )
    @pytest.mark.parametrize("kind", [float, int])
    @pytest.mark.filterwarnings("ignore:gt.function. .* has run in Python for")
    def test_schedules_are_right_at_every_call(self, rate, kind):
        f = gt.function(lambda x, step: x * rate(step))
        for step in [*range(24), 3, 0, 50]:
            assert float(f(A(2.0), kind(step))) == 2.0 * rate(kind(step))

    def test_a_number_is_an_input_after_two_values(self):
        f, runs = counted(lambda x, rate: x * rate)
        f = gt.function(f)
        for _ in range(5):
            f(A(1.0), 0.5)
        assert len(runs) == 2
        for number in range(10):
            assert float(f(A(1.0), float(number))) == number
        assert len(runs) == 3

    def test_a_parameter_that_is_not_read_is_no_reason_to_run(self):
        runs = []

        def f(x, step):
            return x * 2.0

        f = gt.function(f)
        for number in range(30):
            f(A(1.0), float(number))
        assert f.captured[0].history.refused is None
        assert f.captured[0].steps.paths == 1, runs


class TestNeverReplayed:
    def test_a_rare_draw(self):
        """An epsilon-greedy choice explores as often as undecorated."""
        rng, twin = random.Random(0), random.Random(0)

        def make(generator):
            def f(x):
                return x * 2.0 if generator.random() < 0.05 else x

            return f

        decorated = gt.function(make(rng))
        with pytest.warns(UserWarning, match="draws random numbers of Python.*Use gt.random"):
            found = [float(decorated(A(1.0))) for _ in range(400)]
        assert found == [float(make(twin)(A(1.0))) for _ in range(400)]
        assert 2.0 in found

    @pytest.mark.parametrize(
        ("make", "why"),
        [
            (lambda: {"rng": np.random.default_rng(0)}, "NumPy"),
            (lambda: [np.random.RandomState(0)], "NumPy"),
            (lambda: (iter([1.0] * 99),), "iterator"),
        ],
        ids=["generator in a dict", "state in a list", "iterator in a tuple"],
    )
    def test_objects_behind_containers(self, make, why):
        held = make()

        def f(x):
            return x * float(next(iter(held.values())).random() if isinstance(held, dict) else 1.0)

        with pytest.warns(UserWarning, match=why):
            [gt.function(f)(A(1.0)) for _ in range(1)]

    def test_the_shared_generators_however_they_are_reached(self):
        name = "ran" + "dom"
        f = gt.function(lambda x: x * getattr(np, name).rand())
        with pytest.warns(UserWarning, match="random numbers"):
            assert len({float(f(A(1.0))) for _ in range(6)}) == 6


class TestArrays:
    def test_memory_of_an_array_is_read_by_every_replay(self):
        data = np.arange(4.0)
        f, runs = counted(lambda x: gt.sum(x * data))
        f = gt.function(f)
        for number in range(30):
            data[1] = number
            assert float(f(A(1.0))) == number + 5.0
        assert len(runs) <= 4
        big = np.zeros(1 << 18)
        g, runs = counted(lambda x: gt.max(x + big))
        g = gt.function(g)
        for number in range(10):
            big[7] = number
            assert float(g(A(0.0))) == number
        assert len(runs) <= 4

    @pytest.mark.parametrize("use", [A, lambda data: gt.reshape(data, (2, 2)), gt.sin])
    def test_results_do_not_share_the_memory(self, use):
        data = np.arange(4.0)
        f = gt.function(lambda x: use(data))
        found = [f(A(0.0)) for _ in range(5)]
        before = [each.tolist() for each in found]
        data += 1.0
        assert [each.tolist() for each in found] == before
        assert f(A(0.0)).tolist() == use(data).tolist()

    def test_elements_that_python_reads_are_compared(self):
        data = np.ones(3)
        f = gt.function(lambda x: x * float(data[0]) + gt.sum(x * data))
        for number in (1.0, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 5.0, 1.0):
            data[0] = number
            assert float(f(A(1.0))) == 2 * number + 2.0


def test_real_numbers_for_every_library():
    import decimal
    import json
    import math
    import pickle
    import struct

    uses = [
        lambda a: json.loads(json.dumps(a)), lambda a: float(decimal.Decimal(a)),
        lambda a: len(float.hex(float(a))), lambda a: struct.unpack("d", struct.pack("d", a))[0],
        lambda a: pickle.loads(pickle.dumps(a)), lambda a: math.fsum([a, a]), lambda a: hash(a) % 7,
        lambda a: math.hypot(a, 1.0), lambda a: float(np.float64(a)), lambda a: sum([a, 1]),
        lambda a: a.as_integer_ratio()[0] % 5, lambda a: divmod(a, 2)[1], lambda a: len(f"{a:f}"),
        lambda a: np.array([a, a])[0], lambda a: complex(a).real, lambda a: math.isclose(a, 0.5),
        lambda a: int(a) + a.is_integer() if isinstance(a, float) else a.bit_length(),
    ]  # fmt: skip
    for number, use in enumerate(uses):
        for values in ((0.25, 0.5, 0.75, 0.25, 1.5), (1, 2, 3, 4, 5, 6, 7, 1)):
            f = gt.function(lambda x, a, use=use: x * use(a))
            for value in values:
                want = float(A(1.5) * use(value))
                assert float(f(A(1.5), value)) == want, (number, value)


def test_a_decorated_call_fails_only_where_the_undecorated_does():
    def f(x):
        return gt.sum(gt.asarray(x.view("float32")))

    decorated = gt.function(f)
    data = np.arange(4.0)
    with pytest.warns(UserWarning, match="needs an array as an argument.*Pass a tensor"):
        found = [float(decorated(data)) for _ in range(3)]
    assert found == [float(f(data))] * 3


class Guarded:
    """Attributes that may not be read twice."""

    def __init__(self):
        object.__setattr__(self, "reads", 0)

    def __getattribute__(self, name):
        if name == "rate":
            return 2.0
        raise RuntimeError(name)


class Row(tuple):
    __slots__ = ()

    def __new__(cls, a, b):
        return tuple.__new__(cls, (a, b))

    def __iter__(self):
        raise RuntimeError("not by iteration")

    @property
    def a(self):
        return tuple.__getitem__(self, 0)


class Table(dict):
    def __iter__(self):
        raise RuntimeError("not by iteration")

    def keys(self):
        raise RuntimeError("no keys")

    def __getattr__(self, name):
        return self[name]


class Lazy:
    def __getattr__(self, name):
        raise KeyError(name)

    @property
    def rate(self):
        return 2.0


def odd_dictionary():
    found = Lazy()
    found.__dict__[1] = 2.0
    found.__dict__[None, 2] = 3.0
    return found


class Unhashable:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("not comparable")

    def __bool__(self):
        raise RuntimeError("not a truth value")

    def __len__(self):
        raise RuntimeError("no length")

    rate = 2.0


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (Guarded, lambda o: o.rate),
        (lambda: Row(2.0, 3.0), lambda o: o.a),
        (lambda: Table(rate=2.0), lambda o: o.rate),
        (Lazy, lambda o: o.rate),
        (odd_dictionary, lambda o: o.rate + o.__dict__[1]),
        (Unhashable, lambda o: o.rate),
        (lambda: [Unhashable()], lambda o: o[0].rate),
    ],
)
@pytest.mark.parametrize("recorder", RECORDERS)
def test_objects_that_refuse_to_be_looked_at(make, read, recorder, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "wait")
    gt.set_recorder(recorder)
    try:
        held = make()
        f = gt.function(lambda x: x * read(held))
        assert [float(f(A(1.0))) for _ in range(80)] == [read(held)] * 80
        given = gt.function(lambda x, o: x * read(o))
        assert [float(given(A(1.0), held)) for _ in range(80)] == [read(held)] * 80
    finally:
        gt.set_recorder("auto")
