"""Gains are those of steady calls: they do not depend on when the compiler was done."""

from collections import deque
from math import inf
from types import SimpleNamespace

import pytest

from gradtape.ir.origin import SourcePlace
from gradtape.tools.profiler import advice, steady
from gradtape.tools.profiler.collector import Reading
from gradtape.tools.profiler.groups import Group, PlanRecord
from gradtape.tools.profiler.plan_log import Runs

PLAN = object()
HERE = SourcePlace("train.py", 3, "step")


def record(tier, runs, per_run, plan=PLAN, address=7):
    group = Group(
        0, 0, "fused loop" if tier == "compiled" else "NumPy call", "add", "float64", (10,), runs,
        runs * per_run, 10.0, 80, False, shares={(HERE, False): 1.0},
    )  # fmt: skip
    return PlanRecord(
        plan, tier, runs, runs * per_run, 1, [group], None,
        addresses=(address,) if tier == "compiled" else (),
    )  # fmt: skip


def logged(*durations, address=7):
    return Runs(1e9, [(address, 0, int(each * 1e9), 0) for each in durations], len(durations))


class TestPlans:
    @pytest.mark.parametrize("in_numpy", [0, 2, 30, 52])
    def test_time_does_not_depend_on_the_end_of_compiling(self, in_numpy):
        plans = [record("compiled", 60 - in_numpy, 1e-3)]
        if in_numpy:
            plans.append(record("NumPy", in_numpy, 20e-3))
        (found,) = steady.steady_plans(plans, Runs())
        assert (found.tier, found.runs) == ("compiled", 60)
        assert found.seconds == pytest.approx(60e-3)
        assert [group.seconds for group in found.groups] == [pytest.approx(60e-3)]
        # The tables still have the times as they were.
        assert plans[0].seconds == pytest.approx((60 - in_numpy) * 1e-3)

    def test_few_compiled_runs_say_nothing(self):
        plans = [record("compiled", 3, 1e-3), record("NumPy", 57, 20e-3)]
        found = steady.steady_plans(plans, Runs())
        assert [(each.tier, each.runs) for each in found] == [("compiled", 3), ("NumPy", 57)]

    def test_a_plan_that_stays_in_numpy_counts_as_it_is(self):
        plans = [record("NumPy", 57, 20e-3), record("compiled", 60, 1e-3, plan=object())]
        found = steady.steady_plans(plans, Runs())
        assert [each.seconds for each in found] == [pytest.approx(57 * 20e-3), pytest.approx(60e-3)]

    def test_plans_of_unknown_owner_stay_apart(self):
        plans = [record("compiled", 60, 1e-3, plan=None), record("NumPy", 5, 1.0, plan=None)]
        assert [each.runs for each in steady.steady_plans(plans, Runs())] == [60, 5]

    def test_interruptions_do_not_count(self):
        times = [1e-3] * 30 + [9e-3] * 10
        plan = record("compiled", 40, sum(times) / 40)
        (found,) = steady.steady_plans([plan], logged(*times))
        assert found.seconds == pytest.approx(30 * 1e-3 + 10 * 1.5e-3)

    def test_a_program_of_its_own_pace_counts_in_full(self):
        times = [1e-3, 1.2e-3, 1.4e-3, 1.1e-3] * 4
        plan = record("compiled", 16, sum(times) / 16)
        (found,) = steady.steady_plans([plan], logged(*times))
        assert found.seconds == pytest.approx(sum(times), rel=1e-3)


def reading(count, seconds, quiet=None, intervals=()):
    found = Reading(count, seconds, seconds / 2, int(seconds * 1e6), seconds / 4, values=3)
    found.quiet = quiet
    found.intervals = deque(intervals)
    return found


class TestReadings:
    @pytest.mark.parametrize("meanwhile", [0.0, 0.5, 9.0])
    def test_flushes_that_compile_count_as_the_others(self, meanwhile):
        given = reading(100, 1.0 + meanwhile, quiet=reading(80, 0.8))
        found = steady.steady_readings({HERE: given})[HERE]
        assert (found.count, found.values) == (100, 3)
        assert found.seconds == pytest.approx(1.0)
        assert found.running == pytest.approx(0.5)
        assert found.building == pytest.approx(0.25)
        assert found.cycles == 1_000_000

    @pytest.mark.parametrize("quiet", [None, reading(7, 0.07)])
    def test_too_few_quiet_ones(self, quiet):
        given = reading(100, 3.0, quiet=quiet)
        assert steady.steady_readings({HERE: given})[HERE] is given

    def test_a_loop_costs_its_latest_rounds(self):
        slow_start = [90_000_000] * 5 + [1_000_000] * 45
        assert steady.whole_loop(reading(50, 1.0, intervals=slow_start)) == pytest.approx(0.05)
        assert steady.whole_loop(reading(5, 1.0, intervals=[1_000_000] * 4)) == inf
        assert steady.whole_loop(None) == inf


@pytest.mark.parametrize("slowest", [2e-3, 80e-3])
def test_a_capture_that_waited_counts_as_the_others(slowest):
    def function(seconds, why):
        return SimpleNamespace(
            name="step", place=HERE, captures=1, capture_seconds=seconds, why=why
        )

    why = ("name", "'a'", "'b'")
    times = [slowest, *[2e-3] * 19]
    functions = [function(5e-3, None), *(function(each, why) for each in times)]
    (told,) = advice.captured_again(SimpleNamespace(functions=functions))
    assert told.seconds == pytest.approx(20 * 2e-3, rel=0.03)
