"""The printed table: ratios by group, and Python calls of compiled plans."""

from __future__ import annotations

import pytest
from benchmarks.measure import Cell, Measured
from benchmarks.table import as_json, block, ratios, summary
from benchmarks.workloads import WORKLOADS

from benchmarks import __main__ as command


def measured(name: str, group: str, ours: float, theirs: float) -> Measured:
    cells = {
        "gradtape": Cell([ours]),
        "function": Cell([ours / 2], python_calls=3),
        "jax jit": Cell([theirs]),
    }
    return Measured(name, f"title of {name}", cells, group=group)


ROWS = [
    measured("a", "first", 1.0, 2.0),
    measured("b", "first", 1.0, 8.0),
    measured("c", "second", 1.0, 0.5),
]


def test_geometric_means_of_groups() -> None:
    assert ratios(ROWS, "gradtape") == {"a": 2.0, "b": 8.0, "c": 0.5}
    lines = summary(ROWS)
    assert lines[:4] == [
        "gradtape: best peer / ours, geometric mean 2.00 of 3 rows",
        "  first: 4.00 of 2 rows",
        "  second: 0.50 of 1 rows",
        "  behind: c 0.50",
    ]
    assert "  second: 1.00 of 1 rows" in lines


def test_python_calls() -> None:
    titles = ["gradtape", "function", "jax jit"]
    (line,) = [line for line in block(ROWS[0], titles) if "Python calls" in line]
    assert line.split()[2:] == ["–", "3", "–"]
    uncounted = Measured("d", "title", {title: Cell([1.0]) for title in titles})
    assert not any("Python calls" in line for line in block(uncounted, titles))


def test_json_has_the_group() -> None:
    content = as_json(ROWS[0])
    assert content["group"] == "first"


def test_group_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def chosen(*arguments: str) -> list[str]:
        monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
        return list(command.options().names)

    science = [workload.name for workload in WORKLOADS if workload.group == "science"]
    assert chosen("--group", "science") == science
    both = chosen("--group", "science", "--group", "tapes", "--vector-bits", "256")
    assert set(both) > set(science)
    assert "import" in chosen()
    with pytest.raises(SystemExit):
        chosen("--group", "science", "--only", "kalman")
    assert "--only and --group" in capsys.readouterr().err
