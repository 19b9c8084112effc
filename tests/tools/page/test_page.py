"""The report page: one file without network, whose panes show the numbers of the data."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import gradtape as gt
from gradtape.config import LARGEST_MEMORY_SAMPLES
from gradtape.tools.page.page import asset, embedded, page
from gradtape.tools.profiler import tables

PANES = ("summary", "time", "flame", "roofline", "memory", "graph", "timeline", "jacobians")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--virtual-time-budget=5000", "--enable-logging=stderr", "--v=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def measured():
    rng = np.random.default_rng(0)
    x, w = gt.asarray(rng.standard_normal((64, 8))), gt.Variable(rng.standard_normal((8, 4)))
    values = gt.evaluate(gt.asarray(np.ones(40)))
    with gt.profile("a <script>alert(1)</script> & title") as p:
        for _ in range(30):
            with gt.GradientTape() as tape:
                loss = gt.sum(gt.tanh(x @ w) ** 2)
            w.assign_sub(0.01 * tape.gradient(loss, w))
            float(loss)
        with gt.GradientTape(persistent=True):
            gt.sum(gt.tanh(x @ w)).numpy()
        for index in range(40):
            float(values[index] * 2.0)
        gt.jacobian(lambda u: u[1:] - u[:-1], sparse=True)(np.linspace(0.0, 1.0, 6))
    return p


def test_data_can_be_read_back(measured):
    text = page(measured.data)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert json.loads(found.group(1)) == json.loads(measured.to_json())


def test_nothing_in_the_data_can_end_its_element():
    text = embedded({"title": "</script><script>alert(1)</script>"})
    assert "<" not in text
    assert json.loads(text)["title"].startswith("</script>")


def test_page_asks_for_nothing_from_elsewhere(measured):
    text = page(measured.data)
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', text.split("<script")[0])
    assert "default-src 'none'" in text
    assert "@import" not in text


def test_libraries_come_with_their_licences():
    for name in ("uPlot.LICENSE", "dagre.LICENSE"):
        assert "Permission is hereby granted, free of charge" in asset(name)


def test_page_in_a_notebook_is_a_frame(measured):
    assert measured._repr_html_().startswith("<iframe srcdoc=")


def test_page_of_a_very_long_run_is_small(measured):
    """All tables at their longest, with long lines: what an hour's run can reach at most."""
    data = json.loads(measured.to_json())
    source = "x" * 120

    def repeated(rows, most):
        return [{**rows[n % len(rows)], "source": source} for n in range(most)]

    data["groups"] = repeated(data["groups"], tables.MOST_GROUPS)
    data["lines"] = repeated(data["lines"], tables.MOST_LINES)
    data["readings"] = repeated(data["readings"], tables.MOST_LINES)
    data["plans"] = repeated(data["plans"], tables.MOST_PLANS)
    data["timeline"]["events"] = repeated(data["timeline"]["events"], tables.MOST_EVENTS)
    data["timeline"]["runs"] = [[n, 1000.123456, 0.12345678, 0] for n in range(tables.MOST_RUNS)]
    over = data["memory"]["over_time"]
    data["memory"]["over_time"] = {name: [123456789.125] * LARGEST_MEMORY_SAMPLES for name in over}
    node = {**data["graphs"][0]["nodes"][0], "source": source, "title": source}
    data["graphs"] = [
        {**data["graphs"][0], "nodes": [node] * tables.MOST_IN_GRAPH, "edges": [[1, 2]] * 400}
    ] * tables.MOST_GRAPHS
    blocks = list(range(0, tables.PICTURE**2, 2))
    picture = {**data["jacobians"][0]["picture"], "blocks": blocks}
    data["jacobians"] = [{**data["jacobians"][0], "picture": picture}] * 16
    assert len(page(data).encode()) < 5_000_000


def browsed(path, folder, *flags):
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture(scope="module")
def dom(measured, tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed, so the page is not opened")
    folder = tmp_path_factory.mktemp("page")
    ended = browsed(measured.save(folder / "report.html"), folder, "--dump-dom")
    return ended.stdout, ended.stderr


def test_page_runs_without_an_error(dom):
    text, log = dom
    assert 'data-ready="true"' in text
    assert not [line for line in log.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("pane", PANES)
def test_panes_are_filled(dom, pane):
    text, _ = dom
    section = re.search(rf'<section id="{pane}".*?</section>', text, re.DOTALL).group(0)
    filled = re.search(r'<div class="body">(.*)</div>', section, re.DOTALL).group(1)
    assert len(filled) > 400
    assert "NaN" not in filled
    assert "undefined" not in filled


def test_numbers_are_those_of_the_data(dom, measured):
    text, _ = dom
    seconds = [float(each) for each in re.findall(r'data-seconds="([^"]+)"', text)]
    lines = [row["seconds"] for row in measured.data["lines"] if row["seconds"] > 0][:12]
    groups = [row["seconds"] for row in measured.data["groups"] if row["seconds"] > 0][:12]
    assert seconds == pytest.approx(lines + groups)
    assert text.count('class="finding"') == len(measured.advice)
    plans = re.search(r'data-number="plans"[^>]*>([\d,]+)', text).group(1)
    assert int(plans.replace(",", "")) == measured.data["counters"]["plans_run"]


def test_title_is_text_and_not_markup(dom):
    text, _ = dom
    assert "a &lt;script&gt;alert(1)&lt;/script&gt; &amp; title" in text


def test_everything_that_can_be_clicked_can_be_reached_by_keys(dom):
    text, _ = dom
    body = text.split("<main>")[1].split("</main>")[0]
    for found in re.findall(r"<(\w+)[^>]*role=\"button\"[^>]*>", body):
        assert found in {"circle", "g"}
    assert all('tabindex="0"' in each for each in re.findall(r'<[^>]*role="button"[^>]*>', body))
    assert body.count("aria-label") > 10
