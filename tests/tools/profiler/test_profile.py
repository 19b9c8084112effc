"""gt.profile: counts, lines and groups; nothing is left switched on; its size is bounded."""

import json
import signal
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler import thread_team
from gradtape.compiler.emit.plans.interrupts import TIMED
from gradtape.config import LARGEST_MEMORY_SAMPLES, LISTED_EVENTS, LOGGED_PLAN_RUNS
from gradtape.ir.origin import LINES
from gradtape.runtime import compiled_plan, tiers
from gradtape.runtime.profiler_sink import PROBE
from gradtape.tools.profiler import advice, sampler, tables
from gradtape.tools.profiler.collector import Collector
from gradtape.tools.profiler.sampler import Sampler

compiles = pytest.mark.skipif(tiers.MODE == "off", reason="GRADTAPE_JIT=off: nothing is compiled")


def here() -> int:
    """The line of the caller."""
    import sys

    return sys._getframe(1).f_lineno


def train(steps, w, x):
    for _ in range(steps):
        with gt.GradientTape() as tape:
            loss = gt.sum(gt.tanh(x @ w) ** 2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        float(loss)


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    return gt.Variable(rng.standard_normal((8, 4))), gt.asarray(rng.standard_normal((16, 8)))


def lines_of(data, text):
    return [row for row in data["lines"] if row["source"] and text in row["source"]]


def test_plans_are_counted(model):
    with gt.profile() as p:
        train(10, *model)
    assert p.data["counters"]["plans_run"] == 10
    assert sum(plan["runs"] for plan in p.data["plans"]) == 10
    assert p.data["counters"]["derivatives_built"] == 1
    assert p.data["caches"]["derivatives"] == {"hits": 9, "misses": 1}


def test_groups_have_the_users_lines(model):
    with gt.profile() as p:
        train(10, *model)
    (product,) = lines_of(p.data, "x @ w")
    assert product["file"].endswith("test_profile.py")
    assert product["function"] == "train"
    assert product["forward"] > 0
    # The derivative of a line is told at the line, as backward.
    assert product["backward"] > 0
    assert p.data["directions"]["backward"] > 0


def test_products_count_their_flops(model):
    with gt.profile() as p:
        train(10, *model)
    products = [group for group in p.data["groups"] if group["title"] == "matmul"]
    assert {group["flops"] for group in products} == {2.0 * 16 * 8 * 4}
    assert all(group["bytes"] == 8 * (16 * 8 + 8 * 4 + 16 * 4) for group in products)


def test_times_of_groups_add_up_to_their_plan(model):
    with gt.profile() as p:
        train(40, *model)
    for plan in p.data["plans"]:
        inside = sum(g["seconds"] for g in p.data["groups"] if g["plan"] == plan["number"])
        # Holding and releasing BLAS's threads is the plan's, and no group's.
        assert 0 < inside <= plan["seconds"] * 1.0001


@compiles
def test_calls_of_functions_are_counted_and_owned(model):
    _, x = model

    @gt.function
    def energy(x):
        return gt.sum(gt.sin(x) * x)

    for _ in range(100):
        energy(x)
    with gt.profile() as p:
        for _ in range(50):
            energy(x)
    (plan,) = p.data["plans"]
    assert (plan["owner"], plan["runs"]) == ("energy", 50)
    assert plan["source"].startswith("def energy")
    (row,) = p.data["functions"]
    assert (row["name"], row["calls"], row["captures"]) == ("energy", 50, 0)


def test_captures_and_their_cause_are_told(model):
    @gt.function
    def scaled(x, name):
        return x * 2.0

    with gt.profile() as p:
        for name in ("a", "b", "c"):
            scaled(gt.asarray(1.0), name)
    (row,) = p.data["functions"]
    assert row["kinds"] == 3
    assert "name was" in row["why"]


def test_lines_that_read_values_are_counted():
    x = gt.asarray(np.ones(4))
    with gt.profile() as p:
        for _ in range(5):
            float(gt.sum(x * 2.0))
        line = here() - 1
    (reading,) = p.data["readings"]
    assert (reading["count"], reading["line"]) == (5, line)


def test_what_tapes_keep_is_told_with_the_reason(model):
    w, x = model
    with gt.profile() as p, gt.GradientTape(persistent=True):
        y = gt.sum(gt.tanh(x @ w))
        y.numpy()
    (kept,) = p.data["memory"]["kept"]
    found = {value["op"]: value for value in kept["values"]}
    assert found["matmul"]["bytes"] == 8 * 16 * 4
    assert found["matmul"]["why"] == "it is expensive to compute again"
    assert "x @ w" in found["matmul"]["source"]


def test_sparse_jacobians_have_a_picture():
    with gt.profile() as p:
        gt.jacobian(lambda u: u[1:] - u[:-1], sparse=True)(np.linspace(0.0, 1.0, 6))
    (found,) = p.data["jacobians"]
    assert (found["rows"], found["columns"], found["entries"]) == (5, 6, 10)
    assert found["forward"] + found["reverse"] == 2
    assert len(found["picture"]["blocks"]) == 10


def test_nothing_stays_switched_on(model):
    before = signal.getsignal(signal.SIGPROF) if hasattr(signal, "SIGPROF") else None
    with gt.profile():
        assert PROBE.sink is not None
        assert LINES.noting
    assert PROBE.sink is None
    assert not LINES.noting
    assert LINES.found == {}
    assert thread_team._interrupts[TIMED // 8] == 0
    if before is not None:
        assert signal.getsignal(signal.SIGPROF) == before
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_an_error_ends_the_profile():
    with pytest.raises(ZeroDivisionError), gt.profile() as p:
        1 / 0  # noqa: B018
    assert PROBE.sink is None
    assert p.data["wall_seconds"] > 0


def test_profiles_do_not_nest():
    with gt.profile(), pytest.raises(RuntimeError, match="another profile is running"):
        gt.profile().start()
    assert PROBE.sink is None


def test_data_before_the_end_is_refused():
    with pytest.raises(RuntimeError, match="nothing is measured yet"):
        gt.profile().data  # noqa: B018


@compiles
def test_a_second_profile_counts_from_zero(model):
    for _ in range(2):
        with gt.profile() as p:
            train(7, *model)
        assert sum(plan["runs"] for plan in p.data["plans"]) == 7


def test_results_are_the_same_bits():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 200))

    def result():
        with gt.GradientTape() as tape:
            v = gt.Variable(x)
            y = gt.sum(gt.exp(-v * v) * gt.sin(v))
        return tape.gradient(y, v).numpy()

    plain = [result() for _ in range(3)]
    with gt.profile():
        # Some of these runs are serial, to measure what threads bring.
        found = [result() for _ in range(130)]
    for each in found:
        assert np.array_equal(each, plain[-1]) or np.array_equal(each, plain[0])


