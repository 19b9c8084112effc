"""Each fault of a badly written script is found, at its line; the mended script has none."""

import warnings

import numpy as np
import pytest
from tests.tools.profiler import seven_faults
from tests.tools.profiler.faulty_training import FAULTS, line_of, profiled

import gradtape as gt
from gradtape.config import LEAST_GAIN
from gradtape.runtime import tiers
from gradtape.tools.profiler import advice
from gradtape.tools.profiler.groups import Group

pytestmark = pytest.mark.skipif(tiers.MODE == "off", reason="GRADTAPE_JIT=off: nothing is compiled")


@pytest.fixture(autouse=True)
def everything_is_told(monkeypatch):
    """The least gain depends on the clock; tests look at what is found."""
    monkeypatch.setattr(advice, "LEAST", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found_at_its_line(fault):
    found = profiled(fault)
    told = [each for each in found.advice if each["kind"] == fault]
    assert told, f"{fault} was not found; only {[each['kind'] for each in found.advice]}"
    assert told[0]["line"] == line_of(fault)
    assert told[0]["file"].endswith("faulty_training.py")
    assert told[0]["seconds"] > 0
    assert told[0]["sentence"].endswith(".")
    assert told[0]["remedy"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_mended_fault_is_not_told(fault):
    with warnings.catch_warnings(), gt.profile() as found:
        warnings.simplefilter("ignore")
        FAULTS[fault](True, 0.5)
    told = [each for each in found.advice if each["kind"] == fault]
    assert not [each for each in told if each["line"] == line_of(fault)]


@pytest.mark.slow
def test_all_faults_of_one_script_are_told_together():
    with warnings.catch_warnings(), gt.profile() as found:
        warnings.simplefilter("ignore")
        for run in FAULTS.values():
            run(False, 1.0)
    told = {(each["kind"], each["line"]) for each in found.advice}
    missing = [
        fault for fault in FAULTS if fault != "float64" and (fault, line_of(fault)) not in told
    ]
    assert not missing, f"{missing} are not in {told}"
    assert any(kind == "float64" for kind, _ in told)


def test_small_gains_are_not_told(monkeypatch):
    monkeypatch.setattr(advice, "LEAST", 1.1)
    with gt.profile() as found:
        FAULTS["read back in a loop"](False, 1.0)
    assert found.advice == []


def test_threads_that_do_not_pay():
    group = Group(
        0, 0, "fused loop", "add", "float64", (10,), 640, 1.0, 10.0, 80, True, shared=2e-3,
        serial=1e-3, shares={(None, False): 1.0},
    )  # fmt: skip

    class Found:
        groups = (group,)
        limits = type("Limits", (), {"threads": 2})

    (told,) = advice.threads_do_not_pay(Found())
    assert told.seconds == pytest.approx(0.64)
    group.serial = 3e-3
    assert not list(advice.threads_do_not_pay(Found()))


def sorted_rows(z):
    return gt.sort(z)


def sorted_in_steps(z):
    return gt.scan(lambda carry, row: (carry + gt.sort(row), None), z[0], z)[0]


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (sorted_rows, "sort, which NumPy computes,"),
        (sorted_in_steps, "whose body calls Python for sort,"),
    ],
)
def test_an_op_that_python_computes_is_named(compute, words, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()
    # Complex numbers are sorted by NumPy.
    z = gt.asarray(np.random.default_rng(0).normal(size=(4, 5000)) * (1.0 + 1.0j))
    with gt.profile() as found:
        for step in range(20):
            gt.sum(gt.abs(compute(z * (1.0 + step)))).numpy()
    told = [each for each in found.advice if each["kind"] == "stops fusion"]
    assert told
    assert words in told[0]["sentence"]


def test_native_ops_are_not_named(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()
    x = gt.asarray(np.random.default_rng(0).normal(size=(4, 5000)))
    with gt.profile() as found:
        for step in range(20):
            gt.sum(gt.sort(x * (1.0 + step))).numpy()
    assert not [each for each in found.advice if each["kind"] == "stops fusion"]


def kinds(found):
    return {each["kind"]: each for each in found.advice}


def differences(u):
    return u[1:] ** 2 - u[:-1]


def test_a_dense_jacobian_of_a_sparse_function_is_named():
    jacobian = gt.jacobian(differences)
    with gt.profile() as found:
        for step in range(4):
            jacobian(gt.asarray(np.linspace(0.0, 1.0 + step, 200))).numpy()
    told = kinds(found)["dense Jacobian"]
    assert "199 x 200 entries only 1.0%" in told["sentence"]
    assert "sparse=True" in told["remedy"]
    assert "2 or few more" in told["remedy"]
    assert told["seconds"] > 0
    assert "jacobian(" in told["source"]


@pytest.mark.parametrize(
    "compute",
    [
        gt.jacobian(differences, sparse=True),
        # Each element of the result depends on all.
        gt.jacobian(lambda u: gt.cumulative_sum(u) * gt.sum(u)),
    ],
)
def test_other_jacobians_are_not_named(compute):
    with gt.profile() as found:
        for _ in range(4):
            compute(np.linspace(0.0, 1.0, 200))[0]
    assert "dense Jacobian" not in kinds(found)


def fitted(steps, run):
    line = gt.Variable([1.0, 0.0])
    times = gt.asarray(np.linspace(0.0, 1.0, 8))

    def step():
        with gt.GradientTape() as tape:
            misfit = gt.sum((line[0] * times + line[1]) ** 2)
        line.assign_sub(0.05 * tape.gradient(misfit, line))
        return misfit

    step = run(step)
    for _ in range(steps):
        float(step())


def test_many_tiny_tapes_are_named():
    fitted(20, lambda step: step)
    with gt.profile() as found:
        fitted(300, lambda step: step)
    told = kinds(found)["many tiny tapes"]
    assert "tape.gradient(misfit, line)" in told["source"]
    assert told["sentence"].startswith("300 gradients here")
    assert "gt.function" in told["remedy"]
    assert "read back in a loop" not in kinds(found)


def test_a_function_has_no_tiny_tapes():
    with gt.profile() as found:
        fitted(300, gt.function)
    assert "many tiny tapes" not in kinds(found)


@pytest.mark.slow
def test_seven_faults_of_a_realistic_script_are_named(monkeypatch):
    """With the least gain as it is: what is listed depends on how much of the time it takes."""
    monkeypatch.setattr(advice, "LEAST", LEAST_GAIN)
    found = seven_faults.profiled()
    told = {(each["kind"], each["line"]) for each in found.advice}
    missing = set(seven_faults.faults().items()) - told
    assert len(seven_faults.faults()) == 7
    assert not missing, f"{missing} are not in {told}"
