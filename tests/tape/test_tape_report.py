"""tape.report: what was recorded, what is kept and why, what was recorded for nothing."""

import numpy as np

import gradtape as gt


def test_ops_that_depend_on_nothing_watched_are_named():
    x, data = gt.Variable(2.0, name="x"), gt.asarray([1.0, 2.0])
    with gt.GradientTape() as tape:
        scaled = gt.exp(data)
        y = gt.sum(x * scaled)
    report = tape.report(y)
    assert report.recorded == 3
    assert [(row.what, row.why) for row in report.idle] == [
        ("exp", "it depends on nothing that is watched")
    ]
    assert "recorded for nothing: 1" in report


def test_ops_that_do_not_reach_the_target_are_named():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * x
        gt.sin(x)
    assert [row.what for row in tape.report(y).idle] == ["sin"]
    assert tape.report().idle == []


def test_kept_values_have_size_and_reason():
    w = gt.Variable(np.ones((3, 3)))
    with gt.GradientTape(persistent=True) as tape:
        y = gt.sum(gt.tanh(w @ w))
        y.numpy()
    kept = {row.what: row for row in tape.report(y).kept}
    assert kept["matmul"].nbytes == 72
    assert kept["matmul"].why == "expensive to compute again"


def test_the_target_that_was_asked_for_counts():
    x = gt.Variable(2.0)
    with gt.GradientTape(persistent=True) as tape:
        y = x * x
        gt.sin(x)
    tape.gradient(y, x)
    assert [row.what for row in tape.report().idle] == ["sin"]


def test_lines_are_known_in_a_profile():
    x = gt.Variable(np.ones(3))
    with gt.profile(), gt.GradientTape(persistent=True) as tape:
        y = gt.sum(x * x)
        y.numpy()
        (row,) = tape.report(y).kept
    assert "test_tape_report.py:" in row.line


def test_values_that_the_tape_did_not_record_do_not_count():
    x = gt.Variable([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        y = x * x
        y.numpy()
    before = len(tape.report(y).kept)
    gt.exp(x).numpy()
    tape.jacobian(y, x).numpy()
    assert len(tape.report(y).kept) == before


def test_a_tape_without_a_recording_has_a_report():
    assert gt.GradientTape().report().startswith("0 ops recorded")


def test_notebooks_show_a_table():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        gt.exp(gt.asarray(1.0))
        y = x * x
    text = tape.report(y)._repr_html_()
    assert "<td" in text
    assert "it depends on nothing that is watched" in text
    assert "<script" not in text