def test_another_thread_may_be_profiled(model):
    found = []

    def work():
        with gt.profile() as p:
            train(5, *model)
        found.append(p.data["counters"]["plans_run"])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [5]


@pytest.mark.slow
def test_size_does_not_grow_with_the_run(model):
    sizes = []
    for steps in (2000, 6000):
        with gt.profile() as p:
            train(steps, *model)
        data = json.loads(p.to_json())
        runs = data["timeline"].pop("runs")
        assert len(runs) <= tables.MOST_RUNS
        sizes.append(len(json.dumps({**data, "memory": None})))
    assert sizes[1] < 1.2 * sizes[0]


@compiles
def test_a_plan_has_lines_in_both_tiers(model, monkeypatch):
    gt.clear_plans()
    with gt.profile() as p:
        monkeypatch.setattr(tiers, "MODE", "off")
        train(4, *model)
        monkeypatch.setattr(tiers, "MODE", "wait")
        train(5, *model)
    assert {plan["tier"] for plan in p.data["plans"]} == {"NumPy", "compiled"}
    assert sum(plan["runs"] for plan in p.data["plans"]) == 9
    products = [group for group in p.data["groups"] if group["title"] == "matmul"]
    # Forward and backward, in each tier, all at the line of the product.
    assert {(group["kind"], group["backward"]) for group in products} == {
        ("NumPy call", 0.0), ("NumPy call", 1.0),
        ("matrix product", 0.0), ("matrix product", 1.0),
    }  # fmt: skip
    assert all("x @ w" in group["source"] for group in products)


def test_runs_in_numpy_are_in_the_timeline_and_have_a_graph(model, monkeypatch):
    gt.clear_plans()
    monkeypatch.setattr(tiers, "MODE", "off")
    with gt.profile() as p:
        train(6, *model)
    rows = p.data["timeline"]["runs"]
    assert [row[4] for row in rows] == [1] * 6
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert all(row[2] > 0 for row in rows)
    assert p.data["timeline"]["left_out"] == 0
    (graph,) = p.data["graphs"]
    assert graph["tier"] == "NumPy"
    titles = {node["number"]: node["title"] for node in graph["nodes"]}
    assert ("matmul", "tanh") in {(titles[one], titles[other]) for one, other in graph["edges"]}


@compiles
def test_runs_of_both_tiers_are_in_the_timeline(model, monkeypatch):
    gt.clear_plans()
    with gt.profile() as p:
        monkeypatch.setattr(tiers, "MODE", "off")
        train(4, *model)
        monkeypatch.setattr(tiers, "MODE", "wait")
        train(5, *model)
    rows = p.data["timeline"]["runs"]
    assert [row[4] for row in rows] == [1] * 4 + [0] * 5
    # They are in one thread.
    assert {row[3] for row in rows} == {0}


