"""Programs from outside: gradtape's forms agree with NumPy, and so do the rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.curves.process import curve
from benchmarks.curves.programs import PROGRAMS
from benchmarks.forms import FORMS, adaptor, plain
from benchmarks.measure import Cell, Measured
from benchmarks.outside import LIBRARIES, TOLERANCE, Outside, solver
from benchmarks.table import as_json, block
from benchmarks.workloads import WORKLOADS, find
from benchmarks.workloads.outside import ROWS

from benchmarks import __main__ as command

EVERY = pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
CALLS = 2


def numpy_answer(row: Outside) -> tuple[Any, int]:
    return solver(row, "numpy", plain, row.inputs())()


@EVERY
# A function that is captured again for each row of a factor says so.
@pytest.mark.filterwarnings("ignore:gt.function:UserWarning")
def test_gradtape_agrees_with_numpy(row: Outside) -> None:
    expected, rounds = numpy_answer(row)
    assert rounds == row.rounds
    for variant in ("plain", "function"):
        ours = adaptor("gradtape", variant, "float64")
        solve = solver(row, "gradtape", ours.wrap, row.inputs())
        for _ in range(CALLS):
            found, rounds = solve()
            np.testing.assert_allclose(ours.array(found), expected, rtol=TOLERANCE, atol=1e-12)
            assert rounds == row.rounds


@EVERY
def test_inputs_are_not_changed(row: Outside) -> None:
    solve = solver(row, "numpy", plain, row.inputs())
    first, second = solve()[0], solve()[0]
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.by_hand])
def test_derivatives_by_hand(name: str) -> None:
    """The gradient of the program's own loss, and the one by hand."""
    losses: list[Any] = []

    def noted(loss: Any) -> Any:
        losses.append(loss)
        return ROWS[name].by_hand

    from benchmarks.dialects import dialect

    import gradtape as gt

    ROWS[name].program(dialect("gradtape"), plain, noted)
    data = list(ROWS[name].inputs().values())
    rng = np.random.default_rng(0)
    x, rest = point(name, data, rng)
    value, slope = ROWS[name].by_hand(x, *rest)  # type: ignore[misc]
    found, gradient = gt.value_and_grad(losses[0])(gt.asarray(x), *rest)
    np.testing.assert_allclose(found, value, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-12)


def point(name: str, data: list[Any], rng: np.random.Generator) -> tuple[Any, list[Any]]:
    """A point that is not the start, and the arguments after it."""
    if name == "newton-while":
        return np.array(1.7), data[:1]
    if name == "backtracking":
        return rng.standard_normal(4), data[:2]
    if name == "l-bfgs-loops":
        return rng.standard_normal(10), []
    return rng.uniform(0.5, 1.5, {"binned-likelihood": 13, "weibull": 5}[name]), data


def test_every_library_has_every_program() -> None:
    rows = [workload for workload in WORKLOADS if workload.group == "outside"]
    assert [workload.name for workload in rows] == list(ROWS)
    assert len(rows) >= 8
    for workload in rows:
        assert tuple(build.__name__ for build in workload.builds) == LIBRARIES
        assert f"{workload.rounds} rounds" in workload.title
        assert PROGRAMS[workload.name].title == workload.title


def test_a_curve_is_of_whole_runs() -> None:
    found = curve("newton-while", "gradtape", "plain", 0.0)
    assert set(found["seconds"]) == {1}
    expected, _ = numpy_answer(ROWS["newton-while"])
    np.testing.assert_allclose(found["sums"][1], expected, rtol=1e-12)


def test_time_of_a_round() -> None:
    cells = {"gradtape": Cell([3e-3]), "numpy": Cell([1.5e-3]), "torch": Cell()}
    measured = Measured("a", "title", cells, group="outside", rounds=100)
    (line,) = [line for line in block(measured, list(cells)) if "per round" in line]
    assert line.split() == ["per", "round,", "µs", "30.0", "15.0", "–"]
    assert as_json(measured)["rounds"] == 100


def test_numpy_has_a_column_where_a_row_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADTAPE_PEERS_PYTHON", "python")

    def libraries(*arguments: str) -> set[str]:
        monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
        return {form.library for form in command.used(FORMS, command.options())}

    assert "numpy" in libraries("--group", "outside")
    assert "numpy" not in libraries("--group", "science")
    assert libraries("--group", "outside", "--peers", "jax") == {"gradtape", "jax"}
    monkeypatch.delenv("GRADTAPE_PEERS_PYTHON")
    assert libraries("--group", "outside") == {"gradtape", "numpy"}
    assert find("newton-while").build("numpy") is not None
