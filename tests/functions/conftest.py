"""Tests of functions count captures and replays."""

import pytest

import gradtape as gt


@pytest.fixture(autouse=True)
def no_checks(monkeypatch):
    """Checks come after counts of calls that depend on measured costs: tests ask for them."""
    monkeypatch.setenv("GRADTAPE_RECHECK", "0")


@pytest.fixture(autouse=True, scope="module")
def fresh_table():
    """Begin with an empty table of nodes: one that is full is renewed, and calls captured again."""
    gt.clear_plans()
