"""The open formats: JSON, traces, tables, text."""

import importlib.util
import json

import numpy as np
import pytest

import gradtape as gt
from gradtape.tools.profiler import formats


@pytest.fixture(scope="module")
def measured():
    x = gt.asarray(np.ones(100))
    with gt.profile("a small program") as p:
        for _ in range(20):
            gt.sum(gt.sin(x)).numpy()
    return p


def test_json_has_everything(measured):
    assert json.loads(measured.to_json()) == json.loads(json.dumps(measured.data))


def test_json_is_written(measured, tmp_path):
    measured.to_json(tmp_path / "data.json")
    assert json.loads((tmp_path / "data.json").read_text("utf-8"))["title"] == "a small program"


def test_numbers_that_json_lacks_are_null():
    assert (
        formats.json_text({"a": float("nan"), "b": [float("inf"), 1.0]})
        == '{"a":null,"b":[null,1.0]}'
    )


def test_chrome_trace_has_complete_events(measured):
    events = json.loads(measured.to_chrome_trace())["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert complete
    assert all(
        event["dur"] >= 0 and {"name", "ts", "pid", "tid"} <= event.keys() for event in complete
    )
    runs = [event for event in complete if event["name"].startswith("plan ")]
    assert len(runs) == len(measured.data["timeline"]["runs"])


@pytest.mark.parametrize("name", formats.TABLES)
def test_tables_are_rows(measured, name):
    assert all(isinstance(row, dict) for row in formats.table(measured.data, name))


def test_unknown_table_names_the_known(measured):
    with pytest.raises(ValueError, match=r"no table 'times'. Choose one of groups, lines"):
        measured.to_pandas("times")


def test_pandas_is_optional(measured):
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(ImportError, match="to_pandas needs pandas"):
            measured.to_pandas()
    else:
        assert list(measured.to_pandas("plans")["runs"])


def test_text_tells_lines_and_groups(measured):
    text = str(measured)
    assert text.startswith(formats.seconds(measured.data["wall_seconds"]))
    assert "Time by line" in text
    assert "gt.sum(gt.sin(x)).numpy()" in text
    assert repr(measured).startswith("<gt.profile of")


@pytest.mark.parametrize(
    ("value", "text"), [(2.0, "2 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.5 us"), (0.0, "0 us")]
)
def test_seconds_have_units(value, text):
    assert formats.seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(10, "10 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB")])
def test_sizes_have_units(value, text):
    assert formats.size(value) == text
