"""The scripts of the gallery run, show something, and check what they show."""

import ast
from pathlib import Path

import pytest
from website.gallery import cells_of, page_of, run_script, scripts, summary_of, title_of

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = scripts()
WANTED = {
    "bundle_adjustment", "curve_fit", "gaussian_process", "heat_equation", "hmc", "kalman_filter",
    "map_and_hessian", "neural_ode", "pinn", "stiff_ode_fit",
}  # fmt: skip


def test_gallery_is_complete():
    assert {path.stem for path in SCRIPTS} >= WANTED


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs_and_draws(path):
    shown = run_script(path)
    assert any(one.figures for one in shown), "people would rather look than read"
    page = page_of(path, shown)
    assert page.startswith("# ")
    assert "<svg" in page


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_checks_its_results(path):
    text = path.read_text("utf-8")
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(text)))
    assert title_of(text)
    assert summary_of(text).endswith(".")


def test_cells():
    text = "# %% [markdown]\n# # Title\n#\n# A sentence. More.\n\n# %%\nx = 1\n\n# %%\nprint(x)\n"
    cells = cells_of(text)
    assert [(cell.kind, cell.line) for cell in cells] == [
        ("markdown", 2),
        ("code", 7),
        ("code", 10),
    ]
    assert cells[0].text == "# Title\n\nA sentence. More."
    assert title_of(text) == "Title"
    assert summary_of(text) == "A sentence."
