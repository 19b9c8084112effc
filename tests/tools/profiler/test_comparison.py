"""Two profiles side by side: rows are found by their name, and the largest difference is first."""

import json
import re

import numpy as np
import pytest

import gradtape as gt
from gradtape.tools.command_line.main import main
from gradtape.tools.page.page import comparison_page
from gradtape.tools.profiler.comparison import TABLES, change, comparison, text


def measured(count):
    model = gt.nn.Dense(4, in_features=8)
    with gt.profile("a <b> & c") as p:
        for _ in range(count):
            gt.sum(model(np.ones((16, 8)))).numpy()
    return p.data


@pytest.fixture(scope="module")
def two():
    return measured(3), measured(60)


def test_rows_have_the_sums_of_both(two):
    before, after = two
    found = comparison(before, after)
    for name in TABLES:
        for key, data in (("before", before), ("after", after)):
            sums = sum(row["seconds"] for row in data[name])
            assert sum(row[key] for row in found[name]) == pytest.approx(sums)
        sizes = [abs(row["difference"]) for row in found[name]]
        assert sizes == sorted(sizes, reverse=True)
        assert all(row["difference"] == row["after"] - row["before"] for row in found[name])


def test_lines_are_the_same_after_they_moved(two):
    before, _ = two
    moved = [{**row, "line": row["line"] + 7} for row in before["lines"]]
    found = comparison(before, {**before, "lines": moved})
    assert all(row["difference"] == 0 for row in found["lines"])


def test_a_profile_beside_itself_has_no_difference(two):
    found = comparison(two[0], two[0])
    assert {row["difference"] for name in TABLES for row in found[name]} == {0.0}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [(2.0, 1.0, "-1 s (-50%)"), (0.001, 0.003, "+2 ms (+200%)"), (0.0, 0.5, "+500 ms")],
)
def test_differences_have_signs_and_shares(old, new, expected):
    assert change(old, new) == expected


def test_text_and_page_show_all_tables(two):
    found = comparison(*two)
    page = comparison_page(found)
    printed = text(found)
    for title, _ in TABLES.values():
        assert title in printed
        assert f"<h2>{title}</h2>" in page
    assert "a &lt;b&gt; &amp; c" in page
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', page.split("<script")[0])
    stored = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert json.loads(stored.group(1)) == json.loads(json.dumps(found))


def test_command_compares_two_files(two, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, data in zip(("old.json", "new.json"), two, strict=True):
        (tmp_path / name).write_text(json.dumps(data), "utf-8")
    assert main(["profile", "--compare", "old.json", "new.json"]) == 0
    assert "Time by line" in capsys.readouterr().out
    assert (tmp_path / "comparison.html").exists()
    arguments = ["profile", "--json", "-o", "c.html", "--compare", "old.json", "new.json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["lines"]
    assert (tmp_path / "c.html").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read"), ("no", "cannot be read"), ("{}", "not the data of a profile")],
)
def test_files_that_are_no_profiles_are_refused(content, words, tmp_path, capsys):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content, "utf-8")
    assert main(["profile", "--compare", str(path), str(path)]) == 2
    printed = capsys.readouterr().out
    assert words in printed
    assert "--data profile.json" in printed