def test_the_first_graph_is_of_the_longest_plan_that_has_edges(model):
    with gt.profile() as p:
        gt.sin(gt.asarray(np.ones(2_000_000))).numpy()
        train(8, *model)
    graphs = p.data["graphs"]
    assert all(graph["edges"] for graph in graphs)
    times = [graph["seconds"] for graph in graphs]
    assert times == sorted(times, reverse=True)


def test_the_list_of_runs_in_numpy_is_bounded():
    class Plan:
        pass

    plan, collector = Plan(), Collector(Sampler())
    for _ in range(LOGGED_PLAN_RUNS + 100):
        collector.ran_in_numpy(plan, [1], 0)
    assert len(collector.numpy_runs) == LOGGED_PLAN_RUNS
    assert collector.numpy_runs_in_all == LOGGED_PLAN_RUNS + 100


def test_values_that_numpy_computed_count_as_read(monkeypatch):
    monkeypatch.setattr(advice, "LEAST", 0.0)
    monkeypatch.setattr(tiers, "MODE", "off")
    x = gt.asarray(np.ones(8))
    with gt.profile() as p:
        for _ in range(20):
            gt.sin(x * 2.0).numpy()
    assert "never read" not in {each["kind"] for each in p.advice}


@compiles
def test_unread_values_are_seen_once_the_plan_is_compiled(monkeypatch):
    monkeypatch.setattr(advice, "LEAST", 0.0)
    monkeypatch.setattr(tiers, "MODE", "wait")
    gt.clear_plans()
    x = gt.asarray(np.ones(10_000))

    def steps(count):
        for _ in range(count):
            unread, read = gt.exp(x), gt.sin(x)
            read.numpy()
        return unread

    with gt.profile() as p:
        steps(24)
    assert "never read" in {each["kind"] for each in p.advice}


@compiles
def test_compiling_in_a_call_is_time_of_the_call(model, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "wait")
    gt.clear_plans()
    with gt.profile() as p:
        train(4, *model)
    events = p.data["caches"]["events"]
    assert events["compile"]["count"] == 1
    (reading,) = p.data["readings"]
    assert reading["building"] >= events["compile"]["seconds"]


def test_notes_of_memory_are_bounded():
    notes = Sampler()
    for _ in range(20 * LARGEST_MEMORY_SAMPLES):
        notes.note_memory()
    assert len(notes.memory) <= LARGEST_MEMORY_SAMPLES + 1
    times = [note[0] for note in notes.memory]
    assert times == sorted(times)


def test_events_are_bounded():
    collector = Collector(Sampler())
    for _ in range(LISTED_EVENTS + 100):
        collector._add("compile", 0, "", True)
    assert len(collector.events) == LISTED_EVENTS
    assert collector.event_counts["compile"] == LISTED_EVENTS + 100


@compiles
def test_the_log_is_bounded():
    x = gt.asarray(np.ones(4))
    energy = gt.function(lambda x: gt.sum(x * x))
    for _ in range(100):
        energy(x)
    with gt.profile() as p:
        for _ in range(LOGGED_PLAN_RUNS + 500):
            energy(x)
    assert p.data["plans"][0]["runs"] == LOGGED_PLAN_RUNS + 500
    assert len(p.data["timeline"]["runs"]) == tables.MOST_RUNS
    assert p.data["timeline"]["left_out"] == LOGGED_PLAN_RUNS + 500 - tables.MOST_RUNS


def test_phases_add_up_to_the_wall_time(model):
    with gt.profile() as p:
        train(200, *model)
    phases = [phase["seconds"] for phase in p.data["phases"]]
    assert all(seconds >= 0 for seconds in phases)
    assert sum(phases) == pytest.approx(p.data["wall_seconds"], rel=0.05)


@pytest.mark.parametrize(
    ("function", "phase"), [("run", "running"), ("_run", "running"), ("__init__", "compiling")]
)
def test_running_a_compiled_plan_is_not_compiling_it(function, phase):
    rank = sampler._rank("gradtape.runtime.compiled_plan", function)
    assert sampler.PHASES[rank][0] == phase
    assert hasattr(compiled_plan.CompiledPlan, "_run")


@compiles
def test_results_that_are_picked_move_no_bytes():
    x = gt.asarray(np.random.default_rng(0).standard_normal((70, 70)))
    f = gt.function(lambda a: gt.linalg.slogdet(a)[1])
    for _ in range(5):
        f(x).numpy()
    with gt.profile() as p:
        f(x).numpy()
    picked = [row for row in p.data["groups"] if row["title"] == "pick"]
    assert picked
    assert all(row["bytes"] == 0 for row in picked)
